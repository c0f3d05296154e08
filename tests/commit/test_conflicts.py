"""The rules one by one: those that pylance cannot try, and those that are safer than its own."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lancekit as lk
from lancekit import errors
from lancekit._commit.manifest.indices import FRAGMENT_REUSE
from lancekit._commit.protocol import commit
from lancekit._commit.rebase import rebase
from lancekit._commit.rules.pending import Pending
from lancekit._commit.rules.table import RULES, judge
from lancekit._commit.rules.verdict import Context, Outcome, Verdict
from lancekit._format import operations as ops
from lancekit._format.fragment import DataFile, Fragment, FragmentList
from lancekit._format.index import IndexMetadata
from lancekit._format.key_filter import build_bloom, build_exact
from lancekit._format.key_hashes import hash_keys
from lancekit._format.manifest import BasePath, Manifest
from lancekit._format.mem_wal.details import merged_generations, with_generations
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit._format.operation_parts import (
    CompactedSsTable,
    DataReplacementGroup,
    RewriteGroup,
    UpdateMap,
)
from lancekit._format.schema import LanceSchema
from lancekit._format.transaction import Transaction
from tests.support.rule_pages import RULE_PAGES

SCHEMA = LanceSchema.from_arrow(pa.schema([("k", pa.int64()), ("v", pa.string())]))
LANDS, REBASED, RETRY, NEVER = Outcome


def fragment(number: int, *fields: int, path: str = "") -> Fragment:
    file = DataFile(path or f"{number}.lance", fields or (0, 1), (0, 1), 2, 0)
    return Fragment(number, (file,), 10)


READ = Manifest(
    schema=SCHEMA, fragments=FragmentList.of([fragment(n) for n in range(4)]), version=1
)


def meet(mine: Any, theirs: Any, rows: dict[int, BitMap] | None = None) -> Verdict:
    pending = Pending(operation=mine, uuid="mine", affected_rows=rows)
    transaction = Transaction(read_version=1, uuid="theirs", operation=theirs)
    return judge(pending, transaction, Context(pending, READ))


def index(number: int, name: str, fields: tuple[int, ...] = (), **facts: Any) -> IndexMetadata:
    return IndexMetadata(uuid=UUID(int=number), name=name, fields=fields, **facts)


# ---- the whole table


EMPTY: dict[type, Any] = {
    ops.Append: ops.Append(),
    ops.Delete: ops.Delete(),
    ops.Overwrite: ops.Overwrite(SCHEMA),
    ops.CreateIndex: ops.CreateIndex(),
    ops.Rewrite: ops.Rewrite(),
    ops.Merge: ops.Merge((), SCHEMA, True),
    ops.Restore: ops.Restore(1),
    ops.ReserveFragments: ops.ReserveFragments(2),
    ops.Update: ops.Update(),
    ops.Project: ops.Project(SCHEMA, True),
    ops.UpdateConfig: ops.UpdateConfig(),
    ops.DataReplacement: ops.DataReplacement(),
    ops.UpdateMemWalState: ops.UpdateMemWalState(),
    ops.Clone: ops.Clone(True, None, 1, "elsewhere"),
    ops.UpdateBases: ops.UpdateBases(),
}

#: what two changes that touch nothing do: + lands, R retryable, X incompatible; columns as rows
TABLE = {
    ops.Append: "++X+++X+++++X++",
    ops.Delete: "++X++RX+++++X++",
    ops.Overwrite: "++R+++++++++X++",
    ops.CreateIndex: "++X+++X+++++X++",
    ops.Rewrite: "++X++RX++++++++",
    ops.Merge: "RRX+RRX+RX+RX++",
    ops.Restore: "++++++++++++X++",
    ops.ReserveFragments: "++X+++X++++++++",
    ops.Update: "++X++RX++++++++",
    ops.Project: "++X++RX++R++X++",
    ops.UpdateConfig: "+" * 15,
    ops.DataReplacement: "++X++RX+++++X++",
    ops.UpdateMemWalState: "XXX++XX++X+X+X+",
    ops.Clone: "+" * 15,
    ops.UpdateBases: "+" * 15,
}


@pytest.mark.parametrize("mine", EMPTY)
def test_each_cell_has_its_outcome(mine: type) -> None:
    signs = {LANDS: "+", REBASED: "+", RETRY: "R", NEVER: "X"}
    found = (signs[meet(EMPTY[mine], EMPTY[theirs]).outcome] for theirs in EMPTY)
    assert "".join(found) == TABLE[mine]


def test_every_operation_meets_every_other() -> None:
    """Each row names each operation of the format: nothing is compatible by forgetting."""
    assert set(RULES) == set(ops.OPERATIONS)
    assert all(set(row) == set(ops.OPERATIONS) for row in RULES.values())
    for mine in EMPTY.values():
        assert meet(mine, ops.UnknownOperation()).outcome is RETRY


def test_whatever_does_not_land_unchanged_says_why() -> None:
    for mine in EMPTY.values():
        for theirs in EMPTY.values():
            verdict = meet(mine, theirs)
            assert (verdict.evidence is None) == (verdict.outcome is LANDS)
            assert verdict.evidence is None or verdict.evidence.sentence[-1] != "."


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs/reference/conflict-rules.md"
    assert page.read_text() == RULE_PAGES[page.name]()


# ---- cells that pylance cannot try


def generation(region: int, number: int) -> CompactedSsTable:
    return CompactedSsTable(UUID(int=region), number)


@pytest.mark.parametrize("mine", [ops.UpdateMemWalState, ops.Update])
@pytest.mark.parametrize("theirs", [ops.UpdateMemWalState, ops.Update, ops.CreateIndex])
@pytest.mark.parametrize(
    ("committed", "outcome"), [((1, 4), RETRY), ((1, 5), NEVER), ((1, 6), NEVER), ((2, 9), LANDS)]
)
def test_generations_are_merged_once(
    mine: type, theirs: type, committed: tuple[int, int], outcome: Outcome
) -> None:
    if theirs is ops.CreateIndex:
        merged = {UUID(int=committed[0]): committed[1]}
        details = with_generations(None, merged)
        other: Any = ops.CreateIndex((index(7, MEM_WAL, index_details=details),))
    else:
        other = theirs(compacted_sstables=(generation(*committed),))
    if mine is ops.Update and theirs is ops.CreateIndex:
        outcome = LANDS  # the next manifest looks at the generations
    verdict = meet(mine(compacted_sstables=(generation(1, 5),)), other)
    assert verdict.outcome is outcome
    if not verdict.lands:
        assert verdict.evidence is not None
        assert verdict.evidence.generations == ((str(UUID(int=1)), committed[1]),)


def test_the_index_of_a_log_keeps_the_newest_generations(tmp_path: Path) -> None:
    state = ops.UpdateMemWalState((generation(1, 5), generation(2, 1)))
    details = with_generations(None, {UUID(int=2): 3})
    mine = ops.CreateIndex((index(7, MEM_WAL, index_details=details),))
    assert meet(mine, state).outcome is REBASED
    other = ops.CreateIndex((index(8, "v_idx", (1,)),))
    assert meet(other, state).outcome is NEVER
    snapshot = lk.write_dataset({"k": [1]}, tmp_path / "d")._snapshot
    pending = Pending(operation=mine, uuid="mine")
    landed = rebase(
        pending, snapshot, snapshot, [Transaction(read_version=1, uuid="theirs", operation=state)]
    )
    (log,) = landed.operation.new_indices
    assert merged_generations(log.index_details) == {UUID(int=1): 5, UUID(int=2): 3}


def test_the_index_of_a_log_depends_on_the_schema() -> None:
    log = ops.CreateIndex((index(7, MEM_WAL),))
    assert meet(log, EMPTY[ops.Merge]).outcome is RETRY
    assert meet(EMPTY[ops.Merge], log).outcome is RETRY


def test_the_index_of_moved_rows_stands_alone() -> None:
    rewrite = ops.Rewrite((RewriteGroup((fragment(0),), (fragment(9),)),))
    moved = index(7, FRAGMENT_REUSE, fragment_ids=BitMap([0]))
    assert meet(rewrite, ops.CreateIndex((moved,), (moved,))).outcome is LANDS
    assert meet(rewrite, ops.CreateIndex((moved,))).outcome is NEVER


def test_the_index_of_moved_rows_is_trimmed_again_after_a_rewrite() -> None:
    """It covers the fragments that it leads to: those that are rewritten next are others."""
    rewrite = ops.Rewrite((RewriteGroup((fragment(0),), (fragment(9),)),))
    moved = index(7, FRAGMENT_REUSE, fragment_ids=BitMap([4]))
    verdict = meet(ops.CreateIndex((moved,), (moved,)), rewrite)
    assert verdict.outcome is RETRY
    assert (verdict.evidence.indices, verdict.evidence.fragments) == ((FRAGMENT_REUSE,), (0,))


def base(number: int, place: str, name: str | None = None) -> BasePath:
    return BasePath(id=number, path=f"s3://{place}", name=name)


@pytest.mark.parametrize(
    ("mine", "theirs", "outcome"),
    [
        (base(1, "a", "x"), base(2, "b", "y"), LANDS),
        (base(0, "a"), base(0, "b"), LANDS),
        (base(1, "a"), base(1, "b"), NEVER),
        (base(1, "a", "x"), base(2, "b", "x"), NEVER),
        (base(1, "a"), base(2, "a"), NEVER),
    ],
)
def test_a_base_path_is_added_once(mine: BasePath, theirs: BasePath, outcome: Outcome) -> None:
    verdict = meet(ops.UpdateBases((mine,)), ops.UpdateBases((theirs,)))
    assert verdict.outcome is outcome
    assert verdict.lands or verdict.evidence.bases == ("s3://a",)


# ---- safer than the reference


def table(*keys: int, v: str = "x") -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys), "n": [1] * len(keys)})


def meets(module: Any, path: Path, first: Any, second: Any) -> Any:
    """Let the reference commit a change, then let a stale handle make another."""
    lance.write_dataset(table(1, 2, 3), path)
    stale = module.dataset(str(path))
    first(lance.dataset(path))
    try:
        second(stale)
    except OSError as error:
        return error
    return None


@pytest.mark.parametrize("change", ["cast", "drop and add"])
def test_an_append_is_not_lost_under_an_old_field_id(tmp_path: Path, change: str) -> None:
    def first(ds: Any) -> None:
        if change == "cast":
            ds.alter_columns({"path": "n", "data_type": pa.int32()})
        else:
            ds.drop_columns(["n"])
            ds.add_columns({"n": "k * 2"})

    def second(ds: Any) -> None:
        ds.insert(table(4))

    theirs = meets(lance, tmp_path / "theirs", first, second)
    assert (
        theirs is not None or None in lance.dataset(tmp_path / "theirs").to_table()["n"].to_pylist()
    )
    error = meets(lk, tmp_path / "ours", first, second)
    assert isinstance(error, errors.RetryableConflictError)
    assert error.context["evidence"]["columns"] == ("n",)
    assert "'n' was cast or recreated" in str(error)


@pytest.mark.parametrize("change", ["rename", "drop"])
def test_an_append_over_a_rename_or_drop_lands(tmp_path: Path, change: str) -> None:
    changes = {
        "rename": lambda ds: ds.alter_columns({"path": "n", "name": "m"}),
        "drop": lambda ds: ds.drop_columns(["n"]),
    }
    path = tmp_path / "d"
    assert meets(lk, path, changes[change], lambda ds: ds.insert(table(4))) is None
    expected = {"rename": ["k", "v", "m"], "drop": ["k", "v"]}[change]
    for module in (lance, lk):
        found = module.dataset(str(path)).to_table()
        assert found.column_names == expected
        assert found.num_rows == 4
        assert all(column.null_count == 0 for column in found.columns)


def test_a_new_name_is_no_old_column() -> None:
    """A field that is gone matters only if its name is there again, at the same place."""
    nested = LanceSchema.from_arrow(pa.schema([("p", pa.struct([("x", pa.int64())])), ("x", "u1")]))
    read = replace(READ, schema=nested)
    mine = Pending(operation=ops.Append((fragment(9, 0, 1, 2),)), uuid="mine")
    for kept, outcome in ((("p",), LANDS), (("x",), LANDS)):
        schema = LanceSchema(tuple(f for f in nested.fields if f.name in kept))
        theirs = Transaction(read_version=1, uuid="theirs", operation=ops.Project(schema, True))
        assert judge(mine, theirs, Context(mine, read)).outcome is outcome


def test_config_that_is_replaced_excludes_any_other_change() -> None:
    both = {"a": UpdateMap({"a": "1"}), "all": UpdateMap({"b": "1"}, True)}
    for mine, theirs in (("a", "all"), ("all", "a"), ("all", "all")):
        update = ops.UpdateConfig(both[mine]), ops.UpdateConfig(both[theirs])
        assert meet(*update).outcome is NEVER
    assert meet(ops.UpdateConfig(both["all"]), ops.UpdateConfig()).outcome is LANDS
    old = ops.UpdateConfig(upsert_values={"a": "2"})  # as releases before 0.30 wrote it
    verdict = meet(ops.UpdateConfig(both["a"]), old)
    assert verdict.evidence is not None
    assert verdict.evidence.config_keys == ("a",)
    create = ops.Overwrite(SCHEMA, config_upsert_values={"a": "3"})
    assert meet(create, ops.UpdateConfig(both["all"])).outcome is NEVER
    assert meet(ops.UpdateConfig(both["all"]), create).outcome is NEVER


def test_an_index_that_hides_what_it_covers_cannot_be_narrowed() -> None:
    on_v = index(7, "v_idx", (1,))
    update = ops.Update((), (fragment(1),), (), (1,), update_mode="rewrite_columns")
    assert meet(ops.CreateIndex((on_v,)), update).outcome is RETRY
    known = replace(on_v, fragment_ids=BitMap([0, 1, 2]))
    verdict = meet(ops.CreateIndex((known,)), update)
    assert (verdict.outcome, verdict.evidence.fragments) == (REBASED, (1,))
    elsewhere = replace(known, fields=(0,))
    assert meet(ops.CreateIndex((elsewhere,)), update).outcome is LANDS


def test_an_index_leaves_out_what_a_merge_rewrote() -> None:
    on_v = index(7, "v_idx", (1,), fragment_ids=BitMap([0, 1, 2]))
    fragments = (fragment(0), fragment(1, path="new.lance"), fragment(2), fragment(3))
    verdict = meet(ops.CreateIndex((on_v,)), ops.Merge(fragments, SCHEMA, True))
    assert (verdict.outcome, verdict.evidence.fragments) == (REBASED, (1,))


def test_a_duplicate_of_a_transaction_does_not_land_twice(tmp_path: Path) -> None:
    ds = lk.write_dataset(table(1), tmp_path / "d")
    read = ds._snapshot
    ds.insert(table(2))
    operation = ds._snapshot.transaction.operation
    pending = Pending(operation=operation, uuid=ds._snapshot.transaction.uuid)
    assert commit(read, pending).version == 2
    assert lk.dataset(tmp_path / "d").count_rows() == 2


# ---- keys


KEY = {"lance-schema:unenforced-primary-key": "true"}


def keyed(keys: range, v: str = "x", kind: pa.DataType | None = None) -> pa.Table:
    schema = pa.schema([pa.field("k", kind or pa.int64(), False, KEY), ("v", pa.string())])
    return pa.table({"k": list(keys), "v": [v] * len(keys)}, schema=schema)


def upsert(ds: Any, rows: pa.Table, on: Any = "k") -> Any:
    builder = ds.merge_insert(on).when_matched_update_all().when_not_matched_insert_all()
    return builder.execute(rows)


@pytest.mark.parametrize("count", [30, 60, 300])
@pytest.mark.parametrize(
    "sides", [(lk, lance), (lance, lk), (lk, lk)], ids=["first", "last", "both"]
)
def test_upserts_of_both_libraries_leave_each_key_once(
    tmp_path: Path, count: int, sides: Any
) -> None:
    """Half of the keys are new to both; whoever is second sees them and works again."""
    path = str(tmp_path / "d")
    lk.write_dataset(keyed(range(5)), path)
    first, second = (side.dataset(path) for side in sides)
    upsert(first, keyed(range(100, 100 + count), "first"))
    upsert(second, keyed(range(100 + count // 2, 100 + count + count // 2), "second"))
    for side in (lk, lance):
        found = side.dataset(path).to_table()
        keys = found["k"].to_pylist()
        assert sorted(keys) == [*range(5), *range(100, 100 + count + count // 2)]
        assert found["v"].to_pylist().count("second") == count


@pytest.mark.parametrize("count", [30, 60, 300])
def test_disjoint_keys_do_not_disturb(tmp_path: Path, count: int) -> None:
    """The second one lands at once: without retries, on top of the other library's filter."""
    for sides in ((lance, lk), (lk, lk)):
        path = str(tmp_path / sides[0].__name__)
        lk.write_dataset(keyed(range(5)), path)
        first, second = (side.dataset(path) for side in sides)
        upsert(first, keyed(range(1000, 1000 + count)))
        assert upsert(second, keyed(range(5000, 5000 + count))).attempts == 1


def test_the_order_of_on_does_not_matter(tmp_path: Path) -> None:
    schema = pa.schema([pa.field(n, pa.int64(), False, KEY) for n in "ab"] + [("v", pa.string())])
    rows = pa.table({"a": [1], "b": [2], "v": ["x"]}, schema=schema)
    path = tmp_path / "d"
    lk.write_dataset(rows.slice(0, 0), path)
    first, second = lk.dataset(path), lk.dataset(path)
    upsert(first, rows, ["b", "a"])
    assert upsert(second, rows, ["a", "b"]).attempts == 2
    assert lk.dataset(path).count_rows() == 1


def test_an_index_on_the_key_does_not_lift_the_guard(tmp_path: Path) -> None:
    for name, sides in {"both": (lk, lk), "second": (lance, lk), "first": (lk, lance)}.items():
        path = str(tmp_path / name)
        lance.write_dataset(keyed(range(5)), path)
        lance.dataset(path).create_scalar_index("k", "BTREE")
        first, second = (side.dataset(path) for side in sides)
        upsert(first, keyed(range(9, 10), "first"))
        upsert(second, keyed(range(9, 10), "second"))
        if name != "first":  # over an index the reference guards nothing
            assert lk.dataset(path).to_table()["k"].to_pylist().count(9) == 1, name


def _update(keys: range | None, *, moved: bool = True) -> ops.Update:
    hashes = None if keys is None else hash_keys([pa.array(list(keys), pa.int64())])
    return ops.Update(
        new_fragments=(fragment(0),) if moved else (),
        inserted_rows=None if hashes is None else build_exact([0], hashes),
    )


def test_an_update_without_a_filter_may_have_inserted_any_key() -> None:
    mine = _update(range(3))
    verdict = meet(mine, _update(None))
    assert (verdict.outcome, verdict.evidence.fields) == (RETRY, (0,))
    assert meet(mine, _update(None, moved=False)).outcome is LANDS
    in_place = ops.Update((), (fragment(1),), (), (0,), update_mode="rewrite_columns")
    assert meet(mine, in_place).outcome is RETRY
    assert meet(mine, replace(in_place, fields_modified=(1,))).outcome is LANDS


def test_a_merge_that_inserted_nothing_disturbs_nobody() -> None:
    nothing = _update(range(0))
    assert meet(nothing, ops.Append((fragment(9),))).outcome is LANDS
    assert meet(nothing, _update(None)).outcome is LANDS
    assert meet(nothing, _update(range(3))).outcome is LANDS
    assert meet(_update(range(3)), ops.Append((fragment(9),))).outcome is RETRY


def test_keys_that_were_replaced_may_be_the_inserted_ones() -> None:
    def replaced(field: int) -> ops.DataReplacement:
        file = DataFile("new.lance", (field,), (0,), 2, 0)
        return ops.DataReplacement((DataReplacementGroup(2, file),))

    assert meet(_update(range(3)), replaced(0)).outcome is RETRY
    assert meet(_update(range(3)), replaced(1)).outcome is LANDS
    assert meet(_update(range(0)), replaced(0)).outcome is LANDS
    assert meet(_update(None), replaced(0)).outcome is LANDS


def test_the_evidence_says_how_certain_a_key_is() -> None:
    certain = meet(_update(range(5)), _update(range(3, 9))).evidence
    assert certain is not None
    assert (certain.keys_certain, len(certain.keys), certain.fields) == (True, 2, (0,))
    bloom = build_bloom([0], hash_keys([pa.array([3])]))
    possible = meet(_update(range(5)), replace(_update(None), inserted_rows=bloom)).evidence
    assert possible is not None
    assert not possible.keys_certain
    assert "may have inserted" in possible.sentence


# ---- what it costs


def test_the_cost_does_not_grow_with_the_table(tmp_path: Path) -> None:
    """Judging and rebasing look at what was touched, in a table of 100,000 fragments too."""
    snapshot = lk.write_dataset({"k": list(range(100))}, tmp_path / "d")._snapshot
    seconds = {}
    for count in (100, 100_000):
        fragments = FragmentList.of([fragment(n) for n in range(count)])
        manifest = replace(snapshot.manifest, fragments=FragmentList(fragments.encoded))
        read = replace(snapshot, manifest=manifest)
        rows = {7: BitMap([3])}
        mine = Pending(operation=ops.Delete((fragment(7),)), uuid="m", affected_rows=rows)
        theirs = [
            Transaction(read_version=1, uuid=str(n), operation=ops.Delete((fragment(n),)))
            for n in (7, 8, 9)
        ]
        best = np.inf
        for _ in range(5):
            started = time.process_time()
            for transaction in theirs:
                judge(mine, transaction, Context(mine, manifest))
            rebase(mine, read, read, theirs)
            best = min(best, time.process_time() - started)
        seconds[count] = best
    assert seconds[100_000] < 20 * seconds[100] + 0.002

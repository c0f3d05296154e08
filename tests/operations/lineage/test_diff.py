"""A diff says what a plain comparison of both versions does, as the reference reads them."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._api.diff import DatasetDiff
from lancekit._pipeline.diff import row_values
from lancekit.errors import ColumnNotFoundError, InvalidArgumentError, UnsupportedFeatureError
from tests.pipeline.diff.test_values import plain
from tests.support.equivalence import Side, begin, draw_step
from tests.system.test_equivalence import runs, told

STEPS = [
    "append full",
    "append some",
    "delete",
    "update where",
    "update all",
    "compact",
    "add by SQL",
    "add nulls",
    "add rows",
    "replace columns",
    "drop",
    "overwrite other",
    "restore",
]


Rows = Counter[tuple[str, str]]


@dataclass(frozen=True)
class Expected:
    """What two tables differ in: rows, as texts of their keys and of themselves."""

    inserted: Rows
    deleted: Rows
    before: Rows
    after: Rows
    ambiguous: int = 0


def text(row: dict[str, Any], names: Sequence[str]) -> str:
    return repr({name: plain(row.get(name)) for name in names})


def compared(
    old: list[dict[str, Any]], new: list[dict[str, Any]], names: Sequence[str], key: Sequence[str]
) -> Expected:
    """Compare tables row by row; without a key as multisets of whole rows."""
    sides = [[(text(row, key), text(row, names)) for row in rows] for rows in (old, new)]
    left, right = map(Counter, sides)
    gone, come = left - right, right - left
    if not key:
        return Expected(come, gone, Counter(), Counter())
    times = [Counter(k for k, _ in side) for side in sides]
    repeated = {k for side in times for k, count in side.items() if count > 1}
    both = ({k for k, _ in gone} & {k for k, _ in come}) - repeated

    def parted(rows: Rows) -> tuple[Rows, Rows]:
        updated = Counter({row: count for row, count in rows.items() if row[0] in both})
        return updated, rows - updated

    (before, deleted), (after, inserted) = parted(gone), parted(come)
    ambiguous = sum(k in repeated for k, _ in (*gone.elements(), *come.elements()))
    return Expected(inserted, deleted, before, after, ambiguous)


def contents(rows: Rows) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, content), count in rows.items():
        found[content] += count
    return found


def check(diff: DatasetDiff, expected: Expected, names: Sequence[str]) -> None:
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for row in diff.to_table().to_pylist():
        rows[row["_change"]][text(row, names)] += 1
    assert rows["insert"] == contents(expected.inserted)
    assert rows["delete"] == contents(expected.deleted)
    assert rows["update_before"] == contents(expected.before)
    assert rows["update_after"] == contents(expected.after)
    counts = diff.counts
    assert counts.updated == expected.before.total()
    assert counts.ambiguous == expected.ambiguous
    assert counts.moved <= counts.unchanged


def tables(path: Path, *versions: int, ids: bool = False) -> list[list[dict[str, Any]]]:
    return [
        lance.dataset(str(path), version=version).to_table(with_row_id=ids).to_pylist()
        for version in versions
    ]


def history(data: st.DataObject, folder: Path, steps: int) -> Side:
    side = begin(data.draw, folder)
    for _ in range(steps):
        name = data.draw(st.sampled_from(STEPS))
        step = draw_step(data.draw, [name], side.state, side.past)
        if step is not None:
            with told([step]):
                side.do(step)
    return side


@pytest.mark.torture
def test_of_random_histories(whole: bool) -> None:
    @runs(400 if whole else 8)
    @given(st.data())
    def check_one(data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            side = history(data, Path(folder) / "t", data.draw(st.integers(1, 5)))
            ds = lk.dataset(side.path)
            old, new = (data.draw(st.sampled_from(sorted(side.past))) for _ in range(2))
            before, after = tables(side.path, old, new)
            names = [f.name for f in lance.dataset(str(side.path), version=new).schema]
            counts = [len(before), len(after)]
            for key in ([], names[:1]):
                if key and key[0] not in lance.dataset(str(side.path), version=old).schema.names:
                    continue
                if not key and side.stable:
                    continue
                diff = ds.diff(old, new, on=key or None)
                check(diff, compared(before, after, names, key), names)
                one = diff.counts
                assert one.unchanged + one.deleted + one.updated == counts[0]
                assert one.unchanged + one.inserted + one.updated == counts[1]
            if side.stable:
                before, after = tables(side.path, old, new, ids=True)
                check(ds.diff(old, new), compared(before, after, names, ["_rowid"]), names)

    check_one()


@pytest.fixture
def people(tmp_path: Path) -> lk.LanceDataset:
    rows = {"id": list(range(100)), "name": [f"n{i}" for i in range(100)], "age": [30] * 100}
    return lk.write_dataset(rows, tmp_path / "people", primary_key="id", max_rows_per_file=10)


def upsert(ds: lk.LanceDataset, rows: dict[str, list[Any]]) -> None:
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows)


def test_what_a_user_sees(people: lk.LanceDataset) -> None:
    people.tags.create("jan", 1)
    upsert(people, {"id": [7, 100], "name": ["seven", "new"], "age": [30, 1]})
    people.delete("id = 50")
    d = people.diff("jan")
    assert dict(d.counts) == {
        "inserted": 1,
        "deleted": 1,
        "updated": 1,
        "unchanged": 98,
        "moved": 0,
        "ambiguous": 0,
    }
    assert d.columns == {"id": 0, "name": 1, "age": 0}
    assert not d.schema
    assert (d.old, d.new, d.matched_by, d.key) == (("main", 1), ("main", 3), "key", ("id",))
    updated, inserted, deleted = d.sample()
    assert (updated.change, updated.key, updated.cells) == (
        "update",
        {"id": 7},
        {"name": ("n7", "seven")},
    )
    assert (inserted.key, inserted.cells["name"]) == ({"id": 100}, (None, "new"))
    assert (deleted.key, deleted.cells["name"]) == ({"id": 50}, ("n50", None))
    assert d.sample(1) == [updated]
    table = d.to_table()
    assert table.column_names == ["_change", "id", "name", "age"]
    assert table["_change"].to_pylist() == ["delete", "insert", "update_before", "update_after"]
    feed = d.to_pandas(names="delta")
    assert [*feed["_change_type"]] == ["delete", "insert", "update_preimage", "update_postimage"]
    assert [batch.num_rows for batch in d.to_batches(1)] == [1, 1, 1, 1]
    with pytest.raises(InvalidArgumentError, match="batch_size"):
        list(d.to_batches(0))
    with pytest.raises(InvalidArgumentError, match="must be 'lance' or 'delta'"):
        d.to_table(names="spark")
    with pytest.raises(InvalidArgumentError):
        d.to_table(names=[])  # type: ignore[arg-type]
    assert len(list(d.to_batches(2**70))) == len(list(d.to_batches()))


def test_the_cost_is_that_of_the_change(people: lk.LanceDataset) -> None:
    people.delete("id = 50")
    upsert(people, {"id": [7], "name": ["seven"], "age": [30]})
    d = people.diff(1)
    assert d.counts.updated == 1
    assert [side.rows_read for side in d._rows.sides] == [
        3,
        2,
    ]  # two keys and one, then the values of a pair
    same = people.diff(people.version)
    assert same.counts.unchanged == 99
    assert [side.rows_read for side in same._rows.sides] == [0, 0]
    explained = people.diff(1).explain()
    assert explained.reads is not None
    assert explained.reads.fragments == 3
    assert explained.notes[0].startswith("8 fragments identical on both sides, 80 rows")
    with lk.options(display_reads=False):
        assert "39 rows to compare · not compared yet" in repr(people.diff(1))
    shown = people.diff(1)
    assert shown.counts.deleted == 1
    assert "1 deleted" in repr(shown)
    assert "n50" in shown._repr_html_()


def test_compaction_is_no_change(people: lk.LanceDataset) -> None:
    people.delete("id % 2 = 0")
    before = people.version
    people.optimize.compact_files()
    counts = people.diff(before).counts
    assert (counts.moved, counts.unchanged) == (50, 50)
    assert not counts.inserted + counts.deleted + counts.updated


def test_filters_and_columns(people: lk.LanceDataset) -> None:
    people.update({"age": "31"}, where="id < 10")
    people.update({"name": "'x'"}, where="id >= 5 AND id < 20")
    assert people.diff(1).columns == {"id": 0, "name": 15, "age": 10}
    assert people.diff(1, columns=["age"]).counts.updated == 10
    assert people.diff(1, filter="id < 7").counts.updated == 7
    moved = people.diff(1, filter="age = 30").counts  # ten leave what is compared
    assert (moved.deleted, moved.updated, moved.inserted) == (10, 10, 0)
    assert moved.unchanged == 80
    with pytest.raises(ColumnNotFoundError):
        people.diff(1, columns=["nowhere"])
    with pytest.raises(ColumnNotFoundError):
        people.diff(1, on="nowhere")


def test_columns_that_came_and_went(people: lk.LanceDataset) -> None:
    people.add_columns({"twice": "age * 2"})
    people.alter_columns({"path": "name", "name": "called"})
    people.alter_columns({"path": "age", "data_type": pa.int32()})
    d = people.diff(1)
    assert (d.schema.added, d.schema.renamed) == (("twice",), (("name", "called"),))
    assert d.schema.cast == (("age", pa.int64(), pa.int32()),)
    assert d.columns == {"id": 0, "called": 0, "age": 0, "twice": 100}
    people.drop_columns(["called"])
    d = people.diff(1, 3)
    assert d.counts.updated == 100
    gone = people.diff(2)
    assert gone.schema.dropped == ("name",)
    assert gone.counts.unchanged == 100
    with pytest.raises(InvalidArgumentError, match="key in on= is empty"):
        people.diff(1, on=[])
    with pytest.raises(InvalidArgumentError, match="does not exist in version 1"):
        people.diff(1, on="twice")


def test_columns_whose_types_have_nothing_in_common(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "x": [True]}, tmp_path / "t")
    ds = lk.write_dataset({"id": [1], "x": pa.array([b"1"])}, tmp_path / "t", mode="overwrite")
    d = ds.diff(1, on="id")
    assert (d.schema.added, d.schema.dropped) == (("x",), ("x",))
    assert d.columns == {"id": 0, "x": 1}
    assert d.to_table().column_names == ["_change", "id", "x"]


def test_keys_that_stand_twice(tmp_path: Path) -> None:
    rows = {"k": [1, 1, 2, 3], "v": ["a", "b", "c", None]}
    ds = lk.write_dataset(rows, tmp_path / "t")
    ds.update({"v": "'B'"}, where="v = 'b'")
    ds.update({"v": "'C'"}, where="v = 'c'")
    d = ds.diff(1, on="k")
    counts = d.counts
    assert (counts.updated, counts.deleted, counts.inserted, counts.ambiguous) == (1, 1, 1, 2)
    assert ds.diff(1).counts.updated == 0  # as whole rows
    ds.insert({"k": [3], "v": ["d"]}, mode="append")
    assert ds.diff(3, on="k").counts.ambiguous == 1
    assert ds.diff(3, on=["k", "v"]).counts.ambiguous == 0


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 9], (1, 1, 7)),
        ([1, 2, 3, 5, 4, 6, 7, 8], (0, 0, 8)),  # out of order where two parts meet
        ([1, 2, 3, 3, 4, 6, 7, 8], (2, 2, 6)),  # 3 stands twice there, 5 is gone
        ([1, 2, 3, None, 5, 6, 7, 8], (1, 1, 7)),
    ],
)
def test_keys_in_order_are_paired_as_others_are(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ids: list[int | None],
    expected: tuple[int, int, int],
) -> None:
    monkeypatch.setattr(row_values, "_NUMBERS_ROWS", 3)
    old = lk.write_dataset({"id": [*range(1, 9)], "v": [0] * 8}, tmp_path / "d")
    new = lk.write_dataset({"id": ids, "v": [1] * 8}, tmp_path / "d", mode="overwrite")
    counts = new.diff(old, on="id").counts
    assert (counts.inserted, counts.deleted, counts.updated) == expected


def test_null_parts_of_keys_are_equal(tmp_path: Path) -> None:
    ds = lk.write_dataset({"a": [1, None], "b": [None, None], "v": [1, 2]}, tmp_path / "t")
    ds.update({"v": "v + 1"})
    assert ds.diff(1, on=["a", "b"]).counts.updated == 2


@pytest.mark.parametrize("stable", [False, True])
def test_branches_and_clones(tmp_path: Path, stable: bool) -> None:
    rows = {"id": [1, 2, 3], "v": ["a", "b", "c"]}
    ds = lk.write_dataset(
        rows, tmp_path / "t", primary_key="id", enable_stable_row_ids=stable, max_rows_per_file=1
    )
    exp = ds.create_branch("exp", 1)
    upsert(exp, {"id": [2, 9], "v": ["B", "exp's"]})
    upsert(ds, {"id": [3, 8], "v": ["C", "main's"]})  # the same row id as the branch's new row
    d = ds.diff(("exp", None))
    assert (d.counts.inserted, d.counts.deleted, d.counts.updated) == (1, 1, 2)
    assert d.columns == {"id": 0, "v": 2}
    assert d.matched_by == ("row ids, then key" if stable else "key")
    clone = ds.shallow_clone(tmp_path / "clone", ds.version)
    assert ds.diff(clone).counts.unchanged == 4
    upsert(clone, {"id": [1], "v": ["A"]})
    assert ds.diff(clone).counts.updated == 1
    other = lk.write_dataset({"id": [1, 4], "v": ["a", "d"]}, tmp_path / "other")
    counts = other.diff(ds, on="id").counts
    assert (counts.inserted, counts.deleted, counts.unchanged) == (1, 3, 1)


def test_times_and_handles(people: lk.LanceDataset) -> None:
    first = people.get_version()["timestamp"].astimezone()
    people.delete("id = 1")
    assert people.diff(first).counts.deleted == 1
    assert people.diff(people.checkout_version(1)).counts.deleted == 1
    assert people.diff(2, 1).counts.inserted == 1
    with pytest.raises(lk.errors.VersionNotFoundError):
        people.diff(99)


def test_blobs_differ_by_their_bytes(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), lk.blob_field("b")])
    values = [b"x" * 100, None, b""]
    ds = lk.write_dataset(
        pa.table({"id": [1, 2, 3], "b": lk.blob_array(values)}, schema=schema), tmp_path / "t"
    )
    again = [b"x" * 99 + b"y", None, b""]
    lk.write_dataset(
        pa.table({"id": [1, 2, 3], "b": lk.blob_array(again)}, schema=schema),
        tmp_path / "t",
        mode="overwrite",
    )
    ds.checkout_latest()
    d = ds.diff(1, on="id")
    assert d.columns == {"id": 0, "b": 1}
    assert d.to_table().column("b").to_pylist() == [values[0], again[0]]


def test_a_blob_column_that_was_dropped(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), lk.blob_field("b")])
    rows = pa.table([pa.array([1, 2]), lk.blob_array([b"one", None])], schema=schema)
    ds = lk.write_dataset(rows, tmp_path / "t", data_storage_version="2.2")
    ds.drop_columns(["b"])
    ds.delete("id = 1")
    diff = ds.diff(1, on="id")
    assert diff.schema.dropped == ("b",)
    found = diff.to_table().to_pylist()
    assert found == [{"_change": "delete", "id": 1, "b": b"one"}]


def test_what_cannot_be_cast_is_named(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "x": ["no number"]}, tmp_path / "t")
    lk.write_dataset({"id": [1], "x": [1.5]}, tmp_path / "t", mode="overwrite")
    ds.checkout_latest()
    with pytest.raises(UnsupportedFeatureError, match="'x' changed from string to double"):
        _ = ds.diff(1, on="id").counts
    assert ds.diff(1, on="id", columns=["id"]).counts.unchanged == 1


def test_a_restore_takes_back_what_marked_no_rows(tmp_path: Path) -> None:
    rows = {"id": [1, 2, 3, 4], "v": [5, 6, 7, 8]}
    ds = lk.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True, max_rows_per_file=2)
    ds.drop_columns(["v"])
    ds.add_columns({"v": "id * 100"})
    ds.optimize.compact_files()
    compacted = ds.version
    ds.checkout_version(1).restore()
    for old, new in ((compacted, compacted + 1), (compacted + 1, compacted)):
        assert ds.diff(old, new).columns == {"id": 0, "v": 4}


def test_a_restore_takes_back_an_overwrite_with_other_columns(tmp_path: Path) -> None:
    ds = lk.write_dataset({"a": [1, 2], "b": [5, 6]}, tmp_path / "t")
    ds = lk.write_dataset({"b": [5, 6], "a": [1, 2]}, ds, mode="overwrite")
    ds.checkout_version(1).restore()
    for old, new in ((2, 3), (3, 2)):
        d = ds.diff(old, new)
        assert not d.schema
        assert d.counts.unchanged == 2


def test_an_id_of_a_column_that_was_handed_out_twice(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2], "v": [5, 6]}, tmp_path / "t", primary_key="id")
    ds.add_columns({"a": "v * 2"})
    ds.checkout_version(1).restore()
    ds.checkout_latest()
    ds.add_columns({"b": "v * 2"})
    diff = ds.diff(2)
    assert diff.schema.renamed == ()
    assert (diff.schema.added, diff.schema.dropped) == (("b",), ("a",))
    assert (diff.counts.updated, diff.columns["b"]) == (2, 2)
    ds.alter_columns({"path": "b", "name": "c"})
    assert ds.diff(4).schema.renamed == (("b", "c"),)

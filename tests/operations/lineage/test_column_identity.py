"""Which columns of two sides are the same, beside a plain model that follows every column."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._operations.lineage.columns import column_pairs
from lancekit.errors import SchemaMismatchError
from tests.system.test_equivalence import runs

NAMES = "abcde"
TYPES = [pa.int16(), pa.int32(), pa.int64()]
STEPS = ("rename", "swap", "cast", "drop", "add", "compact", "update", "restore")


class Side:
    """A branch, and what its columns are called: each is a number that nothing else has."""

    numbers = iter(range(10, 1 << 30))

    def __init__(self, ds: lk.LanceDataset, columns: dict[int, str]) -> None:
        self.ds, self.columns = ds, dict(columns)
        self.past = {ds.version: dict(columns)}

    def step(self, draw: Callable[..., Any]) -> None:
        what = draw(st.sampled_from(STEPS))
        library = draw(st.sampled_from(["lancekit", "pylance"]))
        handle: Any = self.ds if library == "lancekit" else lance.dataset(self.ds._location.uri)
        free = [name for name in NAMES if name not in self.columns.values()]
        known = sorted(self.columns)
        if what == "rename" and known and free:
            one, name = draw(st.sampled_from(known)), draw(st.sampled_from(free))
            handle.alter_columns({"path": self.columns[one], "name": name})
            self.columns[one] = name
        elif what == "swap" and len(known) > 1:
            one, two = draw(st.permutations(known))[:2]
            names = self.columns[one], self.columns[two]
            self.ds.alter_columns(
                {"path": names[0], "name": names[1]}, {"path": names[1], "name": names[0]}
            )
            self.columns[two], self.columns[one] = names
        elif what == "cast" and known:
            one = draw(st.sampled_from(known))
            change = {"path": self.columns[one], "data_type": draw(st.sampled_from(TYPES))}
            if free and draw(st.booleans()):
                self.columns[one] = change["name"] = draw(st.sampled_from(free))
            handle.alter_columns(change)
        elif what == "drop" and known:
            one = draw(st.sampled_from(known))
            handle.drop_columns([self.columns.pop(one)])
        elif what == "add" and free:
            name = draw(st.sampled_from(free))
            handle.add_columns({name: "CAST(7 AS BIGINT)"})
            self.columns[next(self.numbers)] = name
        elif what == "compact":
            handle.optimize.compact_files()
        elif what == "update":
            handle.update({"id": "id"})
        elif what == "restore":
            version = draw(st.sampled_from(sorted(self.past)))
            self.ds.checkout_version((self.ds.branch, version)).restore()
            self.columns = dict(self.past[version])
        self.ds.checkout_latest()
        self.past.setdefault(self.ds.version, dict(self.columns))
        self.past[self.ds.version] = dict(self.columns)


def expected(old: Side, new: Side, common: dict[int, str]) -> dict[str, str | None]:
    """Pair columns by what they are, else by name, unless both are known to be others."""
    names = {name: one for one, name in old.columns.items() if one not in new.columns}
    found: dict[str, str | None] = {"id": "id"}
    for one, name in new.columns.items():
        match = one if one in old.columns else names.get(name)
        if match is not None and match != one and one in common and match in common:
            match = None
        found[name] = None if match is None else old.columns[match]
    return found


@pytest.mark.torture
def test_columns_of_random_histories(whole: bool) -> None:
    @runs(400 if whole else 8)
    @given(st.data())
    def check_one(data: st.DataObject) -> None:
        draw = data.draw
        with tempfile.TemporaryDirectory() as folder:
            columns = {0: "a", 1: "b", 2: "c"}
            rows = pa.table({"id": [1, 2, 3, 4], **dict.fromkeys(columns.values(), [0] * 4)})
            ds = lk.write_dataset(rows, Path(folder) / "t", max_rows_per_file=2)
            main = Side(ds, columns)
            for _ in range(draw(st.integers(0, 2))):
                main.step(draw)
            common = dict(main.columns)
            ds.create_branch("exp", ds.version)
            exp = Side(ds.checkout_version(("exp", None)), common)
            start = Side(ds.at(ds.version), common)
            for side in (main, exp):
                for _ in range(draw(st.integers(0, 6))):
                    side.step(draw)
            for old, new in ((main, exp), (exp, main), (start, exp), (start, main), (exp, start)):
                pairs = column_pairs(old.ds._snapshot, new.ds._snapshot)
                found = {pair.name: None if pair.old is None else pair.old.name for pair in pairs}
                assert found == expected(old, new, common)

    check_one()


@pytest.mark.parametrize("library", ["lancekit", "pylance"])
def test_values_follow_a_rename_over_a_compaction(tmp_path: Path, library: str) -> None:
    rows = {"id": [1, 2], "a": ["a1", "a2"], "b": ["b1", "b2"]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id", max_rows_per_file=1)
    exp = ds.create_branch("exp")
    ds.alter_columns({"path": "a", "name": "b"}, {"path": "b", "name": "a"})
    handle: Any = ds if library == "lancekit" else lance.dataset(ds.uri)
    handle.optimize.compact_files()
    ds.checkout_latest()
    exp.update({"a": "'A1'"}, where="id = 1")
    exp.insert({"id": [3], "a": ["a3"], "b": ["b3"]}, mode="append")
    ds.branches.merge("exp")
    rows_now = sorted(ds.to_table().to_pylist(), key=lambda row: row["id"])
    assert [(row["b"], row["a"]) for row in rows_now] == [
        ("A1", "b1"),
        ("a2", "b2"),
        ("a3", "b3"),
    ]


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("library", ["lancekit", "pylance"])
def test_a_column_with_the_id_of_a_dropped_one_takes_none_of_its_values(
    tmp_path: Path, library: str, side: str
) -> None:
    rows = {"id": [1, 2], "n": [1, 2], "m": [5, 6]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    one, other = (ds, exp) if side == "ours" else (exp, ds)
    handle: Any = one if library == "lancekit" else lance.dataset(one._location.uri)
    handle.drop_columns(["m"])
    handle.update({"n": "n + 1"})  # no file has the column any more
    handle.add_columns({"k": "id * 7"})
    one.checkout_latest()
    ids = [version.manifest.schema.fields[2].id for version in (one._snapshot, other._snapshot)]
    assert ids[0] == ids[1]
    other.update({"m": "99"}, where="id = 1")
    with pytest.raises(SchemaMismatchError, match="column 'm' was"):
        ds.branches.merge("exp")
    ds.branches.merge("exp", conflicts=side)  # type: ignore[arg-type]
    for there in (lk, lance):
        found = there.dataset(ds.uri).to_table().sort_by("id").to_pydict()
        assert found == {"id": [1, 2], "n": [2, 3], "k": [7, 14]}


@pytest.mark.parametrize("library", [lk, lance], ids=["lancekit", "lance"])
def test_a_fork_knows_the_columns_of_its_parent_since_a_merge(tmp_path: Path, library: Any) -> None:
    """The fork begins with the new name; the parent's versions tell the old one."""
    ds = lk.write_dataset({"k": [1, 2], "v": [0, 0]}, tmp_path / "t", enable_stable_row_ids=True)
    exp = ds.create_branch("exp")
    for line in (ds, exp):
        line.add_columns({"c": "nullif(k * 2, -1)"})
    exp.branches.merge("main")
    exp.alter_columns({"path": "c", "name": "e"})
    parent = library.dataset(ds.uri).checkout_version(("exp", None))
    parent.create_branch("fork", ("exp", exp.version))
    fork = ds.checkout_version(("fork", None))
    fork.update({"v": "5"}, where="k = 2")
    ds.update({"c": "7"}, where="k = 1")
    result = ds.branches.merge("fork")
    assert result.columns_renamed == (("c", "e"),)
    assert lance.dataset(ds.uri).to_table().sort_by("k").to_pylist() == [
        {"k": 1, "v": 0, "e": 7},
        {"k": 2, "v": 5, "e": 4},
    ]

"""Filters give the same rows with indices as without them, and as pylance does."""

from __future__ import annotations

import math
import random
import re
import shutil
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lancekit as lk
from lancekit._format.index import FRAGMENT_REUSE
from lancekit._index.kinds import KINDS as KINDS_OF_INDICES
from lancekit._scan import index_lookup as lookup_module
from lancekit._scan.index_lookup import IndexLookup
from lancekit.errors import CorruptFileError
from lancekit.indices import IndexConfig as LkConfig

ROWS = 400
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
TEXTS = ["", "a", "ab", "abc", "b", "Zz", "é", "日本", "a_c", "a%c"]
FLOATS = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, -math.nan, 2.0, 0.1]


def _some(values: list[Any], kind: pa.DataType, chance: random.Random, rows: int) -> pa.Array:
    picked = [None if chance.random() < 0.15 else chance.choice(values) for _ in range(rows)]
    return pa.array(picked, kind)


KINDS: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "i8": (pa.int8(), [-128, -3, 0, 5, 127], ["-128", "0", "5", "127"]),
    "i64": (pa.int64(), [-(1 << 63), -5, 0, 7, (1 << 63) - 1], ["-5", "0", "7", "9"]),
    "u64": (pa.uint64(), [0, 3, (1 << 64) - 1], ["0", "3", "18446744073709551615"]),
    "f32": (pa.float32(), FLOATS, ["0.0", "-0.0", "1.5", "0.1"]),
    "f64": (pa.float64(), FLOATS, ["0.0", "-1.5", "2.0", "0.1"]),
    "b": (pa.bool_(), [True, False], ["true", "false"]),
    "s": (pa.string(), TEXTS, ["''", "'a'", "'abc'", "'é'", "'zzz'"]),
    "ls": (pa.large_string(), TEXTS, ["''", "'ab'", "'日本'"]),
    "y": (pa.binary(), [b"", b"\x00", b"\xff", b"ab"], ["X'00'", "X'6162'"]),
    "d": (
        pa.date32(),
        [EPOCH.date() + timedelta(days=n) for n in range(5)],
        ["DATE '2020-01-02'", "DATE '2020-01-05'"],
    ),
    "ts": (
        pa.timestamp("us"),
        [EPOCH.replace(tzinfo=None) + timedelta(hours=n) for n in range(5)],
        ["TIMESTAMP '2020-01-01 01:00:00'", "TIMESTAMP '2020-01-01 03:00:00'"],
    ),
    "n": (
        pa.decimal128(9, 2),
        [Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")],
        ["CAST(2.25 AS DECIMAL(9, 2))", "CAST(0 AS DECIMAL(9, 2))"],
    ),
}


def _rows(chance: random.Random, rows: int = ROWS) -> pa.Table:
    columns = {name: _some(values, kind, chance, rows) for name, (kind, values, _) in KINDS.items()}
    return pa.table({"key": pa.array(range(rows)), "free": pa.array(range(rows)), **columns})


def _condition(chance: random.Random, name: str) -> str:
    literals = KINDS[name][2]
    one, other = chance.choice(literals), chance.choice(literals)
    forms = [
        f"{name} {chance.choice(['=', '<>', '<', '<=', '>', '>='])} {one}",
        f"{one} {chance.choice(['=', '<', '>='])} {name}",
        f"{name} BETWEEN {one} AND {other}",
        f"{name} IN ({one}, {other})",
        f"{name} NOT IN ({one}, {other})",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
    ]
    if name == "b":
        forms = ["b", "NOT b", "b IS TRUE", "b IS NOT FALSE", "b = true", "b IS NULL"]
    return chance.choice(forms)


def _filter(chance: random.Random, depth: int = 2) -> str:
    if depth == 0 or chance.random() < 0.3:
        if chance.random() < 0.1:
            return f"free < {chance.randrange(ROWS)}"
        return _condition(chance, chance.choice(list(KINDS)))
    parts = [_filter(chance, depth - 1) for _ in range(2)]
    joined = f"({parts[0]} {chance.choice(['AND', 'OR'])} {parts[1]})"
    return f"NOT {joined}" if chance.random() < 0.25 else joined


def _lookup(ds: Any, text: str) -> IndexLookup | None:
    found: IndexLookup | None = ds.scanner(filter=text)._scan.read.lookup
    return found


def _covered(ds: Any, text: str) -> list[int]:
    lookup = _lookup(ds, text)
    return [] if lookup is None else list(lookup.found.known)


def _moved(ds: lance.LanceDataset, chance: random.Random) -> lance.LanceDataset:
    """Delete, update and append some rows."""
    ds.delete("key % 7 = 3")
    ds.update({"i64": "7", "s": "'abc'"}, where="key % 11 = 5")
    more = _rows(chance, 60)
    return lance.write_dataset(more, ds.uri, mode="append")


def _check(path: Path, filters: list[str]) -> int:
    """Compare what filters give; returns of how many an index knew."""
    theirs, ours, asked = lance.dataset(path), lk.dataset(path), 0
    for text in filters:
        names = [name for name in ("key", "s", "x") if name in ours.schema.names]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = ours.to_table(names, text, with_row_id=True)
            plain = ours.to_table(names, text, with_row_id=True, use_scalar_index=False)
        assert found.equals(plain), text
        # there, a NaN with a sign sorts elsewhere, and lists tell the two zeros apart
        if not {"f32", "f64", "lf"} & set(re.findall(r"\w+", text)):
            other = theirs.to_table(filter=text, with_row_id=True)
            assert found.column("_rowid").equals(other.column("_rowid")), text
        assert ours.count_rows(text) == plain.num_rows, text
        window = ours.to_table(names[:1], text, limit=5, offset=2)
        assert window.equals(plain.select(names[:1]).slice(2, 5)), text
        asked += bool(_covered(ours, text))
    return asked


#: small pages and zones, so that there are several of them
CONFIGS: dict[str, dict[str, Any]] = {
    "BTREE": {"zone_size": 32},
    "BITMAP": {},
    "ZONEMAP": {"rows_per_zone": 16},
    "BLOOMFILTER": {"number_of_items": 16, "probability": 0.01},
}
NOT_HASHED = {"b", "n"}


@pytest.mark.cover
@pytest.mark.torture
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "ids"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_filters_give_the_same_rows_with_indices_as_without(
    kind: str, stable: bool, tmp_path: Path, whole: bool
) -> None:
    chance = random.Random(f"{kind} {stable}")
    path = tmp_path / "indexed.lance"
    ds = lance.write_dataset(
        _rows(chance), path, max_rows_per_file=150, enable_stable_row_ids=stable
    )
    for name in KINDS.keys() - (NOT_HASHED if kind == "BLOOMFILTER" else set()):
        ds.create_scalar_index(name, IndexConfig(kind.lower(), CONFIGS[kind]))
    filters = [_filter(chance) for _ in range(16 if whole else 4)]
    filters += [_condition(chance, name) for name in KINDS]
    asked = _check(path, filters if whole else filters[1::2])
    _moved(ds, chance)
    asked += _check(path, filters[::2])
    lance.dataset(path).optimize.optimize_indices()
    asked += _check(path, filters[1::2])
    assert asked > len(filters) / (1 if KINDS_OF_INDICES[kind].exact else 3)


@pytest.mark.parametrize("kind", CONFIGS)
def test_rows_are_found_where_a_compaction_moved_them(kind: str, tmp_path: Path) -> None:
    """Of the reference, which may leave indices as they are until they are made anew."""
    table = pa.table({"x": range(60), "y": [n % 4 for n in range(60)]})
    ds = lance.write_dataset(table, tmp_path / "d", max_rows_per_file=10)
    for name in ("x", "y"):
        ds.create_scalar_index(name, IndexConfig(kind.lower(), CONFIGS[kind]))
    filters = ["x = 12", "x IN (3, 27, 44, 59)", "y = 2", "y IS NULL OR x = 7", "x = 12 AND y = 0"]
    ds.delete("x % 5 = 1")
    for round_ in range(2):
        ds.optimize.compact_files(
            defer_index_remap=True, target_rows_per_fragment=25 * (round_ + 1)
        )
        entries = lk.dataset(tmp_path / "d")._snapshot.indices
        assert any(index.name == FRAGMENT_REUSE for index in entries)
        assert _check(tmp_path / "d", filters) == len(filters)
        ds.delete(f"x % 7 = {round_ + 2}")
        assert _check(tmp_path / "d", filters) == len(filters)
    lance.write_dataset(table, tmp_path / "d", mode="append")
    assert _check(tmp_path / "d", filters) == len(filters)
    ds.optimize.optimize_indices()
    assert _check(tmp_path / "d", filters) == len(filters)


def _with_texts(chance: random.Random, rows: int) -> pa.Table:
    words = ["", "ab", "abc", "ABCdef", "x-abc-y", "straße", "Crème brûlée", "日本語", "a%c", "zz9"]
    texts = [None if chance.random() < 0.1 else " ".join(chance.choices(words, k=2))]
    texts += [chance.choice(words) + chance.choice(words) for _ in range(rows - 1)]
    items = ["x", "y", "", None, "é"]
    lists = [
        None if chance.random() < 0.15 else chance.choices(items, k=chance.randrange(4))
        for _ in range(rows)
    ]
    numbers = [[1.5, -0.0], [0.0], [], None, [None], [math.nan, 2.0], [-math.nan]]
    return pa.table(
        {
            "key": range(rows),
            "s": pa.array(texts, pa.string()),
            "l": pa.array(lists, pa.list_(pa.string())),
            "ll": pa.array(lists, pa.large_list(pa.string())),
            "lf": pa.array(chance.choices(numbers, k=rows), pa.list_(pa.float64())),
        }
    )


OF_TEXTS = [
    "contains(s, 'abc')",
    "contains(s, 'bcd') OR contains(s, 'zz9')",
    "contains(s, 'nothere')",
    "s LIKE '%abc%'",
    "s LIKE 'x-abc%'",
    "s LIKE 'abc_abc'",
    "starts_with(s, 'ABCdef')",
    "ends_with(s, 'zz9')",
    "contains(s, 'abc') AND key < 30",
]
OF_TEXTS_UNASKED = [
    "s LIKE '%brûlée'",
    "contains(s, '---')",
    "contains(s, '日本語')",
    "s LIKE '%ab%'",
    "s ILIKE '%abc%'",
]
OF_LISTS = [
    "array_has(l, 'x')",
    "array_contains(ll, 'é')",
    "array_has_any(l, ['x', 'é'])",
    "array_has_all(l, ['x', 'y'])",
    "array_has_all(ll, ['x', 'nothere'])",
    "array_has(l, 'nothere')",
    "array_has_any(l, [])",
    "array_has(lf, 0.0)",
    "array_has_any(lf, [1.5, 2.0])",
    "array_has(l, 'x') AND NOT array_has(l, 'y')",
]
OF_LISTS_UNASKED = ["NOT array_has(l, 'x')", "l IS NULL"]


@pytest.mark.cover
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "ids"])
def test_texts_and_items_of_lists_are_found_as_without_indices(
    stable: bool, half: int, tmp_path: Path
) -> None:
    asked, unasked = (OF_TEXTS + OF_LISTS)[half::2], (OF_TEXTS_UNASKED + OF_LISTS_UNASKED)[half::2]
    chance = random.Random(11)
    path = tmp_path / "d"
    ds = lance.write_dataset(
        _with_texts(chance, 200), path, max_rows_per_file=80, enable_stable_row_ids=stable
    )
    ds.create_scalar_index("s", "NGRAM")
    for name in ("l", "ll", "lf"):
        ds.create_scalar_index(name, "LABEL_LIST")
    assert _check(path, asked) == len(asked)
    assert _check(path, unasked) == 0
    ds.delete("key % 7 = 3")
    ds.update({"s": "'abc'", "l": "make_array('x')"}, where="key % 11 = 5")
    lance.write_dataset(_with_texts(chance, 40), path, mode="append")
    assert _check(path, asked) == len(asked)
    assert len(lk.dataset(path).to_table(filter=OF_TEXTS[0])) > 10


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_beginnings_of_texts_are_a_range(kind: str, tmp_path: Path) -> None:
    texts = ["", "a", "ab", "abc", "b", "a%c", "é", "éa", "日本", None, "ab" * 9]
    ds = lance.write_dataset(pa.table({"key": range(len(texts)), "s": texts}), tmp_path / "d")
    ds.create_scalar_index("s", IndexConfig(kind.lower(), {}))
    conditions = ["LIKE 'ab%'", "LIKE 'a_c'", "LIKE 'é%'", "LIKE 'abc'", r"LIKE 'a\%c'"]
    filters = [f"s {condition}" for condition in conditions]
    filters += ["starts_with(s, 'ab')", "starts_with(s, '日')"]
    assert _check(tmp_path / "d", filters) == len(filters)
    _check(tmp_path / "d", ["s NOT LIKE 'ab%'", "s LIKE '%b'", "starts_with(s, '')"])


def _indexed(path: Path) -> lk.LanceDataset:
    ds = lance.write_dataset(pa.table({"x": range(10), "y": range(10)}), path)
    ds.create_scalar_index("x", "BTREE")
    return lk.dataset(path)


def test_an_index_is_not_asked_if_no_column_of_it_is_named(tmp_path: Path) -> None:
    ds = _indexed(tmp_path / "d")
    assert _lookup(ds, "y = 3") is None
    assert _lookup(ds, "x = 3") is not None
    assert ds.scanner(filter="x = 3", use_scalar_index=False)._scan.read.lookup is None


def test_an_explanation_names_the_indices_that_are_asked(tmp_path: Path) -> None:
    ds = _indexed(tmp_path / "d")
    told = "x_idx (BTree) of x; rows that no index covers are read, too"
    assert told in str(ds.scanner(filter="x = 3").explain())
    assert "x_idx" not in str(ds.scanner(filter="y = 3").explain())


def test_a_search_after_the_filter_asks_indices(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(40), pa.float32()), 2)
    table = pa.table({"x": range(20), "v": vectors})
    lance.write_dataset(table, tmp_path / "d").create_scalar_index("x", "BTREE")
    ds = lk.dataset(tmp_path / "d")
    nearest = {"column": "v", "q": [0.0, 0.0], "k": 2}
    scanner = ds.scanner(filter="x IN (7, 4, 9)", prefilter=True, nearest=nearest)
    assert scanner._scan.read.lookup is not None
    assert scanner.to_table()["x"].to_pylist() == [4, 7]


def test_or_needs_both_sides(tmp_path: Path) -> None:
    ds = _indexed(tmp_path / "d")
    assert _covered(ds, "x = 3 AND y = 3") == [0]
    assert _covered(ds, "x = 3 OR y = 3") == []
    assert ds.to_table(filter="x = 3 OR y = 5")["x"].to_pylist() == [3, 5]


def test_rows_that_no_index_covers_are_looked_at_or_left_out(tmp_path: Path) -> None:
    _indexed(tmp_path / "d")
    ds = lk.write_dataset(pa.table({"x": [3, 4], "y": [0, 1]}), tmp_path / "d", mode="append")
    assert ds.to_table(filter="x = 3")["y"].to_pylist() == [3, 0]
    assert ds.to_table(filter="x = 3", fast_search=True)["y"].to_pylist() == [3]
    theirs = lance.dataset(tmp_path / "d").to_table(filter="x = 3", fast_search=True)
    assert theirs["y"].to_pylist() == [3]
    # without an index that can answer, all rows are looked at
    assert ds.to_table(filter="y = 0", fast_search=True).num_rows == 2


@pytest.mark.parametrize("damage", ["missing", "cut", "newer"])
def test_an_index_that_cannot_be_used_is_a_warning_and_a_scan(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "d"
    ds = _indexed(path)
    (folder,) = (path / "_indices").iterdir()
    if damage == "missing":
        shutil.rmtree(folder)
    elif damage == "cut":
        file = folder / "page_lookup.lance"
        file.write_bytes(file.read_bytes()[:-7])
    else:
        index = ds._snapshot.indices[0]
        operation = lk.LanceOperation.CreateIndex(
            new_indices=(replace(index, index_version=9),), removed_indices=(index,)
        )
        lk.LanceDataset.commit(ds, operation, read_version=ds.version)
    ds = lk.dataset(path)
    with pytest.warns(UserWarning, match="'x_idx' is not used"):
        assert ds.to_table(filter="x = 3")["y"].to_pylist() == [3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        assert lk.dataset(path).to_table(filter="x = 3")["y"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("kind", "search", "instead"),
    [
        ("INVERTED", {"full_text_query": "snow"}, "all rows"),
        ("IVF_FLAT", {"nearest": {"column": "v", "q": [1.0, 0.0], "k": 2}}, "all vectors"),
    ],
)
def test_searches_pass_over_indices_that_are_newer(
    tmp_path: Path, kind: str, search: dict[str, Any], instead: str
) -> None:
    vectors = pa.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], pa.list_(pa.float32(), 2))
    table = pa.table({"t": ["snow", "late snow", "rain"], "v": vectors})
    ds = lk.write_dataset(table, tmp_path / "d")
    if kind == "INVERTED":
        ds.create_scalar_index("t", kind)
    else:
        ds.create_index("v", kind, num_partitions=1)
    wanted = ds.to_table(**search)
    index = ds._snapshot.indices[0]
    operation = lk.LanceOperation.CreateIndex(
        new_indices=(replace(index, index_version=9),), removed_indices=(index,)
    )
    lk.LanceDataset.commit(ds, operation, read_version=ds.version)
    told = rf"is not used, {instead} are (scanned|read): segment \S+ has version 9, but \d is"
    with pytest.warns(UserWarning, match=told):
        found = lk.dataset(tmp_path / "d").to_table(**search)
    assert found["t"].to_pylist() == wanted["t"].to_pylist()


def test_a_filter_of_other_columns_reads_no_more_of_indices_than_their_fields(
    tmp_path: Path,
) -> None:
    table = pa.table({"x": range(9), "y": range(9), "s": [{"x": i, "y": i} for i in range(9)]})
    ds = lance.write_dataset(table, tmp_path / "d")
    ds.create_scalar_index("x", "BTREE")
    ds.create_scalar_index("s.y", "BTREE")
    for text, asks in {"y = 3": False, "s.x = 3": False, "x = 3": True, "s.y = 3": True}.items():
        ours = lk.dataset(tmp_path / "d")
        assert ours.to_table(filter=text).num_rows == 1
        assert ("indices" in vars(ours._snapshot)) is asks
        assert (_lookup(ours, text) is not None) is asks
    assert ours._snapshot.indexed_fields == {0, 4}
    assert lk.dataset(tmp_path / "d", version=1)._snapshot.indexed_fields == set()


def test_many_rows_are_read_by_themselves_unless_all_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 20_000
    table = pa.table({"x": np.random.default_rng(3).permutation(rows), "y": range(rows)})
    ds = lance.write_dataset(table, tmp_path / "d")
    ds.create_scalar_index("x", "BITMAP")
    ours = lk.dataset(tmp_path / "d")
    (source,) = ours.scanner()._scan.sources
    exact, again = "x < {}", "x < {} AND y % 1 = 0"
    for text, most in ((exact, 15_000), (again, rows // 2)):
        for wanted in (100, most, most + 1):
            lookup = _lookup(ours, asked := text.format(wanted))
            assert lookup is not None
            chosen = lookup.rows.of(source.fragment.id) is not None
            assert chosen is (text is exact or wanted <= most)
            assert ours.count_rows(asked) == wanted
    monkeypatch.setattr(lookup_module, "_MOST_EXACT", 12_000)
    for wanted, chosen in ((12_000, True), (12_001, False)):
        lookup = _lookup(ours, exact.format(wanted))
        assert lookup is not None
        assert (lookup.rows.of(source.fragment.id) is not None) is chosen


def test_small_fragments_are_read_together_if_many_have_rows(tmp_path: Path) -> None:
    table = pa.table({"x": range(80), "y": range(80)})
    ds = lance.write_dataset(table, tmp_path / "d", max_rows_per_file=10)
    ds.create_scalar_index("x", "BTREE")
    ours = lk.dataset(tmp_path / "d")
    for text, found in (("x IN (3, 77)", [3, 77]), ("x % 8 = 0 AND x < 99", None)):
        (job,) = ours.scanner(filter=text)._scan._jobs()
        assert len(job.of.sources) == (2 if found else 8)
        assert ours.to_table(filter=text)["y"].to_pylist() == (found or list(range(0, 80, 8)))


def test_of_fragments_that_are_read_together_the_damaged_file_is_named(tmp_path: Path) -> None:
    table = pa.table({"x": range(80), "y": range(80)})
    ds = lance.write_dataset(table, tmp_path / "d", max_rows_per_file=10)
    ds.create_scalar_index("x", "BTREE")
    ours = lk.dataset(tmp_path / "d")
    name = ours._snapshot.manifest.fragments[3].files[0].path
    file = tmp_path / "d" / "data" / name
    file.write_bytes(file.read_bytes()[:-10])
    for text in ("x IN (3, 35)", "x IN (3, 35) AND y > 2"):
        with pytest.raises(CorruptFileError, match=name.removesuffix(".lance")):
            ours.to_table(filter=text)


@pytest.mark.parametrize("page_rows", [100, 600, 4096])
def test_single_values_are_found_in_many_pages(page_rows: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(page_rows)
    count = 40 * page_rows + 17
    numbers = rng.integers(-count, count, count)
    known = pa.array(numbers, mask=rng.random(count) < 0.05)
    table = pa.table({"i": known, "s": known.cast(pa.string()), "f": known.cast(pa.float64())})
    ds = lk.write_dataset(table, tmp_path / "d")
    for column in table.column_names:
        ds.create_scalar_index(column, LkConfig("btree", {"zone_size": page_rows}))
    some = rng.choice(numbers, 60).tolist() + rng.integers(-count, count, 60).tolist()
    for column, values in (("i", some), ("s", [f"'{n}'" for n in some]), ("f", some)):
        wanted = f"{column} IN ({', '.join(map(str, values))})"
        for text in (wanted, f"{wanted} OR {column} IS NULL"):
            found = ds.to_table(filter=text, fast_search=True)  # whether it pays or not
            assert found.equals(ds.to_table(filter=text, use_scalar_index=False)), text


def test_an_index_of_a_part_of_a_struct_is_asked_by_the_path(tmp_path: Path) -> None:
    structs = [None if n % 5 == 0 else {"a": None if n % 7 == 0 else n % 3} for n in range(50)]
    ds = lance.write_dataset(pa.table({"s": structs, "key": range(50)}), tmp_path / "d")
    ds.create_scalar_index("s.a", "BTREE")
    ours = lk.dataset(tmp_path / "d")
    for text in ("s.a = 1", "s.a IS NULL", "NOT (s.a = 1)", "s.a >= 2 OR s.a < 1"):
        assert _covered(ours, text) == [0], text
        assert ours.to_table(filter=text).equals(ours.to_table(filter=text, use_scalar_index=False))


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_nans_are_found_with_and_without_a_sign(kind: str, tmp_path: Path) -> None:
    """With a zone map the reference passes over a NaN that has a sign."""
    values = pa.array([1.0, 2.0, -math.nan, 3.0, math.nan, None, -0.0], pa.float64())
    ds = lance.write_dataset(pa.table({"f": values, "key": range(7)}), tmp_path / "d")
    ds.create_scalar_index("f", IndexConfig(kind.lower(), {}))
    ours = lk.dataset(tmp_path / "d")
    found = {"f > 2.5": [2, 3, 4], "f < 0.5": [6], "f = 0.0": [6], "NOT (f <= 5)": [2, 4]}
    for text, keys in found.items():
        assert ours.to_table(["key"], text)["key"].to_pylist() == keys, text
        assert _covered(ours, text) == [0]
        plain = ours.to_table(["key"], text, use_scalar_index=False)
        assert plain["key"].to_pylist() == keys


def test_an_index_that_comes_first_does_not_hide_a_better_one(tmp_path: Path) -> None:
    """The reference asks the first alone, and looks at all rows if it has no answer."""
    ds = lance.write_dataset(pa.table({"c": [1, 2, None, 4]}), tmp_path / "d")
    ds.create_scalar_index("c", "BLOOMFILTER", name="first")
    ds.create_scalar_index("c", "BTREE", name="second")
    ours = lk.dataset(tmp_path / "d")
    for text, rows in (("c < 3", [1, 2]), ("c <> 2", [1, 4])):
        assert _covered(ours, text) == [0]
        assert ours.to_table(filter=text)["c"].to_pylist() == rows

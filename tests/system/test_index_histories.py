"""Random histories of tables with scalar indices, by both libraries, and filters that ask them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import LancekitError

KINDS = {
    "i": ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"],
    "u": ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"],
    "f": ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"],
    "s": ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "NGRAM"],
    "b": ["BTREE", "BITMAP"],
    "d": ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"],
    "l": ["LABEL_LIST"],
    "t.x": ["BTREE", "BITMAP"],
}
FLOATS = [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), -float("inf"), None]
TEXTS = [None, "", "a", "ab", "abc", "Zed", "zzé", "o'x", "hello world"]
LISTS = [None, [], ["x"], ["x", "y"], ["y", None], ["z", "z"], [None]]
UPKEEP = ["compact", "defer", "optimize", "optimize", "drop"]
#: histories of a whole run, some 10,000 filters; a short one has the first of each share
HISTORIES, SHARES = 280, 4
STRUCT = pa.struct([("x", pa.int64())])
LITERALS: dict[str, Callable[[random.Random], str]] = {
    "i": lambda rng: str(rng.randint(-6, 41)),
    "u": lambda rng: str(rng.choice([0, 1, 2, 2**63, 50])),
    "f": lambda rng: rng.choice(["0.0", "-0.0", "1.5", "-2.25", "1e300", "cast('nan' as double)"]),
    "s": lambda rng: rng.choice(["''", "'a'", "'ab'", "'zzé'", "'o''x'", "'c'", "'hello world'"]),
    "d": lambda rng: f"date '2019-04-{rng.randint(14, 30)}'",
    "t.x": lambda rng: str(rng.randint(0, 9)),
}
ALONE = {
    "b": ["b", "NOT b", "b IS TRUE", "b IS NULL", "b = true", "b IS NOT NULL"],
    "l": ["array_has(l, 'x')", "array_has_any(l, ['x', 'z'])", "array_has_all(l, ['x', 'y'])"],
    "s": [
        "s LIKE 'ab%'",
        "s LIKE '%ell%'",
        "s LIKE 'a_c'",
        "s LIKE 'abc'",
        "s NOT LIKE 'a%'",
        "starts_with(s, 'a')",
        "ends_with(s, 'orld')",
        "contains(s, 'llo')",
    ],
}


def rows(rng: random.Random, count: int, first: int) -> pa.Table:
    def drawn(draw: Callable[[], Any], kind: pa.DataType) -> pa.Array:
        return pa.array([draw() for _ in range(count)], kind)

    return pa.table(
        {
            "k": pa.array(range(first, first + count), pa.int64()),
            "i": drawn(lambda: rng.choice([None, *range(-5, 41)]), pa.int32()),
            "u": drawn(
                lambda: rng.choice([0, 1, 2**63, 2**64 - 1, rng.randint(0, 99)]), pa.uint64()
            ),
            "f": drawn(lambda: rng.choice([*FLOATS, rng.uniform(-5, 5)]), pa.float64()),
            "s": drawn(
                lambda: rng.choice([*TEXTS, rng.choice("abcdef") * rng.randint(1, 4)]), pa.string()
            ),
            "b": drawn(lambda: rng.choice([True, False, None]), pa.bool_()),
            "d": drawn(lambda: rng.choice([None, rng.randint(18000, 18030)]), pa.date32()),
            "l": drawn(lambda: rng.choice(LISTS), pa.list_(pa.string())),
            "t": drawn(
                lambda: {"x": rng.choice([None, *range(10)])}, pa.struct([("x", pa.int64())])
            ),
        }
    )


def condition(rng: random.Random, depth: int = 0) -> str:
    if depth > 2 or rng.random() < 0.45:
        return leaf(rng)
    if rng.random() < 0.2:
        return f"NOT ({condition(rng, depth + 1)})"
    both = rng.choice(["AND", "OR"])
    return f"({condition(rng, depth + 1)}) {both} ({condition(rng, depth + 1)})"


def leaf(rng: random.Random) -> str:
    column = rng.choice(list(KINDS))
    literal = LITERALS.get(column)
    if literal is None or (column in ALONE and rng.random() < 0.4):
        return rng.choice(ALONE[column])
    form = rng.randrange(4)
    if form == 0:
        return f"{column} IS {rng.choice(['', 'NOT '])}NULL"
    if form == 1:
        some = ", ".join(literal(rng) for _ in range(rng.randint(1, 6)))
        return f"{column} {rng.choice(['', 'NOT '])}IN ({some})"
    if form == 2:
        return f"{column} BETWEEN {literal(rng)} AND {literal(rng)}"
    return f"{column} {rng.choice(['=', '<', '<=', '>', '>=', '!='])} {literal(rng)}"


def step(rng: random.Random, uri: str, first: int) -> str:
    """Do something with one of the libraries; return what."""
    module: Any = rng.choice([lk, lance])
    what = rng.choice(["index"] * 4 + ["append", "delete", "update", "merge"] * 2 + UPKEEP)
    try:
        change(rng, module, uri, what, first)
    except OSError as error:
        if module is lk:
            raise
        return f"pylance: {what} failed, {error}"  # as it does of fields in structs at times
    return f"{module.__name__}: {what}"


def change(rng: random.Random, module: Any, uri: str, what: str, first: int) -> None:
    ds = module.dataset(uri)
    if what == "index":
        column = rng.choice(list(KINDS))
        kind = rng.choice(KINDS[column])
        ds.create_scalar_index(column, kind, name=f"{column.replace('.', '_')}_{kind}")
    elif what == "append":
        table = rows(rng, rng.choice([1, 30, 200]), first)
        module.write_dataset(table, uri, mode="append", max_rows_per_file=rng.choice([20, 1000]))
    elif what == "delete":
        ds.delete(f"k % {rng.randint(2, 9)} = 1")
    elif what == "update":
        changed = rng.choice([{"i": "i + 1"}, {"s": "'new'"}, {"f": "f * 2"}])
        ds.update(changed, where=f"k % {rng.randint(2, 7)} = 0")
    elif what == "merge":
        merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows(rng, 20, rng.randint(0, first)))
    elif what == "compact":
        ds.optimize.compact_files()
    elif what == "defer" and not ds.has_stable_row_ids:
        ds.optimize.compact_files(defer_index_remap=True)
    elif what == "optimize":
        ds.optimize.optimize_indices(num_indices_to_merge=rng.choice([0, 1, 2]))
    elif what == "drop" and (indices := lk.dataset(uri).describe_indices()):
        ds.drop_index(rng.choice(indices).name)


def found(ds: Any, asked: str, **scan: Any) -> list[int] | str:
    try:
        return list(ds.to_table(["k"], filter=asked, **scan)["k"].to_pylist())
    except LancekitError as error:
        return type(error).__name__


def is_answered_alike(asked: str) -> bool:
    """Whether pylance answers as SQL has it: of two lists without a value in common it does not."""
    return " IS TRUE" not in asked and asked.count(" IN (") < 2


@pytest.mark.torture
@pytest.mark.parametrize("share", range(SHARES))
def test_filters_find_what_scans_find(tmp_path: Path, share: int, whole: bool) -> None:
    for seed in range(share, HISTORIES if whole else SHARES, SHARES):
        compare(str(tmp_path / str(seed)), random.Random(seed))


def compare(uri: str, rng: random.Random) -> None:
    """Go through a history, and ask six filters after each of its steps."""
    done = list[str]()
    with lk.options(oldest_reader="14.0.2"), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        count = rng.choice([5, 60, 400])
        lk.write_dataset(
            rows(rng, count, 0),
            uri,
            max_rows_per_file=rng.choice([20, 150, 1000]),
            enable_stable_row_ids=rng.random() < 0.5,
            data_storage_version=rng.choice(["2.0", "2.1", "2.2"]),
        )
        for number in range(rng.randint(4, 9)):
            done.append(step(rng, uri, 1000 * (number + 1)))
            ours, theirs = lk.dataset(uri), lance.dataset(uri)
            for _ in range(6):
                asked = condition(rng)
                rows_there = found(ours, asked, use_scalar_index=False)
                assert found(ours, asked) == rows_there, (asked, done)
                if isinstance(rows_there, list):
                    assert ours.count_rows(asked) == len(rows_there), (asked, done)
                    if is_answered_alike(asked):
                        known = theirs.to_table(columns=["k"], filter=asked, use_scalar_index=False)
                        assert known["k"].to_pylist() == rows_there, (asked, done)

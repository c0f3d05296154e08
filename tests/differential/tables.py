"""The tables that calls run on, one for each kind of scene."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancekit as lk
from tests.differential.filters import few_columns
from tests.differential.scene import Scene
from tests.scan.filter_random import WORDS, random_rows
from tests.scan.filter_rows import ROWS
from tests.statements.test_generated import rows as statement_rows

__all__ = ["SCENES", "VECTOR"]

VECTOR = 4
_TEXTS = ("apple", "berries", "cherry", "dates", "elder", "figs", "grape")
_KEYED = ("n", "i", "f", "s", "w", "b", "r", "fsl")
_X = (0.0, -0.0, float("nan"), float("inf"), 1.5, -2.25)
_ZONED = pa.timestamp("us", "Europe/Berlin")


def _nulls(draw: Random, count: int, kind: pa.DataType, make: Callable[[], Any]) -> pa.Array:
    return pa.array([None if draw.random() < 0.12 else make() for _ in range(count)], kind)


def _beside(draw: Random, count: int) -> dict[str, pa.Array]:
    """Columns of the types that conditions are rarely drawn for."""
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    float_ = lambda: round(draw.uniform(-1, 1), 3)  # noqa: E731
    return {
        "x": _nulls(draw, count, pa.float64(), lambda: draw.choice(_X)),
        "bin": _nulls(draw, count, pa.binary(), lambda: draw.choice([b"", b"a", b"\xab", b"\0z"])),
        "lb": _nulls(draw, count, pa.large_binary(), lambda: draw.randbytes(draw.randint(0, 40))),
        "fb": _nulls(draw, count, pa.binary(2), lambda: draw.randbytes(2)),
        "dic": _nulls(draw, count, pa.string(), lambda: draw.choice("abc")).dictionary_encode(),
        "zt": _nulls(draw, count, _ZONED, lambda: moment + dt.timedelta(hours=draw.randint(0, 99))),
        "tm": _nulls(draw, count, pa.time64("us"), lambda: dt.time(draw.randrange(24), 5)),
        "du": _nulls(draw, count, pa.duration("us"), lambda: dt.timedelta(draw.randint(-2, 2))),
        "fsl": _nulls(
            draw, count, pa.list_(pa.float32(), VECTOR), lambda: [float_() for _ in range(VECTOR)]
        ),
        "e": _nulls(
            draw,
            count,
            pa.list_(pa.struct({"a": pa.int32(), "b": pa.string()})),
            lambda: [{"a": draw.randint(0, 3), "b": None}] * draw.randint(0, 2),
        ),
        "w": _nulls(
            draw, count, pa.string(), lambda: " ".join(draw.choices(_TEXTS, k=draw.randint(0, 6)))
        ),
        "nul": pa.nulls(count),
    }


def _everything(draw: Random, count: int, first: int) -> pa.Table:
    table = random_rows(draw, count).set_column(0, "n", pa.array(range(first, first + count)))
    for name, column in _beside(draw, count).items():
        table = table.append_column(name, column)
    return table


def _large(draw: Random, count: int, first: int) -> pa.Table:
    of = np.random.default_rng(draw.randrange(1 << 30))
    count *= 400
    number = of.integers(-4, 5, count)
    return pa.table(
        {
            "n": np.arange(first, first + count),
            "i": pa.array(number, mask=of.random(count) < 0.1),
            "f": pa.array(of.choice(np.array(_X), count), mask=of.random(count) < 0.1),
            "s": pa.array(of.choice(np.array(WORDS, dtype=object), count), mask=number == 3),
            "w": pa.array(of.choice(np.array(_TEXTS, dtype=object), count)),
            "b": pa.array(of.random(count) < 0.5),
            "fsl": pa.FixedSizeListArray.from_arrays(
                pa.array(of.standard_normal(count * VECTOR).astype("f4")), VECTOR
            ),
        }
    )


def _keyed(draw: Random, count: int, first: int) -> pa.Table:
    table = _everything(draw, count, first).select(_KEYED)
    return table.cast(table.schema.set(0, pa.field("n", pa.int64(), nullable=False)))


def _options(draw: Random, count: int) -> dict[str, Any]:
    return {
        "max_rows_per_file": max(1, count // draw.choice([1, 2, 3, 4])),
        "data_storage_version": draw.choice(["2.0", "2.1", "2.1", "2.2", "2.2"]),
        "enable_stable_row_ids": draw.random() < 0.4,
        "enable_v2_manifest_paths": draw.random() < 0.9,
    }


#: types that a format cannot hold
_LEFT_OUT = {"2.0": ("nul", "r", "e")}


def _made(scene: Scene, table: pa.Table, **options: Any) -> None:
    scene.dataset = lk.write_dataset(table, scene.uri, **options)


def _mixed(folder: Path, draw: Random) -> Scene:
    count = draw.choice([30, 80, 80, 200])
    options = _options(draw, count)
    left_out = _LEFT_OUT.get(options["data_storage_version"], ())

    def rows(of: Random, count: int, first: int) -> pa.Table:
        return _everything(of, count, first).drop_columns(list(left_out))

    table = rows(draw, count, 0)
    scene = Scene(folder, rows, tuple(table.column_names))
    _made(scene, table, **options)
    scene.dataset.tags.create("t0", 1)
    scene.dataset.create_branch("b1")
    return scene


def _old(folder: Path, draw: Random) -> Scene:
    """Make a table of 0.1 files, which pylance writes."""
    names = ("n", "i", "k", "h", "u", "f", "g", "s", "t", "b", "d", "m", "l", "r", "x", "w", "bin")

    def rows(of: Random, count: int, first: int) -> pa.Table:
        return _everything(of, count, first).select(names)

    scene = Scene(folder, rows, names)
    options: dict[str, Any] = {"data_storage_version": "legacy", "max_rows_per_group": 16}
    for first in (0, 40):
        lance.write_dataset(rows(draw, 40, first), scene.uri, mode="append", **options)
    scene.dataset = lk.dataset(scene.uri)
    scene.dataset.tags.create("t0", 1)
    return scene


def _corpus(folder: Path, draw: Random) -> Scene:
    scene = Scene(folder, lambda *_: ROWS, tuple(ROWS.column_names))
    _made(scene, ROWS, max_rows_per_file=draw.choice([3, 8]), data_storage_version="2.2")
    return scene


def _searched(folder: Path, draw: Random) -> Scene:
    scene = Scene(folder, _keyed, _KEYED, few_columns)
    stable = draw.random() < 0.5
    _made(scene, _keyed(draw, 300, 0), max_rows_per_file=120, enable_stable_row_ids=stable)
    kind = draw.choice(["IVF_FLAT", "IVF_PQ", "IVF_SQ"])
    more = {"num_sub_vectors": 2} if kind == "IVF_PQ" else {}
    scene.dataset.create_index("fsl", kind, metric="L2", num_partitions=2, **more)
    scene.dataset.create_scalar_index("w", "INVERTED", with_position=draw.random() < 0.5)
    return scene


def _sharded(folder: Path, draw: Random) -> Scene:
    scene = Scene(folder, _keyed, _KEYED, few_columns)
    _made(scene, _keyed(draw, 60, 0), max_rows_per_file=30, primary_key="n")
    scene.dataset.initialize_mem_wal(unsharded=True)
    return scene


def _of_statements(folder: Path, draw: Random) -> Scene:
    seed = draw.randrange(1000)
    scene = Scene(
        folder,
        lambda of, count, first: statement_rows(of.randrange(1000), count, first),
        ("id", "k", "x", "s", "d", "t"),
        frames={"s": statement_rows(seed + 1000, 25, start=20)},
    )
    _made(scene, statement_rows(seed, 40), max_rows_per_file=15)
    scene.dataset.create_branch("other").delete("id % 3 = 0")
    return scene


def _wide(folder: Path, draw: Random) -> Scene:
    table = _large(draw, 250, 0)
    scene = Scene(folder, _large, tuple(table.column_names), few_columns, least_batch=1000)
    _made(scene, table, max_rows_per_file=40_000, data_storage_version="2.1")
    scene.dataset.tags.create("t0", 1)
    scene.dataset.create_branch("b1")
    return scene


#: what makes the table of a kind of scene
SCENES: Mapping[str, Callable[[Path, Random], Scene]] = {
    "mixed": _mixed,
    "old": _old,
    "corpus": _corpus,
    "searched": _searched,
    "sharded": _sharded,
    "statements": _of_statements,
    "large": _wide,
}

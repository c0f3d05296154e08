"""Values that are looked up in a B-tree of many pages, however they grow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit._index.search import btree
from lancekit._index.search.index_query import ColumnCondition, IntervalSet, ranks_of
from lancekit._scan.index_lookup import lookup_of
from lancekit.indices import IndexConfig

ROWS, PAGE = 20_000, 256

Values = npt.NDArray[np.generic]
GROWING: dict[str, Callable[[np.random.Generator], Values | list[str]]] = {
    "evenly": lambda draw: draw.permutation(ROWS),
    "anywhere": lambda draw: draw.integers(-(1 << 62), 1 << 62, ROWS),
    "faster and faster": lambda draw: np.exp(40 * draw.random(ROWS)).astype(np.int64),
    "beyond signed": lambda draw: draw.integers(0, (1 << 64) - 1, ROWS, np.uint64),
    "in steps": lambda draw: draw.integers(0, 300, ROWS),
    "floats": lambda draw: draw.standard_normal(ROWS) * 10.0 ** draw.integers(-99, 99, ROWS),
    "texts": lambda draw: [f"key {key}" for key in draw.integers(0, 1 << 40, ROWS)],
}


@pytest.mark.cover
@pytest.mark.parametrize("nulls", [0.0, 0.01], ids=["", "nulls"])
@pytest.mark.parametrize("name", GROWING)
def test_single_values_of_many_pages(
    name: str, nulls: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng([*name.encode(), int(100 * nulls)])
    values = pa.array(GROWING[name](draw), mask=draw.random(ROWS) < nulls)
    ds = lk.write_dataset({"x": values}, f"memory://{name.replace(chr(32), chr(45))}-{nulls}")
    ds.create_scalar_index("x", IndexConfig("btree", {"zone_size": PAGE}))
    known = values.drop_null().unique()
    wanted = known.take(pa.array(draw.choice(len(known), min(60, len(known)), replace=False)))
    ranks = ranks_of(wanted)
    assert ranks is not None
    read: list[int] = []

    def matches(found: pa.Array) -> npt.NDArray[np.bool_]:
        read.append(len(found))
        return np.asarray(pc.is_in(found, wanted))

    condition = ColumnCondition(
        column="x", type=values.type, matches=matches, interval_set=IntervalSet.points(ranks)
    )
    choice = lookup_of(ds._snapshot, ["x"], lambda: condition)
    assert choice is not None
    found = btree.search(choice.segments["x"][0], condition, always=True)
    assert found is not None
    expected = np.flatnonzero(np.asarray(pc.is_in(values, wanted))).tolist()
    assert [*found.get(0, [])] == expected
    if name == "evenly":  # close to where each was guessed to be
        assert sum(read) <= 60 * 3 * 32 + PAGE

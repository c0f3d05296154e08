"""The rows that the page of performance is measured with: eight columns, a vector among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.tables import text

__all__ = ["DIMENSION", "MILLION", "nested", "rows"]

MILLION = 1_000_000
DIMENSION = 32


def rows(ids: Any, seed: int = 0) -> pa.Table:
    """Return the rows of some ids; another seed gives the same ids other values."""
    ids = np.asarray(ids, np.int64)
    count = len(ids)
    rng = np.random.default_rng([seed, count])
    items = pa.array(rng.standard_normal(count * DIMENSION, np.float32))
    names = pa.array([f"name-{number}" for number in range(5000)])
    return pa.table(
        {
            "id": ids,
            "amount": rng.random(count),
            "weight": rng.standard_normal(count),
            "code": rng.integers(0, 1000, count, np.int32),
            "name": names.take(pa.array(rng.integers(0, len(names), count))),
            "note": text(8)(rng, count),
            "at": pa.array(1_700_000_000_000_000 + ids * 1_000_000, pa.timestamp("us")),
            "vector": pa.FixedSizeListArray.from_arrays(items, DIMENSION),
        }
    )


def nested(ids: Any, seed: int = 0) -> pa.Table:
    """Return rows of an id, a struct and a list of texts."""
    ids = np.asarray(ids, np.int64)
    count = len(ids)
    rng = np.random.default_rng([seed, count])
    tags = pa.array([f"tag-{number}" for number in range(1000)])
    borders = np.concatenate(([0], np.cumsum(rng.integers(0, 5, count)))).astype(np.int32)
    drawn = tags.take(pa.array(rng.integers(0, len(tags), int(borders[-1]))))
    place = pa.StructArray.from_arrays(
        [pa.array(rng.random(count)), tags.take(pa.array(rng.integers(0, len(tags), count)))],
        ["latitude", "town"],
    )
    return pa.table(
        {
            "id": ids,
            "place": place,
            "tags": pa.ListArray.from_arrays(borders, drawn),
        }
    )

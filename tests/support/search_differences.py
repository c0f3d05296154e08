"""Where a search finds something else than in pylance, on purpose."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.difference import REFUSED, Difference, tried

__all__ = ["OF_SEARCHES"]


def _found(library: ModuleType, uri: str, kind: pa.DataType, rows: Any, q: Any) -> pa.Table:
    library.write_dataset(pa.table({"v": pa.array(rows, pa.list_(kind, 2))}), uri)
    return library.dataset(uri).to_table(nearest={"column": "v", "q": q, "k": 1})


def _doubles(library: ModuleType, uri: str) -> Any:
    found = _found(library, uri, pa.float64(), [[0.1, 0.7]], np.array([0.1, 0.7]))
    return found["_distance"].to_pylist() == [0.0]


def _not_bytes(library: ModuleType, uri: str) -> Any:
    found = tried(lambda: _found(library, uri, pa.uint8(), [[0, 0]], [300, 0]))
    return REFUSED if found == REFUSED else found["_distance"].to_pylist()


def _with_an_index(library: ModuleType, uri: str) -> Any:
    import lance

    # Both partitions have rows next to the query, wherever the partitions' middles are found.
    at = np.r_[np.linspace(-101, -1, 200), np.linspace(1, 101, 200)].astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(np.repeat(at, 2), 2)
    theirs = lance.write_dataset(pa.table({"n": range(400), "v": column}), uri)
    middles = np.array([[-51, -51], [51, 51]], np.float32)
    theirs.create_index("v", "IVF_FLAT", num_partitions=2, ivf_centroids=middles)
    nearest = {"column": "v", "q": [0.0, 0.0], "k": 20, "nprobes": 1}
    exact = theirs.to_table(nearest={**nearest, "use_index": False})["n"]
    return bool(library.dataset(uri).to_table(nearest=nearest)["n"] == exact)


OF_SEARCHES = (
    Difference(
        "`nearest` in a column that has an index of vectors",
        "exact: all vectors are looked at, by the index's metric if none is asked for",
        "the partitions that `nprobes` says are looked at",
        "lancekit does not search indices",
        _with_an_index,
        True,
        False,
    ),
    Difference(
        "`nearest`: a query of doubles, as a list or of NumPy, for a column of float64",
        "is compared as it is",
        "is rounded to float32 before",
        "a vector is at distance 0 of itself",
        _doubles,
        True,
        False,
    ),
    Difference(
        "`nearest`: a query with values that are none of uint8, for a column of uint8",
        "an error that names the value",
        "0 takes their place",
        "no value is replaced in silence",
        _not_bytes,
        REFUSED,
        [0.0],
    ),
)

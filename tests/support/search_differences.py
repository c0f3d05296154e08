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


def _codes(library: ModuleType, uri: str) -> Any:
    import lance

    rows = np.random.default_rng(0).standard_normal((400, 4)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(rows.ravel(), 4)
    theirs = lance.write_dataset(pa.table({"n": range(400), "v": column}), uri)
    theirs.create_index("v", "IVF_SQ", num_partitions=1)
    found = library.dataset(uri).to_table(nearest={"column": "v", "q": rows[0] + 1, "k": 5})
    exact = ((found["v"].combine_chunks().values.to_numpy().reshape(-1, 4) - rows[0] - 1) ** 2).sum(
        1
    )
    return bool(np.allclose(found["_distance"].to_numpy(), exact, rtol=1e-5))


OF_SEARCHES = (
    Difference(
        "`nearest`: distances by an index that has codes for its vectors, without `refine_factor`",
        "those of the vectors, by which the rows that are found are put in order",
        "those of the codes",
        "a distance is one, whether there is an index or not; of cosines theirs are twice as far",
        _codes,
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

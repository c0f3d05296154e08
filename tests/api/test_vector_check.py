"""Whether vectors find themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError
from lancekit.util import validate_vector_index


def _rows(values: np.ndarray) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return pa.table({"v": vectors})


def test_vectors_that_find_themselves(tmp_path) -> None:
    values = np.random.default_rng(1).random((60, 4)).astype("f4")
    values[3, 2] = np.nan
    ds = lk.write_dataset(_rows(values), tmp_path / "d")
    validate_vector_index(ds, "v")
    ds.create_index("v", "IVF_FLAT", num_partitions=4)
    validate_vector_index(ds, "v", sample_size=20)


def test_vectors_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ds = lk.write_dataset(_rows(np.eye(4, dtype="f4")), "memory://not-found")
    far = pa.table({"_distance": pa.array([1.0])})
    read = lk.LanceDataset.to_table
    monkeypatch.setattr(
        lk.LanceDataset,
        "to_table",
        lambda self, *given, **more: far if "nearest" in more else read(self, *given, **more),
    )
    with pytest.raises(InvalidArgumentError, match="Vector index failed sanity check: only 0 of 4"):
        validate_vector_index(ds, "v", pass_threshold=0.5)
    validate_vector_index(ds, "v", pass_threshold=0)

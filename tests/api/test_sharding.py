"""`evaluate_sharding_spec`, as pylance has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.mem_wal
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import ColumnNotFoundError, InvalidArgumentError, InvalidTypeError
from tests.support.shards import rows

FIELD = ("bucket", [0], "bucket", None, "int32", {"num_buckets": "4"})


def test_answers_are_those_of_the_reference(tmp_path: Path) -> None:
    reference = lance.write_dataset(rows(*range(50)), str(tmp_path))
    reference.initialize_mem_wal(bucket_column="id", num_buckets=4)
    ds, batch = lk.dataset(tmp_path), rows(*range(50)).to_batches()[0]
    (told,) = reference.mem_wal_index_details()["sharding_specs"]
    expected = lance.mem_wal.evaluate_sharding_spec(batch, told, reference.lance_schema)
    specs: list[Any] = [told, lk.ShardingSpec(1, [lk.ShardingField(*FIELD)])]  # type: ignore[list-item]
    specs.append({"spec_id": 1, "fields": [lk.ShardingField(*FIELD)]})  # type: ignore[arg-type]
    for spec in specs:
        found = lk.evaluate_sharding_spec(batch, spec, ds.lance_schema)
        assert found.equals(expected)
        assert found.schema.equals(expected.schema)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (3, InvalidTypeError),
        ({"spec_id": 1}, InvalidArgumentError),
        ({"fields": []}, InvalidArgumentError),
        ({"spec_id": 1, "fields": []}, InvalidArgumentError),
        ({"spec_id": 1, "fields": 3}, InvalidTypeError),
        ({"spec_id": 1, "fields": [3]}, InvalidTypeError),
        ({"spec_id": 1, "fields": [{}]}, InvalidArgumentError),
        ({"spec_id": "x", "fields": [FIELD]}, InvalidTypeError),
    ],
)
def test_what_is_no_spec(spec: Any, kind: type[Exception]) -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://no-spec", mode="overwrite")
    with pytest.raises(kind):
        lk.evaluate_sharding_spec(ds.to_table().to_batches()[0], spec, ds.lance_schema)


def test_rows_without_the_column() -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://no-column")
    spec = lk.ShardingSpec(1, (lk.ShardingField("f", (0,), "identity"),))
    with pytest.raises(ColumnNotFoundError, match="id"):
        lk.evaluate_sharding_spec(pa.record_batch({"x": [1]}), spec, ds.lance_schema)
    with pytest.raises(TypeError):
        lk.evaluate_sharding_spec(ds.to_table(), spec, ds.lance_schema)  # type: ignore[arg-type]

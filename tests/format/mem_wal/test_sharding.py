"""Buckets, values of sharding fields, and ids of shards: compared with the reference."""

from __future__ import annotations

from typing import Any

import lance
import lance.mem_wal
import numpy as np
import pyarrow as pa
import pytest

from lancekit._format.mem_wal.details import ShardingField, ShardingSpec
from lancekit._format.mem_wal.sharding import bucket_numbers, shard_id, shard_values
from lancekit._format.schema import LanceSchema
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError

ROWS = 300
REFUSED = {"f16", "binary", "fixed", "date64", "duration", "decimal", "list"}


def columns() -> dict[str, pa.Array]:
    """Return random values of many types, with nulls, edges and special numbers."""
    rng = np.random.default_rng(17)
    nulls = rng.random(ROWS) < 0.1
    words = rng.integers(-(2**63), 2**63, ROWS, np.int64, endpoint=False)
    words[:4] = [0, -1, 2**63 - 1, -(2**63)]
    floats = rng.normal(size=ROWS)
    floats[:6] = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf]
    letters = np.array(list("aé√😀z\0"))
    texts = ["".join(rng.choice(letters, n)) for n in rng.integers(0, 40, ROWS)]
    whole = {
        f"{sign}int{bits}": pa.array(words.astype(f"{sign}int{bits}"), mask=nulls)
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    }
    small, day = words.astype(np.int32), 86_400_000
    times = pa.array(np.abs(words) % (day * 1000), mask=nulls)
    return {
        **whole,
        "bool": pa.array(words % 2 == 0, mask=nulls),
        "float": pa.array(floats.astype(np.float32), mask=nulls),
        "double": pa.array(floats, mask=nulls),
        "text": pa.array(texts, mask=nulls),
        "large text": pa.array(texts, pa.large_string(), mask=nulls),
        "date32": pa.array(small, mask=nulls).view(pa.date32()),
        "time32": pa.array(np.abs(small) % day, mask=nulls).view(pa.time32("ms")),
        "time64": times.view(pa.time64("us")),
        "timestamp": pa.array(words, mask=nulls).view(pa.timestamp("us")),
        "zoned": pa.array(words, mask=nulls).view(pa.timestamp("ns", "UTC")),
        "f16": pa.array(floats.astype(np.float16)),
        "binary": pa.array([text.encode() for text in texts]),
        "fixed": pa.array([b"ab"] * ROWS, pa.binary(2)),
        "date64": pa.array(np.zeros(ROWS, np.int64)).view(pa.date64()),
        "duration": pa.array(words).view(pa.duration("us")),
        "decimal": pa.array([1] * ROWS).cast(pa.decimal128(20, 0)),
        "list": pa.array([[1]] * ROWS),
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.RecordBatch, Any]:
    batch = pa.record_batch(columns())
    path = str(tmp_path_factory.mktemp("t") / "d")
    return batch, lance.write_dataset(pa.Table.from_batches([batch]), path).lance_schema


def field_of(
    table: tuple[pa.RecordBatch, Any], name: str, transform: str, parameters: dict[str, str]
) -> tuple[Any, ...]:
    schema = LanceSchema.from_arrow(table[0].schema)
    source = [] if transform == "unsharded" else [schema.field(name).id]
    return ("f", source, transform, None, "", parameters)


def reference(
    table: tuple[pa.RecordBatch, Any], name: str, transform: str, **parameters: str
) -> pa.RecordBatch:
    field = lance.mem_wal.ShardingField(*field_of(table, name, transform, parameters))
    spec = lance.mem_wal.ShardingSpec(1, [field])
    return lance.mem_wal.evaluate_sharding_spec(table[0], spec, table[1])


def both(
    table: tuple[pa.RecordBatch, Any], name: str, transform: str, **parameters: str
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    spec = ShardingSpec(1, (ShardingField(*field_of(table, name, transform, parameters)),))
    mine = shard_values(table[0], spec, LanceSchema.from_arrow(table[0].schema))
    return mine, reference(table, name, transform, **parameters)


@pytest.mark.parametrize("name", [name for name in columns() if name not in REFUSED])
def test_buckets_are_those_of_the_reference(table: tuple[pa.RecordBatch, Any], name: str) -> None:
    for buckets in ("1", "7", "1024"):
        mine, expected = both(table, name, "bucket", num_buckets=buckets)
        assert mine.equals(expected), name
    column = table[0].column(name)
    sliced = bucket_numbers(column.slice(5, 90), 1024)
    assert sliced.tolist() == mine.column(0).to_pylist()[5:95]
    assert (
        bucket_numbers(pa.chunked_array([column[:5], column[5:]]), 1024)[95:].tolist()
        == (mine.column(0).to_pylist()[95:])
    )


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_has_no_bucket(table: tuple[pa.RecordBatch, Any], name: str) -> None:
    with pytest.raises(ValueError, match="Unsupported bucket"):
        reference(table, name, "bucket", num_buckets="8")
    with pytest.raises(UnsupportedTypeError, match="cannot be assigned to buckets"):
        bucket_numbers(table[0].column(name), 8)


@pytest.mark.parametrize("name", ["int8", "text", "zoned", "list", "duration"])
def test_identity_and_unsharded(table: tuple[pa.RecordBatch, Any], name: str) -> None:
    for transform in ("identity", "unsharded"):
        mine, expected = both(table, name, transform)
        assert mine.equals(expected)
        assert mine.schema.equals(expected.schema)


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (ShardingField("f", (0,), "year"), "year"),
        (ShardingField("f", (0,)), "transform None"),
        (ShardingField("f", (99,), "identity"), r"\[99\]"),
        (ShardingField("f", (), "bucket", None, "", {"num_buckets": "8"}), r"\[\]"),
        (ShardingField("f", (0,), "bucket", None, "", {"num_buckets": "0"}), "num_buckets"),
        (ShardingField("f", (0,), "bucket", None, "", {"num_buckets": "x"}), "num_buckets"),
        (ShardingField("f", (0,), "bucket"), "num_buckets"),
        (ShardingField("f", (1,), "identity"), "b"),
    ],
)
def test_specs_that_cannot_be_followed(field: ShardingField, says: str) -> None:
    schema = LanceSchema.from_arrow(pa.schema({"a": pa.int8(), "b": pa.int8()}))
    batch = pa.record_batch({"a": pa.array([1], pa.int8())})
    with pytest.raises(ValueError, match=says):
        shard_values(batch, ShardingSpec(1, (field,)), schema)
    with pytest.raises(InvalidArgumentError, match="no fields"):
        shard_values(batch, ShardingSpec(1), schema)


def test_shards_are_told_by_values() -> None:
    spec = ShardingSpec(1, (ShardingField("bucket"),))
    ids = {shard_id(spec, {"bucket": value}) for value in (0, 1, "1", None, b"1")}
    ids |= {shard_id(ShardingSpec(2, spec.fields), {"bucket": 0})}
    assert len(ids) == 6

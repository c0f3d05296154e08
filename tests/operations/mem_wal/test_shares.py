"""Which rows belong to which shard."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from lancekit._format.mem_wal.details import MemWalDetails, ShardingField, ShardingSpec
from lancekit._format.mem_wal.shard_manifest import ShardFieldValue, ShardManifest
from lancekit._format.mem_wal.sharding import bucket_numbers, shard_id
from lancekit._format.schema import LanceSchema
from lancekit._operations.mem_wal.shares import share_of, shares, spec_of
from lancekit.errors import InvalidArgumentError

ROWS = pa.table({"id": pa.array(range(40), pa.int64()), "who": [f"w{n % 3}" for n in range(40)]})
TABLE = LanceSchema.from_arrow(ROWS.schema)


def spec(transform: str, source: int | None = 0, **parameters: str) -> ShardingSpec:
    sources = () if source is None else (source,)
    return ShardingSpec(1, (ShardingField("bucket", sources, transform, None, "", parameters),))


BUCKETS = spec("bucket", num_buckets="4")


def test_rows_go_to_the_shards_of_their_buckets_in_order() -> None:
    found = list(shares(ROWS, BUCKETS, TABLE))
    numbers = bucket_numbers(ROWS["id"], 4)
    assert len(found) == 4
    for shard, share, part in found:
        (value,) = share.values
        number = int.from_bytes(value.value, "little")
        assert shard == shard_id(BUCKETS, {"bucket": number})
        assert part == ROWS.filter(pa.array(numbers == number))
        assert share == share_of(shard, BUCKETS, None)
        share.check(part.to_batches()[0], TABLE, shard)
        with pytest.raises(InvalidArgumentError, match="do not belong to shard"):
            share.check(ROWS.to_batches()[0], TABLE, shard)


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        (["a", "b", "a"], [b"a", b"b"]),
        (pa.array([1, -2, 1], pa.int16()), [b"\1\0", b"\xfe\xff"]),
        ([True, False], [b"\1", b"\0"]),
        ([b"x", b"\0"], [b"x", b"\0"]),
    ],
)
def test_values_are_stored_as_the_format_says(values: Any, stored: list[bytes]) -> None:
    table = pa.table({"v": values})
    schema, by = LanceSchema.from_arrow(table.schema), spec("identity")
    found = list(shares(table, by, schema))
    assert [share.values[0].value for _, share, _ in found] == stored
    for shard, share, part in found:
        manifest = ShardManifest(
            shard=shard, version=1, writer_epoch=1, spec_id=1, field_values=share.values
        )
        again = share_of(shard, by, manifest)
        assert again is not None
        again.check(part.combine_chunks().to_batches()[0], schema, shard)
        assert share_of(shard, by, None) is None


def test_one_shard_for_all() -> None:
    by = spec("unsharded", None)
    ((shard, share, part),) = shares(ROWS, by, TABLE)
    assert part == ROWS
    assert share_of(shard, by, None) == share


def test_a_shard_that_nobody_gives_rows_to_is_not_checked() -> None:
    assert share_of(UUID(int=5), BUCKETS, None) is None
    assert share_of(UUID(int=5), None, None) is None


def test_keys_without_the_column_are_not_checked() -> None:
    by = spec("identity", 1)
    share = next(share for _, share, _ in shares(ROWS, by, TABLE))
    share.check(ROWS.select(["id"]).to_batches()[0], TABLE, UUID(int=5))


def test_the_newest_spec_counts() -> None:
    assert spec_of(MemWalDetails()) is None
    newer = ShardingSpec(2, BUCKETS.fields)
    assert spec_of(MemWalDetails(specs=(newer, BUCKETS))) == newer
    value = (ShardFieldValue("bucket", b"\1\0\0\0"),)
    older = ShardManifest(
        shard=UUID(int=5), version=1, writer_epoch=1, spec_id=1, field_values=value
    )
    assert share_of(UUID(int=5), newer, older) is None

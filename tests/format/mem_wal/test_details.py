"""What a table says of its shards."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

import lancekit as lk
from lancekit._format.index import IndexDetails
from lancekit._format.mem_wal.details import (
    MemWalDetails,
    details_of,
    encode_details,
    merged_generations,
    parse_details,
    with_generations,
)
from lancekit._format.mem_wal.names import mem_wal_entry
from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from tests.support.shards import with_shards

ONE, TWO = UUID(int=1), UUID(int=2)
TYPE = "/lance.table.MemWalIndexDetails"


@pytest.mark.parametrize(
    "initial",
    [
        {},
        {"maintained_indexes": []},
        {"bucket_column": "id", "num_buckets": 4},
        {"identity_column": "id", "max_memtable_rows": 7},
        {"unsharded": True},
    ],
)
def test_details_of_the_reference(tmp_path: Path, initial: dict[str, object]) -> None:
    ds = with_shards(tmp_path, **initial)
    indices = lk.dataset(tmp_path)._snapshot.indices
    found, entry = details_of(indices), mem_wal_entry(indices)
    assert found is not None
    assert entry is not None
    assert entry.index_details is not None
    said = ds.mem_wal_index_details()
    assert found.num_shards == said["num_shards"]
    assert [*found.maintained] == said["maintained_indexes"]
    assert bool(found.maintain_all) == said["maintain_all_indexes"]
    assert dict(found.defaults) == said["writer_config_defaults"]
    specs = [
        {
            "spec_id": spec.spec_id,
            "fields": [
                {
                    "field_id": field.field_id,
                    "source_ids": [*field.source_ids],
                    "transform": field.transform,
                    "expression": field.expression,
                    "result_type": field.result_type,
                    "parameters": dict(field.parameters),
                }
                for field in spec.fields
            ],
        }
        for spec in found.specs
    ]
    assert specs == said["sharding_specs"]
    if not found.defaults:  # maps have no order
        assert encode_details(found) == entry.index_details
    assert (entry.fragment_ids, entry.fields, entry.index_version) == (None, (), 0)


def test_progress_is_recorded_and_all_else_kept() -> None:
    newer = bytes.fromhex("08076000920302ab00")
    first = with_generations(IndexDetails(TYPE, newer), {ONE: 3})
    assert merged_generations(first) == {ONE: 3}
    second = with_generations(first, {TWO: 1, ONE: 5})
    assert merged_generations(second) == {ONE: 5, TWO: 1}
    assert parse_details(second).unknown == bytes.fromhex("0807920302ab00")
    assert parse_details(second).maintain_all is False
    assert merged_generations(None) == {}
    assert details_of(()) is None


def test_catch_up() -> None:
    caught = bytes.fromhex("52090a0161 1204 0a00 1004")
    details = parse_details(IndexDetails(TYPE, caught))
    (one,) = details.caught_up
    marks = [(mark.shard_id, mark.generation) for mark in one.generations]
    assert (one.index_name, marks) == ("a", [(UUID(int=0), 4)])
    assert encode_details(details).type_url == TYPE
    assert MemWalDetails().merged == {}


def test_details_of_releases_before_2_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError, match="before 2"):
        parse_details(IndexDetails(TYPE, b"\x0a\x02\x08\x01"))
    with pytest.raises(CorruptFileError, match="__lance_mem_wal"):
        parse_details(IndexDetails(TYPE, b"\xff"))

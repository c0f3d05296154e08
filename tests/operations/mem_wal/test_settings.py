"""Settings of writers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pytest

from lancekit._operations.mem_wal.settings import (
    WriterSettings,
    given_settings,
    settings_as_text,
    writer_settings,
)
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from tests.support.shards import rows

GIVEN: list[dict[str, Any]] = [
    {"durable_write": False},
    {"max_memtable_rows": 7, "stats_log_interval_ms": 0},
    {"hnsw_params": {"a.b": {"num_edges": 4}, "c": {}}},
    {"durable_write": False, "max_wal_flush_interval_ms": 0},
]


@pytest.mark.parametrize("given", GIVEN)
def test_they_are_recorded_as_by_the_reference(tmp_path: Path, given: dict[str, Any]) -> None:
    ds = lance.write_dataset(rows(1), str(tmp_path))
    ds.initialize_mem_wal(**given)
    recorded = ds.mem_wal_index_details()["writer_config_defaults"]
    settings = writer_settings({}, given)
    assert settings_as_text(settings) == recorded
    again = writer_settings({**recorded, "of a later release": "x"})
    assert settings_as_text(again).items() >= recorded.items()
    assert again.graphs == settings.graphs


def test_what_is_given_goes_before_what_is_recorded() -> None:
    recorded = {"max_memtable_rows": "7", "durable_write": "false", "hnsw.a.num_edges": "4"}
    said = {"max_memtable_rows": 8, "durable_write": None, "hnsw_params": None}
    given = given_settings({"self": 1, "shard_id": "x", **said})
    assert given == {"max_memtable_rows": 8}
    found = writer_settings(recorded, given)
    assert (found.max_memtable_rows, found.durable_write) == (8, False)
    assert found.graphs == {"a": {"num_edges": 4, "ef_construction": 150, "max_level": 7}}
    assert writer_settings({}) == WriterSettings()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *(({name: 0}, name) for name in ("max_memtable_size", "max_memtable_rows")),
        *(({name: 0}, name) for name in ("max_memtable_batches", "max_unflushed_memtable_bytes")),
        ({"max_wal_flush_interval_ms": 0}, "durable_write"),
        ({"max_wal_buffer_size": -1}, "-1"),
        ({"max_wal_buffer_size": 1 << 70}, "max_wal_buffer_size"),
        ({"hnsw_params": {"i": {"zz": 4}}}, "'zz'"),
    ],
)
def test_values_that_cannot_be(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        writer_settings({}, given)


@pytest.mark.parametrize(
    "given",
    [
        {"durable_write": 3},
        {"max_memtable_rows": 1.5},
        {"max_memtable_rows": True},
        {"hnsw_params": 3},
        {"hnsw_params": {"i": 3}},
        {"hnsw_params": {"i": {"num_edges": "x"}}},
    ],
)
def test_values_of_the_wrong_type(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidTypeError, match=next(iter(given))):
        writer_settings({}, given)

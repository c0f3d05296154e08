"""Rows and keys in the form of a log: casts, refusals, tombstones."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pandas as pd
import pyarrow as pa
import pytest

from lancekit._format.schema import LanceSchema
from lancekit._operations.mem_wal.shares import ShardRows
from lancekit.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NullKeyError,
    SchemaMismatchError,
    UnsupportedTypeError,
)
from tests.support.shards import keyed, rows

TABLE = keyed(
    pa.schema({"b": pa.string(), "v": pa.float32(), "a": pa.int16(), "n": pa.int8()}), "a", "b"
)
SHARD = UUID(int=7)


def form(schema: pa.Schema = TABLE) -> ShardRows:
    return ShardRows(LanceSchema.from_arrow(schema), SHARD)


def test_rows_are_cast_as_everywhere() -> None:
    to_log = form()
    wide = pa.table({"a": [1, 2], "b": ["x", "y"], "v": [0.5, None], "n": [None, 3]})
    given: list[Any] = [wide, wide, wide.to_pandas(), wide.to_pylist(), wide.to_batches()]
    given.append(wide.set_column(1, "b", wide["b"].cast(pa.large_string())))
    for data in given:
        (batch,) = to_log.live(data)
        assert batch.schema.equals(to_log.schema, check_metadata=True)
        assert batch.to_pydict() == {
            "b": ["x", "y"],
            "v": [0.5, None],
            "a": [1, 2],
            "n": [None, 3],
            "_tombstone": [False, False],
        }


def test_a_batch_has_no_more_categories_than_a_file_can_count() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    to_log = form(keyed(pa.schema({"a": pa.int64(), "c": kind, "l": pa.list_(kind)}), "a"))
    names = [str(number) for number in range(200)]
    few = pd.DataFrame({"a": [1, 2], "c": pd.Categorical(["150", "151"], names), "l": [["1"], []]})
    (batch,) = to_log.live(few)
    assert batch.column("c").to_pylist() == ["150", "151"]
    for many in (names, pd.Categorical(names)):
        batches = to_log.live({"a": range(200), "c": many, "l": [[name] for name in names]})
        assert [value for batch in batches for value in batch["c"].to_pylist()] == names
        assert all(len(batch["c"].dictionary) <= 128 for batch in batches)
    with pytest.raises(SchemaMismatchError, match="too many for int8"):
        to_log.live({"a": [1], "c": ["1"], "l": [names]})


def test_nothing_is_put_of_no_rows_and_each_chunk_is_a_batch() -> None:
    to_log = form()
    table = pa.table({"b": ["x"], "v": [1.0], "a": [1], "n": [1]}).cast(TABLE)
    assert to_log.live(table.slice(0, 0)) == []
    assert [b.num_rows for b in to_log.live(pa.concat_tables([table, table]))] == [1, 1]
    assert (
        to_log.tombstones({"a": [], "b": []}, pa.schema([TABLE.field("a"), TABLE.field("b")])) == []
    )


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({"a": [1], "b": ["x"], "v": [1.0]}, SchemaMismatchError, "missing"),
        ({"a": [1], "b": ["x"], "v": [1.0], "n": [1], "z": [1]}, SchemaMismatchError, "z"),
        ({"a": [99999], "b": ["x"], "v": [1.0], "n": [1]}, SchemaMismatchError, "99999"),
        ({"a": [None], "b": ["x"], "v": [1.0], "n": [1]}, NullKeyError, "'a'"),
        (7, InvalidTypeError, "int"),
    ],
)
def test_rows_that_do_not_fit(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        form().live(data)
    with pytest.raises(OSError):  # noqa: PT011  # as pylance
        form().live(data)


def test_keys_are_enough_for_a_delete() -> None:
    to_log = form()
    frame = pd.DataFrame({"z": [1, 2], "b": ["x", "y"], "a": [3, 4]})
    (batch,) = to_log.tombstones(frame)
    assert batch.schema.equals(to_log.schema, check_metadata=True)
    assert batch.to_pydict() == {
        "b": ["x", "y"],
        "v": [None, None],
        "a": [3, 4],
        "n": [None, None],
        "_tombstone": [True, True],
    }


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"a": [1]}, SchemaMismatchError),
        ({"a": [None], "b": ["x"]}, NullKeyError),
        ({"a": ["one"], "b": ["x"]}, SchemaMismatchError),
    ],
)
def test_keys_that_do_not_fit(keys: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        form().tombstones(keys)


def test_columns_that_take_no_nulls_have_them_in_tombstones_alone() -> None:
    nested = rows(5)
    to_log = form(nested.schema)
    (dead,) = to_log.tombstones({"id": [5]})
    assert dead.to_pylist() == [{"id": 5, "s": None, "x": None, "_tombstone": True}]
    (live,) = to_log.live(nested)
    assert live.drop_columns(["_tombstone"]).to_pylist() == nested.to_pylist()
    with pytest.raises(SchemaMismatchError, match="is not nullable"):
        to_log.live([{"id": 5, "s": None, "x": None}])


def test_values_that_no_merge_could_take() -> None:
    schema = keyed(pa.schema({"id": pa.int64(), "s": pa.struct({"a": pa.int8()})}), "id")
    table = LanceSchema.from_arrow(schema)
    given = {"id": [1, 2], "s": [{"a": 1}, None]}
    assert form(schema).live(given)
    with pytest.raises(UnsupportedTypeError, match="null structs"):
        ShardRows(table, SHARD, storage_version="2.0").live(given)
    assert ShardRows(table, SHARD, storage_version="2.0").tombstones({"id": [1]})


def test_what_would_be_damage_in_the_log() -> None:
    schema = pa.schema({"x": pa.string()})
    torn = pa.array([b"\xc3"]).cast(pa.string(), safe=False)
    with pytest.raises(SchemaMismatchError, match=r"UTF-?8"):
        form(schema).live(pa.table({"x": torn}))


def test_without_a_key_nothing_can_be_deleted() -> None:
    to_log = form(pa.schema({"x": pa.int64()}))
    (batch,) = to_log.live({"x": [None]})
    assert batch.to_pydict() == {"x": [None], "_tombstone": [False]}
    with pytest.raises(InvalidArgumentError, match="no"):
        to_log.tombstones({"x": [1]})

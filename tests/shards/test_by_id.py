"""Rows of entries in a table's columns of today: renamed, new, dropped, in structs."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lancekit._format.schema import LanceField, LanceSchema
from lancekit._shards.log import by_id
from lancekit._shards.schema import wal_schema

INNER = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])
TABLE = LanceSchema.from_arrow(
    pa.schema([pa.field("id", pa.int64(), False), pa.field("s", INNER), pa.field("x", pa.int8())])
)
LOG = wal_schema(TABLE)


def entry() -> pa.RecordBatch:
    structs = pa.array([{"a": 1, "b": "p"}, None, {"a": None, "b": "q"}], LOG.field("s").type)
    columns = [pa.array([1, 2, 3]), structs, pa.array([7, 8, 9], pa.int8())]
    return pa.RecordBatch.from_arrays([*columns, pa.array([False, True, False])], schema=LOG)


def renamed(field: LanceField, name: str) -> LanceField:
    return replace(field, name=name)


def test_the_same_columns_stay_as_they_are() -> None:
    said = entry().replace_schema_metadata({"writer_epoch": "3"})
    assert by_id(said, LOG).equals(entry(), check_metadata=True)


def test_case_24_columns_are_found_by_their_ids() -> None:
    id_, struct, x = TABLE.fields
    a, b = struct.children
    more = LanceField(id=9, name="x", logical_type="string")
    inner_new = LanceField(id=10, name="a", logical_type="double", parent_id=struct.id)
    today = replace(
        TABLE,
        fields=(
            renamed(x, "y"),
            id_,
            replace(struct, children=(renamed(b, "c"), inner_new, renamed(a, "b"))),
            more,
        ),
    )
    found = by_id(entry().slice(1), wal_schema(today))
    assert found.schema.equals(wal_schema(today), check_metadata=True)
    assert found.to_pydict() == {
        "y": [8, 9],
        "id": [2, 3],
        "s": [None, {"c": "q", "a": None, "b": None}],
        "x": [None, None],
        "_tombstone": [True, False],
    }


def test_what_is_dropped_is_left_out() -> None:
    id_, _, x = TABLE.fields
    assert by_id(entry(), wal_schema(replace(TABLE, fields=(id_, x)))).to_pydict() == {
        "id": [1, 2, 3],
        "x": [7, 8, 9],
        "_tombstone": [False, True, False],
    }


def test_old_entries_go_by_names_and_have_live_rows_only() -> None:
    plain = pa.record_batch({"x": pa.array([5], pa.int8()), "id": [1]})
    assert by_id(plain, LOG).to_pydict() == {
        "id": [1],
        "s": [None],
        "x": [5],
        "_tombstone": [False],
    }

"""Schemas: Arrow to field lists and back, and against the reference's manifests."""

from __future__ import annotations

import pickle

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._format.logical_types import arrow_type, logical_type
from lancekit._format.pb import schema_pb2 as pb
from lancekit._format.schema import LanceField, LanceSchema, schema_from_pb, schema_to_pb
from lancekit.errors import (
    CorruptFileError,
    InvalidArgumentError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)

PLAIN = [
    pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.string(),
    pa.large_string(), pa.binary(), pa.large_binary(), pa.date32(), pa.date64(), pa.time32("s"),
    pa.time64("ns"), pa.timestamp("us"), pa.timestamp("ns", "+05:30"), pa.timestamp("ms", "UTC"),
    pa.duration("us"), pa.decimal128(10, 2), pa.decimal256(50, -3), pa.binary(7),
    pa.list_(pa.float32(), 128), pa.list_(pa.list_(pa.float32(), 2), 3),
    pa.dictionary(pa.int16(), pa.string()),
]  # fmt: skip

plain = st.sampled_from(PLAIN)
types = st.recursive(
    plain,
    lambda inner: st.one_of(
        inner.map(lambda t: pa.list_(pa.field("item", t))),
        inner.map(lambda t: pa.large_list(pa.field("x", t, pa.types.is_null(t)))),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: pa.struct([(f"f{i}", t) for i, t in enumerate(ts)])
        ),
        inner.map(lambda t: pa.map_(pa.string(), t)),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_logical_type_round_trip(kind: pa.DataType) -> None:
    assert arrow_type(logical_type(kind)) == kind


@given(st.lists(types, min_size=1, max_size=4), st.booleans())
def test_schema_round_trip(kinds: list[pa.DataType], nullable: bool) -> None:
    fields = [
        pa.field(f"c{i}", t, nullable or pa.types.is_null(t), {"k": str(i)})
        for i, t in enumerate(kinds)
    ]
    schema = pa.schema(fields, {"a": "b"})
    lance_schema = LanceSchema.from_arrow(schema)
    encoded = [pb.Field.FromString(f.SerializeToString()) for f in schema_to_pb(lance_schema)]
    decoded = schema_from_pb(encoded, {"a": b"b"})
    assert decoded == lance_schema
    assert decoded.to_arrow().equals(schema, check_metadata=True)
    assert [f.id for f in decoded.walk()] == list(range(len(encoded)))


def test_field_list_equals_the_references(tmp_path) -> None:
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}),
            pa.field("s", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.string()))])),
            pa.field("v", pa.list_(pa.float32(), 8)),
            pa.field("d", pa.dictionary(pa.int8(), pa.string())),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    lance.write_dataset(schema.empty_table(), tmp_path / "d", data_storage_version="2.2")
    from lancekit._versions.branch_location import open_location
    from lancekit._versions.listing import latest_snapshot

    manifest = latest_snapshot(open_location(tmp_path / "d")).manifest
    assert schema_to_pb(manifest.schema) == schema_to_pb(LanceSchema.from_arrow(schema))


def test_primary_key_order_and_nullability() -> None:
    schema = LanceSchema.from_arrow(pa.schema({"a": pa.int64(), "b": pa.string()}))
    keyed = schema.with_primary_key(["b", "a"])
    assert [f.name for f in keyed.primary_key] == ["b", "a"]
    assert not any(f.nullable for f in keyed.fields)
    again = LanceSchema.from_arrow(keyed.to_arrow())
    assert again == keyed


def test_bad_schemas_are_named() -> None:
    interval = pa.struct([("y", pa.month_day_nano_interval())])
    with pytest.raises(UnsupportedTypeError, match=r"'x\.y'.*month_day_nano"):
        LanceSchema.from_arrow(pa.schema({"x": interval}))
    for kind in (
        pa.list_(pa.field("item", pa.uuid()), 2),
        pa.list_(pa.list_(pa.int8()), 2),
        pa.list_(pa.string(), 2),
        pa.list_(pa.list_(pa.struct([("a", pa.int8())]), 2), 2),
        pa.dictionary(pa.int8(), pa.decimal128(3, 1)),
        pa.dictionary(pa.int8(), pa.binary(3)),
        pa.map_(pa.string(), pa.int8(), keys_sorted=True),
    ):
        with pytest.raises(UnsupportedTypeError, match=r"'u'.*cannot be stored"):
            LanceSchema.from_arrow(pa.schema({"u": kind}))
    with pytest.raises(InvalidArgumentError, match="'a' occurs twice"):
        LanceSchema.from_arrow(pa.schema([("a", pa.int8()), ("a", pa.int8())]))
    for name in ("a.b", "", "_rowid", "a`b", "a\0b"):
        with pytest.raises(InvalidArgumentError, match="cannot be used"):
            LanceSchema.from_arrow(pa.schema({name: pa.int8()}))
    with pytest.raises(CorruptFileError, match="names parent 5"):
        schema_from_pb([pb.Field(name="x", id=0, parent_id=5, logical_type="int8")])


@pytest.mark.parametrize(
    "logical", ["fixed_size_binary:-1", "fixed_size_binary:-7", "fixed_size_list:int32:-1"]
)
def test_a_negative_length_is_not_a_variable_one(logical: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=logical):
        arrow_type(logical)
    child = LanceField(id=1, name="item", logical_type="int32", nullable=True, parent_id=0)
    struct = LanceField(
        id=0,
        name="s",
        logical_type="fixed_size_list:struct:-1",
        nullable=True,
        parent_id=-1,
        children=(child,),
    )
    with pytest.raises(CorruptFileError, match="a length of -1"):
        struct.to_arrow()


def test_a_field_is_sent_without_what_is_made_of_it() -> None:
    schema = LanceSchema.from_arrow(pa.schema({"s": pa.struct({"x": pa.int64()})}))
    sent = len(pickle.dumps(schema.fields[0]))
    schema.to_arrow()
    schema_to_pb(schema)
    assert len(pickle.dumps(schema.fields[0])) == sent
    again = pickle.loads(pickle.dumps(schema.fields[0]))
    assert again == schema.fields[0]
    assert again.to_arrow() == schema.fields[0].to_arrow()

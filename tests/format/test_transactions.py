"""Transactions: every message of every operation, whoever wrote it, comes back as it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

import lancekit as lk
from lancekit._format import operations as ops
from lancekit._format.index import IndexDetails, IndexMetadata
from lancekit._format.pb import schema_pb2, table_pb2
from lancekit._format.pb.transaction_pb2 import Transaction as Message
from lancekit._format.schema import LanceSchema, schema_to_pb
from lancekit._format.transaction import encode_transaction, parse_transaction
from lancekit.errors import CorruptFileError, InvalidArgumentError, InvalidTypeError

OLD = Path(__file__).parents[1] / "data" / "lance_0_19"
ARMS = [field.name for field in Message.DESCRIPTOR.oneofs_by_name["operation"].fields]

SCHEMAS = [
    pa.schema([("id", pa.int64()), ("name", pa.string())]),
    pa.schema([pa.field("s", pa.struct([("x", pa.list_(pa.float32()))]), metadata={"k": "v"})]),
]


# ---- any message at all, made from its descriptor

_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_STRING: st.text(max_size=8),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_DOUBLE: st.floats(0.001, 0.5),
}

_BITMAPS = st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=5).map(
    lambda ids: bytes(BitMap(ids).serialize())
)
#: fields whose bytes mean something, and parts that are always there
_SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "UUID.uuid": st.binary(min_size=16, max_size=16),
    "IndexMetadata.fragment_bitmap": _BITMAPS,
    # milliseconds since 1970, up to the year 9999
    "IndexMetadata.created_at": st.integers(0, 253_402_300_799_999),
    "ExactKeySetFilter.key_hashes": st.sets(st.integers(0, 2**64 - 1), max_size=4).map(sorted),
    "BloomFilter.number_of_items": st.integers(1, 2**40),
    "SchemaMetadataEntry.value": st.text(max_size=8).map(str.encode),
}
_ALWAYS = {"UUID", "BloomFilter", "ExactKeySetFilter", "KeyExistenceFilter", "DataFile"}


def _value(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    special = _SPECIAL.get(f"{field.containing_type.name}.{field.name}")
    if special is not None:
        return special
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return messages(field.message_type)
    if field.type == FieldDescriptor.TYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    return _SCALARS[field.type]


def _is_map(field: FieldDescriptor) -> bool:
    return bool(
        field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.GetOptions().map_entry
    )


@st.composite
def messages(draw: Any, descriptor: Any, arm: str | None = None) -> Any:
    """Draw a message: fields present or absent, and one that this release does not know."""
    message = _class(descriptor)()
    chosen = {
        oneof.name: arm
        if oneof.name == "operation" and arm
        else draw(st.sampled_from([f.name for f in oneof.fields]))
        for oneof in descriptor.oneofs
    }
    for field in descriptor.fields:
        oneof = field.containing_oneof
        if oneof is not None and chosen[oneof.name] != field.name:
            continue
        wanted = (
            field.name == arm
            or (field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.name in _ALWAYS)
            or descriptor.name in _ALWAYS
        )
        if wanted or draw(st.booleans()):
            _fill(draw, message, field)
    if draw(st.integers(0, 3)) == 0 and descriptor.name in _KEEPS_UNKNOWN:
        message.MergeFromString(b"\xc8\xbb\x3c\x07")  # field 123,449: a number
    return message


#: one message of a fixed shape, whose newer fields would change what it means, drops them
_KEEPS_UNKNOWN = {
    *(kind.__name__ for kind in ops.OPERATIONS),
    *("Transaction", "IndexMetadata", "IndexFile", "RewriteGroup", "RewrittenIndex"),
    *("CompactedSsTable", "DataReplacementGroup", "UpdateMap", "DataFile", "DataFragment"),
    *("DeletionFile", "FieldMetadataUpdate"),
}


def _class(descriptor: Any) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(descriptor)


def _fill(draw: Any, message: Any, field: FieldDescriptor) -> None:
    if field.message_type is not None and field.message_type.name == "Field":
        schema = LanceSchema.from_arrow(draw(st.sampled_from(SCHEMAS)))
        getattr(message, field.name).extend(schema_to_pb(schema))
    elif _is_map(field):
        key, value = field.message_type.fields
        entries = draw(st.dictionaries(_value(key), _value(value), max_size=3))
        target = getattr(message, field.name)
        for k, v in entries.items():
            if value.type == FieldDescriptor.TYPE_MESSAGE:
                target[k].CopyFrom(v)
            else:
                target[k] = v
    elif field.is_repeated:
        special = f"{field.containing_type.name}.{field.name}" in _SPECIAL
        one = _value(field)
        getattr(message, field.name).extend(draw(one if special else st.lists(one, max_size=2)))
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        getattr(message, field.name).CopyFrom(draw(_value(field)))
    else:
        setattr(message, field.name, draw(_value(field)))


@pytest.mark.parametrize("arm", ARMS)
@given(data=st.data())
def test_any_message_comes_back_as_it_was(arm: str, data: st.DataObject) -> None:
    message = data.draw(messages(Message.DESCRIPTOR, arm))
    if arm == "update_config":
        for update in _maps_of(message.update_config):
            keys = {entry.key: entry for entry in update.update_entries}
            unique = list(keys.values())
            del update.update_entries[:]
            update.update_entries.extend(unique)
    transaction = parse_transaction(message.SerializeToString(), "test")
    assert transaction.operation.arm == arm
    again = encode_transaction(transaction)
    assert Message.FromString(again) == message
    assert parse_transaction(again, "test") == transaction


def _maps_of(config: Any) -> list[Any]:
    single = ("config_updates", "table_metadata_updates", "schema_metadata_updates")
    present = [getattr(config, name) for name in single if config.HasField(name)]
    return [*present, *config.field_metadata_updates.values()]


def test_every_field_of_the_messages_is_carried() -> None:
    from lancekit._format._codecs import _codecs_of

    for kind in ops.OPERATIONS:
        body = Message.DESCRIPTOR.fields_by_name[kind.arm].message_type
        carried = {there for _, there, _ in _codecs_of(kind)}
        # the schema's codec carries its metadata along
        assert {f.name for f in body.fields} - {"schema_metadata"} <= carried, kind


# ---- what newer and older releases wrote


@pytest.mark.parametrize(
    ("number", "name"), [(115, "DataOverlay"), (116, "FragmentReuseTransitions"), (150, "")]
)
def test_an_operation_of_a_newer_release_knows_its_number(number: int, name: str) -> None:
    tag = (number << 3 | 2).to_bytes(2, "little")  # as a varint: two bytes, the first marked
    data = Message(read_version=3, uuid="u").SerializeToString()
    data += bytes([tag[0] & 0x7F | 0x80, number >> 4]) + b"\x02\x08\x07"
    transaction = parse_transaction(data, "test")
    assert transaction.operation == ops.UnknownOperation(number, name)
    assert encode_transaction(transaction) == data


def test_no_operation_at_all() -> None:
    transaction = parse_transaction(Message(read_version=1).SerializeToString(), "test")
    assert transaction.operation == ops.UnknownOperation()


def test_tables_of_0_19_2_read(tmp_path: Path) -> None:
    place = shutil.copytree(OLD / "operations", tmp_path / "t")
    expected = json.loads((OLD / "rows.json").read_text())["operations"]
    ds = lk.dataset(place)
    assert [v.operation for v in ds.versions()] == [
        *("Overwrite", "Append", "Delete", "Update", "Update", "CreateIndex", "Merge"),
        *("Project", "ReserveFragments", "Rewrite", "Project", "Restore", "Overwrite", "Append"),
    ]
    for version, rows in expected.items():
        assert ds.checkout_version(int(version)).to_table().to_pydict() == rows


def test_transactions_of_0_19_2_come_back_byte_for_byte_or_mean_the_same() -> None:
    files = [*OLD.glob("*/_transactions/*.txn")]
    assert len(files) == 16
    for file in files:
        data = file.read_bytes()
        transaction = parse_transaction(data, file.name)
        assert Message.FromString(encode_transaction(transaction)) == Message.FromString(data)


def test_the_removed_blob_operations_are_named() -> None:
    ds = lk.dataset(OLD / "blobs")
    first, second = ds.read_transaction(1), ds.read_transaction(2)
    assert first is not None
    assert second is not None
    assert isinstance(first.operation, ops.Overwrite)
    assert isinstance(first.blobs_op, ops.Overwrite)
    assert isinstance(second.operation, ops.Append)
    assert isinstance(second.blobs_op, ops.Append)
    assert ds.to_table(["id"]).to_pydict() == {"id": [1, 2, 1, 2]}


def test_an_index_without_details_is_kept() -> None:
    created = lk.dataset(OLD / "operations").read_transaction(6)
    assert created is not None
    (index,) = created.operation.new_indices  # type: ignore[union-attr]
    assert (index.name, index.index_details, index.index_version) == ("id_idx", None, None)
    assert index.fragment_ids == BitMap([0, 1, 2, 3])


# ---- the deprecated forms of changes of config


def test_deprecated_changes_of_config_in_the_current_form() -> None:
    old = ops.UpdateConfig(
        upsert_values={"a": "1"},
        delete_keys=["b"],
        schema_metadata={"s": "1"},
        field_metadata={7: ops.FieldMetadataUpdate({"f": "1"})},
    )
    assert old.normalised() == ops.UpdateConfig(
        ops.UpdateMap({"b": None, "a": "1"}),
        None,
        ops.UpdateMap({"s": "1"}, replace=True),
        {7: ops.UpdateMap({"f": "1"}, replace=True)},
    )
    assert old.config_keys == {"a", "b"}
    assert old.touches_metadata
    assert old.normalised().normalised() == old.normalised()


def test_a_map_update_merges_or_replaces() -> None:
    old = {"a": "1", "b": "2"}
    assert ops.UpdateMap({"a": None, "c": "3"}).apply(old) == {"b": "2", "c": "3"}
    assert ops.UpdateMap({"a": None, "c": "3"}, True).apply(old) == {"c": "3"}


# ---- what callers may pass, and damage


def test_lists_schemas_and_positions_are_taken() -> None:
    schema = pa.schema([("x", pa.int64())])
    made = ops.Overwrite(schema, [])
    assert made == ops.Overwrite(LanceSchema.from_arrow(schema), ())
    assert ops.Update([1], [], [], [2], [3], "rewrite_columns").fields_modified == (2,)
    assert ops.Update(update_mode="").update_mode == "rewrite_rows"
    index = IndexMetadata(
        uuid="5adce016-9b14-41d5-93af-1c7eb16f1fd5",  # type: ignore[arg-type]
        name="i",
        fragment_ids={3, 1},  # type: ignore[arg-type]
        index_details=("/lance.table.BTreeIndexDetails", b""),  # type: ignore[arg-type]
    )
    assert index.fragment_ids == BitMap([1, 3])
    assert index.index_details == IndexDetails("/lance.table.BTreeIndexDetails")
    assert index.uuid == UUID("5adce016-9b14-41d5-93af-1c7eb16f1fd5")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ops.Append([1]), "every item of Append.fragments must be a FragmentMetadata"),
        (lambda: ops.Append("a"), "Append.fragments must be a list"),
        (lambda: ops.Restore("1"), "Restore.version must be an integer"),
        (lambda: ops.Project("x"), "Project.schema must be a schema"),
        (lambda: ops.UpdateMap({"a": 1}), "UpdateMap.updates\\['a'\\] must be text"),
        (lambda: ops.UpdateConfig({"a": "1"}), "config_updates must be a UpdateMap"),
    ],
)
def test_what_is_wrong_with_a_part_is_named(make: Any, words: str) -> None:
    with pytest.raises(InvalidTypeError, match=words):
        make()


def test_numbers_out_of_range_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Restore.version must be .* got -1"):
        ops.Restore(-1)
    with pytest.raises(InvalidArgumentError, match="one of rewrite_rows, rewrite_columns"):
        ops.Update(update_mode="rows")


@pytest.mark.parametrize(
    "index",
    [
        table_pb2.IndexMetadata(uuid=table_pb2.UUID(uuid=b"short")),
        table_pb2.IndexMetadata(fragment_bitmap=b"no bitmap"),
    ],
)
def test_damaged_index_metadata(index: table_pb2.IndexMetadata) -> None:
    body = Message.CreateIndex(new_indices=[index])
    data = Message(create_index=body).SerializeToString()
    with pytest.raises(CorruptFileError):
        parse_transaction(data, "test")


def test_a_newer_field_of_a_schema_is_kept() -> None:
    field = schema_pb2.Field(name="x", id=0, parent_id=-1, logical_type="int64", encoding="PLAIN")
    field.MergeFromString(b"\xc8\xbb\x3c\x07")
    message = Message(project=Message.Project(schema=[field]))
    again = encode_transaction(parse_transaction(message.SerializeToString(), "test"))
    assert Message.FromString(again) == message

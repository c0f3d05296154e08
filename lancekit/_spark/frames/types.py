"""Conversion of types and batches between Arrow and Spark.

Spark has fewer types than Arrow.  A batch is transferred in its *wire* form, with the Arrow types
that Spark accepts.  Unsigned integers and half floats are widened, vectors become lists,
dictionaries are decoded, and times count microseconds.  A value that would change is an error.  The
dataset's schema has the original types, to which `from_spark_batch` converts batches back.

Between two of lancekit's own steps on Spark, nanoseconds must survive, too: the *exact* wire form
counts them in plain integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyarrow import types as pt

from lancekit._format.arrow_parts import decimal_size, one_of
from lancekit._format.extensions import stored_values
from lancekit._pipeline.casts.rules import BYTE_TYPES, LIST_TYPES, TEXT_TYPES, LossError, cast_array
from lancekit.errors import SchemaMismatchError, UnsupportedTypeError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_MOST_DIGITS = 38
_LEAVE_OUT = "Leave the column out, or work in this process: options(engine='local')."
#: for rows that are read: statements see them alike on Spark and in this process
READ_IT = "Leave the column out, or read it by to_table() of the dataset."


def _decimal(kind: pa.DataType) -> pa.DataType:
    precision, scale = decimal_size(kind)
    if precision > _MOST_DIGITS or not 0 <= scale <= precision:
        raise TypeError(kind)
    return pa.decimal128(precision, scale)


def _element(kind: pa.DataType) -> pa.Field:
    # Nullable, because Spark checks a child that is not nullable even below a null struct.
    return pa.field("element", _wire_type(kind))


#: the first row that matches a type gives its wire type
_WIRE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], pa.DataType]], ...] = (
    (pt.is_uint8, lambda _: pa.int16()),
    (pt.is_uint16, lambda _: pa.int32()),
    (pt.is_uint32, lambda _: pa.int64()),
    (pt.is_uint64, lambda _: pa.decimal128(20, 0)),
    (pt.is_float16, lambda _: pa.float32()),
    (one_of(pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_null), lambda t: t),
    (one_of(*TEXT_TYPES), lambda _: pa.string()),
    (one_of(*BYTE_TYPES, pt.is_fixed_size_binary), lambda _: pa.binary()),
    (pt.is_date, lambda _: pa.date32()),
    (pt.is_timestamp, lambda t: pa.timestamp("us", None if t.tz is None else "UTC")),
    (pt.is_time, lambda _: pa.time64("ns")),
    (pt.is_duration, lambda _: pa.duration("us")),
    (pt.is_decimal, _decimal),
    (pt.is_dictionary, lambda t: _wire_type(t.value_type)),
    (one_of(*LIST_TYPES), lambda t: pa.list_(_element(t.value_type))),
    (pt.is_struct, lambda t: pa.struct([pa.field(f.name, _wire_type(f.type)) for f in t])),
    (pt.is_map, lambda t: pa.map_(_wire_type(t.key_type), _wire_type(t.item_type))),
    (lambda t: isinstance(t, pa.BaseExtensionType), lambda t: _wire_type(t.storage_type)),
)


def _wire_type(kind: pa.DataType) -> pa.DataType:
    for test, make in _WIRE:
        if test(kind):
            return make(kind)
    raise TypeError(kind)


def _counts_nanoseconds(kind: pa.DataType) -> bool:
    return (
        pt.is_timestamp(kind) or pt.is_time64(kind) or pt.is_duration(kind)
    ) and kind.unit == "ns"


#: nested types, and how to rebuild them with other children
_PARTS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Any], pa.DataType]], ...] = (
    (pt.is_struct, lambda t, change: pa.struct([change(f) for f in t])),
    (pt.is_list, lambda t, change: pa.list_(change(t.value_field))),
    (pt.is_large_list, lambda t, change: pa.large_list(change(t.value_field))),
    (pt.is_fixed_size_list, lambda t, change: pa.list_(change(t.value_field), t.list_size)),
    (pt.is_map, lambda t, change: pa.map_(change(t.key_field), change(t.item_field))),
)


def with_leaves(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with its leaf types changed, at any depth.

    Examples
    --------
    >>> with_leaves(pa.list_(pa.int8()), lambda leaf: pa.int64())
    ListType(list<item: int64>)
    """
    for test, make in _PARTS:
        if test(kind):
            return make(kind, lambda field: field.with_type(with_leaves(field.type, change)))
    return change(kind)


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return a type with storage types for extension types, at any depth."""

    def plain(leaf: pa.DataType) -> pa.DataType:
        return _stored(leaf.storage_type) if isinstance(leaf, pa.BaseExtensionType) else leaf

    return with_leaves(kind, plain)


def _counted(kind: pa.DataType) -> pa.DataType:
    """Return a type with nanoseconds replaced by plain integers, at any depth."""
    return with_leaves(kind, lambda leaf: pa.int64() if _counts_nanoseconds(leaf) else leaf)


def wire_schema(schema: pa.Schema, *, exact: bool = False) -> pa.Schema:
    """Return the Arrow schema in which batches are transferred to Spark.

    schema: the schema of the batches.
    exact: for lancekit's own steps, whose rows users do not see: nanoseconds as plain integers.

    Raises UnsupportedTypeError: Spark has no type for a column.

    Examples
    --------
    >>> wire_schema(pa.schema({"v": pa.list_(pa.float16(), 2), "n": pa.uint32()})).types
    [ListType(list<element: float>), DataType(int64)]
    """
    return pa.schema([_wire_field(field, exact) for field in schema])


def _wire_field(field: pa.Field, exact: bool) -> pa.Field:
    try:
        kind = _wire_type(_counted(field.type) if exact else field.type)
    except TypeError as error:
        part = error.args[0]
        of = "" if part == field.type else f" (in {field.type})"
        raise UnsupportedTypeError(
            f"Column {field.name!r} has type {part}{of}, which Spark does not support.",
            hint=_LEAVE_OUT if exact else READ_IT,
            column=field.name,
            type=str(field.type),
        ) from error
    return pa.field(field.name, kind, field.nullable)


# ---- batches


def to_spark_batch(
    batch: pa.RecordBatch, wire: pa.Schema, hint: str = _LEAVE_OUT
) -> pa.RecordBatch:
    """Convert a batch to its wire form, column by column, by position.

    batch: rows of the schema that was passed to `wire_schema`.
    wire: the result of `wire_schema`.
    hint: the advice for a value that Spark would change.

    Raises UnsupportedTypeError: Spark would change a value, such as a time between two
        microseconds; ``context`` has its column and value.

    Examples
    --------
    >>> batch = pa.record_batch({"v": pa.array([[1, 2]], pa.list_(pa.float32(), 2))})
    >>> to_spark_batch(batch, wire_schema(batch.schema)).schema.field("v").type
    ListType(list<element: float>)
    """
    if not len(wire):
        return batch  # it keeps its number of rows
    columns = [_to_wire(batch.column(at), field, hint) for at, field in enumerate(wire)]
    return pa.RecordBatch.from_arrays(columns, schema=wire)


def _to_wire(values: pa.Array, field: pa.Field, hint: str) -> pa.Array:
    values = stored_values(values, _stored(values.type))
    counted = _counted(values.type)
    if counted != values.type and field.type == _wire_type(counted):
        values = values.cast(counted)
    try:
        if pt.is_time(values.type):
            # Spark accepts nanoseconds, but truncates them to microseconds.
            values = cast_array(values, pa.time64("us"))
        return cast_array(values, field.type)
    except LossError as loss:
        _refuse(field, values.type, loss, hint)


def _refuse(field: pa.Field, kind: pa.DataType, loss: LossError, hint: str) -> NoReturn:
    finest = " between two microseconds" if "[ns" in str(kind) else ""
    raise UnsupportedTypeError(
        f"Column {field.name!r} of type {kind} has {loss.value!r}{finest}, which Spark would "
        "change.",
        hint=hint,
        column=field.name,
        value=loss.value,
        type=str(kind),
    ) from loss


def from_spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch in wire form back to its original types, by position."""
    columns = [_from_wire(batch.column(at), field.type) for at, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def typed_parts(
    batch: pa.RecordBatch, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield the first columns of a batch in their original types, with the rows of the batch.

    The batch is split if its categories are too many for one dictionary.
    """
    try:
        found = from_spark_batch(batch, schema)
    except LossError as loss:
        if not loss.crowded or batch.num_rows < 2:
            raise
        half = batch.num_rows // 2
        yield from typed_parts(batch.slice(0, half), schema)
        yield from typed_parts(batch.slice(half), schema)
    else:
        yield found, batch


def _from_wire(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _from_wire(values, kind.storage_type))
    counted = _counted(kind)
    if counted != kind and values.type.equals(_wire_type(counted)):
        return cast_array(values, counted).cast(kind)
    return cast_array(values, kind)


# ---- schemas

#: wire types without parameters, and the names of the Spark types
_PLAIN = {
    pa.bool_(): "BooleanType",
    pa.int8(): "ByteType",
    pa.int16(): "ShortType",
    pa.int32(): "IntegerType",
    pa.int64(): "LongType",
    pa.float32(): "FloatType",
    pa.float64(): "DoubleType",
    pa.string(): "StringType",
    pa.binary(): "BinaryType",
    pa.date32(): "DateType",
    pa.timestamp("us", "UTC"): "TimestampType",
    pa.timestamp("us"): "TimestampNTZType",
    pa.time64("ns"): "TimeType",
    pa.duration("us"): "DayTimeIntervalType",
    pa.null(): "NullType",
}
_ARROW = {name: kind for kind, name in _PLAIN.items()} | {
    "CharType": pa.string(),
    "VarcharType": pa.string(),
}


def spark_schema(wire: pa.Schema) -> StructType:
    """Return Spark's schema for batches in wire form."""
    return _spark_struct(wire)


def _spark_struct(fields: Iterable[pa.Field]) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(f.name, _spark_type(f.type), f.nullable) for f in fields])


def _spark_type(kind: pa.DataType) -> DataType:
    from pyspark.sql import types

    if pt.is_decimal(kind):
        return types.DecimalType(kind.precision, kind.scale)
    if pt.is_list(kind):
        return types.ArrayType(_spark_type(kind.value_type))
    if pt.is_struct(kind):
        return _spark_struct(kind)
    if pt.is_map(kind):
        return types.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type))
    return getattr(types, _PLAIN[kind])()


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which workers receive the rows of a Spark DataFrame.

    Every column is nullable: Spark marks a literal column as not nullable, which says nothing about
    rows that are written later.

    Raises UnsupportedTypeError: Arrow has no equivalent of a column's type, such as a variant.
    Raises SchemaMismatchError: there are no columns, so the rows hold nothing.
    """
    if not schema.fields:
        raise SchemaMismatchError(
            "The Spark DataFrame has no columns, so there is nothing to write.",
            hint="Select the columns to write.",
        )
    return pa.schema([(field.name, _arrow_type(field.dataType, field.name)) for field in schema])


def _arrow_type(kind: DataType, column: str) -> pa.DataType:
    name = type(kind).__name__
    if name == "DecimalType":
        return pa.decimal128(kind.precision, kind.scale)
    if name == "ArrayType":
        return pa.list_(pa.field("element", _arrow_type(kind.elementType, column)))
    if name == "StructType":
        return pa.struct([(f.name, _arrow_type(f.dataType, column)) for f in kind])
    if name == "MapType":
        return pa.map_(_arrow_type(kind.keyType, column), _arrow_type(kind.valueType, column))
    if name in _ARROW:
        return _ARROW[name]
    if hasattr(kind, "sqlType"):  # a user-defined type is stored as its SQL type
        return _arrow_type(kind.sqlType(), column)
    raise UnsupportedTypeError(
        f"Column {column!r} has the Spark type {kind.simpleString()}, which datasets lack.",
        hint=f"Cast {column!r} to a plain type, or drop it.",
        column=column,
        type=kind.simpleString(),
    )


def restore(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Convert batches in a worker to their original names and types."""
    for batch in batches:
        yield from (rows for rows, _ in typed_parts(batch, schema))

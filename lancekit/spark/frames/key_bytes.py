"""Key columns on Spark: compared as they are in this process.

Spark takes 0.0 and -0.0 for one key, Arrow for two.  So floats are compared by their bits, with
one NaN.  All other types are compared in their exact wire form.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.spark.frames.types import from_spark_batch, to_spark_batch, wire_schema

__all__ = ["key_wire", "pack_keys", "unpack_keys"]

#: the float that is compared, and the integer of its width; Arrow computes little with half floats
_BITS = {
    pa.float16(): (pa.float32(), pa.int32()),
    pa.float32(): (pa.float32(), pa.int32()),
    pa.float64(): (pa.float64(), pa.int64()),
}


def _bits_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(f.name, _BITS.get(f.type, (f.type, f.type))[1]) for f in schema])


def key_wire(schema: pa.Schema) -> pa.Schema:
    """Return the form in which key columns of a schema are compared on Spark."""
    return wire_schema(_bits_schema(schema), exact=True)


def pack_keys(columns: Sequence[pa.Array], wire: pa.Schema) -> list[pa.Array]:
    """Bring key columns to the form that `key_wire` gave."""
    batch = pa.RecordBatch.from_arrays([_to_bits(column) for column in columns], names=wire.names)
    sent: list[pa.Array] = to_spark_batch(batch, wire).columns
    return sent


def unpack_keys(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Bring key columns back to the types of a schema."""
    bits = _bits_schema(schema)
    batch = from_spark_batch(ak.combine_chunks(table).to_batches()[0], bits)
    columns = [
        _from_bits(column, field.type) for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.table(columns, names=schema.names)


def _to_bits(values: pa.Array) -> pa.Array:
    if values.type not in _BITS:
        return values
    kind, bits = _BITS[values.type]
    values = values.cast(kind)
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), kind), values).view(bits)


def _from_bits(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.view(_BITS[kind][0]).cast(kind) if kind in _BITS else values

"""Values of a column as the type that the column has on the other side of a comparison."""

from __future__ import annotations

import pyarrow as pa

from lancekit.casts.rules import rule_of
from lancekit.format.arrow_parts import child_of
from lancekit.scan.expressions.kernels.casts import cast, try_cast
from lancekit.scan.expressions.kernels.operators import as_array

__all__ = ["can_be_retyped", "retyped"]


def can_be_retyped(old: pa.DataType, new: pa.DataType) -> bool:
    """Return True if `retyped` knows a way from one type to the other."""
    try:
        retyped(pa.nulls(1, old), new)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def retyped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array. A number that the type cannot hold becomes null.

    Structs with the same fields are cast field by field. Arrow's own cast refuses null structs if
    a field takes no nulls.
    """
    if values.type == kind:
        return values
    if not (pa.types.is_struct(kind) and pa.types.is_struct(values.type)):
        return _cast(values, kind)
    fields = list(kind)
    own = [field.name for field in values.type]
    if own != [field.name for field in fields]:
        return _cast(values, kind)
    children = [retyped(child_of(values, at), field.type) for at, field in enumerate(fields)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    rule = rule_of(values.type, kind)
    if rule is None:
        return values.cast(kind)
    if rule.digits == "read":
        return cast(values, kind)  # text that is no such value is an error, not a null
    return as_array(try_cast(values, kind), len(values))

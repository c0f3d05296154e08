"""What an expression is made of, where its type alone does not say how to treat its values."""

from __future__ import annotations

from decimal import Decimal

from pyarrow import types as pt

from lancekit.scan.expressions.nodes import Call, FieldRef, Literal, walk
from lancekit.scan.expressions.predicate import ComputedColumn
from lancekit.scan.expressions.unbound import Unbound

__all__ = ["computes_fractions_of_integers", "is_cast_null"]


def is_cast_null(expression: ComputedColumn) -> bool:
    """Return whether an expression is ``CAST(NULL AS ...)``, as the reference looks for.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit.scan.expressions.predicate import compile_expression
    >>> texts = ["CAST(NULL AS int)", "NULL", "CAST(1 AS int)"]
    >>> [is_cast_null(compile_expression(text, pa.schema([]))) for text in texts]
    [True, False, False]
    """
    match expression.expr:
        case Call(function="CAST" | "TRY_CAST", args=(Literal(value=value),)):
            return not value.is_valid
    return False


def computes_fractions_of_integers(expression: ComputedColumn) -> bool:
    """Tell whether an expression is an integer column, computed with a fraction.

    The reference refuses these and no others: inside of a function, say, or one level down.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit.scan.expressions.predicate import compile_expression
    >>> columns = pa.schema({"n": pa.int32()})
    >>> texts = ["n * 1.5", "n * 2", "CAST(n AS double) * 1.5"]
    >>> [computes_fractions_of_integers(compile_expression(text, columns)) for text in texts]
    [True, False, False]
    """
    tree = Unbound(expression.sql).tree
    if tree.kind not in ("+", "-", "*", "/", "%"):
        return False
    pieces = list(tree.walk())
    if any(piece.kind in ("CAST", "TRY_CAST", "call") for piece in pieces):
        return False
    columns = [side.kind in ("column", "field") for side in tree.parts]
    if columns.count(True) != 1 or not any(isinstance(piece.value, Decimal) for piece in pieces):
        return False
    read = [part for part in walk(expression.expr) if isinstance(part, FieldRef)]
    return all(pt.is_integer(column.type) for column in read)

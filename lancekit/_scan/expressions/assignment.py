"""New values of a column: SQL over the old row, cast to the column's type."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import with_leaves
from lancekit._scan.expressions.kernels.casts import cast
from lancekit._scan.expressions.literals import exact_decimal
from lancekit._scan.expressions.nodes import Call, FieldRef, Literal, walk
from lancekit._scan.expressions.predicate import ComputedColumn, Unbound, compile_expression
from lancekit.errors import PredicateError, SchemaMismatchError


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A column and the expression of its new values. Can be pickled."""

    field: pa.Field
    expression: ComputedColumn

    def evaluate(self, rows: pa.Table) -> pa.Array:
        """Compute the new value of each row from its old values.

        Dictionaries may have wider keys than the column, for any number of values.

        Raises PredicateError: a value cannot be computed, or does not fit the column's type.
        Raises SchemaMismatchError: a value is null, and the column is not nullable.
        """
        if pt.is_decimal(self.field.type) and (number := self.expression.number) is not None:
            return pa.repeat(_digits(number, self.field, self.expression.sql), rows.num_rows)
        values = _cast(self.expression.evaluate(rows), self.field, self.expression.sql)
        if ak.null_count(values) and not self.field.nullable:
            raise SchemaMismatchError(
                f"{self.expression.sql!r} gives null in {ak.null_count(values)} of {len(values)} "
                f"rows, but column {self.field.name!r} is not nullable.",
                hint="Give these rows another value, for example with coalesce(), or make the "
                f"column nullable: alter_columns({{'path': {self.field.name!r}, "
                "'nullable': True}).",
                column=self.field.name,
            )
        return values


def compile_assignment(field: pa.Field, sql: str, schema: pa.Schema) -> Assignment:
    """Bind the expression of a column's new values to a schema.

    Raises PredicateError: the text does not parse or does not fit the schema, or its type cannot be
        cast to the column's.

    Examples
    --------
    >>> schema = pa.schema({"x": pa.int8(), "y": pa.string()})
    >>> text = compile_assignment(schema.field("y"), "x + 1", schema)
    >>> text.evaluate(pa.table({"x": [1, 2], "y": ["a", "b"]}, schema=schema)).to_pylist()
    ['2', '3']
    """
    try:
        assignment = Assignment(field=field, expression=compile_expression(sql, schema))
    except PredicateError as error:
        if sql.isidentifier() and not error.hint:  # no column has this name
            error.hint = f"For the text itself, add quotes: {{{field.name!r}: \"'{sql}'\"}}."
        raise
    if pt.is_integer(field.type) and _computes_fractions_of_integers(assignment.expression):
        raise PredicateError(
            f"{sql!r} gives fractions, which column {field.name!r} of type {field.type} would "
            "truncate.",
            hint=f"Add a CAST: CAST({sql} AS bigint), or CAST(round({sql}) AS bigint).",
            sql=sql,
            column=field.name,
        )
    # an empty array checks the types, and one row checks a constant
    constant = not assignment.expression.columns
    _cast(pa.nulls(0, assignment.expression.type), field, sql)
    if constant:
        assignment.evaluate(pa.table({"_": pa.nulls(1)}))
    return assignment


def _digits(number: int | Decimal, field: pa.Field, sql: str) -> pa.Scalar:
    """Return a number in the text as a decimal with exactly the written digits."""
    try:
        return exact_decimal(number, field.type)
    except pa.ArrowInvalid as error:
        raise _misfit(sql, "a number", field, error) from error


def _misfit(sql: str, given: str, field: pa.Field, error: Exception) -> PredicateError:
    return PredicateError(
        f"{sql!r} gives {given}, which cannot be converted to column {field.name!r} of type "
        f"{field.type}: {str(error).splitlines()[0]}.",
        hint="Write a CAST, or another value.",
        sql=sql,
        column=field.name,
        type=str(field.type),
    )


def _cast(values: pa.Array, field: pa.Field, sql: str) -> pa.Array:
    try:
        return _to_type(values, field.type)
    except (pa.ArrowException, ValueError) as error:
        raise _misfit(sql, str(values.type), field, error) from error


def _to_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type.equals(kind):
        return values
    return cast(values, with_leaves(pa.nulls(0, kind), _with_wide_keys).type)


def _with_wide_keys(part: pa.Array, kind: pa.DataType) -> pa.Array:
    if not isinstance(kind, pa.DictionaryType):
        return part
    return pa.nulls(0, pa.dictionary(pa.int64(), kind.value_type, kind.ordered))


# ---- checks of an expression's form, where its type does not decide


def is_cast_null(expression: ComputedColumn) -> bool:
    """Return True if an expression is ``CAST(NULL AS ...)``, which the reference checks for.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit._scan.expressions.predicate import compile_expression
    >>> texts = ["CAST(NULL AS int)", "NULL", "CAST(1 AS int)"]
    >>> [is_cast_null(compile_expression(text, pa.schema([]))) for text in texts]
    [True, False, False]
    """
    match expression.expr:
        case Call(function="CAST" | "TRY_CAST", args=(Literal(value=value),)):
            return not value.is_valid
    return False


def _computes_fractions_of_integers(expression: ComputedColumn) -> bool:
    """Return True if an expression is arithmetic of an integer column with a fraction.

    The reference refuses exactly these. It accepts others, such as in a function or one level down.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit._scan.expressions.predicate import compile_expression
    >>> columns = pa.schema({"n": pa.int32()})
    >>> texts = ["n * 1.5", "n * 2", "CAST(n AS double) * 1.5"]
    >>> [_computes_fractions_of_integers(compile_expression(text, columns)) for text in texts]
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

"""New values of a column: SQL over the old row, cast to the column's type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import unit_and_zone, unit_of, with_leaves
from lancekit._legible import warn
from lancekit._scan.expressions.constants import Constant
from lancekit._scan.expressions.kernels.casts import cast, cast_column
from lancekit._scan.expressions.kernels.operators import family, plain
from lancekit._scan.expressions.literals import exact_decimal, exact_moment
from lancekit._scan.expressions.nodes import Call, FieldRef, Literal, walk
from lancekit._scan.expressions.predicate import ComputedColumn, Unbound, compile_expression
from lancekit._scan.expressions.syntax import Syntax
from lancekit.errors import PredicateError, SchemaMismatchError

_ARITHMETIC = ("+", "-", "*", "/", "%")
#: text that was probably meant as the value itself
_WORDS = re.compile(r"[^\W\d][\w .,:;!?-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A column and the expression of its new values. Can be pickled.

    whole: fractions for an integer column are an error (of ``lk.col``), else a warning (of SQL
        text, which is cast as in the reference).
    """

    field: pa.Field
    expression: ComputedColumn
    whole: bool = False

    def evaluate(self, rows: pa.Table, *, warns: bool = True) -> pa.Array:
        """Compute the new value of each row from its old values; warn of lost fractions.

        Dictionaries may have wider keys than the column, for any number of values.

        Raises PredicateError: a value cannot be computed, or does not fit the column's type.
        Raises SchemaMismatchError: a value is null, and the column is not nullable.
        """
        if pt.is_decimal(self.field.type) and (number := self.expression.number) is not None:
            return pa.repeat(_digits(number, self.field, self.expression.sql), rows.num_rows)
        given = self.expression.evaluate(rows)
        values = _cast(given, self.field, self.expression.sql)
        fractions = pt.is_floating(given.type) or pt.is_decimal(given.type)
        if pt.is_integer(self.field.type) and fractions:
            self._check_whole(given, values, warns)
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

    def _check_whole(self, given: pa.Array, values: pa.Array, warns: bool) -> None:
        given = plain(given)
        differ = pc.index(pc.not_equal(cast(values, given.type), given), True).as_py()
        if differ < 0 or isinstance(self.expression.sql, Constant):
            return
        sql, column = self.expression.sql, self.field.name
        lost = f"Column {column!r} of type {self.field.type} cannot hold {given[differ]} of {sql}"
        if self.whole:
            hint = "Add .floor(), .round(), or .cast('bigint'), which cuts off fractions."
            raise PredicateError(f"{lost}.", hint=hint, column=column)
        if warns:
            warn(
                f"{lost}, and keeps {values[differ]}. Write CAST({sql} AS bigint) to cut off "
                f"fractions, round({sql}) to round them."
            )


def compile_value(sql: str, schema: pa.Schema, name: str, call: str = "update") -> ComputedColumn:
    """Bind the values of a column; errors say how to write a text that was probably meant."""
    try:
        return compile_expression(sql, schema)
    except PredicateError as error:
        if _WORDS.fullmatch(sql) is not None:  # no column has this name
            quoted = f"ds.{call}({{{name!r}: \"'{sql}'\"}}), or pass lk.lit({sql!r})."
            error.hint = f"{error.hint} For the text itself, add quotes: {quoted}".lstrip()
        raise


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
    expression = compile_value(sql, schema, field.name)
    assignment = Assignment(field=field, expression=expression, whole=isinstance(sql, Unbound))
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
    if constant:
        _check_kind(field, assignment.expression.type, sql)
    _cast(pa.nulls(0, assignment.expression.type), field, sql)
    if constant:
        row = pa.table({"_": pa.nulls(1)})
        stored = assignment.evaluate(row, warns=False)  # the rows' evaluation warns
        if isinstance(sql, Constant):
            _check_exact(assignment, stored, assignment.expression.evaluate(row))
    return assignment


#: the kind of constant that a column needs, by the family of its type
_KINDS = {
    "number": "a number",
    "text": "a text",
    "bytes": "bytes",
    "boolean": "True or False",
    "moment": "a date or datetime",
    "time": "a time of day",
    "duration": "a duration",
}
#: families whose columns reject sums and differences of numbers, which lack quotes
_QUOTED = ("text", "moment", "time")
#: families of types that must hold a constant without rounding
_EXACT = ("number", "moment", "time", "duration")


def _check_kind(field: pa.Field, given: pa.DataType, sql: str) -> None:
    """Raise an error for a constant of Python of another kind, and for a text without quotes."""
    if isinstance(field.type, pa.BaseExtensionType):
        return
    stored, kind = family(plain(pa.nulls(0, field.type)).type), family(given)
    if not isinstance(sql, Constant):
        if stored in _QUOTED and _is_arithmetic_of_numbers(Unbound(sql).tree):
            raise PredicateError(
                f"{sql} is arithmetic of numbers, but column {field.name!r} of type {field.type} "
                f"needs {_KINDS[stored]}.",
                hint=f"Add quotes: {{{field.name!r}: \"'{sql}'\"}}, or pass lk.lit({sql!r}).",
                sql=sql,
                column=field.name,
                type=str(field.type),
            )
        return
    parsed = kind == "text" and stored in ("moment", "time")
    if kind != stored and not parsed and kind in _KINDS and stored in _KINDS:
        raise _unfit(
            f"{sql} is {_KINDS[kind]}, but column {field.name!r} of type {field.type} needs "
            f"{_KINDS[stored]}.",
            field,
            sql,
        )


def _is_arithmetic_of_numbers(tree: Syntax) -> bool:
    return tree.kind in _ARITHMETIC and all(
        part.kind in (*_ARITHMETIC, "NEGATE")
        or (part.kind == "literal" and type(part.value) in (int, Decimal))
        for part in tree.walk()
    )


def _check_exact(assignment: Assignment, stored: pa.Array, given: pa.Array) -> None:
    """Raise an error if a constant of Python is rounded or cut off in the column's type."""
    field, sql, number = assignment.field, assignment.expression.sql, assignment.expression.number
    if family(field.type) in ("moment", "time") and pt.is_string(given.type):
        given = _parsed(given, field.type)
    compared = given.type
    if pt.is_timestamp(compared) and pt.is_timestamp(field.type):
        zone = unit_and_zone(field.type)[1]
        if unit_and_zone(compared)[1] and not zone:
            raise _unfit(
                f"{sql} has a time zone, which column {field.name!r} of type {field.type} would "
                "drop.",
                field,
                sql,
                "Pass the time without its zone, value.replace(tzinfo=None)",
            )
        compared = pa.timestamp(unit_of(compared), zone)
    if pt.is_decimal(field.type) and number is not None:
        same = stored[0].as_py() == number
    elif family(field.type) not in _EXACT or pt.is_null(compared):
        same = True
    else:
        same = cast(stored, compared).equals(cast(given, compared))
        same |= pt.is_floating(field.type) and not pt.is_integer(compared)
    if not same:
        what = f"{sql} would become {stored[0]} in column {field.name!r} of type {field.type}."
        raise _unfit(what, field, sql)


def _parsed(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse a text with all its digits: as a time of day, or a timestamp in the type's zone."""
    if pt.is_time(kind):
        return cast(text, pa.time64("ns"))
    whole = kind if pt.is_timestamp(kind) else pa.timestamp("us")
    return pa.repeat(exact_moment(text[0].as_py(), whole), 1)


def _unfit(
    message: str, field: pa.Field, sql: str, way: str = "Pass such a value"
) -> PredicateError:
    return PredicateError(
        message,
        hint=f"{way}, or SQL text, which is cast: {{{field.name!r}: {str(sql)!r}}}.",
        column=field.name,
        type=str(field.type),
    )


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
    return cast_column(values, with_leaves(pa.nulls(0, kind), _with_wide_keys).type)


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
    if tree.kind not in _ARITHMETIC:
        return False
    pieces = list(tree.walk())
    if any(piece.kind in ("CAST", "TRY_CAST", "call") for piece in pieces):
        return False
    columns = [side.kind in ("column", "field") for side in tree.parts]
    if columns.count(True) != 1 or not any(isinstance(piece.value, Decimal) for piece in pieces):
        return False
    read = [part for part in walk(expression.expr) if isinstance(part, FieldRef)]
    return all(pt.is_integer(column.type) for column in read)

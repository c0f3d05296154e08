"""Evaluation of bound expressions: each node is a call of an Arrow kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import booleans_of, numbers_of, scalar_of
from lancekit._format.arrow_parts import decimal_size
from lancekit._format.paths import parse_path, pick
from lancekit._scan.expressions.kernels.casts import cast as cast_values
from lancekit._scan.expressions.kernels.casts import try_cast
from lancekit._scan.expressions.kernels.function import Function, Refused, TooLarge
from lancekit._scan.expressions.kernels.moments import members_in_unit
from lancekit._scan.expressions.kernels.operators import (
    COMPARISONS,
    Value,
    add,
    align,
    as_array,
    concat,
    divide,
    family,
    modulo,
    multiply,
    plain,
    shift,
    subtract,
)
from lancekit._scan.expressions.nodes import Apply, ArrowExpr, Call, Expr, FieldRef, InList, Literal
from lancekit._scan.expressions.syntax import TooLargeError, as_class, failure
from lancekit.errors import PredicateError

#: returns a column by its path
Rows: TypeAlias = Callable[[str], pa.Array]

#: exceptions that Arrow, NumPy and Python raise for values that a kernel does not accept
FAILURES = (
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)


def evaluate(expr: Expr, data: pa.RecordBatch | pa.Table) -> pa.Array:
    """Compute one value per row.

    Raises PredicateError: a value cannot be computed: a number out of range, a division by zero, a
        text that is no number.
    """
    batches = data.to_batches() if isinstance(data, pa.Table) else [data]
    parts = [_of_batch(expr, batch) for batch in batches]
    return parts[0] if len(parts) == 1 else _joined(parts or [pa.nulls(0, expr.type)])


def mask(expr: Expr, data: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """Return a mask of the rows that satisfy a condition; null counts as false.

    Raises PredicateError: a value cannot be computed, such as a division by zero.
    """
    return cast("pa.BooleanArray", pc.fill_null(evaluate(expr, data), scalar_of(False)))


def value_of(expr: Expr, rows: Rows) -> Value:
    """Compute an expression over columns that are given by a function of their paths."""
    if not isinstance(expr, Call | InList | Apply):
        return _by_itself(expr, rows)
    values = [*map(partial(value_of, rows=rows), expr.parts)]  # one frame for each level of a tree
    if isinstance(expr, Apply):
        return cast("Value", expr.function(*values))
    text, position = expr.at
    try:
        return kernel_of(expr)(*values)
    except TooLarge as error:
        raise as_class(TooLargeError, failure(text, f"{error}.", position)) from error
    except Refused as error:
        raise failure(text, f"{error}.", position) from error
    except FAILURES as error:
        message = f"{text[:60]!r} cannot be computed: {reason(error)}."
        is_cast = isinstance(expr, Call) and expr.function == "CAST"
        hint = "TRY_CAST returns null for such a value." if is_cast else ""
        raise failure(text, message, position, hint) from error


def _by_itself(expr: Expr, rows: Rows) -> Value:
    """Compute an expression that has no parts."""
    match expr:
        case FieldRef():
            return rows(expr.path)
        case Literal():
            return expr.value
        case ArrowExpr():
            return _by_arrow(expr, rows)
    raise TypeError(f"{type(expr).__name__} is not an expression")


def kernel_of(expr: Call | InList) -> Callable[..., Value]:
    """Return the kernel that computes an expression from the values of its parts."""
    if isinstance(expr, InList):
        return partial(_is_among, sets=expr.sets, has_null=expr.has_null)
    kernel = KERNELS.get(expr.function)
    if kernel is None:
        from lancekit._scan.expressions.kernels.functions import FUNCTIONS

        return partial(FUNCTIONS[expr.function].run, expr.function)
    return partial(kernel, *expr.options) if expr.options else kernel


def reason(error: BaseException) -> str:
    """Return the first line of a kernel's error."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")


# ---- batches


def _of_batch(expr: Expr, batch: pa.RecordBatch) -> pa.Array:
    try:
        value = value_of(expr, partial(_column, batch))
    except TooLargeError as error:
        if batch.num_rows < 2:
            raise as_class(PredicateError, error) from error
        # each half may be small enough
        half = batch.num_rows // 2
        return _joined([_of_batch(expr, batch.slice(0, half)), _of_batch(expr, batch.slice(half))])
    return pa.repeat(value, batch.num_rows) if isinstance(value, pa.Scalar) else value


def _joined(parts: list[pa.Array]) -> pa.Array:
    try:
        return ak.concat_arrays(parts)
    except pa.ArrowInvalid as error:
        raise PredicateError(
            f"the text of {sum(map(len, parts))} rows exceeds 2 GiB, the limit of a column.",
            hint="Use fewer rows, or shorter text.",
        ) from error


def _column(batch: pa.RecordBatch, path: str) -> pa.Array:
    """Return a column by its path, or a field of a column that was read as a whole."""
    if path in batch.schema.names:
        return batch.column(path)
    top, *rest = parse_path(path)
    return pick(batch.column(top), rest)


def _by_arrow(expr: ArrowExpr, rows: Rows) -> pa.Array:
    try:
        return project(expr.expression, pa.table([rows(name) for name in expr.reads], expr.reads))
    except pa.ArrowException as error:
        raise PredicateError(f"{expr.expression} cannot be computed: {reason(error)}.") from error


def project(expression: pc.Expression, table: pa.Table) -> pa.Array:
    """Compute a pyarrow expression over the columns of a table."""
    from pyarrow import acero  # loads pyarrow.dataset, which loads pandas

    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["x"])),
        ]
    )
    return ak.combine_chunks(plan.to_table(use_threads=False).column(0))


# ---- kernels; functions are loaded by the first call of one, which `bind` makes


def _aligned(kernel: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda left, right: kernel(*align(left, right))


def _every(kernel: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    return lambda *values: reduce(kernel, values)


def _like(ignore_case: bool, escape: str, value: Value, pattern: Value) -> Value:
    from lancekit._scan.expressions.kernels.text import like

    return like(value, pattern, ignore_case=ignore_case, escape=escape)


def _element(lists: pa.Array, place: Value) -> Value:
    from lancekit._scan.expressions.kernels.lists import array_element

    return array_element(lists, place)


def _concat(left: Value, right: Value) -> Value:
    from lancekit._scan.expressions.kernels.sizes import joined

    return Function(concat, ("",), 2, 2, size=joined).run("||", left, right)


#: operators and other syntax by name; options come before the operands
KERNELS: Mapping[str, Callable[..., Value]] = {
    **COMPARISONS,
    "AND": _every(pc.and_kleene),
    "OR": _every(pc.or_kleene),
    "NOT": pc.invert,
    "IS NULL": pc.is_null,
    "IS TRUE": lambda value: pc.fill_null(value, False),
    "IS FALSE": lambda value: pc.fill_null(pc.invert(value), False),
    "LIKE": _like,
    "NEGATE": pc.negate_checked,
    "+": _aligned(add),
    "-": _aligned(subtract),
    "*": _aligned(multiply),
    "/": _aligned(divide),
    "%": _aligned(modulo),
    "<<": partial(shift, pc.shift_left),
    ">>": partial(shift, pc.shift_right),
    "||": _concat,
    "CAST": lambda kind, value: cast_values(value, kind),
    "TRY_CAST": lambda kind, value: try_cast(value, kind),
    "FIELD": lambda name, value: pc.struct_field(value, [name]),
    "ELEMENT": _element,
    "PLAIN": lambda value: plain(value) if isinstance(value, pa.Array) else value,
}

# ---- IN lists, looked up as sets


def _is_among(value: Value, sets: Sequence[pa.Array], has_null: bool) -> Value:
    """Return a mask of the values in some sets; with a null in the list, other values give null."""
    none: Value = scalar_of(False)
    found = reduce(pc.or_, [_is_in(value, some) for some in sets], none)
    missing = scalar_of(None if has_null else False, pa.bool_())
    known = pc.if_else(found, scalar_of(True), missing)
    return pc.if_else(pc.is_valid(value), known, scalar_of(None, pa.bool_()))


def _is_in(value: Value, some: pa.Array) -> Value:
    """Return a mask of the values in a set."""
    if value.type != some.type and family(value.type) == family(some.type) == "moment":
        value, some = members_in_unit(value, some)
    left, right = align(value, some)
    left, right = _common_type(left, as_array(right, len(some)))
    if left.type != right.type:  # Arrow compares these types, but cannot look them up
        return reduce(pc.or_, [COMPARISONS["="](value, other) for other in some])
    if pt.is_floating(left.type):
        left, right = pc.add(left, 0.0), pc.add(right, 0.0)  # merges the two zeros
    if isinstance(left, pa.Scalar) or not pt.is_integer(left.type) or left.type.bit_width < 16:
        return pc.is_in(left, value_set=right)
    # the result for nulls is not used
    return _among_integers(pc.fill_null(left, scalar_of(0, left.type)), right)


#: the most bytes of a lookup table for each number
_TABLE_BYTES = 64
#: fewer members than this are compared one by one
_FEW_MEMBERS = 48


def _among_integers(left: pa.Array, right: pa.Array) -> pa.Array:
    """Look up integers in a table if their range is small enough, else by their hashes."""
    numbers, members = numbers_of(left), numbers_of(right)
    span = int(members.max()) - int(members.min())
    most = min(_TABLE_BYTES * (len(left) + len(right)), np.iinfo(members.dtype).max)
    few = len(members) < _FEW_MEMBERS
    if span > most and not few:
        return pc.is_in(left, value_set=right)
    return booleans_of(np.isin(numbers, members, kind=None if few else "table"))


def _common_type(left: Value, right: pa.Array) -> tuple[Value, pa.Array]:
    """Cast both operands to a type that can hold the values of both, if it exists."""
    kinds = left.type, right.type
    if kinds[0] == kinds[1]:
        return left, right
    for test, common in ((pt.is_integer, pa.int64()), (pt.is_floating, pa.float64())):
        if all(map(test, kinds)):
            return pc.cast(left, common), right.cast(common)
    if all(map(pt.is_decimal, kinds)):
        sizes = [decimal_size(kind) for kind in kinds]
        scale = max(places for _, places in sizes)
        whole = max(digits - places for digits, places in sizes)
        wide = pa.decimal256(whole + scale, scale)
        return pc.cast(left, wide), right.cast(wide)
    if pt.is_string(kinds[1]) and pt.is_large_string(kinds[0]):
        return left, pc.cast(right, kinds[0])
    if pt.is_timestamp(kinds[1]) and pt.is_date(kinds[0]):
        return pc.cast(left, kinds[1]), right
    if pt.is_date(kinds[1]) and pt.is_timestamp(kinds[0]):
        return left, pc.cast(right, kinds[0])
    return left, right

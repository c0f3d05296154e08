"""Expressions as Python objects: ``lk.col("x") > 60`` builds the syntax tree of ``x > 60``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from lancekit._checked import is_writable
from lancekit._format.paths import show_path
from lancekit._legible import shown
from lancekit._scan.expressions.constants import UFUNCS, cast_to, compared, constant, of_others
from lancekit._scan.expressions.syntax import Listed, Syntax, opposite
from lancekit.errors import InvalidArgumentError, InvalidTypeError, UnknownNameError

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lancekit._scan.expressions.predicate import Unbound


#: a condition on rows
Filter: TypeAlias = "str | Expression | pc.Expression"


class Expression:
    """A condition or a value over the columns of a row, built by `col` and `lit`.

    It stands where SQL text does: in filters, updates, computed columns, merge conditions and
    constraints.  Operators and methods mean what they mean in SQL, so a comparison with null is
    null.  Only ``/`` differs: it divides integers to doubles, as in Python.  The text form is the
    SQL text.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 70, None], "name": ["a", "b", "c"]}, "memory://col-example")
    >>> wanted = (lk.col("x") > 60) | lk.col("name").is_in(["c", "d"])
    >>> wanted
    (`x` > 60) OR (`name` IN ('c', 'd'))
    >>> ds.count_rows(wanted)
    2
    """

    __slots__ = ("_name", "_tree")
    _tree: Syntax
    _name: str

    def __init__(self, tree: Syntax, alias: str | None = None) -> None:
        self._tree = tree
        self._name = alias or ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name in ("str", "dt"):  # of pandas and Polars, whose methods are this class's
                return self
            from lancekit._guesses import line_for

            absent = f"'Expression' object has no attribute {name!r}"
            if name.startswith("_"):
                raise AttributeError(absent)
            line = line_for("Expression", name, column=self.name or "x")
            raise UnknownNameError(f"{absent}.", hint=line and f"Use {line}.", attribute=name)

    @property
    def sql(self) -> Unbound:
        """The SQL text."""
        from lancekit._scan.expressions.syntax_text import written

        try:
            return written(self._tree)
        except RecursionError:
            raise InvalidArgumentError(
                "The expression is nested too deeply.",
                hint="Use .is_in([...]) instead of many |, and add columns step by step.",
            ) from None

    @property
    def name(self) -> str:
        """The name in a list of output columns: that of `alias`, or the column's path."""
        if self._name or self._tree.kind != "column":
            return self._name
        return show_path(self._tree.value)

    def __repr__(self) -> str:
        return str(self.sql)

    # ---- Python words that cannot be SQL

    def __bool__(self) -> bool:
        raise _no_word(self, "has no single truth value, because it has one for each row")

    def __contains__(self, item: object) -> bool:
        raise _no_word(self, "cannot be used with Python's `in`")

    def __iter__(self) -> NoReturn:
        raise _no_word(self, "has no items")

    def __len__(self) -> NoReturn:
        raise _no_operator("len()", "Write .length().")

    def __array_ufunc__(self, ufunc: np.ufunc, _: str, *inputs: object, **__: object) -> object:
        """Call the operator or the method of a function of NumPy, such as ``np.sqrt``."""
        first = inputs[0] is self
        name = UFUNCS.get(ufunc.__name__, "").partition(" ")[0 if first else 2]
        if not name:
            raise _no_operator(f"np.{ufunc.__name__}", "Use methods: lk.col('x').sqrt().")
        return getattr(self, name)(*(inputs[1:] if first else inputs[:1]))

    def __hash__(self) -> int:
        raise _no_word(self, "cannot be a key: == joins two expressions, and compares no text")

    # ---- operators

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _comparison("=", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _comparison("<>", self, other)

    def __lt__(self, other: object) -> Expression:
        return _comparison("<", self, other)

    def __le__(self, other: object) -> Expression:
        return _comparison("<=", self, other)

    def __gt__(self, other: object) -> Expression:
        return _comparison(">", self, other)

    def __ge__(self, other: object) -> Expression:
        return _comparison(">=", self, other)

    def __and__(self, other: object) -> Expression:
        return _chain("AND", self, other)

    def __rand__(self, other: object) -> Expression:
        return _chain("AND", other, self)

    def __or__(self, other: object) -> Expression:
        return _chain("OR", self, other)

    def __ror__(self, other: object) -> Expression:
        return _chain("OR", other, self)

    def __invert__(self) -> Expression:
        return Expression(opposite(self._tree))

    def __add__(self, other: object) -> Expression:
        return _node("+", self, other)

    def __radd__(self, other: object) -> Expression:
        return _node("+", other, self)

    def __sub__(self, other: object) -> Expression:
        return _node("-", self, other)

    def __rsub__(self, other: object) -> Expression:
        return _node("-", other, self)

    def __mul__(self, other: object) -> Expression:
        return _node("*", self, other)

    def __rmul__(self, other: object) -> Expression:
        return _node("*", other, self)

    def __truediv__(self, other: object) -> Expression:
        return _quotient(self, other)

    def __rtruediv__(self, other: object) -> Expression:
        return _quotient(other, self)

    def __floordiv__(self, _other: object) -> NoReturn:
        raise _no_operator("//", "Write (a / b).floor().")

    def __xor__(self, _other: object) -> NoReturn:
        raise _no_operator("^", "Write a ** b for a power, a != b for conditions.")

    def __pos__(self) -> NoReturn:
        raise _no_operator("unary +", "Leave it out.")

    def __mod__(self, other: object) -> Expression:
        return _node("%", self, other)

    def __rmod__(self, other: object) -> Expression:
        return _node("%", other, self)

    def __pow__(self, other: object) -> Expression:
        return _call("power", self, other)

    def __rpow__(self, other: object) -> Expression:
        return _call("power", other, self)

    def __neg__(self) -> Expression:
        return _node("NEGATE", self)

    def __abs__(self) -> Expression:
        return self.abs()

    # ---- conditions

    def is_null(self) -> Expression:
        """Return a condition: the value is null."""
        return _node("IS NULL", self)

    def is_not_null(self) -> Expression:
        """Return a condition: the value is not null."""
        return ~self.is_null()

    def is_nan(self) -> Expression:
        """Return a condition: the value is the floating-point NaN."""
        return _call("isnan", self)

    def is_in(self, values: Iterable[object]) -> Expression:
        """Return a condition: the value equals one of a list, an array or a series."""
        if isinstance(values, str | bytes | Expression) or not isinstance(values, Iterable):
            raise InvalidTypeError(
                f"is_in needs a list of values, got {shown(values)}.",
                hint=f"Pass a list: .is_in([{shown(values)}]).",
            )
        items = [_compared(item) for item in values]
        if not items:
            return Expression(Syntax("literal", value=False))
        if any(item.kind != "literal" or isinstance(item.value, bool | bytes) for item in items):
            return Expression(Syntax("IN", (self._tree, *items)))
        listed = Listed([item.value for item in items], [0] * len(items))
        return Expression(Syntax("IN", (self._tree,), listed))

    def isin(self, *values: Any) -> Expression:
        """Return a condition as `is_in` does, for a list or for several values."""
        return self.is_in(values[0] if len(values) == 1 else values)

    def between(self, low: object, high: object) -> Expression:
        """Return a condition: the value is at least `low` and at most `high`.

        Parameters
        ----------
        low, high
            Constants or expressions; null is true for no row.

        Returns
        -------
        Expression
            The condition ``x BETWEEN low AND high``.

        Raises
        ------
        InvalidTypeError
            SQL has no such constant.

        Examples
        --------
        >>> import lancekit as lk
        >>> lk.col("x").between(1, lk.col("y"))
        `x` BETWEEN 1 AND `y`
        """
        ends = (_compared(one) for one in (low, high))
        return Expression(Syntax("BETWEEN", (self._tree, *ends)))

    def eq_missing(self, other: object) -> Expression:
        """Return a condition: the values are equal, or both null."""
        return Expression(Syntax("IS NOT DISTINCT FROM", (self._tree, _compared(other))))

    def like(self, pattern: str) -> Expression:
        """Return a condition: the text matches a pattern with ``%`` and ``_``."""
        return Expression(Syntax("LIKE", (self._tree, _operand(pattern)), "\\"))

    def ilike(self, pattern: str) -> Expression:
        """Return a condition: the text matches a pattern, in capitals or not."""
        return Expression(Syntax("ILIKE", (self._tree, _operand(pattern)), "\\"))

    def rlike(self, pattern: str) -> Expression:
        """Return a condition: a regular expression matches a part of the text."""
        return _call("regexp_like", self, pattern)

    def contains(self, text: object) -> Expression:
        """Return a condition: the text contains another one."""
        return _call("contains", self, text)

    def starts_with(self, text: object) -> Expression:
        """Return a condition: the text begins with another one."""
        return _call("starts_with", self, text)

    def ends_with(self, text: object) -> Expression:
        """Return a condition: the text ends with another one."""
        return _call("ends_with", self, text)

    def array_contains(self, value: object) -> Expression:
        """Return a condition: the list contains a value."""
        return _call("array_contains", self, value)

    # ---- values

    def alias(self, name: str) -> Expression:
        """Return the same values under another name, for a list of output columns."""
        return Expression(self._tree, name_of("name", name))

    def cast(self, dtype: object) -> Expression:
        """Convert to a type of SQL (``"double"``), Arrow (``pa.int8()``) or Python (``int``)."""
        return Expression(cast_to(self._tree, dtype))

    def field(self, name: str) -> Expression:
        """Return a field of a struct."""
        field = name_of("name", name)
        if self._tree.kind == "column":
            return Expression(replace(self._tree, value=(*self._tree.value, field)))
        return Expression(Syntax("field", (self._tree,), field))

    def fill_null(self, value: object) -> Expression:
        """Replace null by a value."""
        return _call("coalesce", self, value)

    def fill_nan(self, value: object) -> Expression:
        """Replace NaN by a value."""
        return _call("nanvl", self, value)

    def abs(self) -> Expression:
        """Return the absolute value."""
        return _call("abs", self)

    def round(self, decimals: int = 0) -> Expression:
        """Round to a number of digits after the point; halves are rounded away from zero."""
        return _call("round", self, decimals) if decimals else _call("round", self)

    def ceil(self) -> Expression:
        """Round up."""
        return _call("ceil", self)

    def floor(self) -> Expression:
        """Round down."""
        return _call("floor", self)

    def sqrt(self) -> Expression:
        """Return the square root."""
        return _call("sqrt", self)

    def exp(self) -> Expression:
        """Return the exponential function."""
        return _call("exp", self)

    def log(self) -> Expression:
        """Return the natural logarithm."""
        return _call("ln", self)

    def lower(self) -> Expression:
        """Convert the text to small letters."""
        return _call("lower", self)

    def upper(self) -> Expression:
        """Convert the text to capitals."""
        return _call("upper", self)

    def trim(self) -> Expression:
        """Remove spaces at both ends of the text."""
        return _call("trim", self)

    def length(self) -> Expression:
        """Return the number of characters of the text."""
        return _call("length", self)

    def replace(self, old: object, new: object) -> Expression:
        """Replace every occurrence of a text by another one.

        Parameters
        ----------
        old, new
            Texts, or expressions with texts.

        Returns
        -------
        Expression
            The new text.

        Raises
        ------
        InvalidTypeError
            SQL has no such constant.

        Examples
        --------
        >>> import lancekit as lk
        >>> lk.col("name").replace("-", " ")
        replace(`name`, '-', ' ')
        """
        return _call("replace", self, old, new)

    def concat(self, *others: object) -> Expression:
        """Append texts or values; null counts as empty text."""
        return _call("concat", self, *others)

    def year(self) -> Expression:
        """Return the year of a date or timestamp."""
        return _call("date_part", "year", self)

    def month(self) -> Expression:
        """Return the month of a date or timestamp, from 1 to 12."""
        return _call("date_part", "month", self)

    def day(self) -> Expression:
        """Return the day of the month of a date or timestamp."""
        return _call("date_part", "day", self)

    def hour(self) -> Expression:
        """Return the hour of a timestamp."""
        return _call("date_part", "hour", self)

    # the names of PySpark, and of Polars where they differ
    isNull = is_null  # noqa: N815
    isNotNull = is_not_null  # noqa: N815
    isNaN = is_nan  # noqa: N815
    is_between = between
    eqNullSafe = eq_missing  # noqa: N815
    startswith = starts_with
    endswith = ends_with
    astype = cast
    getField = field  # noqa: N815
    __getitem__ = field
    __round__ = round
    __rfloordiv__ = __floordiv__
    __rxor__ = __xor__


# ---- nodes

_WORDS = "Use & instead of `and`, | instead of `or`, ~ instead of `not`, .is_in([...]) instead of "
_WORDS += "`in`, and .between(low, high) instead of low < x < high."


def _no_word(self: Expression, what: str) -> InvalidTypeError:
    return InvalidTypeError(f"The expression {self!r} {what}.", hint=_WORDS)


def _no_operator(name: str, hint: str) -> InvalidTypeError:
    return InvalidTypeError(f"Expressions have no operator {name}.", hint=hint)


def _quotient(left: object, right: object) -> Expression:
    tree = _operand(left)
    is_cast = tree.kind == "CAST" and tree.value.name == "double"
    if not (is_cast or tree.kind == "/" or isinstance(tree.value, Decimal)):
        tree = cast_to(tree, "double")
    return Expression(Syntax("/", (tree, _operand(right))))


def _node(kind: str, *parts: object) -> Expression:
    return Expression(Syntax(kind, tuple(map(_operand, parts))))


def _call(name: str, *parts: object) -> Expression:
    return Expression(Syntax("call", tuple(map(_operand, parts)), name))


def _comparison(kind: str, left: Expression, right: object) -> Expression:
    tree = _compared(right)
    if tree.kind == "list":
        raise InvalidTypeError(
            f"{left!r} {kind} ... needs one value, got {shown(right)}.",
            hint="Use .is_in([...]) for a list of values.",
        )
    if tree.kind == "literal" and tree.value is None:
        raise InvalidArgumentError(
            f"{left!r} {kind} NULL is true for no row.",
            hint="Use .is_null(), .is_not_null(), or .eq_missing(value).",
        )
    return Expression(Syntax(kind, (left._tree, tree)))


def _chain(kind: str, *sides: object) -> Expression:
    parts: list[Syntax] = []
    for side in sides:
        if not isinstance(side, Expression | bool | np.bool_):
            raise InvalidTypeError(
                f"{'&' if kind == 'AND' else '|'} joins conditions, got {shown(side)}.",
                hint=of_others(side)
                or "Put each comparison in parentheses: (lk.col('x') > 3) & (lk.col('y') < 5).",
            )
        tree = _operand(side)
        parts += tree.parts if tree.kind == kind else (tree,)
    return Expression(Syntax(kind, tuple(parts)))


def name_of(argument: str, value: object) -> str:
    """Return the name of a column or field; ``InvalidTypeError`` for anything else."""
    if not isinstance(value, str) or not value or not is_writable(value):
        raise InvalidTypeError(
            f"{argument} must be the name of a column or field, got {shown(value)}.",
            argument=argument,
        )
    return value


def _operand(value: object) -> Syntax:
    return value._tree if isinstance(value, Expression) else constant(value)


def _compared(value: object) -> Syntax:
    return value._tree if isinstance(value, Expression) else compared(value)

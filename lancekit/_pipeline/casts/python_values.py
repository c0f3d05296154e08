"""Conversion of Python objects to Arrow arrays, without loss.

Arrow's own conversion truncates values that its inferred type cannot hold: nanoseconds, the time
of day of a datetime among dates, fractions, unknown fields of a struct.  This module infers from
the classes of the values a type that holds each value exactly.  The requested type only decides
ambiguous cases (a dict is a struct or a map).  The later cast to it follows the table of casts,
which refuses a value that would change.
"""

from __future__ import annotations

import array
import datetime as dt
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from types import NoneType
from typing import Any, TypeGuard, cast
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._casts import nearest
from lancekit._legible import shown
from lancekit._pipeline.casts.python_times import moment_array, span_array, time_array
from lancekit._pipeline.casts.rules import cast_array, find_rule
from lancekit._pipeline.casts.values import LossError, first


@dataclass(frozen=True, slots=True)
class Guide:
    """The requested type of some values, and how to read ambiguous ones.

    type: the requested type, if it is known.
    given: whether the caller named it: fields that no dict has are then null.
    nan_is_null: whether NaN stands for a missing value, as in pandas.
    """

    type: pa.DataType | None = None
    given: bool = False
    nan_is_null: bool = False

    def of(self, kind: pa.DataType | None) -> Guide:
        """Return the guide with another type."""
        return replace(self, type=kind)


_ANYTHING = Guide()
#: a function that converts the values of one family, with None among them
_Maker = Callable[[Sequence[Any], Guide], pa.Array]


def python_array(values: Sequence[object], guide: Guide = _ANYTHING) -> pa.Array:
    """Return an array that holds every value exactly, in the narrowest type for their classes.

    Raises LossError: no type holds a value, or none holds it together with the values before it.

    Examples
    --------
    >>> from datetime import date, datetime
    >>> python_array([date(2020, 1, 1), datetime(2020, 1, 1, 5)]).type
    TimestampType(timestamp[us])
    """
    values, families = _without_missing(values, guide)
    kind = guide.type
    if isinstance(kind, pa.BaseExtensionType):
        return _extended(values, families, guide, kind)
    if _is(kind, pt.is_dictionary):
        guide = guide.of(getattr(kind, "value_type", None))
    if not families:
        return pa.nulls(len(values))
    family = families.pop() if len(families) == 1 else _MIXED.get(frozenset(families))
    if family is None:
        raise _mixed(values)
    return _located(_MAKERS[family], values, guide)


def cast_if_exact(values: pa.Array, guide: Guide) -> pa.Array:
    """Cast values to the requested type if no value would change, else return them unchanged.

    The cast that follows raises the error, with the first value that would change.
    """
    if guide.type is None or find_rule(values.type, guide.type) is None:
        return values
    try:
        return cast_array(values, guide.type)
    except LossError:
        return values


def _without_missing(values: Sequence[object], guide: Guide) -> tuple[Sequence[object], set[str]]:
    """Return the values with ``None`` for every missing value, and the families of the others."""
    found = {cls: _family_of(cls) for cls in set[object](map(type, values))}
    if None in found.values():
        at = next(at for at, value in enumerate(values) if found[type(value)] is None)
        parts = ": store its real and imaginary part" if isinstance(values[at], complex) else ""
        reason = f"is of class {_class_name(values[at])}, which no column can store{parts}"
        raise LossError(at, values[at], reason)
    families = {family for family in found.values() if family is not None}
    odd = {cls for cls, family in found.items() if family == "missing"} - {type(None)}
    if odd:
        values = [None if type(value) in odd else value for value in values]
    if guide.nan_is_null and families & {"float", "decimal"}:
        # NaN is the only value that does not equal itself
        numbers = {cls for cls, family in found.items() if family in {"float", "decimal"}}
        values = [None if type(v) in numbers and v != v else v for v in values]  # noqa: PLR0124
        families = {found[cls] or "" for cls in set(map(type, values)) if cls in found}
    return values, families - {"missing"}


def _family(value: object) -> str | None:
    cls: object = type(value)
    return _family_of(cls)


def _mixed(values: Sequence[object]) -> LossError:
    known = next(value for value in values if value is not None)
    families = {_family(known)}
    for at, value in enumerate(values):
        families |= set() if value is None else {_family(value)}
        if len(families) > 1 and frozenset(families) not in _MIXED:
            what = f"is of class {_class_name(value)}, and {shown(known)} of class"
            return LossError(at, value, f"{what} {_class_name(known)}")
    raise AssertionError("the values are of one family")


_REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError, ArithmeticError)


def _located(make: _Maker, values: Sequence[object], guide: Guide) -> pa.Array:
    """Make an array; convert an Arrow error, which has no row, into a `LossError` that has one."""
    try:
        return make(values, guide)
    except _REFUSED as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    low, high = 0, len(values)  # the shortest prefix that fails ends with the value
    while high - low > 1:
        middle = (low + high) // 2
        try:
            make(values[:middle], guide)
        except _REFUSED:
            high = middle
        else:
            low = middle
    raise LossError(low, values[low], f"cannot be stored: {reason}")


def _extended(
    values: Sequence[Any], families: set[str], guide: Guide, kind: pa.BaseExtensionType
) -> pa.Array:
    """Make values of an extension type, or plain values if no rule casts to its storage type."""
    if isinstance(kind, pa.Bool8Type) and families == {"bool"}:
        values = [None if value is None else int(value) for value in values]
    stored = python_array(values, guide.of(kind.storage_type))
    if find_rule(stored.type, kind.storage_type) is None:
        return stored
    return pa.ExtensionArray.from_storage(kind, cast_array(stored, kind.storage_type))


def _is(kind: pa.DataType | None, *tests: Callable[[pa.DataType], bool]) -> bool:
    return kind is not None and any(test(kind) for test in tests)


# ---- plain values


def _classes(values: Sequence[object]) -> set[type]:
    return set(map(type, values)) - {type(None)}


def _one_numpy_class(values: Sequence[object]) -> bool:
    """Return True if all values are scalars of one NumPy class, which fixes their width."""
    classes = _classes(values)
    return len(classes) == 1 and issubclass(classes.pop(), np.generic)


def _with_offsets(values: Sequence[object], small: pa.DataType, large: pa.DataType) -> pa.Array:
    made: pa.Array | pa.ChunkedArray = pa.array(values, small)
    # above 2 GiB Arrow returns several chunks
    return pa.array(values, large) if isinstance(made, pa.ChunkedArray) else made


def _integers(values: Sequence[object], guide: Guide) -> pa.Array:
    if _one_numpy_class(values):
        return pa.array(values)
    try:
        return pa.array(values, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        if _is(guide.type, pt.is_decimal):
            return _decimals(values, guide)
        return pa.array(values, pa.uint64())


def _floats(values: Sequence[object], guide: Guide) -> pa.Array:
    if not _rounds(guide):
        return pa.array(values, None if _one_numpy_class(values) else pa.float64())
    made = _rounded(pa.array(values, pa.float64()), guide.type)
    for at, value in enumerate(values) if _classes(values) - _FLOATS else ():
        if isinstance(value, _WHOLE) and made[at].as_py() != value:
            raise LossError(at, value, f"does not fit {guide.type} exactly")
    return made


#: the classes whose values are rounded; integers among them are not
_FLOATS = {float, np.float16, np.float32, np.float64}
_WHOLE = (int, np.integer)


def _rounds(guide: Guide) -> bool:
    """Return True if floats, of one width in Python, are rounded to a narrower type."""
    return _is(guide.type, pt.is_float16, pt.is_float32)


def _rounded(wide: pa.Array, kind: Any) -> pa.Array:
    """Round floats to the nearest value of a type; raise LossError if a finite one overflows."""
    narrow: pa.Array = nearest(wide, kind)
    beyond = first(pc.and_(pc.is_inf(narrow.cast(pa.float64())), pc.is_finite(wide)))
    if beyond is not None:
        raise LossError(beyond, wide[beyond].as_py(), f"is beyond the range of {kind}")
    return narrow


def _decimals(values: Sequence[object], _guide: Guide) -> pa.Array:
    if int in _classes(values):
        values = [Decimal(value) if isinstance(value, int) else value for value in values]
    for at, value in enumerate(values):
        if isinstance(value, Decimal) and not value.is_finite():
            what = "infinite" if value.is_infinite() else "not a number"
            raise LossError(at, value, f"cannot be stored in a decimal column: it is {what}")
    return pa.array(values)


def _uuids(values: Sequence[UUID | None], guide: Guide) -> pa.Array:
    stored = pa.array([None if v is None else v.bytes for v in values], pa.binary(16))
    if _is(guide.type, pt.is_fixed_size_binary, pt.is_binary):
        return stored
    return pa.ExtensionArray.from_storage(pa.uuid(), stored)


def _scalars(values: Sequence[pa.Scalar | None], _guide: Guide) -> pa.Array:
    kinds = dict.fromkeys(value.type for value in values if value is not None)
    if len(kinds) > 1:
        raise TypeError(f"there are Arrow scalars of {' and '.join(map(str, kinds))}")
    return pa.array(values, next(iter(kinds)))


# ---- nested values


def _missing(values: Sequence[object]) -> pa.Array | None:
    missing = [value is None for value in values]
    return pa.array(missing, pa.bool_()) if any(missing) else None


def _starts(lengths: Sequence[int]) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))])
    kind = pa.int32() if ends[-1] < 2**31 else pa.int64()
    return pa.array(ends).cast(kind)


def _below(make: Callable[[], pa.Array], lengths: Sequence[int]) -> pa.Array:
    """Make the elements of lists; an error gets the position of the list."""
    try:
        return make()
    except LossError as loss:
        row = int(np.searchsorted(np.cumsum(lengths), loss.index, side="right"))
        raise LossError(row, loss.value, loss.reason) from loss


def _lists(values: Sequence[Collection[object] | None], guide: Guide) -> pa.Array:
    kind = guide.type
    if _is(kind, pt.is_map):
        return _maps(values, guide)
    if kind is not None and pt.is_struct(kind) and _classes(values) == {tuple}:
        return _structs([_by_position(value, kind) for value in values], guide)
    lists = [value for value in values if value is not None]
    lengths = [0 if value is None else len(value) for value in values]
    element = guide.of(getattr(kind, "value_type", None))
    if _are_uniform_arrays(lists):
        elements = pa.array(np.concatenate(lists), from_pandas=guide.nan_is_null)
        if pt.is_floating(elements.type) and _rounds(element):
            elements = _below(lambda: _rounded(elements, element.type), lengths)
    else:
        elements = _below(lambda: python_array([*chain.from_iterable(lists)], element), lengths)
    starts = _starts(lengths)
    make = pa.ListArray if starts.type == pa.int32() else pa.LargeListArray
    return make.from_arrays(starts, elements, mask=_missing(values))


def _are_uniform_arrays(lists: Sequence[Any]) -> TypeGuard[Sequence[NDArray[np.generic]]]:
    """Return True if all are NumPy arrays of one numeric type, which Arrow converts whole."""
    return (
        all(isinstance(value, np.ndarray) and value.ndim == 1 for value in lists)
        and not any(isinstance(value, np.ma.MaskedArray) for value in lists)
        and len({value.dtype for value in lists}) == 1
        and lists[0].dtype.kind in "biuf"
    )


def _by_position(value: Collection[object] | None, kind: pa.StructType) -> dict[str, object] | None:
    names = [field.name for field in kind]
    return None if value is None else dict(zip(names, value, strict=True))


def _structs(values: Sequence[Any], guide: Guide) -> pa.Array:
    kind = guide.type
    if _is(kind, pt.is_map):
        return _maps(values, guide)
    names = dict.fromkeys(chain.from_iterable(value for value in values if value is not None))
    fields = kind if kind is not None and pt.is_struct(kind) else ()
    types = {field.name: field.type for field in fields}
    if guide.given:
        names |= dict.fromkeys(types)
    if odd := next((name for name in names if not isinstance(name, str)), None):
        raise TypeError(f"{odd!r} is not a field name")
    if not names:
        return pa.array(list(values), pa.struct([]))
    arrays = [
        python_array(
            [None if v is None else v.get(name) for v in values], guide.of(types.get(name))
        )
        for name in names
    ]
    return pa.StructArray.from_arrays(arrays, names=list(names), mask=_missing(values))


def _maps(values: Sequence[object], guide: Guide) -> pa.Array:
    kind = cast("pa.MapType", guide.type)
    entries = [[] if value is None else list(_entries(value)) for value in values]
    lengths = list(map(len, entries))
    whole = list(chain.from_iterable(entries))

    def part(at: int, wanted: pa.DataType) -> pa.Array:
        return _below(
            lambda: python_array([entry[at] for entry in whole], guide.of(wanted)), lengths
        )

    keys, items = part(0, kind.key_type), part(1, kind.item_type)
    if pt.is_null(keys.type):  # Arrow's maps need a type for their keys
        keys = pa.array([None for _ in keys], kind.key_type)
    if ak.null_count(keys):
        raise TypeError("a key of a map is null")
    return pa.MapArray.from_arrays(
        _starts(lengths), keys, items, type=pa.map_(keys.type, items.type), mask=_missing(values)
    )


def _entries(value: Any) -> Iterator[tuple[object, object]]:
    pairs = value.items() if isinstance(value, Mapping) else value
    return ((key, item) for key, item in pairs)  # an entry that is no pair raises an error


#: the converter of each family of values
_MAKERS: Mapping[str, _Maker] = {
    "text": lambda values, _: _with_offsets(values, pa.string(), pa.large_string()),
    "bytes": lambda values, _: _with_offsets(values, pa.binary(), pa.large_binary()),
    "bool": lambda values, _: pa.array(values, pa.bool_()),
    "int": _integers,
    "float": _floats,
    "decimal": _decimals,
    "date": lambda values, _: pa.array(values, pa.date32()),
    "datetime": lambda values, _: moment_array(values),
    "time": lambda values, _: time_array(values),
    "duration": lambda values, _: span_array(values),
    "uuid": _uuids,
    "list": _lists,
    "struct": _structs,
    "scalar": _scalars,
}

# ---- families of values by their classes in Python, NumPy and pandas

#: subclasses come first: a bool is an int, a datetime is a date, a NumPy timedelta is an integer
_FAMILIES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((NoneType, type(np.ma.masked)), "missing"),
    ((bool, np.bool_), "bool"),
    ((dt.timedelta, np.timedelta64), "duration"),
    ((int, np.integer), "int"),
    ((float, np.float16, np.float32, np.float64), "float"),
    ((str,), "text"),
    ((bytes, bytearray, memoryview), "bytes"),
    ((dt.datetime, np.datetime64), "datetime"),
    ((dt.date,), "date"),
    ((dt.time,), "time"),
    ((Decimal,), "decimal"),
    ((UUID,), "uuid"),
    ((pa.Scalar,), "scalar"),
    ((Mapping, pa.MapScalar), "struct"),
    ((list, tuple, set, frozenset, deque, range, np.ndarray, array.array, pa.Array), "list"),
)
#: pandas classes by name, because pandas is optional; NaT is a datetime to Python
_BY_NAME = {"NaTType": "missing", "NAType": "missing", "Series": "list", "Index": "list"}

#: families that one type holds together
_MIXED: Mapping[frozenset[object], str] = {
    frozenset({"int", "float"}): "float",
    frozenset({"int", "decimal"}): "decimal",
    frozenset({"date", "datetime"}): "datetime",
}


@lru_cache(maxsize=1024)
def _family_of(cls: type) -> str | None:
    """Return the family of values of a class, or ``None`` if no column type holds them.

    Examples
    --------
    >>> _family_of(bool), _family_of(np.float32), _family_of(object)
    ('bool', 'float', None)
    """
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] == "pandas" and base.__name__ in _BY_NAME:
            return _BY_NAME[base.__name__]
    return next((family for classes, family in _FAMILIES if issubclass(cls, classes)), None)


def _class_name(value: object) -> str:
    """Return the name of a value's class as users write it.

    Examples
    --------
    >>> _class_name(1), _class_name(np.int8(1))
    ('int', 'numpy.int8')
    """
    cls = type(value)
    module = cls.__module__.partition(".")[0]
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"

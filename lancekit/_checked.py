"""Checks of arguments against the type annotations of public functions, before the call.

They cover numbers, text, flags, times and dictionaries.  Functions check constraints that
annotations cannot state (item types of a list, allowed texts) themselves.

Checked functions also add notes to interrupts about their changes (`lancekit._interrupts`).
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import update_wrapper
from types import FunctionType
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lancekit import _interrupts as interrupts
from lancekit._legible import clean, shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, LancekitError, type_name

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


def is_whole(value: object) -> bool:
    """Return True for a whole number of Python or NumPy; ``True`` is not one."""
    if type(value) is int:  # fast path for long lists
        return True
    if isinstance(value, int | np.integer):
        return not isinstance(value, bool)
    # an array of one number has `__index__`, but is probably a mistake
    return hasattr(type(value), "__index__") and not isinstance(value, np.ndarray | np.bool_)


def is_flag(value: object) -> bool:
    """Return True for a boolean value: a truth value, 0 or 1."""
    return isinstance(value, bool | np.bool_) or (is_whole(value) and value in (0, 1))


def _is_place(value: object) -> bool:
    return isinstance(value, os.PathLike)


def _each(test: Callable[[object], bool]) -> Callable[[object], bool]:
    """Return a test for collections of matching items that can be iterated more than once."""
    return lambda value: (
        isinstance(value, Collection | np.ndarray)
        and not isinstance(value, str | bytes | bytearray | memoryview | Mapping)
        and np.ndim(value if isinstance(value, np.ndarray) else 1) < 2
        and all(map(test, value))
    )


def _pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(is_whole, value))


def _has(attribute: str) -> Callable[[object], bool]:
    # classes of upper rooms, which this module cannot import
    return lambda value: (
        hasattr(type(value), attribute) or attribute in getattr(value, "__dict__", {})
    )


def _named(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(one, str) for pair in value.items() for one in pair
    )


def _of(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


_PLACE = (_is_place, "a path")

#: type in annotations -> (test, description for the hint)
_KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "ScalarKind": (_of(str), "text"),
    "None": (lambda value: value is None, "None"),
    "int": (is_whole, "an integer"),
    "str": (_of(str), "text"),
    "bool": (is_flag, "a bool"),
    "bytes": (_of(bytes, bytearray, memoryview), "bytes"),
    "bytearray": (_of(bytearray), "a bytearray"),
    "memoryview": (_of(memoryview), "a memoryview"),
    "timedelta": (_of(timedelta), "a timedelta"),
    "pa.Schema": (_of(pa.Schema), "a pyarrow Schema"),
    "pa.MemoryPool": (_of(pa.MemoryPool), "a pyarrow MemoryPool"),
    "os.PathLike[str]": _PLACE,
    "dict": (_of(Mapping), "a dictionary"),
    "Mapping": (_of(Mapping), "a dictionary"),
    "dict[str, Any]": (_named, "a dictionary"),
    "Mapping[str, object]": (_named, "a dict with string keys"),
    "Mapping[str, Any]": (_named, "a dict with string keys"),
    "dict[str, str]": (_texts, "a dict of strings"),
    "list[Any]": (_each(lambda _: True), "a list"),
    "list[str]": (_each(_of(str)), "a list of strings"),
    "Sequence[str]": (_each(_of(str)), "a list of strings"),
    "Sequence[int]": (_each(is_whole), "a list of integers"),
    "Sequence[tuple[int, int]]": (_each(_pair), "a list of pairs of integers"),
    "pa.RecordBatch": (_of(pa.RecordBatch), "a record batch"),
    "pa.Table": (_of(pa.Table), "a table"),
    "Handle": (_has("_snapshot"), "a LanceDataset"),
    "LanceDataset": (_has("_snapshot"), "a LanceDataset"),
    "Version": (_has("version"), "a version of History"),
    "list[int]": (_each(is_whole), "a list of integers"),
}
#: arguments that only some functions take, and hints for the others
TAKEN_ELSEWHERE: Mapping[str, str] = {
    "include_mem_wal": "Rows that wait in shards are in no version and have no position. Read "
    "them by to_table, to_batches, to_pandas, to_spark, head, count_rows, scanner, ds.sql or "
    "lk.sql with include_mem_wal=True; or merge them first: ds.merge_mem_wal(flush=True).",
}
#: arguments with credentials, which are never shown
_SECRET = frozenset({"storage_options", "base_store_params"})
_CONTAINER = re.compile(r"(?<=^dict)\[.*|(?<=^Mapping)\[.*")
#: exceptions of code that reads an object of an unexpected form
NOT_SUCH = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
    pa.ArrowException,
)
Tests = list[tuple[Callable[[object], bool], str]]
#: arguments of a call: by position and by name
Passed: TypeAlias = tuple[tuple[object, ...], dict[str, object]]
Check = Callable[[tuple[object, ...], dict[str, object]], Passed]
#: function that returns a call's arguments by name
Named = Callable[[tuple[object, ...], dict[str, object]], Mapping[str, object]]


class Takes(Protocol):
    """Mark of a function that takes an argument record: `lancekit._arguments.record.takes`."""

    def signature(self, function: Callable[..., object]) -> inspect.Signature: ...

    def passed(self, function: Callable[..., object], given: Mapping[str, object]) -> Passed: ...


def _tests(annotation: object) -> Tests:
    """Return the tests for an annotation; empty if it has a type that is not covered."""
    if not isinstance(annotation, str):
        return []
    names = [name.strip() for name in annotation.split(" | ")]
    names = ["str" if name.startswith("Literal[") else name for name in names]
    plain = [n if n in _KINDS else _CONTAINER.sub("", n) for n in names]
    return [_KINDS[name] for name in plain] if all(n in _KINDS for n in plain) else []


def _shown(name: str, value: object) -> str:
    # only for rejected values: the repr of many rows, or of large bytes, is slow
    return f"a {type_name(value)}" if name in _SECRET else shown(value)


def _check(name: str, value: object, tests: Tests) -> None:
    if not any(is_one(value) for is_one, _ in tests):
        expected = [what for _, what in tests]
        if len(expected) > 1:
            expected[-2:] = [f"{expected[-2]} or {expected[-1]}"]
        raise InvalidTypeError(
            f"{name} must be {', '.join(expected)}, got {_shown(name, value)}.", argument=name
        )
    if _PLACE in tests:
        return  # file names need not be valid text
    for text in _texts_in(value):
        if not is_writable(text):
            raise InvalidArgumentError(
                f"{name} is not valid Unicode: {_shown(name, value)} has an unpaired surrogate.",
                hint="Pass text without surrogates, which cannot be stored.",
                argument=name,
            )


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        yield from (one for one in value if isinstance(one, str))
    elif hasattr(value, "items") and isinstance(value, Mapping):  # Mapping's test is slow
        yield from (one for pair in value.items() for one in pair if isinstance(one, str))


def is_writable(text: str, encode: Callable[[str], bytes] = str.encode) -> bool:
    """Return True if a text can be encoded: it has no unpaired surrogate."""
    try:
        encode(text)
    except UnicodeEncodeError:
        return False
    return True


def from_text(kind: str, text: object, parse: Callable[[Any], T]) -> T:
    """Parse JSON, given as text or parsed; ``InvalidArgumentError`` if it is no such object."""
    try:
        return parse(json.loads(text) if isinstance(text, str | bytes) else text)
    except LancekitError:
        raise
    except NOT_SUCH as error:
        why = clean(repr(error), 80)
        raise InvalidArgumentError(
            f"{shown(text)} is not a {kind} as JSON: {why}.",
            hint=f"Pass the JSON form of a {kind}.",
        ) from error


def _binder(signature: inspect.Signature) -> Named:
    """Return a function that maps a call's arguments to names; ``TypeError`` if they do not fit.

    `Signature.bind` is slower than many calls, so it is used only for unusual arguments.
    """
    parameters = signature.parameters.values()
    by_place = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    needed = {p.name for p in parameters if p.default is p.empty}
    usual = len(by_name) == len(signature.parameters)

    def bind(args: tuple[object, ...], kwargs: dict[str, object]) -> Mapping[str, object]:
        if usual and len(args) <= len(by_place) and kwargs.keys() <= by_name:
            given = dict(zip(by_place, args, strict=False))
            if given.keys().isdisjoint(kwargs):
                given.update(kwargs)
                if needed <= given.keys():
                    return given
        return signature.bind(*args, **kwargs).arguments

    return bind


def _checks(signature: inspect.Signature) -> Callable[[Mapping[str, object]], None]:
    """Return a check of arguments against the annotations of their parameters."""
    tests = {name: _tests(p.annotation) for name, p in signature.parameters.items()}
    tests = {name: found for name, found in tests.items() if found}
    defaults = {name: signature.parameters[name].default for name in tests}

    def check(given: Mapping[str, object]) -> None:
        for name, found in tests.items():
            if name in given and given[name] is not defaults[name]:
                _check(name, given[name], found)

    return check


def checks_of(
    called: str | Callable[[tuple[object, ...]], str], signature: inspect.Signature
) -> Named:
    """Return a function that checks a call's arguments, and returns them by name.

    called: the function's name in errors, or a function that returns it.
    """
    check_values = _checks(signature)
    bind, known = _binder(signature), signature.parameters
    takes_more = any(one.kind is one.VAR_KEYWORD for one in known.values())

    def title(args: tuple[object, ...]) -> str:
        return called if isinstance(called, str) else called(args)

    def check(args: tuple[object, ...], kwargs: dict[str, object]) -> Mapping[str, object]:
        try:
            given = bind(args, kwargs)
        except TypeError as error:
            name = title(args)
            unknown = [name for name in kwargs if name not in known]
            elsewhere = [name for name in unknown if name in TAKEN_ELSEWHERE]
            if elsewhere and not takes_more:
                raise not_taken_here(name, elsewhere[0]) from None
            hint = _argument_hint(
                name, known, {**{one: kwargs[one] for one in unknown}, _misfit(error): None}, args
            )
            if unknown and not hint.startswith("Use"):
                taken = ", ".join(n for n in known if n not in ("self", "cls")) or "no arguments"
                hint = f"{hint} It takes {taken}.".strip()
            raise InvalidTypeError(f"{name}(): {error}.", hint=hint) from None
        try:
            check_values(given)
        except InvalidTypeError as error:
            hint = "" if error.hint else _argument_hint(title(args), known, {"(wrong)": None}, args)
            if hint:
                raise InvalidTypeError(error.message, hint=hint, **error.context) from None
            raise
        return given

    return check


def _misfit(error: TypeError) -> str:
    """Return the mark of `lancekit._guesses` for arguments that do not fit a signature."""
    return "(missing)" if str(error).startswith("missing") else "(more)"


def _argument_hint(
    called: str, known: Iterable[str], given: Mapping[str, object], args: tuple[object, ...]
) -> str:
    from lancekit._guesses import argument_hint  # large, and needed only for errors

    return argument_hint(called, known, given, args[0] if args else None)


def _check_of(function: Callable[..., object]) -> Check:
    """Return the check of a function's arguments, which returns the arguments for the call."""
    takes: Takes | None = getattr(function, "_takes", None)
    signature = takes.signature(function) if takes else inspect.signature(function)
    check = checks_of(lambda args: _name(function, args), signature)

    def checked_call(args: tuple[object, ...], kwargs: dict[str, object]) -> Passed:
        given = check(args, kwargs)
        return takes.passed(function, given) if takes else (args, kwargs)

    return checked_call


class _Signature:
    """Lazy signature for `inspect` of a function that takes an argument record."""

    def __init__(self, function: Callable[..., object], takes: Takes) -> None:
        self._function, self._takes = function, takes
        self.__code__ = function.__code__  # doctest reads the line from it

    @property
    def __signature__(self) -> inspect.Signature:
        return self._takes.signature(self._function)

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        return self  # makes `inspect` treat it as a function


def check_arguments(signature: inspect.Signature, given: Mapping[str, object]) -> None:
    """Check arguments without a call; ``InvalidTypeError`` if an annotation forbids one."""
    _checks(signature)(given)


def checked(function: F) -> F:
    """Return the function with a check of its arguments.

    Its calls raise InvalidTypeError if an argument does not match its annotation.

    >>> @checked
    ... def double(number: int): return 2 * number
    >>> double("4")
    Traceback (most recent call last):
    lancekit.errors.InvalidTypeError: number must be an integer, got '4'.
    """
    mark, explain = interrupts.mark, interrupts.explain  # the wrapper has the function's globals
    made: Check | None = None

    def check(args: tuple[object, ...], kwargs: dict[str, object]) -> Passed:
        nonlocal made
        if made is None:  # lazy, because most functions are never called
            made = _check_of(function)
        return made(args, kwargs)

    def call(*args: object, **kwargs: object) -> object:
        args, kwargs = check(args, kwargs)
        since = mark()
        try:
            return function(*args, **kwargs)
        except KeyboardInterrupt as stop:
            explain(stop, since)
            raise

    # with the function's globals, which identify its module for doctest
    wrapper = FunctionType(
        call.__code__, getattr(function, "__globals__", {}), closure=call.__closure__
    )
    wrapped: Any = update_wrapper(wrapper, function)
    if hasattr(function, "_takes"):
        wrapped.__wrapped__ = _Signature(function, function._takes)
    return wrapped  # type: ignore[no-any-return]  # same signature as the function


_CALL = checked(lambda: None).__code__


def outermost() -> tuple[str, tuple[object, ...]] | None:
    """Return the name and the positional arguments of the public function that the user called.

    ``None`` outside of any, e.g. in an action on a DataFrame that such a function returned.

    Examples
    --------
    >>> @checked
    ... def double(number: int): return outermost()
    >>> double(4)
    ('double', (4,))
    """
    found, frame = None, inspect.currentframe()
    while frame is not None:
        if frame.f_code is _CALL:  # all checked functions share this code
            found = frame
        frame = frame.f_back
    if found is None:
        return None
    args = found.f_locals["args"]
    return _name(found.f_locals["function"], args), args


def not_taken_here(called: str, name: str) -> InvalidTypeError:
    """Return the error for an argument that only other functions take, with a hint."""
    return InvalidTypeError(
        f"{called}() does not take {name}.", hint=TAKEN_ELSEWHERE[name], argument=name
    )


def _name(function: Callable[..., object], args: tuple[object, ...]) -> str:
    """Return a function's name for users: a method has the public class's name, not a part's."""
    name = function.__qualname__.removesuffix(".__init__")
    kind = (args[0] if isinstance(args[0], type) else type(args[0])) if args else None
    owner = name.rpartition(".")[0]
    if kind is None or owner not in {base.__qualname__ for base in kind.__mro__}:
        return name
    return f"{kind.__qualname__}.{function.__name__}".removesuffix(".__init__")


def checked_methods(kind: type[T]) -> type[T]:
    """Add argument checks to a class's own public methods, and to its constructor."""
    for name, value in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(value, staticmethod | classmethod):
            setattr(kind, name, type(value)(checked(value.__func__)))
        elif inspect.isfunction(value):
            setattr(kind, name, checked(value))
    return kind

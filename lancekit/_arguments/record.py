"""Argument records: the fields of a class declare the parameters of a call in one place.

A field has a type, which its argument is checked against (`lancekit._checked`), and a default.  A
field is used, or a **hint**, or **refused**.  A hint is checked and changes no result.  A refused
field has a reason.  The docstring of the class documents the fields, for all calls with the record.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    NotRequired,
    ParamSpec,
    Protocol,
    Required,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
    dataclass_transform,
    overload,
)

import pyarrow as pa

from lancekit._arguments.checks import check_known, refused_argument
from lancekit._checked import checks_of

if TYPE_CHECKING:
    from lancekit._checked import Passed
    from lancekit._scan.expressions.objects import Expression

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
S = TypeVar("S")
T = TypeVar("T")
K = TypeVar("K", bound="Arguments")


class _Field:
    """The declaration of a hint or a refused field."""

    def __init__(
        self, default: object, check: Callable[[str, object], object] | None, why: str = ""
    ) -> None:
        self.default, self.check, self.why = default, check, why


def hint(*, default: T, check: Callable[[str, object], object]) -> T:
    """Declare a field whose value is checked and changes no result."""
    return cast("T", _Field(default, check))


def refused(*, default: T, why: str) -> T:
    """Declare an unsupported field; ``False`` and empty values are accepted."""
    return cast("T", _Field(default, None, why))


def _is_unset(value: object, default: object) -> bool:
    if isinstance(value, str):
        return value == default
    return isinstance(value, bool | list | tuple | dict | bytes) and not value


@dataclass_transform(frozen_default=True, field_specifiers=(hint, refused))
class Arguments:
    """The arguments of a call: the passed values, and defaults for the others.

    A subclass has a parameter for each of its annotations.  Parameters after ``_: KW_ONLY`` are
    keyword-only.  The class is no dataclass, because dataclasses with so many fields add
    milliseconds to the start of each process.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        An argument does not match its annotation, or the parameter does not exist.
    NotOfferedError
        A refused argument was passed.

    Examples
    --------
    >>> class Sized(Arguments):
    ...     rows: int
    ...     columns: list[str] | None = None
    >>> Sized(3).columns, Sized(3, ["x"]).given
    (None, {'rows': 3, 'columns': ['x']})
    >>> Sized("3")
    Traceback (most recent call last):
    lancekit.errors.InvalidTypeError: rows must be an integer, got '3'.
    """

    _fields: ClassVar[Mapping[str, _Field]] = {}

    def __init_subclass__(cls) -> None:
        declared = {name: one for name, one in vars(cls).items() if isinstance(one, _Field)}
        for name, one in declared.items():
            setattr(cls, name, one.default)
        inherited: dict[str, _Field] = {}
        for base in reversed(cls.__bases__):
            inherited.update(getattr(base, "_fields", {}))
        cls._fields = {**inherited, **declared}

    if not TYPE_CHECKING:

        def __init__(self, *args: object, **kwargs: object) -> None:
            self._fill(_check_of(type(self))(args, kwargs), type(self).__name__)

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{name} cannot be set: create a changed record with `but`")

    @classmethod
    def parameters(cls) -> inspect.Signature:
        """Return the parameters that the fields declare, as a signature."""
        if cls not in _PARAMETERS_OF:
            _PARAMETERS_OF[cls] = _parameters(cls)
        return _PARAMETERS_OF[cls]

    @classmethod
    def of(cls, given: Mapping[str, object], taker: str, method: str) -> Self:
        """Return a record of keyword arguments, after checking them.

        Raises InvalidTypeError: an argument does not exist.  The error names the function, and the
        method whose arguments it takes.
        """
        check_known(taker, given, cls.parameters().parameters, method)
        return cls.checked(_check_of(cast("Any", cls))((), dict(given)), method.removesuffix("()"))

    @classmethod
    def checked(cls, given: Mapping[str, object], method: str) -> Self:
        """Return a record of arguments whose types are already checked; hints are checked here."""
        record = cls.__new__(cls)
        record._fill(given, method)
        return record

    def _fill(self, given: Mapping[str, object], method: str) -> None:
        for name in self._fields.keys() & given.keys():
            value, one = given[name], self._fields[name]
            if value is None or value is one.default:
                continue
            if one.check is not None:
                one.check(name, value)
            elif not _is_unset(value, one.default):
                raise refused_argument(method, name, one.why)
        self.__dict__.update(given)

    @property
    def given(self) -> dict[str, Any]:
        """The arguments that are not ``None``, by name."""
        return {name: value for name, value in self.__dict__.items() if value is not None}

    def as_(self, kind: type[K], **more: object) -> K:
        """Convert to another class of record: keep the arguments that it has, and add `more`."""
        known = kind.parameters().parameters
        mine = {name: value for name, value in self.given.items() if name in known}
        return kind.checked({**mine, **more}, kind.__name__)

    def but(self, **changes: object) -> Self:
        """Return a copy with other arguments, which are not checked."""
        record = type(self).__new__(type(self))
        record.__dict__.update(self.__dict__, **changes)
        return record

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.given.items())
        return f"{type(self).__name__}({fields})"


_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
_PARAMETERS_OF: dict[type, inspect.Signature] = {}


def _parameters(record: type) -> inspect.Signature:
    found: dict[str, inspect.Parameter] = {}
    for kind in reversed(record.__mro__):
        by_name = False
        for name, annotation in inspect.get_annotations(kind).items():
            if annotation in ("KW_ONLY", KW_ONLY):
                by_name = True
            elif not name.startswith("_"):
                default = getattr(record, name, inspect.Parameter.empty)
                how = inspect.Parameter.KEYWORD_ONLY if by_name else _POSITIONAL
                found[name] = inspect.Parameter(name, how, default=default, annotation=annotation)
    return inspect.Signature(sorted(found.values(), key=lambda one: one.kind))


@cache
def _check_of(record: type[Arguments]) -> Callable[..., Mapping[str, object]]:
    return checks_of(record.__name__, record.parameters())


class takes(Generic[P, A]):  # noqa: N801  # named like a decorator
    """Decorator: declare the arguments of a function by a record, which the function receives.

    The signature that `help`, editors and the site show is the record's.  The docstring gets the
    record's Parameters section.  A decorator of `lancekit._checked` builds the record.

    Parameters
    ----------
    record
        The class of the record.
    order
        The names of the positional parameters, in their order, where it differs from the record's.
        The other parameters are keyword-only.
    """

    def __init__(self, record: Callable[P, A], order: str | None = None) -> None:
        self.record = cast("type[Arguments]", record)
        self.order = order

    @overload
    def __call__(self, function: Callable[[A], R]) -> Callable[P, R]: ...

    @overload
    def __call__(self, function: Callable[[S, A], R]) -> Callable[Concatenate[S, P], R]: ...

    def __call__(self, function: Callable[..., object]) -> Callable[..., object]:
        vars(function)["_takes"] = self
        function.__doc__ = _with_parameters(function.__doc__, self.record)
        return function

    def signature(self, function: Callable[..., object]) -> inspect.Signature:
        """Return the signature of a function that takes the record."""
        own = inspect.signature(function)
        before = list(own.parameters.values())[:-1]
        return own.replace(parameters=[*before, *self._ordered()])

    def _ordered(self) -> list[inspect.Parameter]:
        found = dict(self.record.parameters().parameters)
        if self.order is None:
            return list(found.values())
        by_place = [found.pop(name) for name in self.order.split()]
        by_name = [one.replace(kind=one.KEYWORD_ONLY) for one in found.values()]
        return [one.replace(kind=one.POSITIONAL_OR_KEYWORD) for one in by_place] + by_name

    def passed(self, function: Callable[..., object], given: Mapping[str, object]) -> Passed:
        """Return positional and keyword arguments for the function, from checked arguments."""
        of_record = dict(given)
        before = [of_record.pop("self")] if "self" in given else []
        name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        return (*before, self.record.checked(of_record, name)), {}


_PARAMETERS = "\n\nParameters\n----------\n"
#: the docstring sections that come after Parameters
_LATER_SECTIONS = ("\n\nReturns\n---", "\n\nYields\n---", "\n\nRaises\n---", "\n\nExamples\n---")


def _with_parameters(text: str | None, record: type) -> str | None:
    """Insert the Parameters sections of a record's docstrings into a function's docstring."""
    if text is None:  # Python was started with -OO
        return text
    own = inspect.cleandoc(text)
    at = min(
        (at for heading in _LATER_SECTIONS if (at := own.find(heading)) >= 0), default=len(own)
    )
    return own[:at] + _section(record) + own[at:]


@cache
def _section(record: type) -> str:
    docs = [inspect.cleandoc(vars(kind).get("__doc__") or "") for kind in reversed(record.__mro__)]
    parts = [after for text in docs[1:] if (after := text.partition(_PARAMETERS)[2])]
    return _PARAMETERS + "\n".join(parts) if parts else ""


# ---- types for annotations: dictionaries as in pylance, and protocols of handles for lower rooms

#: new values by column: SQL text, expressions, or constants that are not text
Values: TypeAlias = Mapping[str, object]
#: the columns of a read: names and expressions, or a dictionary from result names to SQL
Columns: TypeAlias = (
    list[str]
    | list["Expression"]
    | list["str | Expression"]
    | dict[str, str]
    | dict[str, "Expression"]
    | dict[str, "str | Expression"]
    | None
)


class DatasetLike(Protocol):
    """A `lancekit.LanceDataset`."""

    @property
    def uri(self) -> str:
        """The path or URI of the dataset."""

    @property
    def version(self) -> int:
        """The version number of the handle."""


class FragmentLike(Protocol):
    """A `lancekit.LanceFragment`."""

    @property
    def fragment_id(self) -> int:
        """The id of the fragment."""


class AlterColumn(TypedDict, total=False):
    """A change of a column, for `LanceDataset.alter_columns`."""

    path: Required[str]
    name: str | None
    nullable: bool | None
    data_type: pa.DataType | None


class AutoCleanupConfig(TypedDict):
    """The settings of automatic cleanup, for `DatasetOptimizer.enable_auto_cleanup`."""

    interval: int
    older_than_seconds: NotRequired[int]
    retain_versions: NotRequired[int]

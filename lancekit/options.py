"""Options of the package, each declared once with type, default, check and description.

An assignment (``lk.options.fsync = False``) applies to the process.  A ``with`` block
(``with lk.options(fsync=False): ...``) applies to the block and its context, so that threads and
nested displays do not affect each other.  In a block that sets the option, an assignment applies to
the rest of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lancekit._choice import check_choice
from lancekit._extras import install_hint
from lancekit._legible import shown, without_secrets
from lancekit.errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "DEFAULT_GOAL",
    "DEFAULT_PAGE_MEMORY",
    "GOALS",
    "Options",
    "check_goal",
    "options",
    "when_set",
]

#: default memory limit of a page; writers never exceed it, even if the option is higher
DEFAULT_PAGE_MEMORY = 1 << 29

#: reading patterns that strings can be optimized for
DEFAULT_GOAL = "balance"
GOALS = (DEFAULT_GOAL, "scan", "take", "size")

Check = Callable[[str, object], object]
ProgressOption: TypeAlias = bool | str | Callable[[Any], None]


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidTypeError(
            f"option {name!r} must be True or False, got {shown(value)}.", option=name, value=value
        )
    return value


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTypeError(
            f"option {name!r} must be an integer, got {shown(value)}.", option=name, value=value
        )
    if value < 0:
        raise InvalidArgumentError(
            f"option {name!r} must be 0 or more, got {value}.", option=name, value=value
        )
    return value


@dataclass(frozen=True, slots=True)
class _OneOf:
    choices: tuple[str, ...]

    def __call__(self, name: str, value: object) -> str:
        check_choice(f"option {name!r}", value, self.choices, option=name)
        return str(value)


def _one_of(*choices: str) -> Check:
    return _OneOf(choices)


def _progress(name: str, value: object) -> object:
    if value != "auto" and not isinstance(value, bool) and not callable(value):
        raise InvalidTypeError(
            f"option {name!r} must be 'auto', True, False or a function, got {shown(value)}.",
            option=name,
            value=value,
        )
    return value


def _uri_prefixes(name: str, value: Any) -> tuple[str, ...]:
    sequence = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not sequence or not all(isinstance(item, str) and item for item in value):
        raise InvalidTypeError(
            f"option {name!r} must be a sequence of URIs, got {shown(value)}.",
            hint=f'For example: lk.options.{name} = ["s3://bucket/shared"].',
            option=name,
            value=value,
        )
    return tuple(value)


def check_goal(goal: str) -> str:
    """Return the goal that strings are optimized for; raise if it is unknown.

    Raises
    ------
    InvalidArgumentError
        The goal is not one of `GOALS`.
    """
    check_choice("optimize_for", goal, GOALS)
    return goal


if TYPE_CHECKING:
    from dataclasses import dataclass as _record  # `options` has the same names, and is mutable
else:
    _record = dataclass(frozen=True, slots=True, kw_only=True)


def _option(default: object, check: Check, doc: str) -> Any:
    return field(default=default, metadata={"check": check, "doc": doc})


@_record
class Options:
    """Set of option values; read the current values through ``lancekit.options``."""

    fsync: bool = _option(
        True, _flag, "On a local disk, flush every file to disk before a manifest refers to it."
    )
    checksums: bool = _option(
        False, _flag, "Write checksums into data files. Only lancekit reads them."
    )
    optimize_for: Literal["balance", "scan", "take", "size"] = _option(
        DEFAULT_GOAL,
        _one_of(*GOALS),
        "What text in data files is optimized for: full scans, random access, or little space.",
    )
    verify_checksums: bool = _option(
        False, _flag, "Verify the checksums of data files that have them."
    )
    trusted_bases: tuple[str, ...] = _option(
        (),
        _uri_prefixes,
        "URI prefixes outside of a dataset from which base paths and blobs can be opened.",
    )
    trusted_cleanup: tuple[str, ...] = _option(
        (),
        _uri_prefixes,
        "URI prefixes of datasets whose own settings for automatic cleanup are applied.",
    )
    page_memory_bytes: int = _option(
        DEFAULT_PAGE_MEMORY,
        _count,
        "Memory limit for decoding a page of a data file: this value, or 64 times the page's bytes "
        "if that is more.",
    )
    oldest_reader: Literal["4.0.0", "14.0.2"] = _option(
        "4.0.0",
        _one_of("4.0.0", "14.0.2"),
        "The oldest release of the reference that reads the data. Features that it reads wrongly "
        "are refused.",
    )
    kernels: bool = _option(
        True, _flag, f"Use compiled kernels if they are available. {install_hint('fast')}."
    )
    cache_bytes: int | None = _option(
        None,
        lambda name, value: None if value is None else _count(name, value),
        "Limit of the cache in bytes; None for a tenth of the memory, 1 GiB at most, and 64 MiB "
        "in a Spark worker; 0 for no cache.",
    )
    pinned_writes: Literal["warn", "error"] = _option(
        "warn",
        _one_of("warn", "error"),
        "What a write does by a handle that was opened at an old version: it warns and goes on top "
        "of the newest, or it is refused.",
    )
    provenance: Literal["off", "names", "source"] = _option(
        "off",
        _one_of("off", "names", "source"),
        "The provenance that versions record: nothing, the names of cell, script and user, or "
        "also the cell's text.",
    )
    engine: Literal["auto", "local", "spark"] = _option(
        "auto", _one_of("auto", "local", "spark"), "Where work runs: in this process or on Spark."
    )
    spark_threshold_rows: int = _option(
        50_000_000,
        _count,
        'With engine "auto" and an active session, work on this many rows or more runs on Spark.',
    )
    merge_match: Literal["auto", "driver", "closure", "file", "broadcast", "shuffle"] = _option(
        "auto",
        _one_of("auto", "driver", "closure", "file", "broadcast", "shuffle"),
        "The strategy that matches keys in a merge on Spark; normally chosen by size.",
    )
    merge_driver_rows: int = _option(
        2_000_000,
        _count,
        "A merge on Spark of at most this many rows matches keys in this process, if the dataset "
        "has no more than spark_threshold_rows.",
    )
    target_file_bytes: int = _option(
        512 << 20,
        _count,
        "Size of the data files that Spark tasks write: large partitions are split, and small "
        "adjacent files are joined before the commit; 0 for one file per partition.",
    )
    source_memory_bytes: int = _option(
        1 << 30,
        _count,
        "A stream of rows to merge is kept in memory up to this size, else in a temporary file.",
    )
    shared_folders: tuple[str, ...] = _option(
        (), _uri_prefixes, "Local folders that all machines of a Spark cluster see at one path."
    )
    progress: ProgressOption = _option(  # like the others; the alias hides the call
        "auto",
        _progress,
        "Progress bars: in notebooks and terminals, always, never, or a function to call.",
    )
    display_rows: int = _option(10, _count, "Most rows that a table shows.")
    display_columns: int = _option(20, _count, "Most columns that a schema or table shows.")
    show_tables: bool = _option(
        True, _flag, "In IPython, show the first rows of a pyarrow.Table as a table."
    )
    display_reads: bool = _option(
        True,
        _flag,
        "Diffs, merge plans and branch comparisons read rows for their cards: at most 256 MiB in a "
        "second on a local disk, 8 MiB elsewhere.",
    )


_FIELDS = {option.name: option for option in fields(Options)}
_listeners: dict[str, Callable[[], object]] = {}
_blocks: ContextVar[Mapping[str, Any]] = ContextVar("lancekit_options", default={})  # noqa: B039


def _checked(values: Mapping[str, object]) -> dict[str, Any]:
    for name in values:
        if name not in _FIELDS:
            raise InvalidArgumentError(
                f"There is no option {name!r}.",
                hint="The options are " + ", ".join(_FIELDS) + ".",
                option=name,
            )
    return {name: _FIELDS[name].metadata["check"](name, value) for name, value in values.items()}


class _Block:
    """Option values that apply within a ``with`` block."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values
        self._token: Token[Mapping[str, Any]] | None = None

    def __enter__(self) -> None:
        self._token = _blocks.set({**_blocks.get(), **self._values})

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _blocks.reset(self._token)
            self._token = None


class _Current:
    """Current options, by name; assign to change one, call for a ``with`` block.

    Examples
    --------
    >>> with options(display_rows=3):
    ...     options.display_rows
    3
    >>> options.display_rows
    10
    """

    __slots__ = ("_process",)
    _process: Options

    def __init__(self) -> None:
        object.__setattr__(self, "_process", Options())

    def __call__(self, **values: object) -> _Block:
        """Return a context manager that sets the given options for its block."""
        return _Block(_checked(values))

    def current(self) -> Options:
        """Return all current values as one frozen record."""
        return replace(self._process, **_blocks.get())

    def for_the_process(self, name: str) -> Any:
        """Return a value outside of all ``with`` blocks."""
        return getattr(self._process, name)

    def choices_of(self, name: str) -> tuple[str, ...]:
        """Return the texts that an option takes; none if it takes others, or does not exist."""
        check = _FIELDS[name].metadata["check"] if name in _FIELDS else None
        return check.choices if isinstance(check, _OneOf) else ()

    def __getattr__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise AttributeError(f"there is no option {name!r}; there are {', '.join(_FIELDS)}")
        blocks = _blocks.get()
        return blocks[name] if name in blocks else getattr(self._process, name)

    def __setattr__(self, name: str, value: object) -> None:
        values = _checked({name: value})
        blocks = _blocks.get()
        if name in blocks:
            _blocks.set({**blocks, **values})
        else:
            object.__setattr__(self, "_process", replace(self._process, **values))
            if name in _listeners:
                _listeners[name]()

    __getitem__, __setitem__ = __getattr__, __setattr__

    def __reduce__(self) -> str:
        return "options"  # unpickles as the other process's options

    def __dir__(self) -> list[str]:
        return [*_FIELDS, "current", "for_the_process"]

    def __repr__(self) -> str:
        width = max(map(len, _FIELDS))
        shown = {name: without_secrets(repr(getattr(self, name))) for name in _FIELDS}
        return "\n".join(
            f"{name:<{width}}  {shown[name]:<12}  {option.metadata['doc']}"
            for name, option in _FIELDS.items()
        )


if TYPE_CHECKING:

    class _Typed(Options):
        """The options, with their types."""

        def __call__(self, **values: object) -> _Block: ...
        def current(self) -> Options: ...
        def for_the_process(self, name: str) -> Any: ...
        def choices_of(self, name: str) -> tuple[str, ...]: ...

    options: _Typed
else:
    options = _Current()


def when_set(name: str, tell: Callable[[], object]) -> None:
    """Register a function that is called whenever an option is set for the process.

    Parameters
    ----------
    name
        The name of the option; a later call replaces the function.
    tell
        The function.

    Raises
    ------
    Exception
        An error of ``tell`` reaches the code that sets the option.

    Examples
    --------
    >>> when_set("fsync", lambda: print("fsync is", options.fsync))  # doctest: +SKIP
    >>> options.fsync = False  # doctest: +SKIP
    fsync is False
    """
    _listeners[name] = tell

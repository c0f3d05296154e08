"""Checks of arguments that follow pylance's signatures: valid, ignored as hints, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from lancekit._checked import TAKEN_ELSEWHERE, is_flag, is_whole, not_taken_here
from lancekit._choice import check_choice
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotOfferedError

T = TypeVar("T")

#: the reason why each argument of pylance is refused; no such argument is silently ignored
REFUSED: Mapping[str, str] = {
    "progress_callback": "progress bars show long work (lancekit.options.progress)",
    "precomputed_partition_dataset": "lancekit assigns rows to partitions itself",
    "accelerator": "vectors are assigned to partitions on the CPU",
    "format_version": "full-text indices are written in format 2",
    **dict.fromkeys(
        [
            "analyzer",
            "index_operators",
            "preserve_original",
            "split_identifiers",
            "split_on_numerics",
        ],
        "text is not analyzed as code",
    ),
    "document_granularity": "searches find whole rows",
    "base_store_params": "base paths use the dataset's own storage options",
    "namespace_client": "namespaces are not supported; pass the dataset's path or URI",
    "namespace_client_managed_versioning": "namespaces are not supported",
    "table_id": "namespaces are not supported; pass the dataset's path or URI",
}


def refuse(method: str, **arguments: object) -> None:
    """Raise ``NotOfferedError`` for the first argument that was passed (is not ``None``)."""
    for name, value in arguments.items():
        if value is not None:
            raise refused_argument(method, name, REFUSED[name])


def refused_argument(method: str, name: str, why: str) -> NotOfferedError:
    """Return the error for an argument that is not supported."""
    return NotOfferedError(
        f"{method}({name}=...) is not supported: {why}.",
        hint="Leave the argument out, or use pylance for this call.",
        method=method,
        argument=name,
    )


def refuse_more(
    method: str, arguments: Iterable[str], hint: str = "Leave the argument out."
) -> None:
    """Raise ``InvalidArgumentError`` for the first of some arguments without support."""
    for name in arguments:
        raise InvalidArgumentError(
            f"{method}({name}=...) is not supported.", hint=hint, method=method, argument=name
        )


def check_known(taker: str, given: Iterable[str], known: Iterable[str], method: str) -> None:
    """Raise ``InvalidTypeError`` if `taker` got an argument that `method` does not have."""
    allowed = set(known)
    for name in given:
        if name not in allowed:
            if name in TAKEN_ELSEWHERE:
                raise not_taken_here(taker.removesuffix("()"), name)
            from lancekit._guesses import argument_hint  # large, and needed only for errors

            value = given[name] if isinstance(given, Mapping) else None
            line = argument_hint(taker.removesuffix("()"), allowed, {name: value})
            raise InvalidTypeError(
                f"{taker} has no argument {name!r}.",
                hint=line or f"Pass arguments of {method}.",
                argument=name,
            )


def check_count(name: str, value: Any, *, least: int = 0) -> int:
    """Return a whole number, checked to be at least ``least``."""
    if not is_whole(value):
        raise InvalidTypeError(
            f"{name} must be an integer of {least} or more, got {shown(value)}.", argument=name
        )
    number = int(value)
    if number < least:
        raise InvalidArgumentError(
            f"{name} must be an integer of {least} or more, got {number}.",
            argument=name,
            value=number,
        )
    return number


def check_wait(name: str, value: timedelta) -> timedelta:
    """Return a duration, checked to be non-negative."""
    if not isinstance(value, timedelta):
        raise InvalidTypeError(
            f"{name} must be a timedelta, got {shown(value)}.",
            hint="Pass a timedelta such as timedelta(seconds=60).",
            argument=name,
        )
    if value < timedelta(0):
        raise InvalidArgumentError(
            f"{name} must not be negative, got {value.total_seconds():g} seconds.",
            hint="Pass a timedelta such as timedelta(seconds=60).",
            argument=name,
            value=value,
        )
    return value


def check_callback(name: str, function: Callable[..., T] | None) -> Callable[..., T] | None:
    """Return a callback or ``None``.

    Raises InvalidArgumentError: the value is not callable; pylance raises a ``ValueError``, too.
    """
    if function is not None and not callable(function):
        raise InvalidArgumentError(
            f"{name} must be a function, got {shown(function)}.",
            hint="Pass a function of one argument.",
            argument=name,
        )
    return function


def check_flag(name: str, value: object) -> bool:
    """Return a flag as a bool; ``InvalidTypeError`` for any other value."""
    if not is_flag(value):
        raise InvalidTypeError(f"{name} must be True or False, got {shown(value)}.", argument=name)
    return bool(value)


def check_names_or_flag(name: str, value: object) -> None:
    """Raise ``InvalidTypeError`` if the value is neither column names nor a flag."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        check_flag(name, value)
    else:
        check_names(name, value)


def check_mapping(name: str, value: object) -> Mapping[Any, object]:
    """Return a mapping; ``InvalidTypeError`` for any other value."""
    if not isinstance(value, Mapping):
        raise InvalidTypeError(f"{name} must be a dict, got {shown(value)}.", argument=name)
    return value


def check_session(name: str, value: object) -> None:
    """Raise ``InvalidTypeError`` if the value is not a session, pylance's or lancekit's."""
    if not hasattr(type(value), "is_same_as"):
        raise InvalidTypeError(
            f"{name} must be a session, got {shown(value)}.",
            hint="Pass ds.session().",
            argument=name,
        )


def check_read_params(name: str, value: object) -> None:
    """Raise if the value is not a dictionary of read parameters: two known keys, with flags."""
    for key, flag in check_mapping(name, value).items():
        check_choice(f"a key of {name}", key, ["cache_repetition_index", "validate_on_decode"])
        check_flag(f"{name}[{key!r}]", flag)


#: hints (arguments that change no result) that are in no argument record, with their checks
_HINTS: Mapping[str, Callable[[str, object], object]] = {
    **dict.fromkeys(
        ["delete_rate_limit", "io_buffer_size", "memory_limit", "batch_readhead", "num_workers"],
        check_count,
    ),
    **dict.fromkeys(["ignore_deletions", "preserve_order", "verbose"], check_flag),
}


def check_hints(**given: object) -> None:
    """Check the values of hints; ``None`` means that a hint is not set."""
    for name, value in given.items():
        if value is not None:
            _HINTS[name](name, value)


def check_list(name: str, value: object, of: str) -> list[Any]:
    """Return an iterable as a list; ``InvalidTypeError`` for a single string."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidTypeError(f"{name} must be a list of {of}, got {shown(value)}.", argument=name)
    return list(value)


def check_items(name: str, value: object, kind: type[T], of: str) -> list[T]:
    """Return a list of instances of one class; ``InvalidTypeError`` for any other value."""
    listed = check_list(name, value, of)
    for item in listed:
        if not isinstance(item, kind):
            raise InvalidTypeError(
                f"{name} must be a list of {of}, but contains {shown(item)}.", argument=name
            )
    return listed


def check_names(argument: str, names: object) -> tuple[str, ...]:
    """Return column names as a tuple; ``None`` gives an empty one, and a string a single name."""
    if names is None:
        return ()
    listed = [names] if isinstance(names, str) or not isinstance(names, Iterable) else [*names]
    found = tuple(name for name in listed if isinstance(name, str))
    if len(found) < len(listed):
        raise InvalidTypeError(
            f"{argument} must be column names, got {shown(names)}.", argument=argument
        )
    return found


def check_place(uri: object) -> Any:
    """Return a dataset's path or URI; ``InvalidArgumentError`` if it is ``None``."""
    if uri is None:
        raise InvalidArgumentError(
            "No path or URI was passed.", hint="Pass one, such as 'flights.lance'."
        )
    return uri

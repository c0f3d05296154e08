"""The errors for several rows with one key: each text stands here alone."""

from __future__ import annotations

from lancekit.errors import DuplicateKeysError
from lancekit.legible import count, literals
from lancekit.pipeline.keys.probe import show_keys

__all__ = [
    "repeated_in_columns",
    "repeated_in_merge",
    "repeated_in_source",
    "repeated_in_write",
    "repeated_since_checked",
]


_HINT = (
    "Say which row to keep: merge_insert(..., dedupe='last'), or dedupe_by= and a column of which "
    "the largest value counts."
)


def repeated_in_source(
    on: tuple[str, ...], keys: list[tuple[object, ...]], rows: int, hint: str = _HINT
) -> DuplicateKeysError:
    """Return the error for a merge's source in which keys occur more than once."""
    return DuplicateKeysError(
        f"{rows} rows of the source share their keys with others: {show_keys(on, keys)}.",
        hint=hint,
        keys=keys,
        on=on,
    )


def repeated_in_write(
    message: str, on: tuple[str, ...], example: tuple[object, ...]
) -> DuplicateKeysError:
    """Return the error for a write with ``primary_key_check="error"`` whose rows share a key."""
    return DuplicateKeysError(
        message,
        hint="Leave one row for each key. primary_key_check='warn' writes them.",
        keys=[example],
        on=on,
    )


def repeated_in_merge(
    key: tuple[str, ...],
    example: tuple[object, ...],
    rows: tuple[int, int],
    called: tuple[str, str, str],
) -> DuplicateKeysError:
    """Return the error for a merge of branches of which one set a key that the other's rows repeat.

    ``rows`` holds how many rows share their keys and how many there are; ``called`` names the
    version that set the key, the merge base, and the version of the other side.
    """
    repeated, total = rows
    setter, base, other = called
    named = literals(dict(zip(key, example, strict=True)))
    return DuplicateKeysError(
        f"{count(repeated)} of {count(total)} merged rows would share their primary key "
        f"({', '.join(key)}) with another row: for example, more than one row would have {named}. "
        f"{setter.capitalize()} set the key since {base}, and {other} has other rows.",
        hint="Delete or change these rows on one side, or take the key back, and merge again. "
        f"ds.duplicates({list(key)!r}) shows such rows of a version.",
        keys=[example],
        on=key,
        duplicates=repeated,
    )


def repeated_since_checked(on: tuple[str, ...]) -> DuplicateKeysError:
    """Return the error for a merge's source on Spark that came out different the second time."""
    return DuplicateKeysError(
        "The source held each key once when it was checked, and one of them twice when it was "
        "merged: a part that Spark had cached was lost, and came out different.",
        hint="Write the source to a table first, and merge that.",
        on=on,
    )


def repeated_in_columns(name: str, value: object) -> DuplicateKeysError:
    """Return the error for new columns on Spark of which several rows have one key."""
    return DuplicateKeysError(
        f"Several of the new rows have the key {name} = {value!r}.",
        hint="Leave one row for each key: rows on Spark have no order, so none is the last.",
        keys=[(value,)],
    )

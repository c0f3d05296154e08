"""The errors for several rows with one key: each text stands here alone."""

from __future__ import annotations

from lancekit.errors import DuplicateKeysError
from lancekit.pipeline.keys.probe import show_keys

__all__ = [
    "repeated_in_columns",
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

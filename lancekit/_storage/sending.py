"""Stores that are sent to other machines: what lies on this machine's disk is not there.

Whoever pickles work for tasks says so with `sent_to`; a store on a local disk then refuses, with
the reason, unless ``lancekit.options.shared_folders`` lists it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lancekit.errors import StorageError
from lancekit.options import options

__all__ = ["check_sent", "sent_to"]

_elsewhere: ContextVar[str | None] = ContextVar("lancekit_sent_to", default=None)


@contextmanager
def sent_to(place: str | None) -> Iterator[None]:
    """Say where what is pickled in this block will be used; ``None`` is this machine."""
    token = _elsewhere.set(place)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def check_sent(folder: str) -> None:
    """Refuse a local folder that machines elsewhere would not find.

    Raises
    ------
    StorageError
        The tasks run elsewhere, and the folder is not listed as shared.
    """
    place = _elsewhere.get()
    if place is None or any(_is_below(folder, shared) for shared in options.shared_folders):
        return
    raise StorageError(
        f"{folder} is on this machine's disk, and the tasks of {place} run on others.",
        hint="Keep the dataset in an object store, or, if all machines see this folder at this "
        f"path, say so: lancekit.options.shared_folders = [{folder!r}].",
        path=folder,
        session=place,
    )


def _is_below(folder: str, shared: str) -> bool:
    root = os.path.abspath(os.path.expanduser(shared.removeprefix("file://")))
    return os.path.commonpath([root, folder]) == root

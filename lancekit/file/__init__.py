"""Lance data files: Arrow batches in, one file out, and back with projection and row selection.

Knows nothing of tables, versions or deletions.

`reader` and `writer` are the two doors; `lance_file` opens them to users, by pylance's names, for
files without a dataset; `file_metadata` says what is in a file, and how, in words.  The folders
follow the chapters of the format, from the top: ``columns`` (a field's columns, divided into
pages), ``layouts`` (what a page looks like), ``structure`` (nesting, as levels), ``encodings`` (the
values), ``container`` (the frame of the file); below them ``kernels``, which know neither pages nor
files and raise the two exceptions of `kernels.faults`, which names the place.

A format of 2.1 and later is the rule; modules of 2.0 are called ``v20_*``.

The package gives away pylance's names, when they are asked for; the rooms above import modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lancekit.file.file_metadata import LanceFileMetadata
    from lancekit.file.file_session import LanceFileSession, ListResult
    from lancekit.file.lance_file import (
        LanceFileReader,
        LanceFileWriter,
        ReaderResults,
        stable_version,
    )

__all__ = [
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileWriter",
    "ListResult",
    "ReaderResults",
    "stable_version",
]

_HOMES = {
    "LanceFileMetadata": "file_metadata",
    "LanceFileSession": "file_session",
    "ListResult": "file_session",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'lance_file')}"), name)


def __dir__() -> list[str]:
    return __all__

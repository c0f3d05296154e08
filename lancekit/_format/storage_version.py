"""The versions of the format of data files that can be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lancekit._choice import check_choice
from lancekit.errors import NotOfferedError

__all__ = [
    "DEFAULT_VERSION",
    "LEGACY_VERSION",
    "STORAGE_VERSIONS",
    "check_storage_version",
    "check_written",
]

DEFAULT_VERSION = "2.2"

#: what may be asked for, and the version that it means
STORAGE_VERSIONS: Mapping[str, str] = {
    "stable": DEFAULT_VERSION,
    "2.0": "2.0",
    "2.1": "2.1",
    "2.2": "2.2",
}


#: what tables call the format before 2.0, whose files are read and never written
LEGACY_VERSION = "0.1"
_LEGACY_NAMES = ("legacy", LEGACY_VERSION)


def check_written(version: str) -> None:
    """Raise ``NotOfferedError`` if files of a version are read, but not written.

    Whoever makes a plan of new files asks, so that no work is lost.
    """
    if version in _LEGACY_NAMES:
        raise NotOfferedError(
            "Data files of format 0.1 are read, and not written.",
            hint="All files of a table are of one format: write its rows anew in a newer one, "
            'write_dataset(rows, uri, mode="overwrite", '
            f'data_storage_version="{DEFAULT_VERSION}").',
            data_storage_version=version,
        )


def check_storage_version(name: str, value: Any) -> str | None:
    """Return the version that an argument means, ``None`` for the dataset's own.

    Raises
    ------
    InvalidArgumentError
        There is no such version.
    NotOfferedError
        Its files are not written.
    """
    if value is None:
        return None
    if isinstance(value, str):
        check_written(value)
    check_choice(name, value, STORAGE_VERSIONS)
    return STORAGE_VERSIONS[value]

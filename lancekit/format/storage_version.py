"""The versions of the format of data files that can be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lancekit.choice import check_choice

__all__ = ["DEFAULT_VERSION", "STORAGE_VERSIONS", "check_storage_version"]

DEFAULT_VERSION = "2.2"

#: what may be asked for, and the version that it means
STORAGE_VERSIONS: Mapping[str, str] = {
    "stable": DEFAULT_VERSION,
    "2.0": "2.0",
    "2.1": "2.1",
    "2.2": "2.2",
}


def check_storage_version(name: str, value: Any) -> str | None:
    """Return the version that an argument means, ``None`` for the dataset's own.

    Raises
    ------
    InvalidArgumentError
        There is no such version.
    """
    if value is None:
        return None
    check_choice(name, value, STORAGE_VERSIONS)
    return STORAGE_VERSIONS[value]

"""File names inside a dataset's folder (docs/format/table.md, 1)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from uuid import UUID

#: name of a dataset's main branch
MAIN = "main"
DATA = "data"
#: regular expression of data files and of blobs next to one; the group is their common prefix
DATA_FILE = r"(data/[^/]+)(?:\.lance|/[^/]+\.blob)"
#: folder of blob objects that no data file owns
BLOBS = "_blobs"
VERSIONS = "_versions"
TRANSACTIONS = "_transactions"
DELETIONS = "_deletions"
INDICES = "_indices"
TAGS = "_refs/tags"
BRANCHES = "_refs/branches"
TREE = "tree"
HINT = "latest_version_hint.json"

_SUFFIX = ".manifest"
V2_NAME_LENGTH = 20 + len(_SUFFIX)
"""Length of a manifest's name in the V2 naming."""

_MAX_U64 = 2**64 - 1
_DETACHED = 2**63


class ManifestNaming(Enum):
    """Naming scheme of the manifests in one folder; only during a migration there are both."""

    V1 = 1
    """``{version}.manifest``."""
    V2 = 2
    """``{2**64 - 1 - version:020}.manifest``: the newest comes first in an ordered listing."""


def is_detached(version: int) -> bool:
    """Return True if a version is outside of the history: its number has the top bit set."""
    return version >= _DETACHED


def manifest_name(version: int, naming: ManifestNaming) -> str:
    """Return the file name of a version's manifest.

    Examples
    --------
    >>> manifest_name(1, ManifestNaming.V2)
    '18446744073709551614.manifest'
    """
    if is_detached(version):
        return f"d{version}{_SUFFIX}"
    if naming is ManifestNaming.V2:
        return f"{_MAX_U64 - version:020d}{_SUFFIX}"
    return f"{version}{_SUFFIX}"


def parse_manifest_name(name: str) -> tuple[int, ManifestNaming] | None:
    """Return version and naming; ``None`` for other files (staged, detached, temporary, hint).

    Examples
    --------
    >>> parse_manifest_name("18446744073709551614.manifest")
    (1, <ManifestNaming.V2: 2>)
    """
    stem, dot, rest = name.partition(".")
    if dot + rest != _SUFFIX or not (stem.isascii() and stem.isdigit()):
        return None
    if len(stem) == 20:
        return _MAX_U64 - int(stem), ManifestNaming.V2
    return int(stem), ManifestNaming.V1


def manifest_versions(found: Iterable[str]) -> list[int]:
    """Return the versions of the manifests among a folder's file names.

    Examples
    --------
    >>> manifest_versions(["18446744073709551614.manifest", "7.manifest", "x.tmp"])
    [1, 7]
    """
    # fast path for folders with ten thousand manifests of the V2 naming
    newer, other = [], []
    for name in found:
        stem = name[:20]
        if (
            len(name) == V2_NAME_LENGTH
            and name.endswith(_SUFFIX)
            and stem.isdecimal()
            and stem.isascii()
        ):
            newer.append(_MAX_U64 - int(stem))
        else:
            other.append(name)
    return newer + [parsed[0] for parsed in map(parse_manifest_name, other) if parsed]


def data_file_name(unique: UUID) -> str:
    """Return a data file's name: 24 binary digits, then 26 hexadecimal digits.

    The binary digits distribute keys over many prefixes of a bucket.
    """
    return f"{int.from_bytes(unique.bytes[:3], 'big'):024b}{unique.bytes[3:].hex()}.lance"


def transaction_name(read_version: int, unique: str) -> str:
    """Return the name of a transaction file."""
    return f"{read_version}-{unique}.txn"


def branch_folder(branch: str | None) -> str:
    """Return the folder of a branch relative to the main root; empty for main."""
    return f"{TREE}/{branch}" if branch else ""

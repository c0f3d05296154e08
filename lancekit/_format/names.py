"""File names inside a dataset's folder (docs/format/table.md, 1)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from uuid import UUID

#: the name of a dataset's own line of versions, beside those of its branches
MAIN = "main"
DATA = "data"
#: names of data files and of the blobs beside one; the group is what both begin with
DATA_FILE = r"(data/[^/]+)(?:\.lance|/[^/]+\.blob)"
#: objects of blobs that no data file owns
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
"""How many characters the name of a manifest of the newer naming has."""

_MAX_U64 = 2**64 - 1
_DETACHED = 2**63


class ManifestNaming(Enum):
    """How the manifests of one folder are named; a folder never mixes the two."""

    V1 = 1
    """``{version}.manifest``."""
    V2 = 2
    """``{2**64 - 1 - version:020}.manifest``: the newest comes first in an ordered listing."""


def is_detached(version: int) -> bool:
    """Return whether a version is outside of the history: such numbers have their top bit set."""
    return version >= _DETACHED


def manifest_name(version: int, naming: ManifestNaming) -> str:
    """Return the bare name of a version's manifest.

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
    """Return version and naming, ``None`` for any other file (staged, detached, temporary, hint).

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
    """Return the versions whose manifests are among the names of a folder's files.

    Examples
    --------
    >>> manifest_versions(["18446744073709551614.manifest", "7.manifest", "x.tmp"])
    [1, 7]
    """
    # ten thousand names at once: what looks like a name of the newer kind needs few looks
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
    """Return a data file's name: 24 binary digits, then 26 hexadecimal ones.

    The binary digits spread a bucket's keys over many prefixes.
    """
    return f"{int.from_bytes(unique.bytes[:3], 'big'):024b}{unique.bytes[3:].hex()}.lance"


def transaction_name(read_version: int, unique: str) -> str:
    """Return the name of a transaction file."""
    return f"{read_version}-{unique}.txn"


def branch_folder(branch: str | None) -> str:
    """Return the folder of a branch below the main root; empty for main itself."""
    return f"{TREE}/{branch}" if branch else ""

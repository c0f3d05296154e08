"""File names of shards (docs/format/memwal.md, 1)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lancekit._format.index import IndexMetadata

#: name of the system index
MEM_WAL = "__lance_mem_wal"

#: folder of the shards, below the branch's folder
LOGS = "_mem_wal"

#: folders of a shard's manifests and of its log entries
MANIFESTS = "manifest"
WAL = "wal"

#: folder of damaged entries that were moved out of the log
ASIDE = "set_aside"

#: folder, next to the shards, of the tables with quarantined rows
QUARANTINE = f"{LOGS}/quarantine"
#: prefix of these tables' ids, which distinguishes them from shard ids
_QUARANTINE_ID = b"lkquar"

#: version of the newest manifest, as an unreliable hint
MANIFEST_HINT = f"{MANIFESTS}/version_hint.json"

_NUMBERED = re.compile(r"([01]{64})\.(?:binpb|arrow)")
_GENERATION = re.compile(r"[0-9a-f]{8}_gen_([0-9]+)")


def mem_wal_entry(indices: Iterable[IndexMetadata]) -> IndexMetadata | None:
    """Return the index entry of the shards, or ``None``."""
    return next((index for index in indices if index.name == MEM_WAL), None)


def manifest_name(version: int) -> str:
    """Return the name of a manifest, relative to its shard.

    Examples
    --------
    >>> manifest_name(2)[:16]
    'manifest/0100000'
    """
    return f"{MANIFESTS}/{_bits(version)}.binpb"


def entry_name(number: int) -> str:
    """Return the name of the log entry at a position, relative to its shard."""
    return f"{WAL}/{_bits(number)}.arrow"


def aside_name(number: int) -> str:
    """Return a unique name for a damaged entry that is moved out of the log.

    Examples
    --------
    >>> aside_name(7)[:12]
    'set_aside/7-'
    """
    return f"{ASIDE}/{number}-{uuid.uuid4().hex[:8]}.arrow"


def _bits(number: int) -> str:
    return f"{number:064b}"[::-1]


def position(name: str) -> int:
    """Return the number in the name of a shard's manifest or log entry; 0 for other files.

    Examples
    --------
    >>> position(entry_name(5)), position("manifest/version_hint.json")
    (5, 0)
    """
    found = _NUMBERED.fullmatch(name.rpartition("/")[2])
    return int(found[1][::-1], 2) if found else 0


def generation_folder(number: int) -> str:
    """Return a unique folder name for a generation."""
    return f"{uuid.uuid4().hex[:8]}_gen_{number}"


def generation_number(folder: str) -> int:
    """Return the number in the folder name of a generation; 0 for other folders.

    Examples
    --------
    >>> generation_number("0a1b2c3d_gen_12"), generation_number("manifest")
    (12, 0)
    """
    found = _GENERATION.fullmatch(folder)
    return int(found[1]) if found else 0


def new_quarantine() -> uuid.UUID:
    """Return a new id for a table of quarantined rows.

    Examples
    --------
    >>> is_quarantine(new_quarantine()), is_quarantine(uuid.uuid4())
    (True, False)
    """
    return uuid.UUID(bytes=_QUARANTINE_ID + uuid.uuid4().bytes[len(_QUARANTINE_ID) :])


def is_quarantine(one: uuid.UUID) -> bool:
    """Return True if an id belongs to a table of quarantined rows."""
    return one.bytes.startswith(_QUARANTINE_ID)

"""How the files of shards are called (docs/format/memwal.md, 1)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lancekit._format.index import IndexMetadata

#: the name of the system index
MEM_WAL = "__lance_mem_wal"

#: the folder of the shards, below that of a branch
LOGS = "_mem_wal"

#: the folders of a shard's manifests and of the entries of its log
MANIFESTS = "manifest"
WAL = "wal"

#: the folder of damaged entries that were moved out of the log
ASIDE = "set_aside"

#: the folder, beside the shards, of the tables of rows in quarantine
QUARANTINE = f"{LOGS}/quarantine"
#: the first bytes of the ids of these tables, which tell them from ids of shards
_QUARANTINE_ID = b"lkquar"

#: says which manifest was the newest one, for nobody to rely on
MANIFEST_HINT = f"{MANIFESTS}/version_hint.json"

_NUMBERED = re.compile(r"([01]{64})\.(?:binpb|arrow)")
_GENERATION = re.compile(r"[0-9a-f]{8}_gen_([0-9]+)")


def mem_wal_entry(indices: Iterable[IndexMetadata]) -> IndexMetadata | None:
    """Return the entry of the shards, if there is one."""
    return next((index for index in indices if index.name == MEM_WAL), None)


def manifest_name(version: int) -> str:
    """Return the name of a manifest, below its shard.

    Examples
    --------
    >>> manifest_name(2)[:16]
    'manifest/0100000'
    """
    return f"{MANIFESTS}/{_bits(version)}.binpb"


def entry_name(number: int) -> str:
    """Return the name of the entry at a position of the log, below its shard."""
    return f"{WAL}/{_bits(number)}.arrow"


def aside_name(number: int) -> str:
    """Return a fresh name for a damaged entry that is moved out of the log.

    Examples
    --------
    >>> aside_name(7)[:12]
    'set_aside/7-'
    """
    return f"{ASIDE}/{number}-{uuid.uuid4().hex[:8]}.arrow"


def _bits(number: int) -> str:
    return f"{number:064b}"[::-1]


def position(name: str) -> int:
    """Return the number that a file of a shard is named by; 0 if it is none of these.

    Examples
    --------
    >>> position(entry_name(5)), position("manifest/version_hint.json")
    (5, 0)
    """
    found = _NUMBERED.fullmatch(name.rpartition("/")[2])
    return int(found[1][::-1], 2) if found else 0


def generation_folder(number: int) -> str:
    """Return a fresh name for the folder of a generation."""
    return f"{uuid.uuid4().hex[:8]}_gen_{number}"


def generation_number(folder: str) -> int:
    """Return the number that a folder of a generation is named by; 0 if it is none.

    Examples
    --------
    >>> generation_number("0a1b2c3d_gen_12"), generation_number("manifest")
    (12, 0)
    """
    found = _GENERATION.fullmatch(folder)
    return int(found[1]) if found else 0


def new_quarantine() -> uuid.UUID:
    """Return a fresh id for a table of rows in quarantine.

    Examples
    --------
    >>> is_quarantine(new_quarantine()), is_quarantine(uuid.uuid4())
    (True, False)
    """
    return uuid.UUID(bytes=_QUARANTINE_ID + uuid.uuid4().bytes[len(_QUARANTINE_ID) :])


def is_quarantine(one: uuid.UUID) -> bool:
    """Tell whether an id is one of a table of rows in quarantine."""
    return one.bytes.startswith(_QUARANTINE_ID)

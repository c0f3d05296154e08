"""Feature flags of a manifest: which releases may read and write a dataset.

See docs/format/table.md, 4.

The reader flags control reading, the writer flags control committing.  Every commit computes both
from the content; a bit that is not in the table below is a feature of a newer release.
"""

from __future__ import annotations

from lancekit.errors import UnsupportedFeatureError

DELETION_FILES = 1
STABLE_ROW_IDS = 2
V2_FILES = 4
TABLE_CONFIG = 8
BASE_PATHS = 16
NO_TRANSACTION_FILE = 32
MIXED_FILE_VERSIONS = 256
LINEAGE_COLUMNS = 2048
MANAGED_BLOBS = 16384
#: flags that each commit computes from the content; other flags are kept
FROM_CONTENT = (
    DELETION_FILES | V2_FILES | TABLE_CONFIG | BASE_PATHS | NO_TRANSACTION_FILE | LINEAGE_COLUMNS
)

#: flags of tables that this release can commit to, and flags of tables that it can only read
_WRITABLE = FROM_CONTENT | STABLE_ROW_IDS | MIXED_FILE_VERSIONS | MANAGED_BLOBS
_READABLE = _WRITABLE | 128 | 1024 | 32768


def _unknown_bits(word: int, known: int) -> str | None:
    """Return the unknown bits of the flags as text, or ``None``.

    They have no names, because drafts of the format use the same bit for different features.
    """
    unknown = word & ~known
    places = [place for place in range(unknown.bit_length()) if unknown >> place & 1]
    return ", ".join(f"{1 << place} (bit {place})" for place in places) or None


def check_readable(reader_flags: int, where: str) -> None:
    """Raise ``UnsupportedFeatureError`` if a reader flag is unknown."""
    if unknown := _unknown_bits(reader_flags, _READABLE):
        raise UnsupportedFeatureError(
            f"{where} uses features that this release cannot read: flag {unknown}.",
            hint="Use a newer release of lancekit.",
            flags=reader_flags,
        )


def check_writable(writer_flags: int, where: str) -> None:
    """Raise ``UnsupportedFeatureError`` if this release cannot commit on top of the flags."""
    if unknown := _unknown_bits(writer_flags, _WRITABLE):
        raise UnsupportedFeatureError(
            f"{where} uses features that this release cannot write: flag {unknown}. "
            "Reading it works.",
            hint="Write with pylance, or with a newer release of lancekit.",
            flags=writer_flags,
        )

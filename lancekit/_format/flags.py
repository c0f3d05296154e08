"""Feature flags of a manifest: which a release may read, which it may write.

See docs/format/table.md, 4.

The reader word gates reading, the writer word gates committing.  Both are computed from the
content at every commit; a bit that is not in the table below is a feature of a newer release.
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
#: what each commit finds out anew; other flags are kept
FROM_CONTENT = (
    DELETION_FILES | V2_FILES | TABLE_CONFIG | BASE_PATHS | NO_TRANSACTION_FILE | LINEAGE_COLUMNS
)


#: what this release can commit on top of, and what it can only read
_WRITABLE = FROM_CONTENT | STABLE_ROW_IDS | MIXED_FILE_VERSIONS | MANAGED_BLOBS
_READABLE = _WRITABLE | 128 | 1024 | 32768


def _refused(word: int, known: int) -> str | None:
    """Return the bits of a word that are not known, as text.

    They have no names: drafts of the format give the same bit different meanings.
    """
    unknown = word & ~known
    places = [place for place in range(unknown.bit_length()) if unknown >> place & 1]
    return ", ".join(f"{1 << place} (bit {place})" for place in places) or None


def check_readable(reader_flags: int, where: str) -> None:
    """Raise ``UnsupportedFeatureError`` if a reader flag is not known."""
    if refused := _refused(reader_flags, _READABLE):
        raise UnsupportedFeatureError(
            f"{where} uses features that this release cannot read: flag {refused}.",
            hint="Open it with a newer release of lancekit.",
            flags=reader_flags,
        )


def check_writable(writer_flags: int, where: str) -> None:
    """Raise ``UnsupportedFeatureError`` if this release may not commit on top of the flags."""
    if refused := _refused(writer_flags, _WRITABLE):
        raise UnsupportedFeatureError(
            f"{where} uses features that this release cannot write: flag {refused}. "
            "Reading it works.",
            hint="Write to it with pylance, or with a newer release of lancekit.",
            flags=writer_flags,
        )

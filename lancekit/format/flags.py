"""Feature flags of a manifest: which a release may read, which it may write.

See docs/format/table.md, 4.

The reader word gates reading, the writer word gates committing.  Both are computed from the
content at every commit; a bit that is not in the table below is a feature of a newer release.
"""

from __future__ import annotations

from dataclasses import dataclass

from lancekit.errors import UnsupportedFeatureError

__all__ = [
    "BASE_PATHS",
    "DELETION_FILES",
    "FROM_CONTENT",
    "MIXED_FILE_VERSIONS",
    "NO_TRANSACTION_FILE",
    "STABLE_ROW_IDS",
    "TABLE_CONFIG",
    "check_readable",
    "check_writable",
]

DELETION_FILES = 1
STABLE_ROW_IDS = 2
V2_FILES = 4
TABLE_CONFIG = 8
BASE_PATHS = 16
NO_TRANSACTION_FILE = 32
MIXED_FILE_VERSIONS = 256
#: what each commit finds out anew; other flags are kept
FROM_CONTENT = DELETION_FILES | V2_FILES | TABLE_CONFIG | BASE_PATHS | NO_TRANSACTION_FILE


@dataclass(frozen=True, slots=True)
class _Flag:
    name: str
    read: bool = False
    write: bool = False


_FLAGS = {
    DELETION_FILES: _Flag("deletion files", read=True, write=True),
    STABLE_ROW_IDS: _Flag("stable row ids", read=True, write=True),
    V2_FILES: _Flag("2.x data files", read=True, write=True),
    TABLE_CONFIG: _Flag("table config", read=True, write=True),
    BASE_PATHS: _Flag("base paths", read=True, write=True),
    NO_TRANSACTION_FILE: _Flag("no transaction file", read=True, write=True),
    64: _Flag("data overlay files"),
    128: _Flag("covering index columns", read=True),
    MIXED_FILE_VERSIONS: _Flag("mixed file versions", read=True, write=True),
    512: _Flag("fragment reuse with stable row ids"),
    1024: _Flag("tagged fragment-reuse transitions", read=True),
    2048: _Flag("row lineage in data files"),
    4096: _Flag("clustering metadata"),
    16384: _Flag("managed blobs"),
    32768: _Flag("field ids that are never reused", read=True),
    65536: _Flag("zone write seeds"),
}


def _refused(word: int, verb: str) -> list[str]:
    bits = [1 << place for place in range(word.bit_length()) if word >> place & 1]
    return [
        f"{bit} ({_FLAGS[bit].name})" if bit in _FLAGS else str(bit)
        for bit in bits
        if not getattr(_FLAGS.get(bit), verb, False)
    ]


def check_readable(reader_flags: int, where: str) -> None:
    """Raise ``UnsupportedFeatureError`` if a reader flag is not known."""
    if refused := _refused(reader_flags, "read"):
        raise UnsupportedFeatureError(
            f"{where} uses features that this release cannot read: flag {', '.join(refused)}.",
            hint="Open it with a newer release of lancekit.",
            flags=reader_flags,
        )


def check_writable(writer_flags: int, where: str) -> None:
    """Raise ``UnsupportedFeatureError`` if this release may not commit on top of the flags."""
    if refused := _refused(writer_flags, "write"):
        raise UnsupportedFeatureError(
            f"{where} uses features that this release cannot write: flag {', '.join(refused)}. "
            "Reading it works.",
            hint="Write to it with pylance, or with a newer release of lancekit.",
            flags=writer_flags,
        )

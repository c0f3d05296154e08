"""Which fields the indices of a version are of, without all else that indices say of themselves.

See docs/format/table.md, 2.1, and message `IndexSection`.
"""

from __future__ import annotations

from lancekit._format.pb import table_pb2 as pb
from lancekit._format.unknown_fields import parse

__all__ = ["indexed_fields"]


def indexed_fields(data: bytes, where: str) -> frozenset[int]:
    """Return the ids of all fields that some index is of.

    Raises
    ------
    CorruptFileError
        The section does not parse; ``where`` names its file.
    """
    section = parse(pb.IndexSection, data, f"index section of {where}")
    return frozenset(field for index in section.indices for field in index.fields)

"""What became of rows that were compacted while indices kept their addresses.

See docs/format/indices.md, 15.
"""

from __future__ import annotations

from dataclasses import dataclass

from lancekit.errors import UnsupportedFeatureError
from lancekit.format.index import IndexDetails
from lancekit.format.pb import table_pb2 as pb
from lancekit.format.unknown_fields import parse

__all__ = ["ReuseGroup", "parse_fragment_reuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseGroup:
    """Fragments that were put together, and those that they became, with their rows.

    `survivors` is the encoded set of the addresses of rows that were not left out.
    """

    old: tuple[int, ...]
    new: tuple[tuple[int, int], ...]
    survivors: bytes


def parse_fragment_reuse(name: str, stored: IndexDetails | None) -> tuple[ReuseGroup, ...]:
    """Decode the details of the index of this name, which keeps it, the oldest compaction first.

    Raises
    ------
    CorruptFileError
        They are none.
    UnsupportedFeatureError
        They stand in a file of their own.
    """
    where = f"details of {name}"
    details = parse(pb.FragmentReuseIndexDetails, stored.value if stored else b"", where)
    if details.WhichOneof("content") != "inline":
        raise UnsupportedFeatureError(f"The {where} are not in the manifest.")
    return tuple(
        ReuseGroup(
            old=tuple(fragment.id for fragment in group.old_fragments),
            new=tuple((fragment.id, fragment.physical_rows) for fragment in group.new_fragments),
            survivors=group.changed_row_addrs,
        )
        for version in details.inline.versions
        for group in version.groups
    )

"""Fragment reuse index: moved rows of compactions, for indices that keep old addresses.

See docs/format/indices.md, 15.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lancekit._format.index import IndexDetails
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.unknown_fields import parse
from lancekit._legible import shown
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

#: type URL of the entry's details
_TYPE_URL = "/lance.table.FragmentReuseIndexDetails"
#: file in the entry's folder for details that are too large for a manifest
REUSE_FILE = "details.binpb"
INLINE_BYTES = 204_800

#: (fragment id, rows, deleted rows)
Digest = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseGroup:
    """Old fragments of a compaction, and the new fragments that replaced them.

    version: the dataset version that was compacted.
    old_digests, new_digests: (id, rows, deleted rows) of each fragment.
    survivors: encoded set of the old addresses of rows that were not dropped.
    """

    version: int
    old_digests: tuple[Digest, ...]
    new_digests: tuple[Digest, ...]
    survivors: bytes = field(repr=False)

    @property
    def old(self) -> tuple[int, ...]:
        """Ids of the old fragments."""
        return tuple(id_ for id_, _, _ in self.old_digests)

    @property
    def new(self) -> tuple[tuple[int, int], ...]:
        """Ids of the new fragments, each with its number of rows."""
        return tuple((id_, rows) for id_, rows, _ in self.new_digests)


#: all compactions, oldest first
FragmentReuse = tuple[ReuseGroup, ...]


def external_name(name: str, stored: IndexDetails | None) -> str | None:
    """Return the name of the file with the details in the entry's folder, or ``None`` if inline.

    Raises CorruptFileError: the path is outside of the folder.
    """
    details = _parsed(name, stored)
    if details.WhichOneof("content") != "external":
        return None
    path: str = details.external.path
    if not path or "/" in path or "\\" in path or path in (".", ".."):
        raise CorruptFileError(f"The details of {name} are in {shown(path)}.")
    return path


def parse_fragment_reuse(
    name: str, stored: IndexDetails | None, content: bytes | None = None
) -> FragmentReuse:
    """Decode the details of the fragment reuse index with this name, oldest compaction first.

    content: bytes of the file that `external_name` returns.

    Raises CorruptFileError: the details are damaged.
    Raises UnsupportedFeatureError: the details have an unknown form.
    """
    details = _parsed(name, stored)
    found = details.inline
    if details.WhichOneof("content") == "external" and content is not None:
        start, size = details.external.offset, details.external.size
        if start + size > len(content):
            raise CorruptFileError(f"The file of {name} has {len(content)} bytes.")
        where = f"file of {name}"
        found = parse(
            pb.FragmentReuseIndexDetails.InlineContent, content[start : start + size], where
        )
    elif details.WhichOneof("content") != "inline":
        raise UnsupportedFeatureError(f"The details of {name} are not in the manifest.")
    return tuple(
        ReuseGroup(
            version=version.dataset_version,
            old_digests=tuple(map(_digest, group.old_fragments)),
            new_digests=tuple(map(_digest, group.new_fragments)),
            survivors=group.changed_row_addrs,
        )
        for version in found.versions
        for group in version.groups
    )


def _parsed(name: str, stored: IndexDetails | None) -> pb.FragmentReuseIndexDetails:
    where = f"details of {name}"
    return parse(pb.FragmentReuseIndexDetails, stored.value if stored else b"", where)


def _digest(fragment: pb.FragmentReuseIndexDetails.FragmentDigest) -> Digest:
    return fragment.id, fragment.physical_rows, fragment.num_deleted_rows


def encode_fragment_reuse(groups: FragmentReuse) -> bytes:
    """Encode all compactions, for the manifest or a file."""
    details = pb.FragmentReuseIndexDetails
    versions: dict[int, list[pb.FragmentReuseIndexDetails.Group]] = {}
    for group in groups:
        versions.setdefault(group.version, []).append(
            details.Group(
                changed_row_addrs=group.survivors,
                old_fragments=_digests(group.old_digests),
                new_fragments=_digests(group.new_digests),
            )
        )
    return details.InlineContent(
        versions=[details.Version(dataset_version=v, groups=g) for v, g in versions.items()]
    ).SerializeToString()


def _digests(fragments: Iterable[Digest]) -> list[pb.FragmentReuseIndexDetails.FragmentDigest]:
    kind = pb.FragmentReuseIndexDetails.FragmentDigest
    return [
        kind(id=id_, physical_rows=rows, num_deleted_rows=gone) for id_, rows, gone in fragments
    ]


def inline_reuse(content: bytes) -> IndexDetails:
    """Return details with all compactions inline."""
    details = pb.FragmentReuseIndexDetails()
    details.inline.ParseFromString(content)
    details.inline.SetInParent()
    return IndexDetails(_TYPE_URL, details.SerializeToString())


def external_reuse(size: int) -> IndexDetails:
    """Return details that refer to a file of ``size`` bytes."""
    file = pb.ExternalFile(path=REUSE_FILE, offset=0, size=size)
    details = pb.FragmentReuseIndexDetails(external=file)
    return IndexDetails(_TYPE_URL, details.SerializeToString())

"""Fragments: the data files, the deletion file and the row sequences of a horizontal slice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import overload

import numpy as np
from numpy.typing import NDArray

from lancekit.format.fragment_facts import FragmentFacts, Totals, facts_of, totals_of_files
from lancekit.format.names import DELETIONS
from lancekit.format.pb import table_pb2 as pb
from lancekit.format.wire import parse, put_unknown, take_unknown

__all__ = [
    "DataFile",
    "DeletionFile",
    "DeletionKind",
    "Fragment",
    "FragmentList",
    "data_file_from_pb",
    "data_file_to_pb",
    "fragment_from_pb",
    "fragment_to_pb",
]

#: a field id of a file's column that is no longer part of the schema
TOMBSTONE = -2

_NOTHING: Mapping[int, Fragment] = MappingProxyType({})

# kinds of row sequences that no reference writes; carried along untouched
_UNMODELLED = (
    "external_row_ids",
    "column_row_ids",
    "external_last_updated_at_versions",
    "column_last_updated_at_versions",
    "external_created_at_versions",
    "column_created_at_versions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file of a fragment: `fields[i]` is stored in the file's column `column_indices[i]`.

    `size_bytes` is 0 where it is not known; `base_id` names the base path, ``None`` the
    dataset's own root.
    """

    path: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    version: tuple[int, int]
    size_bytes: int = 0
    base_id: int | None = None
    unknown: bytes = b""

    @property
    def file_major_version(self) -> int:
        """The first number of the file's format version."""
        return self.version[0]

    @property
    def file_minor_version(self) -> int:
        """The second number of the file's format version."""
        return self.version[1]

    @property
    def file_size_bytes(self) -> int | None:
        """The size of the file; ``None`` where it is not known."""
        return self.size_bytes or None


class DeletionKind(Enum):
    """The two file kinds; the value is the file name's suffix."""

    ARROW = "arrow"
    BITMAP = "bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFile:
    """The complete set of a fragment's deleted row offsets, in a file of its own."""

    kind: DeletionKind
    read_version: int
    id: int
    num_deleted_rows: int = 0
    base_id: int | None = None
    unknown: bytes = b""

    def name(self, fragment_id: int) -> str:
        """Return the file's name relative to the dataset's root."""
        return f"{DELETIONS}/{fragment_id}-{self.read_version}-{self.id}.{self.kind.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A slice of rows.  The three sequences are serialized messages of `format.row_ids`."""

    id: int
    files: tuple[DataFile, ...]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_ids: bytes | None = None
    last_updated_at: bytes | None = None
    created_at: bytes | None = None
    unknown: bytes = b""

    @property
    def num_deletions(self) -> int:
        """Rows that are marked as deleted."""
        return self.deletion_file.num_deleted_rows if self.deletion_file else 0

    @property
    def num_rows(self) -> int:
        """Rows that are still there."""
        return self.physical_rows - self.num_deletions

    def to_bytes(self) -> bytes:
        """Serialize, to travel from a worker."""
        return fragment_to_pb(self).SerializeToString()

    @staticmethod
    def from_bytes(data: bytes) -> Fragment:
        """Parse what `to_bytes` made."""
        return fragment_from_pb(parse(pb.DataFragment, data, "fragment"))


def data_file_from_pb(message: pb.DataFile) -> DataFile:
    """Decode one data file."""
    return DataFile(
        path=message.path,
        fields=tuple(message.fields),
        column_indices=tuple(message.column_indices),
        version=(message.file_major_version, message.file_minor_version),
        size_bytes=message.file_size_bytes,
        base_id=message.base_id if message.HasField("base_id") else None,
        unknown=take_unknown(message),
    )


def data_file_to_pb(file: DataFile) -> pb.DataFile:
    """Encode one data file."""
    message = pb.DataFile(
        path=file.path,
        fields=file.fields,
        column_indices=file.column_indices,
        file_major_version=file.version[0],
        file_minor_version=file.version[1],
        file_size_bytes=file.size_bytes,
        base_id=file.base_id,
    )
    put_unknown(message, file.unknown)
    return message


def _deletion_from_pb(message: pb.DeletionFile) -> DeletionFile:
    bitmap = message.file_type == pb.DeletionFile.BITMAP
    return DeletionFile(
        kind=DeletionKind.BITMAP if bitmap else DeletionKind.ARROW,
        read_version=message.read_version,
        id=message.id,
        num_deleted_rows=message.num_deleted_rows,
        base_id=message.base_id if message.HasField("base_id") else None,
        unknown=take_unknown(message),
    )


def _deletion_to_pb(file: DeletionFile) -> pb.DeletionFile:
    is_bitmap = file.kind is DeletionKind.BITMAP
    message = pb.DeletionFile(
        file_type=pb.DeletionFile.BITMAP if is_bitmap else pb.DeletionFile.ARROW_ARRAY,
        read_version=file.read_version,
        id=file.id,
        num_deleted_rows=file.num_deleted_rows,
        base_id=file.base_id,
    )
    put_unknown(message, file.unknown)
    return message


def fragment_from_pb(message: pb.DataFragment) -> Fragment:
    """Decode one fragment."""
    present = message.HasField
    return Fragment(
        id=message.id,
        files=tuple(map(data_file_from_pb, message.files)),
        physical_rows=message.physical_rows,
        deletion_file=(
            _deletion_from_pb(message.deletion_file) if present("deletion_file") else None
        ),
        row_ids=message.inline_row_ids if present("inline_row_ids") else None,
        last_updated_at=(
            message.inline_last_updated_at_versions
            if present("inline_last_updated_at_versions")
            else None
        ),
        created_at=(
            message.inline_created_at_versions if present("inline_created_at_versions") else None
        ),
        unknown=take_unknown(message, _UNMODELLED),
    )


def fragment_to_pb(fragment: Fragment) -> pb.DataFragment:
    """Encode one fragment."""
    message = pb.DataFragment(
        id=fragment.id,
        files=map(data_file_to_pb, fragment.files),
        physical_rows=fragment.physical_rows,
        inline_row_ids=fragment.row_ids,
        inline_last_updated_at_versions=fragment.last_updated_at,
        inline_created_at_versions=fragment.created_at,
    )
    if fragment.deletion_file is not None:
        message.deletion_file.CopyFrom(_deletion_to_pb(fragment.deletion_file))
    put_unknown(message, fragment.unknown)
    return message


class FragmentList(Sequence[Fragment]):
    """The fragments of a version, each kept as it was written until somebody looks at it.

    A table with a hundred thousand fragments is opened, listed, displayed and appended to without
    decoding them; a fragment that a commit does not touch goes into the next manifest byte for
    byte, with whatever a newer release wrote into it.

    Parameters
    ----------
    encoded
        One message per fragment.
    """

    __slots__ = ("_decoded", "_encoded", "_facts", "_totals")

    def __init__(self, encoded: Sequence[bytes] = (), facts: FragmentFacts | None = None) -> None:
        self._encoded = encoded
        self._facts = facts
        self._decoded: dict[int, Fragment] = {}
        self._totals: Totals | None = None

    @staticmethod
    def of(fragments: Iterable[Fragment]) -> FragmentList:
        """Return a list of fragments, in their order."""
        if isinstance(fragments, FragmentList):
            return fragments
        return FragmentList([fragment_to_pb(f).SerializeToString() for f in fragments])

    @property
    def encoded(self) -> list[bytes]:
        """The message of each fragment."""
        if not isinstance(self._encoded, list):
            self._encoded = list(self._encoded)
        return self._encoded

    @property
    def ids(self) -> NDArray[np.uint64]:
        """The id of each fragment."""
        return self._all_facts().ids

    @property
    def any_deletions(self) -> bool:
        """Whether a fragment has a deletion file."""
        return bool(self._all_facts().has_deletions.any())

    def get(self, fragment_id: int) -> Fragment | None:
        """Return the fragment of that id, ``None`` if there is none."""
        places = np.flatnonzero(self.ids == fragment_id)
        return self._at(int(places[0])) if places.size else None

    def edit(
        self,
        *,
        updated: Mapping[int, Fragment] = _NOTHING,
        removed: Collection[int] = (),
        added: Sequence[Fragment] = (),
    ) -> FragmentList:
        """Return the list with some fragments replaced, removed and added, sorted by id.

        Ids that are not there are passed over; nothing keeps ``added`` from repeating one.
        """
        facts, encoded = self._all_facts(), self.encoded
        new = list(added)
        if updated or removed:
            gone = np.isin(facts.ids, np.array([*updated, *removed], np.uint64))
            replaced = set(facts.ids[gone].tolist()).difference(removed)
            new += [updated[id_] for id_ in replaced]
            encoded = [encoded[i] for i in np.flatnonzero(~gone)]
            facts = facts.take(~gone)
        if new:
            theirs = [fragment_to_pb(f).SerializeToString() for f in new]
            encoded = encoded + theirs
            facts = facts.followed_by(facts_of(theirs))
        if (facts.ids[:-1] > facts.ids[1:]).any():
            order = np.argsort(facts.ids, kind="stable")
            encoded = [encoded[i] for i in order]
            facts = facts.take(order)
        return FragmentList(encoded, facts)

    def totals(self) -> Totals:
        """Return the sums; nothing is decoded for them."""
        if self._totals is None:
            facts = self._all_facts()
            files, size = totals_of_files(self.encoded)
            deleted = int(facts.deleted.sum())
            self._totals = Totals(
                rows=int(facts.physical_rows.sum()) - deleted,
                deleted_rows=deleted,
                data_files=files,
                deletion_files=int(facts.has_deletions.sum()),
                bytes=size,
            )
        return self._totals

    def _all_facts(self) -> FragmentFacts:
        if self._facts is None:
            self._facts = facts_of(self.encoded)
        return self._facts

    def _at(self, place: int) -> Fragment:
        found = self._decoded.get(place)
        if found is None:
            found = self._decoded[place] = Fragment.from_bytes(self._encoded[place])
        return found

    @overload
    def __getitem__(self, index: int) -> Fragment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Fragment, ...]: ...
    def __getitem__(self, index: int | slice) -> Fragment | tuple[Fragment, ...]:
        places = range(len(self))[index]
        return self._at(places) if isinstance(places, int) else tuple(map(self._at, places))

    def __iter__(self) -> Iterator[Fragment]:
        return map(self._at, range(len(self)))

    def __len__(self) -> int:
        return len(self._encoded)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[object, ...]:
        return FragmentList, (self.encoded,)

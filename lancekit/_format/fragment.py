"""Fragments: the data files, the deletion file and the row sequences of a range of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from lancekit._checked import checked, from_text
from lancekit._format.batch_parse import joined, walk
from lancekit._format.data_file import (
    DataFile,
    DeletionFile,
    DeletionKind,
    RowDatasetVersionMeta,
    RowIdMeta,
    data_file_from_pb,
    data_file_to_pb,
    deletion_from_pb,
    deletion_to_pb,
)
from lancekit._format.fragment_columns import (
    FragmentFacts,
    Totals,
    facts_of,
    parsed_fragment,
    totals_of,
)
from lancekit._format.items import Items
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.unknown_fields import parse, put_unknown, take_unknown
from lancekit._legible import shown
from lancekit.errors import InvalidTypeError, UnsupportedFeatureError

if TYPE_CHECKING:
    from lancekit._format.row_id_bounds import RowIdBounds

__all__ = [
    "LINEAGE_FIELDS",
    "MARKS",
    "DataFile",
    "DeletionFile",
    "DeletionKind",
    "Fragment",
    "FragmentList",
    "RowIdMeta",
    "any_marked",
    "columns_of_files",
    "data_file_from_pb",
    "data_file_to_pb",
    "fragment_from_pb",
    "fragment_to_pb",
    "marked",
]

#: field id of a file's column that is no longer part of the schema
TOMBSTONE = -2

#: row sequences: pylance's name -> (class, field of `Fragment`)
_SEQUENCES: Mapping[str, tuple[Any, str]] = {
    "row_id_meta": (RowIdMeta, "row_ids"),
    "created_at_version_meta": (RowDatasetVersionMeta, "created_at"),
    "last_updated_at_version_meta": (RowDatasetVersionMeta, "last_updated_at"),
}

_EMPTY: Mapping[int, Fragment] = MappingProxyType({})

# row sequences stored outside of the manifest; kept unchanged
_UNMODELLED = (
    "external_row_ids",
    "column_row_ids",
    "external_last_updated_at_versions",
    "column_last_updated_at_versions",
    "external_created_at_versions",
    "column_created_at_versions",
)


def _file_items(files: object) -> Items[DataFile]:
    if isinstance(files, str) or not isinstance(files, Iterable):
        raise InvalidTypeError(f"files must be a list of data files, got {shown(files)}.")
    return Items(files)


def _data(part: object, stored: bytes | None) -> bytes | None:
    """Return the bytes of a row sequence, from pylance's object or from the stored bytes."""
    if part is None:
        return stored
    data = getattr(part, "data", None)
    if not isinstance(data, bytes):
        raise InvalidTypeError(f"A sequence of rows must be a RowIdMeta, got {shown(part)}.")
    return data


@dataclass(frozen=True, slots=True, init=False)
class Fragment:
    """Horizontal slice of rows.  The three sequences are serialised messages (`_format.row_ids`).

    The constructor also accepts pylance's arguments ``row_id_meta`` etc.  A commit replaces the id
    0 by the next free one.
    """

    id: int
    files: tuple[DataFile, ...]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_ids: bytes | None = None
    created_at: bytes | None = None
    last_updated_at: bytes | None = None
    unknown: bytes = b""

    def __init__(
        self,
        id: int,  # noqa: A002  # pylance's name
        files: Iterable[DataFile],
        physical_rows: int,
        deletion_file: DeletionFile | None = None,
        row_id_meta: RowIdMeta | None = None,
        created_at_version_meta: RowDatasetVersionMeta | None = None,
        last_updated_at_version_meta: RowDatasetVersionMeta | None = None,
        *,
        row_ids: bytes | None = None,
        created_at: bytes | None = None,
        last_updated_at: bytes | None = None,
        unknown: bytes = b"",
    ) -> None:
        put = object.__setattr__
        put(self, "id", id)
        put(self, "files", files if isinstance(files, Items) else _file_items(files))
        put(self, "physical_rows", physical_rows)
        put(self, "deletion_file", deletion_file)
        put(self, "row_ids", _data(row_id_meta, row_ids))
        put(self, "created_at", _data(created_at_version_meta, created_at))
        put(self, "last_updated_at", _data(last_updated_at_version_meta, last_updated_at))
        put(self, "unknown", unknown)

    @property
    def row_id_meta(self) -> RowIdMeta | None:
        """Stable row ids."""
        return None if self.row_ids is None else RowIdMeta(self.row_ids)

    @property
    def created_at_version_meta(self) -> RowDatasetVersionMeta | None:
        """Versions in which the rows were created."""
        return None if self.created_at is None else RowDatasetVersionMeta(self.created_at)

    @property
    def last_updated_at_version_meta(self) -> RowDatasetVersionMeta | None:
        """Versions in which the rows were last updated."""
        return None if self.last_updated_at is None else RowDatasetVersionMeta(self.last_updated_at)

    @property
    def num_deletions(self) -> int:
        """Number of rows that are marked as deleted."""
        return self.deletion_file.num_deleted_rows if self.deletion_file else 0

    @property
    def num_rows(self) -> int:
        """Number of rows that are not deleted."""
        return self.physical_rows - self.num_deletions

    def data_files(self) -> list[DataFile]:
        """Return the data files, with the name of an earlier pylance method."""
        return list(self.files)

    def to_json(self) -> dict[str, Any]:
        """Return pylance's JSON form as a dictionary."""
        columns = marked(self.unknown)
        parts = {name: getattr(self, name) for name in ("deletion_file", *_SEQUENCES)}
        return {
            "id": self.id,
            "files": [file.to_json() for file in self.files],
            "overlays": [],
            "physical_rows": self.physical_rows,
            **{name: None if part is None else part.asdict() for name, part in parts.items()},
            **{
                name: kind.in_column
                for name, (kind, field) in _SEQUENCES.items()
                if field in columns
            },
        }

    @staticmethod
    def from_json(json_data: str) -> Fragment:
        """Parse the JSON text of a fragment, from here or from pylance.

        Raises
        ------
        UnsupportedFeatureError
            The fragment has overlays, a feature of a newer release.
        """
        return from_text("FragmentMetadata", json_data, Fragment.from_dict)

    @staticmethod
    def from_dict(values: Mapping[str, object]) -> Fragment:
        """Parse the dictionary that `to_json` returns; errors as in `from_json`."""
        return from_text("FragmentMetadata", values, Fragment._from_dict)

    @staticmethod
    def _from_dict(values: Mapping[str, Any]) -> Fragment:
        if values.get("overlays"):
            raise UnsupportedFeatureError(f"Fragment {values['id']} has overlays.")
        deletion = values.get("deletion_file")
        given = {name: values[name] for name in _SEQUENCES if values.get(name)}
        columns = {name for name, value in given.items() if value == _SEQUENCES[name][0].in_column}
        return Fragment(
            values["id"],
            [DataFile(**file) for file in values["files"]],
            values["physical_rows"],
            None if deletion is None else DeletionFile(**deletion),
            **{
                name: _SEQUENCES[name][0].from_dict(value)
                for name, value in given.items()
                if name not in columns
            },
            unknown=_marks(_SEQUENCES[name][1] for name in columns),
        )

    def to_bytes(self) -> bytes:
        """Serialise the fragment, e.g. to send it from a worker."""
        return fragment_to_pb(self).SerializeToString()

    @staticmethod
    @checked
    def from_bytes(data: bytes) -> Fragment:
        """Parse the bytes that `to_bytes` returns."""
        return fragment_from_pb(parse(pb.DataFragment, data, "fragment"))


def fragment_from_pb(message: pb.DataFragment) -> Fragment:
    """Decode the message of a fragment."""
    present = message.HasField
    return Fragment(
        id=message.id,
        files=Items(map(data_file_from_pb, message.files)),
        physical_rows=message.physical_rows,
        deletion_file=(
            deletion_from_pb(message.deletion_file) if present("deletion_file") else None
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
    """Encode a fragment as a message."""
    message = pb.DataFragment(
        id=fragment.id,
        files=map(data_file_to_pb, fragment.files),
        physical_rows=fragment.physical_rows,
        inline_row_ids=fragment.row_ids,
        inline_last_updated_at_versions=fragment.last_updated_at,
        inline_created_at_versions=fragment.created_at,
    )
    if fragment.deletion_file is not None:
        message.deletion_file.CopyFrom(deletion_to_pb(fragment.deletion_file))
    put_unknown(message, fragment.unknown)
    return message


class FragmentList(Sequence[Fragment]):
    """Fragments of a version, each encoded until it is first accessed.

    A table with 100,000 fragments is opened, listed, displayed and appended to without decoding
    them.  A fragment that a commit does not change is copied to the next manifest byte for byte,
    with fields of newer releases.

    encoded: one message per fragment.
    """

    __slots__ = ("_decoded", "_encoded", "_facts", "_id_bounds", "_totals")

    def __init__(self, encoded: Sequence[bytes] = (), facts: FragmentFacts | None = None) -> None:
        self._encoded = encoded
        self._facts = facts
        self._decoded: dict[int, Fragment] = {}
        self._totals: Totals | None = None
        self._id_bounds: RowIdBounds | None = None

    @staticmethod
    def of(fragments: Iterable[Fragment]) -> FragmentList:
        """Encode fragments as a list, in order."""
        if isinstance(fragments, FragmentList):
            return fragments
        return FragmentList([fragment_to_pb(f).SerializeToString() for f in fragments])

    @property
    def encoded(self) -> list[bytes]:
        """Encoded message of each fragment."""
        if not isinstance(self._encoded, list):
            self._encoded = list(self._encoded)
        return self._encoded

    @property
    def ids(self) -> NDArray[np.uint64]:
        """Id of each fragment."""
        return self._all_facts().ids

    @property
    def num_rows(self) -> NDArray[np.uint64]:
        """Number of rows in each fragment that are not deleted."""
        facts = self._all_facts()
        return facts.physical_rows - facts.deleted

    @property
    def row_id_bounds(self) -> RowIdBounds:
        """Lowest and highest row id of each fragment."""
        from lancekit._format.row_id_bounds import row_id_bounds

        if self._id_bounds is None:
            self._id_bounds = row_id_bounds(self.encoded)
        return self._id_bounds

    @property
    def any_deletions(self) -> bool:
        """True if a fragment has a deletion file."""
        return bool(self._all_facts().has_deletions.any())

    def get(self, fragment_id: int) -> Fragment | None:
        """Return the fragment with an id, or ``None``."""
        places = np.flatnonzero(self.ids == fragment_id)
        return self._at(int(places[0])) if places.size else None

    def edit(
        self,
        *,
        updated: Mapping[int, Fragment] = _EMPTY,
        removed: Collection[int] = (),
        added: Sequence[Fragment] = (),
    ) -> FragmentList:
        """Return the list with some fragments replaced, removed and added, sorted by id.

        Unknown ids are ignored.  Ids in ``added`` are not checked for duplicates.
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
            new_encoded = [fragment_to_pb(f).SerializeToString() for f in new]
            encoded = encoded + new_encoded
            facts = facts.followed_by(facts_of(new_encoded))
        if (facts.ids[:-1] > facts.ids[1:]).any():
            order = np.argsort(facts.ids, kind="stable")
            encoded = [encoded[i] for i in order]
            facts = facts.take(order)
        return FragmentList(encoded, facts)

    def totals(self) -> Totals:
        """Return the sums over all fragments, without decoding them."""
        if self._totals is None:
            self._totals = totals_of(self.encoded, self._facts)
        return self._totals

    def _all_facts(self) -> FragmentFacts:
        if self._facts is None:
            self._facts = facts_of(self.encoded)
        return self._facts

    def _at(self, place: int) -> Fragment:
        found = self._decoded.get(place)
        if found is None:
            message = parsed_fragment(self._encoded[place])
            found = self._decoded[place] = fragment_from_pb(message)
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


def columns_of_files(fragment: Fragment) -> list[dict[int, int]]:
    """Return the physical column of each field id, for every file of a fragment."""
    return [file.columns for file in fragment.files]


# ---- marks in a fragment's message: its row ids or row versions are a column of a data file
#
# See docs/format/table.md, 2.5.  A `Fragment` keeps the marks in its unmodelled fields.

#: the mark in the message for each sequence field of `Fragment`
MARKS: Mapping[str, str] = {
    "row_ids": "column_row_ids",
    "created_at": "column_created_at_versions",
    "last_updated_at": "column_last_updated_at_versions",
}

#: the field id that data files list for the column of each sequence
LINEAGE_FIELDS: Mapping[str, int] = {"row_ids": -3, "created_at": -4, "last_updated_at": -5}

_NUMBERS = [pb.DataFragment.DESCRIPTOR.fields_by_name[mark].number for mark in MARKS.values()]


def marked(unknown: bytes) -> list[str]:
    """Return the sequences that are columns, from a fragment's unmodelled fields."""
    if not unknown:
        return []
    message = parse(pb.DataFragment, unknown, "a fragment")
    return [name for name, mark in MARKS.items() if message.HasField(mark)]


def _marks(names: Iterable[str]) -> bytes:
    """Encode unmodelled fields that mark some sequences as columns."""
    message = pb.DataFragment()
    for name in names:
        getattr(message, MARKS[name]).SetInParent()
    return bytes(message.SerializeToString())


def any_marked(encoded: Sequence[bytes]) -> bool:
    """Return True if one of the encoded fragments stores a sequence as a column."""
    return any(np.isin(fields.number, _NUMBERS).any() for fields in walk(joined(encoded)))

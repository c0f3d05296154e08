"""One segment of an index: from rows of a version to files and their manifest entry."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit._arrow_values import numbers_of
from lancekit._cache import read_for_the_last_time
from lancekit._format import row_address
from lancekit._format.arrow_parts import vector_hint
from lancekit._format.field_marks import holds_blobs
from lancekit._format.index import IndexDetails, IndexMetadata
from lancekit._format.paths import find_field, paths_by_id, show_path, spelled
from lancekit._format.schema import LanceField
from lancekit._index.build.builders import builder_of, parsed_parameters
from lancekit._index.build.column import Content, IndexedColumn, Mask, RowMap
from lancekit._index.build.files import delete_segment, write_files
from lancekit._index.build.read import OpenSegment
from lancekit._index.build.sorting import whole
from lancekit._index.kinds import IndexKind
from lancekit._index.search.reuse import found_reuse
from lancekit._operations.common.staged_files import undone_unless_landed
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from lancekit.options import options


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedField:
    """An indexed column: its field, its path, and the Arrow type of its values."""

    field: LanceField
    path: str
    type: pa.DataType


@dataclass(frozen=True, kw_only=True)
class IndexTarget:
    """Target of new segments: a column of a version, the kind of index, and its name."""

    snapshot: Snapshot
    column: IndexedField
    kind: IndexKind
    name: str = ""


def target_of(snapshot: Snapshot, index: IndexMetadata, kind: IndexKind) -> IndexTarget:
    """Return the target for further segments of an existing index."""
    path = paths_by_id(snapshot.manifest.schema)[index.fields[0]]
    column = column_of(snapshot, path)
    return IndexTarget(snapshot=snapshot, column=column, kind=kind, name=index.name)


def opened_segment(target: IndexTarget, index: IndexMetadata) -> OpenSegment:
    """Open the files of a segment."""
    store = target.snapshot.base_store(index.base_id)
    return OpenSegment.open(store, index, target.kind, target.column.type)


def indexed_field(snapshot: Snapshot, path: str, kind: IndexKind) -> IndexedField:
    """Return the column of a new index.

    Raises ColumnNotFoundError: the column does not exist.
    Raises InvalidTypeError: the column's type does not fit this kind of index.
    """
    found = column_of(snapshot, path)
    if holds_blobs(found.field.metadata) or not kind.fits(found.type):
        vector = kind.name == "IVF_FLAT"  # stands for IVF_PQ and IVF_SQ, too
        what = "a vector index" if vector else f"an index of type {kind.name}"
        raise InvalidTypeError(
            f"Column {path!r} of type {found.type} cannot have {what}.",
            hint=(vector and vector_hint(path, found.type))
            or "docs/indices.md lists the types for each kind of index. Vector indices need "
            "fixed-size lists of floats.",
            column=path,
        )
    return found


def column_of(snapshot: Snapshot, path: str) -> IndexedField:
    """Return a column by its path, case-insensitive if unique, or raise ``ColumnNotFoundError``."""
    chain = find_field(snapshot.manifest.schema, spelled(snapshot.manifest.schema, path))
    field = chain[-1]
    return IndexedField(
        field=field, path=show_path([one.name for one in chain]), type=field.to_arrow().type
    )


def check_readable(kind: IndexKind, snapshot: Snapshot) -> None:
    """Raise if the oldest supported reader would lose rows with an index of this kind.

    Raises InvalidArgumentError: the reader mistakes zones for row ids, if the table has stable ids.
    """
    if kind.zones and snapshot.manifest.has_stable_row_ids and options.oldest_reader == "4.0.0":
        raise InvalidArgumentError(
            f"{kind.name} indices on tables with stable row ids make release 4.0.0 of the "
            "reference lose rows.",
            hint="Use a BTREE or BITMAP index. If nobody reads with that release, set "
            'lancekit.options.oldest_reader = "14.0.2".',
        )


def build_segment(
    target: IndexTarget,
    *,
    parameters: Mapping[str, object] | None = None,
    fragment_ids: Collection[int] | None = None,
    uuid: UUID | None = None,
) -> IndexMetadata:
    """Index the rows of some fragments, by default all; write the segment without a commit."""
    ids = [int(id_) for id_ in target.snapshot.manifest.fragments.ids]
    wanted = ids if fragment_ids is None else [id_ for id_ in ids if id_ in fragment_ids]
    return write_segment(target, build_content(target, parameters or {}, wanted), wanted, uuid=uuid)


def build_content(
    target: IndexTarget, parameters: Mapping[str, object], fragment_ids: Collection[int]
) -> Content:
    """Build the content of a segment of some fragments, in the index version that is written."""
    given = parsed_parameters(target.kind, parameters)
    return builder_of(target.kind).made(read_rows(target, fragment_ids), given)


def read_rows(target: IndexTarget, fragment_ids: Collection[int]) -> IndexedColumn:
    """Read the column's rows of some fragments, for a segment of the index version written."""
    kind, stable = target.kind, target.snapshot.manifest.has_stable_row_ids
    addresses = kind.has_addresses(kind.written, stable)
    return read_column(target.snapshot, target.column, fragment_ids, addresses=addresses)


def read_column(
    snapshot: Snapshot, column: IndexedField, fragment_ids: Collection[int], *, addresses: bool
) -> IndexedColumn:
    """Read a column's live rows of some fragments, with their row addresses or row ids."""
    hidden = "_rowaddr" if addresses else "_rowid"
    outputs = plan_columns(snapshot.manifest.schema, [column.path], [hidden])
    wanted = set(fragment_ids)
    sources = tuple(one for one in fragment_sources(snapshot) if one.fragment.id in wanted)
    with read_for_the_last_time():
        table = Scan(read=Read(sources), request=ScanRequest(outputs=outputs)).to_table()
    rows = numbers_of(whole(table.column(1))).astype(np.uint64, copy=False)
    return IndexedColumn(column.type, whole(table.column(0)), rows)


def write_segment(
    target: IndexTarget,
    content: Content,
    fragment_ids: Iterable[int],
    *,
    dataset_version: int | None = None,
    uuid: UUID | None = None,
) -> IndexMetadata:
    """Write a segment; return its manifest entry.

    dataset_version: the version whose rows the segment indexes, by default the snapshot's.
    """
    snapshot, kind, uuid = target.snapshot, target.kind, uuid or uuids.uuid4()
    written = write_files(snapshot.store, uuid, content.files())
    now = datetime.now(UTC)
    return IndexMetadata(
        uuid=uuid,
        name=target.name,
        fields=(target.column.field.id,),
        dataset_version=snapshot.version if dataset_version is None else dataset_version,
        fragment_ids=BitMap(fragment_ids if written else ()),  # no files without rows to index
        index_version=kind.written,
        created_at=now.replace(microsecond=now.microsecond // 1000 * 1000),
        files=written,
        index_details=details_of(kind, content),
    )


def joined_segments(target: IndexTarget, segments: Sequence[IndexMetadata]) -> IndexMetadata:
    """Write a segment with the contents of several segments; their own files stay.

    The segments have the same column and kind, and share no fragment.
    """
    builder = builder_of(target.kind)
    contents = [
        builder.read(opened_segment(target, index)).moved(covered_rows(index, target))
        for index in segments
    ]
    return write_segment(
        target,
        builder.merged(contents),
        BitMap.union(*(index.fragment_ids or BitMap() for index in segments)),
        dataset_version=min(index.dataset_version for index in segments),
    )


def details_of(kind: IndexKind, content: Content) -> IndexDetails:
    """Return the details of a segment in its manifest entry: the kind, and parameters."""
    return IndexDetails(kind.type_url, builder_of(kind).details(content))


def removed_unless_committed(
    snapshot: Snapshot, segments: Iterable[UUID]
) -> AbstractContextManager[None]:
    """Remove the files of segments if the commit in the block certainly did not land."""

    def undo() -> None:
        for uuid in segments:
            delete_segment(snapshot.store, uuid)

    return undone_unless_landed(undo)


# ---- the rows that a segment still covers, by ids or by addresses

Words = npt.NDArray[np.uint64]


def covered_fragments(index: IndexMetadata, snapshot: Snapshot) -> BitMap | None:
    """Return the fragments that a segment covers, by their ids in a version.

    The result may have fragments that are gone.  ``None`` if the segment has no list of fragments.
    """
    covered = index.fragment_ids
    reuse = found_reuse(snapshot) if covered else None
    return covered if reuse is None or covered is None else reuse.covered(covered)


def live_fragments(index: IndexMetadata, snapshot: Snapshot) -> list[int]:
    """Return the existing fragments that a segment covers; empty if it does not list them."""
    covered = covered_fragments(index, snapshot) or BitMap()
    return [int(id_) for id_ in snapshot.manifest.fragments.ids if int(id_) in covered]


def live_addresses(source: FragmentSource) -> tuple[FragmentReader, npt.NDArray[np.int64], Words]:
    """Return a fragment's reader, and the offsets and addresses of its live rows."""
    reader = FragmentReader(source)
    rows = np.arange(reader.physical_rows) if reader.live is None else reader.live
    return reader, rows, reader.addresses(rows)


def covered_rows(index: IndexMetadata, target: IndexTarget) -> RowMap:
    """Return a map of the rows that a segment still covers to ids or addresses for new segments.

    An updated row may keep its id, but is in a fragment that the segment does not cover.
    """
    kind, snapshot = target.kind, target.snapshot
    covered = live_fragments(index, snapshot)
    stable = snapshot.manifest.has_stable_row_ids
    if kind.has_addresses(kind.written, stable):
        reuse = found_reuse(snapshot)
        there = in_fragments(covered)
        return there if reuse is None else composed(reuse.moved, there)
    by_address = kind.has_addresses(index.index_version, stable)
    wanted = set(covered)
    old, ids = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for source in fragment_sources(snapshot):
        if source.fragment.id in wanted:
            reader, rows, addresses = live_addresses(source)
            ids.append(reader.row_ids(rows))
            old.append(addresses if by_address else ids[-1])
    return address_map(np.concatenate(old), np.concatenate(ids))


def composed(first: RowMap, second: RowMap) -> RowMap:
    """Return the composition of two address maps, for rows that moved twice."""

    def follow(rows: Words) -> tuple[Words, Mask]:
        rows, there = first(rows)
        rows, still = second(rows)
        return rows, there & still

    return follow


def in_fragments(fragments: Collection[int]) -> RowMap:
    """Return an address map that keeps only addresses in some fragments."""
    known = np.array(sorted(fragments), np.uint64)

    def keep(rows: Words) -> tuple[Words, Mask]:
        return rows, np.isin(row_address.fragment_ids(rows), known)

    return keep


def address_map(old: Words, new: Words, fragments: Sequence[int] | None = None) -> RowMap:
    """Return the address map from the rows of one array to the same positions of another.

    It drops all other rows; if `fragments` is given, only those in these fragments.
    """
    order = np.argsort(old)
    old, new = old[order], new[order]
    moved = None if fragments is None else np.array(sorted(fragments), np.uint64)

    def find(rows: Words) -> tuple[Words, Mask]:
        places = np.searchsorted(old, rows)
        places[places == len(old)] = 0
        known = old[places] == rows if len(old) else np.zeros(len(rows), bool)
        found = np.where(known, new[places], rows) if len(old) else rows
        if moved is None:
            return found, known
        return found, known | ~np.isin(row_address.fragment_ids(rows), moved)

    return find

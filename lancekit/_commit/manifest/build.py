"""The next manifest: one builder for each operation, and the steps that all have in common.

See docs/format/table.md, 8.4, and docs/format/operations.md, 1 and 2.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from pyroaring import BitMap

from lancekit._commit.manifest import data_operations as rows
from lancekit._commit.manifest import metadata_operations as settings
from lancekit._commit.manifest.draft import Built, Draft, with_bases
from lancekit._commit.manifest.row_ids import Sequences, inline
from lancekit._format import flags
from lancekit._format import operations as ops
from lancekit._format.field_marks import MANAGED
from lancekit._format.fragment import FragmentList, any_marked
from lancekit._format.index import IndexMetadata
from lancekit._format.manifest import BasePath, Manifest, WriterVersion
from lancekit._format.mem_wal.details import IndexCatchUp, encode_details, parse_details
from lancekit._format.mem_wal.names import mem_wal_entry
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._legible import shown
from lancekit._version import __version__
from lancekit.errors import CorruptFileError, InvalidArgumentError

__all__ = ["Built", "build_manifest", "first_manifest", "writer_version"]


def writer_version() -> WriterVersion:
    """Return the writer version that this library records in its manifests."""
    return WriterVersion(library="lancekit", version=__version__)


def first_manifest(
    operation: ops.Overwrite, storage_version: str, *, stable_row_ids: bool = False
) -> Manifest:
    """Return the empty table that version 1 is built on, with the given file version."""
    word = flags.STABLE_ROW_IDS if stable_row_ids else 0
    return Manifest(
        schema=operation.new_schema,
        fragments=FragmentList(),
        version=0,
        storage_version=storage_version,
        reader_flags=word,
        writer_flags=word,
    )


def build_manifest(
    latest: Manifest,
    operation: ops.Operation,
    *,
    timestamp_ns: int,
    indices: tuple[IndexMetadata, ...] = (),
    restored: Built | None = None,
    storage_version: str | None = None,
    marks: Mapping[str, str] | None = None,
    next_row_id: int | None = None,
    moves_rows: bool = False,
    covers: Mapping[UUID, BitMap] | None = None,
    reuse: IndexMetadata | None = None,
    bases: Sequence[BasePath] = (),
    sequences: Sequences = inline,
) -> Built:
    """Return the version that ``operation`` makes from ``latest``.

    latest, indices: the newest version's manifest and indices; for a `Clone` those of the source
        version, whose number the new version keeps.
    timestamp_ns: the commit time of the new version, in nanoseconds since 1970.
    restored: the version that a `Restore` names.
    storage_version: the file version of an `Overwrite`'s files.
    marks: entries to add to the config, whatever the operation.
    next_row_id: of a fast-forward, which takes over rows with their ids: the source's next row id.
    moves_rows: True if a `Merge` may bring rows, delete rows, and omit fragments.
    covers: of a fast-forward, by index uuid: the fragments that the index covers in the source.
    reuse: of a `Rewrite` that does not remap indices: the entry with the new addresses of rows.
    bases: base paths to add, whatever the operation.
    sequences: reads row ids and row versions of fragments of ``latest``.

    Raises InvalidArgumentError: the operation does not fit the version.
    Raises IncompatibleConflictError: it merges a write-ahead generation that was merged before.
    """
    build = _BUILDERS.get(type(operation))
    if build is None:
        raise InvalidArgumentError(
            "Unknown operations cannot be committed by this release.",
            operation=type(operation).__name__,
        )
    is_clone = isinstance(operation, ops.Clone)
    draft = Draft(
        manifest=latest,
        indices=indices,
        version=latest.version if is_clone else latest.version + 1,
        restored=restored,
        storage_version=storage_version,
        next_row_id=next_row_id,
        moves_rows=moves_rows,
        reuse=reuse,
        sequences=sequences,
    )
    manifest, kept = build(draft, operation)
    if not isinstance(operation, ops.Restore | ops.Clone):
        kept = _caught_up(indices, kept, manifest.fragments, draft.version)
    if covers:
        kept = tuple(replace(i, fragment_ids=covers.get(i.uuid, i.fragment_ids)) for i in kept)
    if bases:
        manifest = replace(manifest, base_paths=with_bases(manifest.base_paths, bases))
    if marks:
        manifest = replace(manifest, config={**manifest.config, **marks})
    _check_unique(manifest.fragments)
    reader, writer = _feature_flags(latest, manifest)
    finished = replace(
        manifest,
        version=draft.version,
        timestamp_ns=timestamp_ns,
        max_fragment_id=_highest(latest, manifest),
        writer=writer_version(),
        branch=manifest.branch if is_clone else latest.branch,
        reader_flags=reader,
        writer_flags=writer,
        transaction_file="",
        index_section=None,
        inline_transaction=None,
    )
    return Built(finished, kept)


def _highest(latest: Manifest, manifest: Manifest) -> int | None:
    """Return the highest fragment id ever used, which never decreases."""
    known = {latest.max_fragment_id, manifest.max_fragment_id} - {None}
    if manifest.fragments:
        known.add(int(manifest.fragments.ids.max()))
    return max((id_ for id_ in known if id_ is not None), default=None)


def _feature_flags(latest: Manifest, manifest: Manifest) -> tuple[int, int]:
    """Return the flags for the content; flags of other features are kept.

    The flag of mixed file versions is permanent: not even a restore of an older version clears it.
    """
    both = (latest.reader_flags | latest.writer_flags) & flags.MIXED_FILE_VERSIONS
    if manifest.fragments.any_deletions:
        both |= flags.DELETION_FILES
    if _may_have_lineage(latest, manifest) and any_marked(manifest.fragments.encoded):
        both |= flags.LINEAGE_COLUMNS
    if manifest.base_paths:
        both |= flags.BASE_PATHS
    if _manages_blobs(latest, manifest):
        both |= flags.MANAGED_BLOBS
    config = flags.TABLE_CONFIG if manifest.config else 0
    reader, writer = (
        word & ~flags.FROM_CONTENT for word in (manifest.reader_flags, manifest.writer_flags)
    )
    return reader | both, writer | both | config


def _may_have_lineage(latest: Manifest, manifest: Manifest) -> bool:
    """Return True if fragments of the new version may have row lineage in data files.

    lancekit writes no such fragments.  They come from ``latest`` or from a restored version, which
    then has the flag.
    """
    words = (latest.reader_flags, manifest.reader_flags)
    return any(word & flags.LINEAGE_COLUMNS for word in words)


def _manages_blobs(latest: Manifest, manifest: Manifest) -> bool:
    """Return True if the schema's metadata ask the reference for managed blobs.

    The flag of the table is never removed, because the blobs remain.
    """
    value = manifest.schema.metadata.get(MANAGED, "false")
    if value not in ("true", "false") and value != latest.schema.metadata.get(MANAGED):
        raise InvalidArgumentError(
            f"Schema metadata {MANAGED} must be 'true' or 'false', got {shown(value)}.",
            hint="pylance could not open the table with another value.",
            value=value,
        )
    return value == "true"


def _check_unique(fragments: FragmentList) -> None:
    ids = fragments.ids
    repeated = ids[1:][ids[1:] == ids[:-1]]
    if len(repeated):
        raise CorruptFileError(
            f"The commit would produce two fragments with id {repeated[0]}.",
            hint="Leave the ids of new fragments at 0: the commit assigns them.",
            fragment=int(repeated[0]),
        )


_BUILDERS: Mapping[type, Callable[[Draft, Any], Built]] = {
    ops.Append: rows.append,
    ops.Delete: rows.delete,
    ops.Overwrite: rows.overwrite,
    ops.CreateIndex: settings.create_index,
    ops.Rewrite: rows.rewrite,
    ops.Merge: rows.merge,
    ops.Restore: settings.restore,
    ops.ReserveFragments: settings.reserve_fragments,
    ops.Update: rows.update,
    ops.Project: settings.project,
    ops.UpdateConfig: settings.update_config,
    ops.DataReplacement: rows.data_replacement,
    ops.UpdateMemWalState: settings.update_mem_wal_state,
    ops.Clone: settings.clone,
    ops.UpdateBases: settings.update_bases,
}

# ---- how far indices cover rows that were merged from shards (docs/format/memwal.md, 7)
#
# A reader that queries an index of the table may omit a generation only if the index covers its
# rows.  That is known if an index covers the whole table when it is created or changed.  Otherwise
# nothing is recorded, and readers read the generation as long as it exists.

Indices = tuple[IndexMetadata, ...]


def _caught_up(before: Indices, after: Indices, live: FragmentList, version: int) -> Indices:
    """Record in the shard entry which merged generations each other index covers.

    before, after: the indices of the previous version, and of this one; the result replaces the
        latter.
    live: the fragments of this version.
    version: its number.
    """
    entry = mem_wal_entry(after)
    if entry is None:
        return after
    details = parse_details(entry.index_details)
    merged = tuple(CompactedSsTable(*mark) for mark in details.merged.items())
    known = {one.index_name: one for one in details.caught_up}
    old, new = _segments(before), _segments(after)
    found = []
    for name in sorted(new):
        if old.get(name) == new[name]:
            found += [known[name]] if name in known else []
        elif merged and _covers(after, name, live):
            found.append(IndexCatchUp(name, merged))
    if tuple(found) == details.caught_up:
        return after
    changed = replace(
        entry,
        uuid=uuid.uuid4(),  # readers use it as a cache key
        dataset_version=version,
        index_details=encode_details(replace(details, caught_up=tuple(found))),
    )
    return tuple(changed if index is entry else index for index in after)


def _segments(indices: Iterable[IndexMetadata]) -> Mapping[str, set[Hashable]]:
    """Return the state of each index: its segments, and the fragments that they cover."""
    found: dict[str, set[Hashable]] = {}
    for index in indices:
        if not index.is_system:
            covered = index.fragment_ids
            state = None if covered is None else covered.serialize()
            found.setdefault(index.name, set()).add((index.uuid, state))
    return found


def _covers(indices: Iterable[IndexMetadata], name: str, live: FragmentList) -> bool:
    own = (index.fragment_ids for index in indices if index.name == name)
    covered = BitMap.union(*(ids or BitMap() for ids in own))
    return bool(live) and BitMap(live.ids.tolist()) <= covered

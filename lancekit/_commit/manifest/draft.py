"""The shared parts of manifest builders: the draft, fragment ids, and checks of files."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lancekit._commit.manifest.row_ids import RowCounter, Sequences, all_new, inline
from lancekit._format.external_sequences import column_sequences
from lancekit._format.fragment import LINEAGE_FIELDS, Fragment, FragmentList
from lancekit._format.index import IndexMetadata
from lancekit._format.manifest import BasePath, Manifest
from lancekit._format.mem_wal.details import merged_generations, with_generations
from lancekit._format.mem_wal.names import MEM_WAL, mem_wal_entry
from lancekit._format.operation_parts import CompactedSsTable
from lancekit.errors import IncompatibleConflictError, InvalidArgumentError

_FILE_VERSIONS: Mapping[str, frozenset[tuple[int, int]]] = {
    "0.1": frozenset({(0, 0), (0, 1), (0, 2)}),
    "2.0": frozenset({(2, 0), (0, 3)}),
}
#: the file versions that can be mixed in a table of mixed versions
_MIXABLE = frozenset({(0, 3), (2, 0), (2, 1), (2, 2)})


class Built(NamedTuple):
    """A version: its manifest, and its indices."""

    manifest: Manifest
    indices: tuple[IndexMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The newest version, and the parameters of the next one.

    manifest, indices: the newest version's manifest and indices.
    version: the number of the next version.
    restored: the version that a `Restore` names.
    storage_version: the file version of an `Overwrite`'s files, if it is not the newest version's.
    next_row_id: of a fast-forward, which takes over rows with their ids: the source's next row id.
    moves_rows: True if a `Merge` may bring rows, delete rows, and omit fragments.
    reuse: of a `Rewrite` that does not remap indices: the entry with the new addresses of rows.
    sequences: reads row ids and row versions of fragments, which may be stored in data files.
    """

    manifest: Manifest
    indices: tuple[IndexMetadata, ...]
    version: int
    restored: Built | None = None
    storage_version: str | None = None
    next_row_id: int | None = None
    moves_rows: bool = False
    reuse: IndexMetadata | None = None
    sequences: Sequences = inline

    def built(self, *, indices: tuple[IndexMetadata, ...] | None = None, **changes: Any) -> Built:
        """Return the newest version with changes."""
        kept = self.indices if indices is None else indices
        return Built(replace(self.manifest, **changes), kept)

    def new_rows(self, fragments: Sequence[Fragment]) -> tuple[tuple[Fragment, ...], int]:
        """Return fragments of new rows with their ids, and the next free row id."""
        manifest = self.manifest
        if not manifest.has_stable_row_ids:
            return numbered(manifest, fragments), manifest.next_row_id
        counter = RowCounter(manifest.next_row_id)
        return all_new(numbered(manifest, fragments), counter, self.version), counter.next_row_id

    def check_files(self, fragments: Iterable[Fragment]) -> None:
        """Raise ``InvalidArgumentError`` if new fragments do not fit the table's file versions."""
        manifest = self.manifest
        check_files(fragments, manifest.storage_version, mixed=manifest.has_mixed_files)


def numbered(manifest: Manifest, fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """Assign the next free ids, in order, to fragments whose id is 0.

    Raises InvalidArgumentError: a fragment has row ids or row versions in its data files, but a
        commit needs inline ones.
    """
    free = 0 if manifest.max_fragment_id is None else manifest.max_fragment_id + 1
    out = []
    for fragment in fragments:
        if columns := column_sequences(fragment):
            raise InvalidArgumentError(
                f"A new fragment of {fragment.physical_rows} rows has its {columns[0]} in a data "
                "file.",
                hint="Pass them inline, or leave them out: the commit sets them.",
                sequences=columns,
            )
        out.append(fragment if fragment.id else replace(fragment, id=free))
        free += not fragment.id
    return tuple(out)


def check_files(
    fragments: Iterable[Fragment], storage_version: str, *, mixed: bool = False
) -> None:
    """Raise ``InvalidArgumentError`` if new fragments could not be read as part of the table.

    A table of `mixed` file versions accepts every 2.x version.
    """
    known = _FILE_VERSIONS.get(storage_version, frozenset({_numbers(storage_version)}))
    if mixed:
        known |= _MIXABLE
    for fragment in fragments:
        if not fragment.files or not all(file.fields for file in fragment.files):
            raise InvalidArgumentError(
                f"A fragment of {fragment.physical_rows} rows has no data file, or a data file "
                "without fields.",
                fragment=fragment.id,
            )
        for file in fragment.files:
            if file.version not in known:
                raise InvalidArgumentError(
                    f"Data file {file.path} has format {'.'.join(map(str, file.version))}, but "
                    f"the dataset's files have {storage_version}.",
                    hint="All files of a version must have the same format. Write the rows again.",
                    file=file.path,
                )


def check_format(manifest: Manifest, given: str) -> None:
    """Raise ``InvalidArgumentError`` if files of a format cannot be added to a table."""
    if given != manifest.storage_version and not manifest.has_mixed_files:
        raise InvalidArgumentError(
            f"Files of format {given} cannot be added to a dataset of format "
            f"{manifest.storage_version}.",
            hint="All files of a version must have the same format: leave data_storage_version "
            'out, or use mode="overwrite".',
            data_storage_version=given,
        )


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


def check_known(fragments: FragmentList, changed: Iterable[Fragment]) -> None:
    """Raise ``InvalidArgumentError`` if a fragment to be changed does not exist."""
    known = set(fragments.ids.tolist())
    if lost := [f.id for f in changed if f.id not in known]:
        raise InvalidArgumentError(
            f"Fragment {lost[0]} cannot be changed, because it is not in the newest version.",
            hint="Compute the change again, on the newest version.",
            fragments=lost,
        )


def without_dead(fragment: Fragment, live: Set[int]) -> Fragment:
    """Drop the data files that are no longer read.

    A file is kept if it has a field of the schema, whose ids are `live`, or row lineage of the
    fragment.  The last file is kept in any case: pylance cannot read a fragment without files.
    """
    wanted = live | {LINEAGE_FIELDS[name] for name in column_sequences(fragment)}
    files = tuple(file for file in fragment.files if not wanted.isdisjoint(file.fields))
    files = files or fragment.files[-1:]
    return fragment if len(files) == len(fragment.files) else replace(fragment, files=files)


def without_unread(fragments: FragmentList, live: Set[int]) -> dict[int, Fragment]:
    """Return, by id, the fragments that lose a data file which is no longer read."""
    kept = ((fragment, without_dead(fragment, live)) for fragment in fragments)
    return {new.id: new for old, new in kept if new is not old}


def with_bases(known: Sequence[BasePath], new: Iterable[BasePath]) -> tuple[BasePath, ...]:
    """Add base paths; a base path with id 0 gets the next free number, from 1.

    Raises InvalidArgumentError: an id, a name or a path is taken.
    """
    bases = list(known)
    for base in new:
        for other in bases:
            for what in ("id", "name", "path"):
                mine = getattr(base, what)
                if mine and mine == getattr(other, what):
                    raise InvalidArgumentError(
                        f"A base path with the {what} {mine!r} already exists.",
                        hint="Each base path must have its own id, name and path.",
                        base=mine,
                    )
        taken = {other.id for other in bases}
        free = next(id_ for id_ in range(1, len(taken) + 2) if id_ not in taken)
        bases.append(base if base.id else replace(base, id=free))
    return tuple(bases)


# ---- the progress of shards that are merged into the table (docs/format/memwal.md, 7)


def advanced(
    indices: tuple[IndexMetadata, ...], merged: Sequence[CompactedSsTable], version: int
) -> tuple[IndexMetadata, ...]:
    """Record in the shard entry which generations ``version`` has merged; return all indices.

    Raises IncompatibleConflictError: a generation was merged before, and its rows would be merged
        twice.
    Raises InvalidArgumentError: a shard is named twice, or the table has no entry for the record.
    """
    new = {one.shard_id: one.generation for one in merged}
    if not new:
        return indices
    if len(new) < len(merged):
        raise InvalidArgumentError(
            "A change contains the same shard of a write-ahead log twice.",
            hint="Pass only the last merged generation of each shard.",
            shards=[str(one.shard_id) for one in merged],
        )
    entry = mem_wal_entry(indices)
    if entry is None:
        raise InvalidArgumentError(
            "Merged generations of write-ahead logs cannot be recorded, because the table has no "
            f"entry {MEM_WAL!r}.",
            hint="ds.initialize_mem_wal() creates it; an overwrite drops it.",
            index=MEM_WAL,
        )
    known = merged_generations(entry.index_details)
    for shard, generation in new.items():
        if generation <= known.get(shard, -1):
            raise IncompatibleConflictError(
                f"Generation {generation} of shard {shard} cannot be merged: the table already "
                f"merged the shard up to generation {known[shard]}.",
                hint="Leave out the merged generations.",
                shard=str(shard),
                generation=generation,
            )
    # a new uuid, because readers cache the content of an index by it
    changed = replace(
        entry,
        uuid=uuid.uuid4(),
        dataset_version=version,
        index_details=with_generations(entry.index_details, new),
    )
    return (*(index for index in indices if index is not entry), changed)

"""The effect of a commit on the indices of other writers (docs/format/indices.md, 3).

An index declares the fragments that it covers; a reader scans all others itself.  So an index stays
correct if fragments with changed indexed values are removed from its coverage.  Ids of fragments
that no longer exist can remain, because readers skip them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pyroaring import BitMap

from lancekit._format.fragment import Fragment, FragmentList
from lancekit._format.index import FRAGMENT_REUSE, IndexMetadata, fragment_reuse_of
from lancekit._format.operation_parts import RewriteGroup, RewrittenIndex
from lancekit._format.schema import LanceSchema
from lancekit.errors import InvalidArgumentError

Indices = tuple[IndexMetadata, ...]

# index kinds that store row ids in tables with stable row ids; all other kinds, even unknown ones,
# may store addresses, which do not move with the rows
_BY_ROW_ID = frozenset(
    {
        "btreeindexdetails",
        "bitmapindexdetails",
        "labellistindexdetails",
        "ngramindexdetails",
        "invertedindexdetails",
        "vectorindexdetails",
    }
)


def follows_row_ids(index: IndexMetadata) -> bool:
    """Return True if an index stores row ids, and so still finds rows after a move."""
    kind = index.type_url.rpartition("/")[2].rpartition(".")[2].casefold()
    # since its version 1, a B-tree stores addresses
    addresses = kind.startswith("btree") and (index.index_version or 0) > 0
    return kind in _BY_ROW_ID and not addresses


def retained(indices: Iterable[IndexMetadata], schema: LanceSchema, live: FragmentList) -> Indices:
    """Drop indices of dropped fields, and segments without coverage if their index has others."""
    known = {f.id for f in schema.walk()}
    kept = [index for index in indices if index.is_system or known.issuperset(index.fields)]
    if not kept:
        return ()
    # With a fragment-reuse index, a segment covers existing fragments by the ids of fragments that
    # are gone.  So only a segment without any ids is known to cover nothing.
    ids = None if fragment_reuse_of(kept) is not None else BitMap(live.ids.tolist())
    segments: dict[str, list[IndexMetadata]] = {}
    for index in kept:
        if index.name != FRAGMENT_REUSE and index.fragment_ids is not None:
            segments.setdefault(index.name, []).append(index)
    dropped = {index.uuid for group in segments.values() for index in _superfluous(group, ids)}
    return tuple(index for index in kept if index.uuid not in dropped)


def _superfluous(segments: Sequence[IndexMetadata], live: BitMap | None) -> list[IndexMetadata]:
    covered = [index.fragment_ids or BitMap() for index in segments]
    empty = [
        index
        for index, ids in zip(segments, covered, strict=True)
        if not (ids if live is None else ids & live)
    ]
    if len(empty) == len(segments):
        # the oldest segment is kept, to record that the index exists
        oldest = min(empty, key=lambda index: index.dataset_version)
        return [index for index in empty if index is not oldest]
    return empty


def pruned(
    indices: Iterable[IndexMetadata],
    schema: LanceSchema,
    live: FragmentList,
    changed: Mapping[int, Collection[int]],
) -> Indices:
    """Remove fragments from the coverage of indices on fields that were rewritten in them.

    live: the existing fragments.
    changed: by fragment id, the ids of the rewritten fields.
    """
    found = tuple(indices)
    if not found or not any(changed.values()):
        return found
    # With a fragment-reuse index, a segment covers a fragment by the ids of its predecessors.  They
    # need not be known, because removing all ids of fragments that are gone is safe.
    keep = None if fragment_reuse_of(found) is None else BitMap(live.ids.tolist())

    def prune(index: IndexMetadata) -> IndexMetadata:
        fields = schema.ids_below(index.fields)
        stale = BitMap([id_ for id_, ids in changed.items() if not fields.isdisjoint(ids)])
        covered = index.fragment_ids
        if covered is None or not stale:
            return index
        left = covered - stale
        return replace(index, fragment_ids=left if keep is None else left & keep)

    return tuple(map(prune, found))


def extended(
    indices: Iterable[IndexMetadata],
    schema: LanceSchema,
    *,
    rewritten: Collection[int],
    origins: Collection[int],
    new: Collection[int],
) -> Indices:
    """Add the new fragments of moved rows to the coverage of indices that store row ids.

    rewritten: the ids of the fields whose values changed with the move.
    origins: the fragments that the rows came from; an index must have covered them all.
    new: the fragments that contain the rows now.
    """

    def cover(index: IndexMetadata) -> IndexMetadata:
        covered = index.fragment_ids
        if (
            covered is None
            or not follows_row_ids(index)
            or not BitMap(origins).issubset(covered)
            or not schema.ids_below(index.fields).isdisjoint(rewritten)
        ):
            return index
        return replace(index, fragment_ids=covered | BitMap(new))

    return tuple(map(cover, indices)) if new else tuple(indices)


def swapped(
    indices: Iterable[IndexMetadata],
    groups: Sequence[tuple[RewriteGroup, Collection[int]]],
    rewritten: Sequence[RewrittenIndex],
) -> Indices:
    """Replace segments by segments that were remapped to the new fragments.

    groups: the rewritten groups, each with the ids of its new fragments.
    rewritten: the remapped segments; a segment whose old segment is gone is ignored.

    Raises InvalidArgumentError: a segment is named twice, its coverage is not known, or it covers
        a part of a group.
    """
    by_old = {index.old_id: index for index in rewritten}
    if len(by_old) < len(rewritten):
        raise InvalidArgumentError("A rewrite replaces the same segment of an index twice.")

    def swap(index: IndexMetadata) -> IndexMetadata:
        mine = by_old.get(index.uuid)
        if mine is None:
            return index
        return replace(
            index,
            uuid=mine.new_id,
            fragment_ids=_new_coverage(index, groups),
            index_details=mine.details or index.index_details,
            index_version=(
                index.index_version if mine.new_index_version is None else mine.new_index_version
            ),
            files=mine.files,
            base_id=None,  # new files are in the dataset's own folder
        )

    return tuple(map(swap, indices))


def moved(
    indices: Iterable[IndexMetadata],
    groups: Sequence[tuple[RewriteGroup, Collection[int]]],
    rewritten: Sequence[RewrittenIndex],
) -> Indices:
    """Replace rewritten fragments in the coverage of indices that store row ids.

    Remapped segments are correct already.  If an index covers only a part of a group, the group's
    new fragments are not covered.
    """
    remapped = {index.new_id for index in rewritten}

    def move(index: IndexMetadata) -> IndexMetadata:
        covered = index.fragment_ids
        if covered is None or index.uuid in remapped or not follows_row_ids(index):
            return index
        for group, new in groups:
            old = BitMap([f.id for f in group.old_fragments])
            if old.issubset(covered):
                covered = covered - old | BitMap(new)
        return replace(index, fragment_ids=covered)

    return tuple(map(move, indices))


def _new_coverage(
    index: IndexMetadata, groups: Sequence[tuple[RewriteGroup, Collection[int]]]
) -> BitMap:
    if index.fragment_ids is None:
        raise InvalidArgumentError(
            f"Index {index.name!r} does not list the fragments that it covers, so it cannot be "
            "rewritten.",
            hint="Create it again.",
        )
    covered = BitMap(index.fragment_ids)
    for group, new in groups:
        old = BitMap([f.id for f in group.old_fragments])
        if old.isdisjoint(index.fragment_ids):
            continue
        if not old.issubset(index.fragment_ids):
            raise InvalidArgumentError(
                f"A rewrite combines fragments {list(old)}, but index {index.name!r} covers only "
                "some of them.",
                hint="Rewrite covered fragments apart from other fragments.",
            )
        covered = covered - old | BitMap(new)
    return covered


def live_fields(fragment: Fragment) -> dict[int, tuple[str, int | None]]:
    """Return the ids of the fields that a fragment stores, each with its file."""
    return {id_: (f.path, f.base_id) for f in fragment.files for id_ in f.fields if id_ >= 0}


def rewritten_fields(old: Fragment, new: Fragment) -> set[int]:
    """Return the ids of fields that a fragment's new state stores in another file."""
    if old.files == new.files:
        return set()
    before, after = live_fields(old), live_fields(new)
    return {id_ for id_, file in after.items() if before.get(id_, file) != file}

"""What a commit does to the indices that other writers made (docs/format/indices.md, 3).

An index says which fragments it covers; a reader looks at all others itself.  So an index stays
right if the fragments leave its cover in which an indexed value changed.  Ids of fragments that
are gone may stay: readers pass them over.
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

# indices whose entries are the ids of rows where the table has such; every other kind, and one
# that is not known, may hold addresses, which do not move with the rows
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
    """Return whether an index of a table with stable row ids finds rows that were moved."""
    kind = index.type_url.rpartition("/")[2].rpartition(".")[2].casefold()
    # since its version 1 a B-tree holds addresses
    addresses = kind.startswith("btree") and (index.index_version or 0) > 0
    return kind in _BY_ROW_ID and not addresses


def retained(indices: Iterable[IndexMetadata], schema: LanceSchema, live: FragmentList) -> Indices:
    """Drop the indices of dropped fields, and segments that cover nothing but have siblings."""
    known = {f.id for f in schema.walk()}
    kept = [index for index in indices if index.is_system or known.issuperset(index.fields)]
    if not kept:
        return ()
    # With a fragment-reuse index a segment covers fragments that are there, by ids of some that are
    # gone: only one that names none covers nothing for sure.
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
        # the oldest one stays: it says that there is to be an index
        oldest = min(empty, key=lambda index: index.dataset_version)
        return [index for index in empty if index is not oldest]
    return empty


def pruned(
    indices: Iterable[IndexMetadata],
    schema: LanceSchema,
    live: FragmentList,
    changed: Mapping[int, Collection[int]],
) -> Indices:
    """Take fragments out of the indices on fields that were rewritten in them.

    live: the fragments that there are.
    changed: by the id of a fragment, the ids of the fields.
    """
    found = tuple(indices)
    if not found or not any(changed.values()):
        return found
    # With a fragment-reuse index a segment covers a fragment under the ids of those that it was
    # made of.  Which these are need not be known: taking all ids of old out is safe.
    keep = None if fragment_reuse_of(found) is None else BitMap(live.ids.tolist())

    def prune(index: IndexMetadata) -> IndexMetadata:
        fields = _depends_on(index, schema)
        stale = BitMap([id_ for id_, ids in changed.items() if not fields.isdisjoint(ids)])
        covered = index.fragment_ids
        if covered is None or not stale:
            return index
        left = covered - stale
        return replace(index, fragment_ids=left if keep is None else left & keep)

    return tuple(map(prune, found))


def _depends_on(index: IndexMetadata, schema: LanceSchema) -> frozenset[int]:
    """Return the ids of the indexed fields, and of everything in them."""
    own = frozenset(index.fields)
    return own.union(*({f.id for f in field.walk()} for field in schema.walk() if field.id in own))


def extended(
    indices: Iterable[IndexMetadata],
    schema: LanceSchema,
    *,
    rewritten: Collection[int],
    origins: Collection[int],
    new: Collection[int],
) -> Indices:
    """Let indices by row id cover the new fragments of rows that were only moved.

    rewritten: the ids of the fields whose values changed on the way.
    origins: the fragments that the rows came from; an index must have covered all of them.
    new: the fragments that they are in now.
    """

    def cover(index: IndexMetadata) -> IndexMetadata:
        covered = index.fragment_ids
        if (
            covered is None
            or not follows_row_ids(index)
            or not BitMap(origins).issubset(covered)
            or not _depends_on(index, schema).isdisjoint(rewritten)
        ):
            return index
        return replace(index, fragment_ids=covered | BitMap(new))

    return tuple(map(cover, indices)) if new else tuple(indices)


def swapped(
    indices: Iterable[IndexMetadata],
    groups: Sequence[tuple[RewriteGroup, Collection[int]]],
    rewritten: Sequence[RewrittenIndex],
) -> Indices:
    """Put segments that were remapped to the new fragments in the place of the old ones.

    groups: each with the ids that its new fragments have now.
    rewritten: the remapped segments; one whose old segment is gone is passed over.

    Raises InvalidArgumentError: a segment is named twice, its cover is not known, or it covers a
        part of a group.
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
            fragment_ids=_recovered(index, groups),
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
    """Let indices by row id cover the fragments that rows were rewritten to, ids and all.

    Those that were remapped do already; of a group that an index covers in part it covers no more.
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


def _recovered(
    index: IndexMetadata, groups: Sequence[tuple[RewriteGroup, Collection[int]]]
) -> BitMap:
    if index.fragment_ids is None:
        raise InvalidArgumentError(
            f"Index {index.name!r} does not say which fragments it covers, so it cannot be "
            "rewritten.",
            hint="Make it again.",
        )
    covered = BitMap(index.fragment_ids)
    for group, new in groups:
        old = BitMap([f.id for f in group.old_fragments])
        if old.isdisjoint(index.fragment_ids):
            continue
        if not old.issubset(index.fragment_ids):
            raise InvalidArgumentError(
                f"A rewrite puts together fragments {list(old)}, of which index {index.name!r} "
                "covers only a part.",
                hint="Rewrite the fragments that it covers apart from the others.",
            )
        covered = covered - old | BitMap(new)
    return covered


def live_fields(fragment: Fragment) -> dict[int, tuple[str, int | None]]:
    """Return the ids of the fields that a fragment stores, and which file each is in."""
    return {id_: (f.path, f.base_id) for f in fragment.files for id_ in f.fields if id_ >= 0}


def rewritten_fields(old: Fragment, new: Fragment) -> set[int]:
    """Return the ids of fields that a fragment's new state has in another file."""
    if old.files == new.files:
        return set()
    before, after = live_fields(old), live_fields(new)
    return {id_ for id_, file in after.items() if before.get(id_, file) != file}

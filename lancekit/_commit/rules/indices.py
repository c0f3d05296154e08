"""Rules about indices.  `rebase` and the next manifest narrow the coverage of indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import chain

from lancekit._commit.rules.verdict import (
    COMPATIBLE,
    Context,
    Verdict,
    excluded,
    listed,
    named_fragments,
    rebased,
    retry,
)
from lancekit._format import operations as ops
from lancekit._format.index import FRAGMENT_REUSE, IndexMetadata, fragment_reuse_of
from lancekit._format.mem_wal.names import MEM_WAL


def same_indices(mine: ops.CreateIndex, theirs: ops.CreateIndex, _context: Context) -> Verdict:
    """Lands unless both changed the same index; dropping it twice is no conflict.

    Must be done again if both add segments of one name, or if one adds a segment while the other
    removes that index.  The same holds if one side replaces a segment that both remove.
    """
    added, their_added = _names(mine.new_indices), _names(theirs.new_indices)
    removed, their_removed = _names(mine.removed_indices), _names(theirs.removed_indices)
    replaced = {
        ours.name
        for ours in mine.removed_indices
        for other in theirs.removed_indices
        if ours.uuid == other.uuid and {ours.name, other.name} & (added | their_added)
    }
    both = (
        added & their_added
        | (added - removed) & their_removed
        | (their_added - their_removed) & removed
        | replaced
    )
    if not both:
        return COMPATIBLE
    names = tuple(sorted(both))
    return retry(f"both changed index {listed(map(repr, names))}", indices=names)


def _names(indices: Iterable[IndexMetadata]) -> set[str]:
    return {index.name for index in indices}


def _moved(indices: Sequence[IndexMetadata], old: frozenset[int]) -> Verdict:
    """Judge indices whose entries point into fragments that are replaced."""
    for index in indices:
        if index.fragment_ids is None:
            return retry(
                f"index {index.name!r} does not list the fragments that it covers, and "
                f"{named_fragments(old)} was rewritten",
                indices=(index.name,),
                fragments=old,
            )
        if both := {id_ for id_ in old if id_ in index.fragment_ids}:
            return retry(
                f"{named_fragments(both)}, which index {index.name!r} covers, was rewritten",
                indices=(index.name,),
                fragments=both,
            )
    return COMPATIBLE


def index_of_rewritten_rows(
    mine: ops.CreateIndex, theirs: ops.Rewrite, _context: Context
) -> Verdict:
    """Lands unless fragments that a new index covers were rewritten, or its coverage is unknown.

    A fragment-reuse index maps row addresses from before a compaction to those after it.  Changing
    it must always be done again: the rewrite may have added to it, which no transaction records.
    """
    if fragment_reuse_of((*mine.new_indices, *mine.removed_indices)) is not None:
        return retry(
            f"the index of moved rows was recreated, and {named_fragments(theirs.all_old_ids)} "
            "was rewritten",
            indices=(FRAGMENT_REUSE,),
            fragments=theirs.all_old_ids,
        )
    return _moved(mine.new_indices, theirs.all_old_ids)


def rewrite_of_indexed_rows(
    mine: ops.Rewrite, theirs: ops.CreateIndex, _context: Context
) -> Verdict:
    """Lands unless a new index covers fragments that it rewrites, or its coverage is unknown.

    A fragment-reuse index maps row addresses from before a compaction to those after it.  Replacing
    it alone does not matter.  Any other transaction with a new one excludes the rewrite.
    """
    if fragment_reuse_of(theirs.new_indices) is not None:
        if len(theirs.new_indices) == len(theirs.removed_indices) == 1:
            return COMPATIBLE
        return excluded("the index of moved rows was not only replaced", indices=(FRAGMENT_REUSE,))
    return _moved(theirs.new_indices, mine.all_old_ids)


def index_of_rewritten_columns(
    mine: ops.CreateIndex, theirs: ops.Update | ops.DataReplacement, context: Context
) -> Verdict:
    """Lands without the fragments in which an indexed column was rewritten meanwhile.

    Must be done again if the coverage of the index is unknown.
    """
    if isinstance(theirs, ops.Update):
        ids = frozenset(f.id for f in theirs.updated_fragments)
        fields = frozenset(theirs.fields_modified)
    else:
        ids = theirs.fragment_ids
        fields = frozenset(chain(*(group.new_file.fields for group in theirs.replacements)))
    return _narrowed(mine, ids, fields, context)


def _narrowed(
    mine: ops.CreateIndex, ids: Set[int], fields: frozenset[int], context: Context
) -> Verdict:
    names, covered = [], set()
    for index in mine.new_indices:
        if fields.isdisjoint(context.read.schema.ids_below(index.fields)):
            continue
        if index.fragment_ids is None:
            return retry(
                f"a column of index {index.name!r} was rewritten, and it does not list the "
                "fragments that it covers",
                indices=(index.name,),
                fragments=ids,
            )
        if both := {id_ for id_ in ids if id_ in index.fragment_ids}:
            names.append(index.name)
            covered |= both
    if not names:
        return COMPATIBLE
    return rebased(
        f"index {listed(map(repr, names))} drops {named_fragments(covered)}, in which its column "
        "was rewritten",
        indices=tuple(names),
        fragments=covered,
    )


def index_over_new_schema(
    mine: ops.CreateIndex, theirs: ops.Merge | ops.Project, context: Context
) -> Verdict:
    """Lands unless an indexed column was dropped or recreated under the same name.

    After columns were added or cast, the new index omits the fragments in which an indexed column
    was rewritten.  The index of a write-ahead log must then be made again.
    """
    known = {f.id for f in theirs.schema.walk()}
    for index in mine.new_indices:
        if lost := set(index.fields) - known:
            what = f"{context.named(lost)}, which index {index.name!r} is on,"
            return retry(f"{what} was dropped or recreated", indices=(index.name,), fields=lost)
    if isinstance(theirs, ops.Project):
        return COMPATIBLE
    if any(index.name == MEM_WAL for index in mine.new_indices):
        return retry("columns were added or changed", indices=(MEM_WAL,))
    return _over_files(mine, theirs, context)


def _over_files(mine: ops.CreateIndex, theirs: ops.Merge, context: Context) -> Verdict:
    """Judge indices over a merge, which lists all fragments and may have new files for any."""
    indexed = [field for index in mine.new_indices for field in index.fields]
    fields = context.read.schema.ids_below(indexed)
    changed = set()
    for fragment in theirs.fragments if fields else ():
        before = context.read.fragments.get(fragment.id)
        if before is not None and before.files != fragment.files:
            old = {(f.path, id_) for f in before.files for id_ in f.fields if id_ in fields}
            new = {(f.path, id_) for f in fragment.files for id_ in f.fields if id_ in fields}
            if old != new:
                changed.add(fragment.id)
    return _narrowed(mine, changed, fields, context) if changed else COMPATIBLE


def log_index_over_new_schema(
    _mine: ops.Merge, theirs: ops.CreateIndex, _context: Context
) -> Verdict:
    """Lands unless the index of a write-ahead log was created, which depends on the schema."""
    if any(index.name == MEM_WAL for index in theirs.new_indices):
        return retry("the index of a write-ahead log was created", indices=(MEM_WAL,))
    return COMPATIBLE

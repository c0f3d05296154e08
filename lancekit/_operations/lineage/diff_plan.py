"""Plan the comparison of two versions from metadata alone.

Fragments with the same files and deletions on both sides have equal rows.  In other fragments, rows
at the same offset of a shared file are the same row.  All other rows are matched by stable row ids,
by a key, or by all columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lancekit._format.paths import parse_path
from lancekit._operations.lineage.columns import fragments_apart, pairs_since
from lancekit._pipeline.diff.fragments import ColumnPair, Shared, shared
from lancekit._pipeline.diff.row_values import seen
from lancekit._scan.expressions.objects import Filter
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.expressions.texts import as_sql
from lancekit._scan.fragments.source import SomeSources, fragment_sources
from lancekit._versions.ancestor import common_ancestor
from lancekit._versions.commit_graph import CommitGraph
from lancekit._versions.merge_edges import SharedIds
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

#: how rows of the two sides are matched
Matching = Literal["key", "row ids", "row ids, then key", "whole rows"]

#: by whether row ids match rows, and whether there is a key
_MATCHINGS: dict[tuple[bool, bool], Matching] = {
    (True, True): "row ids, then key",
    (True, False): "row ids",
    (False, True): "key",
    (False, False): "whole rows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPlan:
    """A planned comparison of two versions, made from metadata alone.

    `ancestor` is the common ancestor.  `taken` has the row ids that both share since a
    fast-forward.
    """

    old: Snapshot
    new: Snapshot
    ancestor: Snapshot | None
    taken: SharedIds | None
    columns: tuple[ColumnPair, ...]
    shared: Shared
    matched_by: Matching
    key: tuple[str, ...]
    condition: Filter | None
    #: whether all columns are compared
    whole: bool

    @property
    def rows_apart(self) -> int:
        """The number of rows of both sides in fragments that differ."""
        parts = self.shared
        pairs = (source for pair in parts.pairs for source in (pair.old, pair.new))
        return sum(source.num_rows for source in (*parts.old, *parts.new, *pairs))

    @property
    def common_ids(self) -> int:
        """The first row id that may mean different rows; lower ids mean the same row."""
        return max(self.own_ids, 0 if self.taken is None else self.taken.next_row_id)

    @property
    def own_ids(self) -> int:
        """The first row id that the common ancestor has not assigned; 0 without an ancestor."""
        return 0 if self.ancestor is None else self.ancestor.manifest.next_row_id

    @property
    def looks_at_same(self) -> bool:
        """True if keys of equal rows must be read, too, because other rows may repeat them."""
        return self.matched_by.endswith("key") and not self.key_is_primary

    @property
    def key_is_primary(self) -> bool:
        """True if the key is the primary key, so that no two rows of a side share it."""
        return self.key == _primary_key(self.new)


def plan_diff(
    old: Snapshot,
    new: Snapshot,
    *,
    on: Sequence[str] | None = None,
    condition: Filter | None = None,
    columns: Sequence[str] | None = None,
    apart: bool = False,
    pairs: Sequence[ColumnPair] | None = None,
) -> DiffPlan:
    """Plan the comparison of two versions; only metadata is read.

    Fragments with equal metadata on both sides are skipped early: most versions change only a few.

    apart: leave such fragments out of the plan.
    pairs: the matched columns of both sides; by default they are matched here.

    Raises ColumnNotFoundError: the new version lacks a column of ``on`` or ``columns``.
    Raises InvalidArgumentError: only one side has a column of the key, or the key has no columns.
    """
    ancestor = common_ancestor(old, new)
    pairs = pairs_since(old, new, ancestor) if pairs is None else pairs
    key = _key(old, new, pairs, on)
    for name in columns or ():
        new.manifest.schema.field(name)
    wanted = {*(pair.name for pair in pairs)} if columns is None else {*columns, *key}
    compared = tuple(pair for pair in pairs if pair.name in wanted)
    stable = all(side.manifest.has_stable_row_ids for side in (old, new))
    by_ids = on is None and stable and ancestor is not None
    filtered = set[str]() if condition is None else filter_columns(condition, new)
    read_columns = [pair for pair in pairs if pair.name in wanted or pair.name in filtered]
    return DiffPlan(
        old=old,
        new=new,
        ancestor=ancestor,
        taken=shared_ids(old, new) if by_ids else None,
        columns=compared,
        shared=_shared(old, new, read_columns, apart=apart),
        matched_by=_MATCHINGS[by_ids, bool(key)],
        key=key,
        condition=condition,
        whole=columns is None,
    )


def shared_ids(old: Snapshot, new: Snapshot) -> SharedIds | None:
    """Return the row ids that the branches of two versions share since a fast-forward."""
    if old.location == new.location or old.location.root != new.location.root:
        return None
    return CommitGraph(new.location).shared_ids(old, new)


def _shared(old: Snapshot, new: Snapshot, columns: Sequence[ColumnPair], *, apart: bool) -> Shared:
    """Compare the fragments of both sides by their files."""
    before, after = fragment_sources(old, seen(old)), fragment_sources(new, seen(new))
    if old.location != new.location and not apart:  # a search for equal metadata gains nothing
        return shared(before, after, columns)
    places, others = fragments_apart(old, new, None if apart else columns)
    found = shared([before[at] for at in places], [after[at] for at in others], columns)
    if apart:
        return found
    same_places = np.delete(np.arange(len(after)), others)
    rest = np.isin(after.ids, [source.fragment.id for source in found.same])
    same = SomeSources(after, np.union1d(same_places, np.flatnonzero(rest)))
    ids = after.ids[same_places].tolist()
    mates = {**dict(zip(ids, ids, strict=True)), **found.mates}
    return replace(found, same=same, mates=mates, rows=int(same.num_rows.sum()))


def _key(
    old: Snapshot, new: Snapshot, pairs: Sequence[ColumnPair], on: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the key columns; a primary key that one side lacks matches no rows and is left out."""
    if on is not None and not on:
        raise InvalidArgumentError(
            "The key in on= is empty.", hint="Pass at least one column, or leave on= out.", on=on
        )
    key = _primary_key(new) if on is None else tuple(on)
    for name in key:
        new.manifest.schema.field(name)
    lacking = [pair.name for pair in pairs if pair.name in key and pair.old is None]
    if not lacking:
        return key
    if on is None:
        return ()
    raise InvalidArgumentError(
        f"Key column {lacking[0]!r} does not exist in version {old.version}.",
        hint="Pass columns in on= that both sides have.",
        column=lacking[0],
    )


def _primary_key(snapshot: Snapshot) -> tuple[str, ...]:
    names = [field.name for field in snapshot.manifest.schema.primary_key]
    top = set(snapshot.manifest.schema.names)
    return tuple(names) if top.issuperset(names) else ()


def filter_columns(condition: Filter, new: Snapshot) -> set[str]:
    """Return the columns that a filter reads: if their values differ, so may the selected rows."""
    predicate = Predicate.parse(as_sql(condition), seen(new).to_arrow())
    return {parse_path(path)[0] for path in predicate.columns}

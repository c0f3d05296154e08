"""How two versions are compared: planned from metadata alone.

Rows of fragments that both sides have with the same files and deletions are the same.  Of the
others, those at the same place of a file that both have are one row; what is left is paired by
stable row ids, by a key, or as whole rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lancekit import _arrow_compute as pc
from lancekit._format.paths import parse_path
from lancekit._operations.lineage.columns import fragments_apart, pairs_since
from lancekit._pipeline.diff.fragments import ColumnPair, Shared, shared
from lancekit._pipeline.diff.row_values import seen
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragments.source import SomeSources, fragment_sources
from lancekit._versions.ancestor import common_ancestor
from lancekit._versions.commit_graph import CommitGraph
from lancekit._versions.merge_edges import SharedIds
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

#: how rows of the two sides are told to be the same
Way = Literal["key", "row ids", "row ids, then key", "whole rows"]

#: by whether row ids tell, and whether there is a key
_WAYS: dict[tuple[bool, bool], Way] = {
    (True, True): "row ids, then key",
    (True, False): "row ids",
    (False, True): "key",
    (False, False): "whole rows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPlan:
    """What is compared, and how; made of metadata alone.

    `ancestor` is the version that both come from; `taken` has the row ids that a fast-forward gave
    to both.  `common_ids` are the row ids that mean the same row on both sides, those below.
    """

    old: Snapshot
    new: Snapshot
    ancestor: Snapshot | None
    taken: SharedIds | None
    columns: tuple[ColumnPair, ...]
    shared: Shared
    way: Way
    key: tuple[str, ...]
    condition: str | pc.Expression | None
    #: whether all columns are compared
    whole: bool

    @property
    def rows_apart(self) -> int:
        """How many rows of both sides are in fragments that differ."""
        parts = self.shared
        pairs = (source for pair in parts.pairs for source in (pair.old, pair.new))
        return sum(source.num_rows for source in (*parts.old, *parts.new, *pairs))

    @property
    def common_ids(self) -> int:
        """The row ids below this number are those of the same rows on both sides."""
        return max(self.own_ids, 0 if self.taken is None else self.taken.next_row_id)

    @property
    def own_ids(self) -> int:
        """The row ids below this number are those of the version that both sides come from."""
        return 0 if self.ancestor is None else self.ancestor.manifest.next_row_id

    @property
    def looks_at_same(self) -> bool:
        """True if keys of rows count that both sides have as they are: they may repeat others."""
        return self.way.endswith("key") and not self.key_is_primary

    @property
    def key_is_primary(self) -> bool:
        """Whether no two rows of a side have the same key."""
        return self.key == _primary_key(self.new)


def plan_diff(
    old: Snapshot,
    new: Snapshot,
    *,
    on: Sequence[str] | None = None,
    condition: str | pc.Expression | None = None,
    columns: Sequence[str] | None = None,
    apart: bool = False,
    pairs: Sequence[ColumnPair] | None = None,
) -> DiffPlan:
    """Return how two versions are compared; nothing but metadata is read.

    Fragments whose metadata is the same on both sides are not looked at: of many versions one
    after the other, each changes few.  With ``apart`` the plan leaves them out.  ``pairs`` are the
    columns of both sides, if it is known by another way which are the same.

    Raises ColumnNotFoundError: a column of ``on`` or ``columns`` is not there.
    Raises InvalidArgumentError: a column of the key is on one side only, or the key has none.
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
    filtered = set[str]() if condition is None else _filtered(condition, new)
    looked_at = [pair for pair in pairs if pair.name in wanted or pair.name in filtered]
    return DiffPlan(
        old=old,
        new=new,
        ancestor=ancestor,
        taken=shared_ids(old, new) if by_ids else None,
        columns=compared,
        shared=_shared(old, new, looked_at, apart=apart),
        way=_WAYS[by_ids, bool(key)],
        key=key,
        condition=condition,
        whole=columns is None,
    )


def shared_ids(old: Snapshot, new: Snapshot) -> SharedIds | None:
    """Return the row ids that the lines of two versions share since a fast-forward."""
    if old.location == new.location or old.location.root != new.location.root:
        return None
    return CommitGraph(new.location).shared_ids(old, new)


def _shared(old: Snapshot, new: Snapshot, columns: Sequence[ColumnPair], *, apart: bool) -> Shared:
    """Compare the fragments of both sides by their files."""
    before, after = fragment_sources(old, seen(old)), fragment_sources(new, seen(new))
    if (
        old.location != new.location and not apart
    ):  # to find fragments alike costs as much as to compare
        return shared(before, after, columns)
    places, others = fragments_apart(old, new, None if apart else columns)
    found = shared([before[at] for at in places], [after[at] for at in others], columns)
    if apart:
        return found
    alike = np.delete(np.arange(len(after)), others)
    rest = np.isin(after.ids, [source.fragment.id for source in found.same])
    same = SomeSources(after, np.union1d(alike, np.flatnonzero(rest)))
    ids = after.ids[alike].tolist()
    mates = {**dict(zip(ids, ids, strict=True)), **found.mates}
    return replace(found, same=same, mates=mates, rows=int(same.num_rows.sum()))


def _key(
    old: Snapshot, new: Snapshot, pairs: Sequence[ColumnPair], on: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the columns of the key; a primary key that one side lacks tells nothing."""
    if on is not None and not on:
        raise InvalidArgumentError(
            "The key in `on` has no columns.", hint="Name some, or leave `on` out.", on=on
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
        f"Column {lacking[0]!r} is part of the key, and version {old.version} lacks it.",
        hint="Name columns in `on` that both sides have.",
        column=lacking[0],
    )


def _primary_key(snapshot: Snapshot) -> tuple[str, ...]:
    names = [field.name for field in snapshot.manifest.schema.primary_key]
    top = set(snapshot.manifest.schema.names)
    return tuple(names) if top.issuperset(names) else ()


def _filtered(condition: str | pc.Expression, new: Snapshot) -> set[str]:
    """Return the columns that a filter reads: where they differ, it may choose other rows."""
    predicate = Predicate.parse(condition, seen(new).to_arrow())
    return {parse_path(path)[0] for path in predicate.columns}

"""The columns of versions that a merge plans together, or the parts of one column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from lancekit._format.field_marks import holds_blobs
from lancekit._format.schema import LanceField
from lancekit._operations.lineage.column_tracks import Pairs, Track, Versions, tracks
from lancekit._pipeline.diff.fragments import ColumnPair, is_paired_by_parts

__all__ = ["PlannedParts"]

#: the fields that lead to parts of a column, of the merge base and of a side
Chain: TypeAlias = tuple[tuple[LanceField, LanceField], ...]


class PlannedParts:
    """Columns, or parts of one column, of the merge bases, theirs and ours.

    `path` has the names in the merge base that lead to the parts, `chains` the fields, those of
    ours first.  `parent_id` is the id of the field that the parts are in.  `in_lists` tells that
    lists or maps are above the parts.
    """

    def __init__(
        self,
        versions: Versions,
        columns: Sequence[Track],
        pairs: Sequence[Pairs],
        path: tuple[str, ...] = (),
        chains: tuple[Chain, Chain] = ((), ()),
        parent_id: int = -1,
        *,
        in_lists: bool = False,
    ) -> None:
        self.versions, self.tracks, self.pairs = versions, columns, pairs
        self.path, self.chains, self.parent_id = path, chains, parent_id
        self.in_lists = in_lists

    def parts_of(self, name: str) -> tuple[str, ...]:
        """Return the names that lead to a part, its own last."""
        return (*self.path, name)

    def key(self, own: str, base: str) -> str:
        """Return the name by which `Values` counts a column, or a part."""
        return ".".join((*self.path, base)) if self.path else own

    def below(self, track: Track) -> PlannedParts | None:
        """Return the parts of a column that all versions have, if a side changed parts of structs.

        Merge bases have to have the same parts: else the column merges as a whole.
        """
        other, mine, bases = track.theirs, track.ours, track.known
        if other is None or mine is None or len(bases) < len(track.bases):
            return None
        if any(holds_blobs(side.metadata) for side in (*bases, other, mine)) or not all(
            is_paired_by_parts(base, side) for base in bases for side in (other, mine)
        ):
            return None
        found = [
            (_named(to_theirs, other), _named(to_ours, mine)) for to_theirs, to_ours in self.pairs
        ]
        kinds = [side.to_arrow().type for side in (*bases, other, mine)]
        is_changed = any(pair.parts for both in found for pair in both)
        if not is_changed and all(kind == kinds[0] for kind in kinds):
            return None
        base = bases[0]
        pairs = [
            (_parts(there, was, other), _parts(here, was, mine))
            for (there, here), was in zip(found, bases, strict=True)
        ]
        if any(kind != kinds[0] for kind in kinds[: len(bases)]) or any(
            list(map(_matches, one)) != list(map(_matches, pairs[0])) for one in pairs
        ):
            return None
        children = [side.children for side in (*bases, other, mine)]
        return PlannedParts(
            self.versions,
            tracks(self.versions, pairs, children),
            pairs,
            (*self.path, base.name),
            ((*self.chains[0], (base, mine)), (*self.chains[1], (base, other))),
            mine.id,
            in_lists=self.in_lists or mine.logical_type != "struct",
        )


def _named(pairs: Sequence[ColumnPair], field: LanceField) -> ColumnPair:
    return next(pair for pair in pairs if pair.name == field.name)


def _matches(pairs: Sequence[ColumnPair]) -> list[object]:
    """Return the names of parts, each with its name in the merge base, and so on below."""
    return [
        (pair.name, None if pair.old is None else pair.old.name, _matches(pair.parts))
        for pair in pairs
    ]


def _parts(pair: ColumnPair, base: LanceField, side: LanceField) -> Sequence[ColumnPair]:
    """Return the parts of a column, also where they are the same under the same names."""
    if pair.parts:
        return pair.parts
    return [
        ColumnPair(new.name, new.to_arrow().type, old, new)
        for old, new in zip(base.children, side.children, strict=True)
    ]

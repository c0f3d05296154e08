"""The columns of three versions that a merge plans together, or the parts of one column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from lancekit.format.field_marks import holds_blobs
from lancekit.format.schema import LanceField
from lancekit.pipeline.diff.fragments import ColumnPair, is_paired_by_parts

__all__ = ["PlannedParts"]

#: the fields that lead to parts of a column, of the merge base and of a side
Chain: TypeAlias = tuple[tuple[LanceField, LanceField], ...]


class PlannedParts:
    """Columns, or parts of one column, of the merge base, theirs and ours.

    `path` has the names in the merge base that lead to the parts, `chains` the fields, those of
    ours first.  `parent_id` is the id of the field that the parts are in.  `in_lists` tells that
    lists or maps are above the parts.
    """

    def __init__(
        self,
        fields: tuple[Sequence[LanceField], Sequence[LanceField], Sequence[LanceField]],
        to_theirs: Sequence[ColumnPair],
        to_ours: Sequence[ColumnPair],
        path: tuple[str, ...] = (),
        chains: tuple[Chain, Chain] = ((), ()),
        parent_id: int = -1,
        *,
        in_lists: bool = False,
    ) -> None:
        self.base, self.theirs, self.ours = fields
        self.path, self.chains, self.parent_id = path, chains, parent_id
        self.in_lists = in_lists
        base, theirs = ({one.name: one for one in side} for side in (self.base, self.theirs))
        self.base_of_ours = {
            pair.name: base[pair.old.name] for pair in to_ours if pair.old is not None
        }
        self.of_theirs = {
            pair.old.name: theirs[pair.name] for pair in to_theirs if pair.old is not None
        }
        self.added_there = {pair.name: theirs[pair.name] for pair in to_theirs if pair.old is None}
        self._to_theirs = {pair.name: pair for pair in to_theirs}
        self._to_ours = {pair.name: pair for pair in to_ours}

    def parts_of(self, name: str) -> tuple[str, ...]:
        """Return the names that lead to a part, its own last."""
        return (*self.path, name)

    def key(self, own: str, base: str) -> str:
        """Return the name by which `Values` counts a column, or a part."""
        return ".".join((*self.path, base)) if self.path else own

    def below(self, base: LanceField, other: LanceField, mine: LanceField) -> PlannedParts | None:
        """Return the parts of a column that is on all sides, if a side changed parts of structs."""
        sides = base, other, mine
        if any(holds_blobs(side.metadata) for side in sides) or not (
            is_paired_by_parts(base, other) and is_paired_by_parts(base, mine)
        ):
            return None
        there, here = self._to_theirs[other.name], self._to_ours[mine.name]
        kinds = [side.to_arrow().type for side in sides]
        if not (there.parts or here.parts) and kinds[0] == kinds[1] == kinds[2]:
            return None
        return PlannedParts(
            (base.children, other.children, mine.children),
            _parts(there, base, other),
            _parts(here, base, mine),
            (*self.path, base.name),
            ((*self.chains[0], (base, mine)), (*self.chains[1], (base, other))),
            mine.id,
            in_lists=self.in_lists or mine.logical_type != "struct",
        )


def _parts(pair: ColumnPair, base: LanceField, side: LanceField) -> Sequence[ColumnPair]:
    """Return the parts of a column, also where they are the same under the same names."""
    if pair.parts:
        return pair.parts
    return [
        ColumnPair(new.name, new.to_arrow().type, old, new)
        for old, new in zip(base.children, side.children, strict=True)
    ]

"""The plan of a three-way merge: changes to apply to the target, and conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lancekit._format.column_names import column_not_found
from lancekit._format.field_marks import holds_blobs
from lancekit._format.paths import top_of
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import clean
from lancekit._operations.lineage.column_conflicts import (
    KEY,
    SCHEMA,
    Pairs,
    Track,
    Versions,
    tracks,
)
from lancekit._operations.lineage.diff import Changes
from lancekit._operations.lineage.diff_plan import DiffPlan
from lancekit._operations.lineage.merged_columns import Clashes, ColumnPlan, Settled
from lancekit._pipeline.diff.fragments import ColumnPair, is_paired_by_parts
from lancekit._pipeline.diff.row_values import Addresses
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import ColumnNotFoundError, InvalidArgumentError

#: whether changes of different columns of one row conflict ("row"), or merge ("cell")
By = Literal["cell", "row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """The row changes of both sides since one merge base, and the comparisons that found them.

    `changes` are the rows that the source changed, `mine` the rows that the target changed.
    """

    base: Snapshot
    to_theirs: DiffPlan
    to_ours: DiffPlan
    changes: Changes
    mine: Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeWay(Since):
    """A planned three-way merge since one merge base.

    key, by_ids: the key columns, and whether rows are matched by ids, so that keys may change.
    columns, before: columns of the result, paired with the source, and with the base.
    merged, sides: the column plan, and the sides chosen for columns.
    new_pairs: the rows that both sides inserted, in the source and in the target.
    agreed, clashes: the changes to apply without a conflict, and the conflicting rows.
    """

    theirs: Snapshot
    ours: Snapshot
    key: tuple[str, ...]
    by_ids: bool
    columns: tuple[ColumnPair, ...]
    before: tuple[ColumnPair, ...]
    merged: ColumnPlan
    sides: ColumnSides
    new_pairs: tuple[Addresses, Addresses]
    agreed: Settled
    clashes: Clashes

    @property
    def schema(self) -> LanceSchema:
        """The columns of the result, with their ids."""
        return self.merged.schema

    @property
    def changes_columns(self) -> bool:
        """True if the merge changes the columns of the target."""
        return self.schema != self.ours.manifest.schema

    @property
    def is_empty(self) -> bool:
        """True if the source changed no row and no column."""
        left = bool(self.agreed) or bool(len(self.clashes))
        return not left and self.changes.is_empty and not self.changes_columns


# ---- the side that was chosen for a column, by any name that the column has in a merge


def check_names(names: Iterable[str], versions: Sequence[Snapshot]) -> None:
    """Raise ``ColumnNotFoundError`` for a name that no version of a merge has for a column.

    A name of a column without a conflict is no error.
    """
    known = dict.fromkeys(name for one in versions for name in one.manifest.schema.names)
    for name in names:
        if name in known or name in (SCHEMA, KEY):
            continue
        top = top_of(name) if "." in name else name
        if top in known:
            raise ColumnNotFoundError(
                f"Column {name!r} in Sides is a field of column {top!r}.",
                hint=f"Use {top!r}: its side applies to all fields.",
                column=name,
            )
        raise column_not_found(name, known)


@dataclass(frozen=True, slots=True)
class ColumnSides:
    """The sides that a user chose by names of columns, and the columns of the merge.

    A name fits each column that has it in a merge base or on a side.  A name that fits only one
    column has precedence, then the name of the conflict.
    """

    named: Mapping[str, str]
    default: str
    versions: Versions
    columns: Sequence[Track]

    def of(self, name: str, names: Iterable[str] = ()) -> str:
        """Return the side chosen for a conflict, or else the default.

        name: the name of the conflict.
        names: the names of its column; if empty, all names of the columns with the conflict's name.

        Raises InvalidArgumentError: a name fits two columns, or two names of the column have
            different sides.
        """
        own = list(names) or [n for one in self.columns if one.name == name for n in _names(one)]
        given = [one for one in dict.fromkeys((name, *own)) if one in self.named]
        sole = [one for one in given if len(self._fitting(one)) < 2]
        for other in sole[1:]:
            if self.named[other] != self.named[sole[0]]:
                raise _contradicted(sole[0], other, self.named)
        if sole or name in given:
            return self.named[sole[0] if sole else name]
        if given:
            raise self._ambiguous(given[0], name)
        return self.default

    def _fitting(self, name: str) -> list[Track]:
        return [one for one in self.columns if name in _names(one)]

    def _ambiguous(self, name: str, conflict: str) -> InvalidArgumentError:
        called = " and ".join(self._called(one, name) for one in self._fitting(name))
        return InvalidArgumentError(
            f"Column {name!r} in Sides is ambiguous: {called}.",
            hint=f"Use the name that the conflict shows: {conflict!r}.",
            column=name,
        )

    def _called(self, column: Track, name: str) -> str:
        """Return the text for a column: its conflict name, and the version that uses ``name``."""
        fields = (*column.bases, column.theirs, column.ours)
        both = [
            (field.name, version.called)
            for field, version in zip(fields, self.versions.all, strict=True)
            if field is not None
        ]
        own = next(where for known, where in both if known == column.name)
        found = f"column {clean(column.name)!r} of {own}"
        if column.name != name:
            found += f", which {next(w for n, w in both if n == name)} calls {clean(name)!r}"
        return found


def _names(column: Track) -> list[str]:
    fields = (*column.known, column.ours, column.theirs)
    return [field.name for field in fields if field is not None]


def _contradicted(one: str, other: str, named: Mapping[str, str]) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Sides has two sides for one column: {named[one]!r} for its name {one!r}, and "
        f"{named[other]!r} for its name {other!r}.",
        hint=f"List the column once: as {one!r} or {other!r}.",
        column=one,
    )


# ---- the columns of all versions of a merge, or the parts of one column

#: the path of fields to parts of a column, as (field of the merge base, field of a side)
Chain: TypeAlias = tuple[tuple[LanceField, LanceField], ...]


class PlannedParts:
    """Columns, or parts of one column, of the merge bases, the source and the target.

    path: the names in the merge base that lead to the parts.
    chains: the fields that lead to the parts, in the target and in the source.
    parent_id: the id of the field that contains the parts.
    in_lists: whether a list or map contains the parts.
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
        self._named = [[{pair.name: pair for pair in side} for side in both] for both in pairs]

    def parts_of(self, name: str) -> tuple[str, ...]:
        """Return the names that lead to a part, including its own name."""
        return (*self.path, name)

    def key(self, own: str, base: str) -> str:
        """Return the key of a column, or of a part, in `Values`."""
        return ".".join((*self.path, base)) if self.path else own

    def below(self, track: Track) -> PlannedParts | None:
        """Return the parts of a column in all versions; ``None`` if the column merges as a whole.

        A column merges by parts if a side changed struct parts, and all bases have the same parts.
        """
        other, mine, bases = track.theirs, track.ours, track.known
        if other is None or mine is None or len(bases) < len(track.bases):
            return None
        if any(holds_blobs(side.metadata) for side in (*bases, other, mine)) or not all(
            is_paired_by_parts(base, side) for base in bases for side in (other, mine)
        ):
            return None
        found = [(to_theirs[other.name], to_ours[mine.name]) for to_theirs, to_ours in self._named]
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


def _matches(pairs: Sequence[ColumnPair]) -> list[object]:
    """Return (name, name in the merge base, parts) of each part, recursively."""
    return [
        (pair.name, None if pair.old is None else pair.old.name, _matches(pair.parts))
        for pair in pairs
    ]


def _parts(pair: ColumnPair, base: LanceField, side: LanceField) -> Sequence[ColumnPair]:
    """Return the pairs of a column's parts, even if no part changed."""
    if pair.parts:
        return pair.parts
    return [
        ColumnPair(new.name, new.to_arrow().type, old, new)
        for old, new in zip(base.children, side.children, strict=True)
    ]

"""Which rows of a table's fragments have to be looked at: the one type that says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap

__all__ = ["RowSet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSet:
    """Which rows of a table's fragments have to be looked at.  Can be sent to a worker.

    A fragment that is not mentioned is read whole, and each of its rows is filtered: the empty set
    says "all rows".  So what is forgotten takes longer, and is never wrong.

    Attributes
    ----------
    rows
        Offsets of physical rows by the ids of their fragments, deleted rows among them.  All rows
        that are wanted are there; so may be others, unless the fragment is `exact`.
    skipped
        Fragments that have no row to look at.
    exact
        Fragments of `rows` whose offsets are just those of the rows that are wanted, so that no
        filter has to look at them.

    Examples
    --------
    >>> from pyroaring import BitMap
    >>> one = RowSet(rows={0: BitMap([1, 2])}, skipped=BitMap([1]), exact=BitMap([0]))
    >>> other = RowSet(rows={0: BitMap([2, 3]), 2: BitMap([7])})
    >>> (one & other).of(0), (one & other).of(2), (one | other).of(2)
    (BitMap([2]), BitMap([7]), None)
    """

    rows: Mapping[int, BitMap] = field(default_factory=dict)
    skipped: BitMap = field(default_factory=BitMap)
    exact: BitMap = field(default_factory=BitMap)

    @property
    def known(self) -> BitMap:
        """The fragments of which something is said."""
        return self.skipped | BitMap(self.rows)

    def of(self, fragment_id: int) -> BitMap | None:
        """Return the offsets to look at in a fragment; ``None`` for all of its rows."""
        return BitMap() if fragment_id in self.skipped else self.rows.get(fragment_id)

    def only(self, fragment_ids: Iterable[int]) -> RowSet:
        """Return what is said of some fragments."""
        ids = BitMap(fragment_ids)
        return RowSet(
            rows={id_: self.rows[id_] for id_ in ids if id_ in self.rows},
            skipped=self.skipped & ids,
            exact=self.exact & ids,
        )

    def inexact(self) -> RowSet:
        """Return the same rows, each to be filtered."""
        return RowSet(rows=self.rows, skipped=self.skipped)

    def filled_by(self, other: RowSet) -> RowSet:
        """Return the set with what another one says of fragments of which this one says nothing."""
        more = other.only(other.known - self.known)
        return RowSet(
            rows={**self.rows, **more.rows},
            skipped=self.skipped | more.skipped,
            exact=self.exact | more.exact,
        )

    def __and__(self, other: RowSet) -> RowSet:
        """Return the rows that both want; exact where both are."""
        rows = {**self.rows, **other.rows}
        for id_ in self.rows.keys() & other.rows.keys():
            rows[id_] = self.rows[id_] & other.rows[id_]
        none = BitMap(id_ for id_, found in rows.items() if not found)
        skipped = self.skipped | other.skipped | none
        some = {id_: found for id_, found in rows.items() if id_ not in skipped}
        return RowSet(rows=some, skipped=skipped, exact=self.exact & other.exact & BitMap(some))

    def __or__(self, other: RowSet) -> RowSet:
        """Return the rows that one of both wants: all rows where one of them says nothing."""
        rows = {**self.rows, **other.rows}
        for id_ in self.rows.keys() & other.rows.keys():
            rows[id_] = self.rows[id_] | other.rows[id_]
        both = self.known & other.known
        some = {id_: found for id_, found in rows.items() if id_ in both}
        # a skipped fragment has none of the rows that are wanted: that is exact
        exact = (self.exact | self.skipped) & (other.exact | other.skipped)
        return RowSet(rows=some, skipped=self.skipped & other.skipped, exact=exact & BitMap(some))

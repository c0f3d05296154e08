"""Which rows of a table's fragments have to be looked at: the one type that says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

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
            rows={id_: rows for id_, rows in self.rows.items() if id_ in ids},
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
        skipped = self.skipped | other.skipped
        rows: dict[int, BitMap] = {}
        for id_ in {*self.rows, *other.rows}:
            if id_ not in skipped:
                found = [one.rows[id_] for one in (self, other) if id_ in one.rows]
                rows[id_] = found[0] if len(found) == 1 else found[0] & found[1]
        return _made(rows, skipped, self.exact & other.exact)

    def __or__(self, other: RowSet) -> RowSet:
        """Return the rows that one of both wants: all rows where one of them says nothing."""
        rows: dict[int, BitMap] = {}
        for id_ in self.known & other.known:
            rows[id_] = reduce(or_, (one.rows.get(id_, BitMap()) for one in (self, other)))
        # that none of a skipped fragment's rows is wanted is exact
        exact = (self.exact | self.skipped) & (other.exact | other.skipped)
        return _made(rows, BitMap(), exact)


def _made(rows: dict[int, BitMap], skipped: BitMap, exact: BitMap) -> RowSet:
    """Return a set in which fragments without rows are skipped."""
    some = {id_: found for id_, found in rows.items() if found}
    none = BitMap(id_ for id_, found in rows.items() if not found)
    return RowSet(rows=some, skipped=skipped | none, exact=exact & BitMap(some))

"""What indices tell of the rows of fragments, and how it is joined.

Of a fragment that is covered, all rows that are wanted are among those found; where it is exact,
these are just the rows wanted.  So more may be found, never less, and ``AND`` may leave out what
one side does not cover.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyroaring import BitMap

from lancekit.index.search.row_sets import Rows, union

__all__ = ["ChosenRows", "Found"]


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Offsets of a fragment to look at, deleted ones among them.  Can be sent to a worker.

    If `exact`, they are just those that are wanted.
    """

    rows: BitMap
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Offsets of rows by their fragments, some of those covered; exact ones are covered, too."""

    rows: Rows = field(default_factory=dict)
    covered: BitMap = field(default_factory=BitMap)
    exact: BitMap = field(default_factory=BitMap)

    def __and__(self, other: Found) -> Found:
        both = self.covered & other.covered
        rows: dict[int, BitMap] = {}
        for one, beside in ((self, other), (other, self)):
            rows |= {id_: found for id_, found in one.rows.items() if id_ not in beside.covered}
        for id_ in self.rows.keys() & other.rows.keys():
            if id_ in both:
                rows[id_] = self.rows[id_] & other.rows[id_]
        return Found(
            rows=rows, covered=self.covered | other.covered, exact=self.exact & other.exact
        )

    def __or__(self, other: Found) -> Found:
        covered = self.covered & other.covered
        rows = union([self.rows, other.rows])
        return Found(
            rows={id_: found for id_, found in rows.items() if id_ in covered},
            covered=covered,
            exact=self.exact & other.exact,
        )

    def filled_by(self, other: Found) -> Found:
        """Take from another what is not covered here."""
        more = other.covered - self.covered
        return Found(
            rows={**self.rows, **{id_: found for id_, found in other.rows.items() if id_ in more}},
            covered=self.covered | more,
            exact=self.exact | (other.exact & more),
        )

    def inexact(self) -> Found:
        """Return the same, to be looked at again."""
        return Found(rows=self.rows, covered=self.covered)

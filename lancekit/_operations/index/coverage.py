"""What of a table its indices do not cover, since when, and what would mend it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from lancekit._display import Displayed
from lancekit._index.kinds import kept_up_as
from lancekit._lazy import cached_property
from lancekit._operations.index.create import segments_of
from lancekit._operations.index.describe import IndexDescription, describe_indices
from lancekit._operations.index.segments import live_fragments
from lancekit._versions.listing import VersionListing, list_versions
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import LancekitError

__all__ = ["IndexCoverage", "Uncovered", "index_coverage"]

#: Versions that are named at most: each is looked for among all.
_MOST_NAMED = 8

#: Of these, lancekit adds no rows to an index.
_NOT_KEPT_UP = ("IVF_HNSW", "IVF_RQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """Fragments that an index does not cover, and the version since which it does not.

    That brought the fragments, or wrote values anew in place, or made the index of other fragments.
    `version`, `operation` and `timestamp` are ``None`` if it is gone, or if there are many more.
    """

    fragments: tuple[int, ...]
    num_rows: int
    version: int | None = None
    operation: str | None = None
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCoverage(Displayed):
    """An index, and what of the table it does not cover, the newest first.

    `mended_by` is the call that puts these rows into the index; ``None`` if there are none, or if
    lancekit adds no rows to an index of the kind.
    """

    description: IndexDescription
    num_rows: int
    uncovered: tuple[Uncovered, ...]
    mended_by: str | None

    @property
    def name(self) -> str:
        """The name of the index."""
        return self.description.name

    @property
    def share(self) -> float:
        """The share of the table's rows that the index covers."""
        return self.description.num_rows_indexed / self.num_rows if self.num_rows else 1.0


def index_coverage(snapshot: Snapshot) -> list[IndexCoverage]:
    """Return how much of a version each index covers, by their names, those of the format left out.

    Manifests are read of some of the versions since it was covered; of index files none.
    """
    history = _History(snapshot)
    return [
        _coverage(snapshot, description, history)
        for description in describe_indices(snapshot)
        if not description.name.startswith("__lance_")
    ]


def _coverage(
    snapshot: Snapshot, description: IndexDescription, history: _History
) -> IndexCoverage:
    name, rows = description.name, _uncovered(snapshot, description.name)
    kind, label = kept_up_as(segments_of(snapshot, name)[0]), description.index_type
    can_mend = kind is not None and not label.startswith(_NOT_KEPT_UP)
    return IndexCoverage(
        description=description,
        num_rows=snapshot.manifest.num_rows,
        uncovered=tuple(_grouped(name, rows, history)),
        mended_by=f"ds.optimize.optimize_indices(index_names=[{name!r}])"
        if rows and can_mend
        else None,
    )


def _uncovered(snapshot: Snapshot, name: str) -> dict[int, int]:
    """Return the rows of each fragment that an index does not cover; none if there is no such."""
    segments = [index for index in snapshot.indices if index.name == name]
    covered = {id_ for index in segments for id_ in live_fragments(index, snapshot)}
    fragments = snapshot.manifest.fragments if segments else ()
    return {f.id: f.num_rows for f in fragments if f.id not in covered}


def _grouped(name: str, rows: dict[int, int], history: _History) -> Iterator[Uncovered]:
    """Yield fragments by the version since which they are not covered, the unknown ones last."""
    rest = dict(sorted(rows.items(), reverse=True))
    found: dict[int, list[int]] = {}
    unknown: list[int] = []
    while rest and len(found) < _MOST_NAMED:
        first = next(iter(rest))
        place = history.since(name, first)
        if place is None:
            unknown.append(first)
            del rest[first]
            continue
        since = history.uncovered(name, place).keys() - history.uncovered(name, place - 1).keys()
        found[place] = [id_ for id_ in rest if id_ in since]
        rest = {id_: count for id_, count in rest.items() if id_ not in since}
    for place, ids in sorted(found.items(), reverse=True):
        version = history.load(place)
        transaction = version.transaction_summary
        yield Uncovered(
            fragments=tuple(sorted(ids)),
            num_rows=sum(rows[id_] for id_ in ids),
            version=version.manifest.version,
            operation=transaction.operation if transaction else None,
            timestamp=version.manifest.timestamp,
        )
    if unknown or rest:
        ids = sorted([*unknown, *rest])
        yield Uncovered(fragments=tuple(ids), num_rows=sum(rows[id_] for id_ in ids))


class _History:
    """The versions up to one, by their places; each is read once, and only if it is asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[tuple[str, int], dict[int, int]] = {}

    @cached_property
    def _listing(self) -> VersionListing:
        return list_versions(self._snapshot.line)

    @cached_property
    def _numbers(self) -> list[int]:
        return [v for v in self._listing.versions if v <= self._snapshot.version]

    def load(self, place: int) -> Snapshot:
        """Return a version."""
        return load_snapshot(self._snapshot.line, self._numbers[place], self._listing.naming)

    def uncovered(self, name: str, place: int) -> dict[int, int]:
        """Return which fragments an index did not cover."""
        key = name, place
        if key not in self._known:
            self._known[key] = _uncovered(self.load(place), name)
        return self._known[key]

    def since(self, name: str, fragment: int) -> int | None:
        """Return since which version a fragment has not been covered, ``None`` if all were so.

        Nothing joins an index after its newest segment was made.  Before that, longer and longer
        steps lead back: an earlier time without cover is none of this one.
        """
        with suppress(LancekitError):  # a version that is damaged, or was removed meanwhile
            after, step = len(self._numbers) - 1, max(1, len(self._numbers) - 1 - self._made(name))
            while (before := after - step) >= 0 and fragment in self.uncovered(name, before):
                step = 1 if after == len(self._numbers) - 1 else 2 * step
                after = before
            places = range(max(before, -1) + 1, after)
            place = places.start
            place += bisect_left(places, True, key=lambda at: fragment in self.uncovered(name, at))
            return place or None
        return None

    def _made(self, name: str) -> int:
        """Return the place of the version in which the newest segment was committed."""
        times = [index.created_at for index in self._snapshot.indices if index.name == name]
        newest = max((time for time in times if time is not None), default=None)
        if newest is None:
            return len(self._numbers)
        places = range(len(self._numbers))
        return bisect_left(places, newest, key=lambda at: self.load(at).manifest.timestamp)

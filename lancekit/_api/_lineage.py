"""The part of a handle that knows what changed, and since when something is as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.time_travel import snapshot_at
from lancekit._checked import checked_methods
from lancekit._legible import shown
from lancekit._versions.references import Ref
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidTypeError

if TYPE_CHECKING:
    from lancekit import _arrow_compute as pc
    from lancekit._api.bisect import Bisection
    from lancekit._api.changes import ChangeFeed
    from lancekit._api.constraints import Duplicates
    from lancekit._api.diff import DatasetDiff
    from lancekit._api.histories import ColumnHistory, RowHistory


@checked_methods
class Lineage(Handle):
    """What changed in a dataset, and the history of what it holds."""

    def diff(
        self,
        old: Ref | datetime | timedelta | Handle,
        new: Ref | datetime | timedelta | Handle | None = None,
        *,
        on: str | Sequence[str] | None = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
    ) -> DatasetDiff:
        """Compare two versions: which rows were inserted, deleted and updated, and how.

        No rows are read before they are asked for, and none of fragments that both sides share.

        Parameters
        ----------
        old, new
            A version of this branch, a tag, a pair of branch and version, a time, or another
            handle, such as one on a clone; ``new`` is this handle by default.
        on
            The columns that tell which rows are the same.  By default stable row ids do, as far
            as both sides got them from a common version, and then the primary key; without both,
            rows are compared as wholes, so that none is updated.
        filter
            Compare only rows that meet it, each side by itself.
        columns
            Compare only these columns, and those of the key; all by default.

        Returns
        -------
        DatasetDiff
            `counts`, `columns`, `schema`, `sample()`, `to_table()`, `explain()`.

        Raises
        ------
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            There is no such version.
        ColumnNotFoundError
            There is no such column.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://diff-versions-example")
        >>> _ = ds.delete("x = 2")
        >>> ds.diff(1).counts.deleted
        1
        """
        from lancekit._api.diff import diff_of

        return diff_of(
            snapshot_at(self._location, old),
            self._snapshot if new is None else snapshot_at(self._location, new),
            on=on,
            condition=filter,
            columns=columns,
        )

    def changes(
        self,
        since: Ref | datetime | timedelta | Handle,
        until: Ref | datetime | timedelta | Handle | None = None,
        *,
        on: str | Sequence[str] | None = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
    ) -> ChangeFeed:
        """Return what each commit did to the rows, one after the other.

        Parameters
        ----------
        since, until
            What changed after the one, up to and including the other: versions of one branch, by
            number, tag, time or handle; ``until`` is this handle by default.
        on, filter, columns
            As of `diff`.

        Returns
        -------
        ChangeFeed
            `to_table()` and `to_batches()` with ``_commit_version`` and ``_commit_timestamp``;
            `steps`; `gaps` names what is gone in between.

        Raises
        ------
        InvalidArgumentError
            The versions are of two branches, or the wrong way round.
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            There is no such version.
        """
        from lancekit._api.changes import ChangeFeed

        end = self._snapshot if until is None else snapshot_at(self._location, until)
        return ChangeFeed(snapshot_at(self._location, since), end, on, filter, columns)

    def bisect(
        self,
        condition: str | Callable[[Self], object],
        good: Ref | datetime | timedelta | Handle | None = None,
        bad: Ref | datetime | timedelta | Handle | None = None,
        *,
        all: bool = False,  # noqa: A002
    ) -> Bisection:
        """Find the first version that is bad: between a good one and a bad one, by halves.

        Of a thousand versions ten are asked about, each once.

        Parameters
        ----------
        condition
            A function of a handle, read-only and at one version, that returns True if the version
            is good; or text, a filter that all rows of a good version meet, such as
            ``"delay >= -120"``, or a condition of aggregates: ``"count(DISTINCT id) = count(*)"``.
            Where it raises, nobody can tell: other versions are asked instead, and the result
            names those that leave it in doubt.
        good, bad
            Versions of one branch, by number, tag, time or handle; the oldest that can be read,
            and this handle's.
        all
            Ask about every version between them, and give each change of the answer: for what came
            and went more than once.

        Returns
        -------
        Bisection
            `version`, the first bad one, with its `operation`, `message` and `timestamp`; `diff`,
            what it changed; `undo`, the line of code that takes it back; `evaluations`; `flips`.

        Raises
        ------
        InvalidArgumentError
            The good version is bad, the bad one good, or the condition raises at one of them; they
            are of two branches, or the wrong way round.
        InvalidTypeError
            The condition is no function, or returns neither True nor False.
        PredicateError
            The text does not parse, or does not fit the bad version.
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            There is no such version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"delay": [5, 7]}, "memory://bisect-example")
        >>> ds.insert({"delay": [3]})
        >>> ds.insert({"delay": [-999]})
        >>> ds.insert({"delay": [4]})
        >>> found = ds.bisect("delay >= -120")
        >>> found.version, found.operation, found.diff.counts.inserted
        (3, 'Append', 1)
        >>> ds.bisect(lambda past: past.count_rows() < 4).version
        3
        """
        from lancekit._api.bisect import bisect_versions
        from lancekit._operations.checks.constraints import condition_of

        last = self._snapshot if bad is None else snapshot_at(self._location, bad)
        if isinstance(condition, str):
            condition_of(last, condition)  # what is no condition at all is an error by itself
        first = None if good is None else snapshot_at(self._location, good)
        return bisect_versions(self._asked(condition), first, last, sweep=all)

    def duplicates(self, on: str | Sequence[str] | None = None) -> Duplicates:
        """Find the rows that share a key with another row.

        The key columns are read twice at most, with 8 bytes of memory a row.  A key with a null
        equals no other.

        Parameters
        ----------
        on
            The columns of the key, nested ones by their paths; the primary key by default.

        Returns
        -------
        Duplicates
            How many rows and keys there are; `Duplicates.to_table` has the rows.

        Raises
        ------
        InvalidArgumentError
            There is no primary key, or a column has a type that cannot be a key.
        ColumnNotFoundError
            There is no such column.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 1, 2]}, "memory://duplicates-example")
        >>> found = ds.duplicates("id")
        >>> found.rows, found.keys, found.to_table()["id"].to_pylist()
        (2, 1, [1, 1])
        """
        from lancekit._api.constraints import duplicates_of

        return duplicates_of(self._snapshot, [on] if isinstance(on, str) else on)

    def row_history(self, rows: Mapping[str, object] | str | pc.Expression | int) -> RowHistory:
        """Return every version up to the handle's that made a row, changed it or deleted it.

        Manifests are read for each version, rows only where their files are others than before.

        Parameters
        ----------
        rows
            The columns of a key and their values, such as ``{"id": 7}``, also of a row that was
            deleted; a filter that selects at most 100 rows of this version; or a row id, where
            these are stable.  A key is followed through all rows that had it: with stable row ids
            one that was deleted and inserted again died and was born.

        Returns
        -------
        RowHistory
            A list of changes, oldest first: `kind`, `version`, `timestamp`, `operation`,
            `message`, and `cells` with the old and new values.

        Raises
        ------
        InvalidArgumentError
            No version that can be read has such a row, the filter selects too many, or nothing
            tells which row is which in other versions.
        ColumnNotFoundError, PredicateError
            There is no such column, or the filter does not parse.
        UnsupportedFeatureError
            A row id was given, and they are not stable.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2], "v": [5, 6]}, "memory://row-example")
        >>> _ = ds.delete("id = 2")
        >>> last = ds.row_history({"id": 2})[-1]
        >>> last.kind, last.version, last.operation, last.cells
        ('died', 2, 'Delete', {'v': (6, None)})
        """
        from lancekit._api.histories import row_history_of

        return row_history_of(self._snapshot, rows)

    def blame(
        self,
        filter: str | pc.Expression | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return rows with the version that last changed each.

        Parameters
        ----------
        filter
            Which rows; all by default.
        columns
            Which columns are shown, and whose changes count; all by default.

        Returns
        -------
        pa.Table
            The rows in their order, then ``_changed_in``, the version that made the row or gave it
            the values that it has; ``_changed_branch``, of which branch that version is;
            ``_changed_at``, when that was; ``_changed_by`` and
            ``_changed_message``, the operation of that commit and what it says of itself;
            ``_changed_from``, the cell or script, if `options.provenance` recorded it.  They are
            null for rows that the oldest version that can be read has already, unless that is
            version 1.

        Raises
        ------
        ColumnNotFoundError, PredicateError
            There is no such column, or the filter does not parse.
        InvalidArgumentError
            A column of the dataset has the name of one of these six columns.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2], "v": [5, 6]}, "memory://blame-example")
        >>> _ = ds.update({"v": "7"}, where="id = 2")
        >>> ds.blame(columns=["id", "v"]).select(["id", "_changed_in"]).to_pylist()
        [{'id': 1, '_changed_in': 1}, {'id': 2, '_changed_in': 2}]
        """
        from lancekit._api.histories import blame_of

        return blame_of(self._snapshot, filter, columns)

    def column_history(self, column: str) -> ColumnHistory:
        """Return every version that added a column, renamed, cast or rewrote it, or dropped it.

        Manifests alone are read; `statistics` of a change reads the column in its version.

        Parameters
        ----------
        column
            What it is called in this version, or was in the newest that had it.

        Returns
        -------
        ColumnHistory
            A list of changes, oldest first: `kind`, `version`, `timestamp`, `operation`,
            `message`, `old_name`, `name`, `old_type`, `type`, `statistics`.

        Raises
        ------
        ColumnNotFoundError
            No version that can be read has such a column.
        """
        from lancekit._api.histories import column_history_of

        return column_history_of(self._snapshot, column)

    def _asked(self, condition: str | Callable[[Self], object]) -> Callable[[Snapshot], object]:
        from lancekit._operations.checks.constraints import holds

        if isinstance(condition, str):
            return lambda snapshot: holds(snapshot, condition)
        if callable(condition):
            return lambda snapshot: condition(self._other(snapshot, read_only=True))
        raise InvalidTypeError(
            f"condition is {shown(condition)}.",
            hint="Pass a filter that all rows meet, or a function of a handle that returns True if "
            "the version is good.",
        )

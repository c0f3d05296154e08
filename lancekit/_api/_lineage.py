"""The part of a dataset handle that compares versions and returns histories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.time_travel import snapshot_at
from lancekit._arguments.checks import check_count
from lancekit._checked import checked_methods
from lancekit._legible import shown
from lancekit._versions.references import Ref
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from lancekit._api.bisect import Bisection
    from lancekit._api.changes import ChangeFeed, DatasetDelta
    from lancekit._api.constraints import Duplicates
    from lancekit._api.diff import DatasetDiff
    from lancekit._api.histories import ColumnHistory, RowHistory
    from lancekit._scan.expressions.objects import Expression, Filter


@checked_methods
class Lineage(Handle):
    """Differences between versions, and histories of rows and columns."""

    def diff(
        self,
        old: Ref | datetime | timedelta | Handle | None = None,
        new: Ref | datetime | timedelta | Handle | None = None,
        *,
        on: str | Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
    ) -> DatasetDiff:
        """Compare two versions: the rows that were inserted, deleted and updated, and how.

        Rows are only read when a result needs them, and never from fragments that both sides share.

        Parameters
        ----------
        old, new
            A version of this branch, a tag, a pair of branch and version, a time, or another
            handle, for example on a clone.  ``new`` is this handle by default, and ``old`` is the
            version before ``new``.
        on
            The key columns that match the rows of both sides.  By default stable row ids match the
            rows that both sides got from a common version, and the primary key matches the others.
            Without both, whole rows are compared, so that no row counts as updated.
        filter
            Compare only rows that match the filter; it is applied to each side separately.
        columns
            Compare only these columns and the key columns; all by default.

        Returns
        -------
        DatasetDiff
            `counts`, `columns`, `schema`, `sample()`, `to_table()`, `explain()`.

        Raises
        ------
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            A version, tag or branch does not exist.
        ColumnNotFoundError
            A column does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://diff-versions-example")
        >>> _ = ds.delete("x = 2")
        >>> ds.diff(1).counts.deleted
        1
        """
        from lancekit._api.diff import diff_of
        from lancekit._versions.ancestor import snapshot_before

        after = self._snapshot if new is None else snapshot_at(self._location, new)
        return diff_of(
            snapshot_before(after) if old is None else snapshot_at(self._location, old),
            after,
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
        filter: Filter | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
    ) -> ChangeFeed:
        """Return the row changes of each commit, in commit order.

        Parameters
        ----------
        since, until
            Commits after ``since``, up to and including ``until``: versions of one branch, by
            number, tag, time or handle.  ``until`` is this handle by default.
        on, filter, columns
            As in `diff`.

        Returns
        -------
        ChangeFeed
            `to_table()` and `to_batches()` with ``_commit_version`` and ``_commit_timestamp``;
            `steps`; `gaps` names the missing versions in between.

        Raises
        ------
        InvalidArgumentError
            The versions are of different branches, or ``since`` is after ``until``.
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            A version, tag or branch does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://changes-example", primary_key="id")
        >>> _ = ds.insert({"id": [2]})
        >>> ds.changes(1).to_table().select(["_change", "id", "_commit_version"]).to_pylist()
        [{'_change': 'insert', 'id': 2, '_commit_version': 2}]
        """
        from lancekit._api.changes import ChangeFeed

        end = self._snapshot if until is None else snapshot_at(self._location, until)
        return ChangeFeed(snapshot_at(self._location, since), end, on, filter, columns)

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """Return the row changes between two versions of a table with stable row ids.

        Parameters
        ----------
        compared_against
            The version to compare with the handle's version; it can be older or newer.
        begin_version, end_version
            A range instead: changes after ``begin_version``, up to and including ``end_version``.

        Returns
        -------
        DatasetDelta
            The inserted, updated and deleted rows, each read on request.

        Raises
        ------
        InvalidArgumentError
            Not exactly one of ``compared_against`` and a whole range was given.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://delta-example", enable_stable_row_ids=True)
        >>> _ = ds.insert({"x": [2]})
        >>> ds.delta(1).get_inserted_rows().read_all()["x"].to_pylist()
        [2]
        """
        from lancekit._api.changes import DatasetDelta

        both = [v for v in (begin_version, end_version) if v is not None]
        if compared_against is not None and both:
            raise InvalidArgumentError(
                "compared_against excludes begin_version and end_version.",
                hint="Pass compared_against, or both of the others.",
            )
        if compared_against is not None:
            pair = sorted((check_count("compared_against", compared_against), self.version))
            return DatasetDelta(self, *pair)
        if begin_version is None or end_version is None:
            raise InvalidArgumentError(
                "delta() needs compared_against, or both begin_version and end_version."
            )
        begin = check_count("begin_version", begin_version)
        return DatasetDelta(self, begin, check_count("end_version", end_version, least=begin))

    def bisect(
        self,
        condition: str | Expression | Callable[[Self], object],
        good: Ref | datetime | timedelta | Handle | None = None,
        bad: Ref | datetime | timedelta | Handle | None = None,
        *,
        all: bool = False,  # noqa: A002
    ) -> Bisection:
        """Find the first bad version, between a good and a bad one, by binary search.

        For 1,000 versions the condition is evaluated at most 12 times, if it raises for none.

        Parameters
        ----------
        condition
            A function that receives a read-only handle at one version, and returns True if the
            version is good.  Or text: a filter that all rows of a good version match, such as
            ``"delay >= -120"``, or a condition on aggregates: ``"count(DISTINCT id) = count(*)"``.
            If it raises, the version is skipped, and others are tested instead.  The result names
            skipped versions that could be the first bad one.
        good, bad
            Versions of one branch, by number, tag, time or handle.  By default the oldest readable
            version, and this handle's.
        all
            Evaluate every version in between, and return each change of the result.  Use it for
            conditions that changed several times.

        Returns
        -------
        Bisection
            `version`, the first bad version, with its `operation`, `message` and `timestamp`;
            `diff`, its changes; `undo`, the line of code that reverts it; `evaluations`; `flips`.

        Raises
        ------
        InvalidArgumentError
            The good version is bad, the bad version is good, or the condition raises for one of
            the two.  Or they are of different branches, or in the wrong order.
        InvalidTypeError
            The condition is no function, or it returns neither True nor False.
        PredicateError
            The text does not parse, or does not fit the bad version.
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            A version, tag or branch does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"delay": [5, 7]}, "memory://bisect-example")
        >>> _ = ds.insert({"delay": [3]})
        >>> _ = ds.insert({"delay": [-999]})
        >>> _ = ds.insert({"delay": [4]})
        >>> found = ds.bisect("delay >= -120")
        >>> found.version, found.operation, found.diff.counts.inserted
        (3, 'Append', 1)
        >>> ds.bisect(lambda past: past.count_rows() < 4).version
        3
        """
        from lancekit._api.bisect import bisect_versions
        from lancekit._operations.checks.constraints import condition_of
        from lancekit._scan.expressions.texts import as_sql

        last = self._snapshot if bad is None else snapshot_at(self._location, bad)
        if not callable(condition):
            condition = as_sql(condition)
        if isinstance(condition, str):
            condition_of(last, condition)  # report an invalid condition before the search
        first = None if good is None else snapshot_at(self._location, good)
        return bisect_versions(self._version_test(condition), first, last, sweep=all)

    def duplicates(self, on: str | Sequence[str] | None = None) -> Duplicates:
        """Find the rows that share a key with another row.

        The key columns are read at most twice, with 8 bytes of memory a row.  A key with a null
        equals no other key.

        Parameters
        ----------
        on
            The key columns, nested ones by their paths; the primary key by default.

        Returns
        -------
        Duplicates
            The numbers of rows and keys; `Duplicates.to_table` returns the rows.

        Raises
        ------
        InvalidArgumentError
            There is no primary key, or a column has a type that cannot be a key.
        ColumnNotFoundError
            A column does not exist.

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

    def row_history(self, rows: Mapping[str, object] | Filter | int) -> RowHistory:
        """Return each version up to the handle's that created, changed or deleted a row.

        The manifest of each version is read.  Rows are only read where their files have changed.

        Parameters
        ----------
        rows
            The key columns with their values, such as ``{"id": 7}``, also for a deleted row.  Or a
            filter that matches at most 100 rows of this version.  Or a row id, if row ids are
            stable.  A key is followed through all rows that had it.  With stable row ids, a row
            that was deleted and inserted again has a death and a birth.

        Returns
        -------
        RowHistory
            A list of changes, oldest first: `kind`, `version`, `timestamp`, `operation`, `message`,
            and `cells` with the old and new values.

        Raises
        ------
        InvalidArgumentError
            No readable version has such a row, the filter matches too many rows, or there is no key
            that identifies rows across versions.
        ColumnNotFoundError, PredicateError
            A column does not exist, or the filter does not parse.
        UnsupportedFeatureError
            A row id was given, but the row ids are not stable.

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
        filter: Filter | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return rows, each with the version that last changed it.

        Parameters
        ----------
        filter
            The rows to return; all by default.
        columns
            The columns to return, whose changes count; all by default.

        Returns
        -------
        pa.Table
            The rows in their order, with six more columns.  ``_changed_in`` is the version that
            created the row or gave it its present values, and ``_changed_branch`` the branch of
            this version.  ``_changed_at`` is the time of the commit, ``_changed_by`` its operation,
            ``_changed_message`` its message.  ``_changed_from`` is the cell or script, if
            `options.provenance` recorded it.  All six are null for rows that the oldest readable
            version already has, unless it is version 1.

        Raises
        ------
        ColumnNotFoundError, PredicateError
            A column does not exist, or the filter does not parse.
        InvalidArgumentError
            A column to return has the name of one of the six columns.

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
        """Return each version that added, renamed, cast, rewrote or dropped a column.

        Only manifests are read.  The `statistics` of a change reads the column in its version.

        Parameters
        ----------
        column
            The column's name in this version, or in the newest version that had the column.

        Returns
        -------
        ColumnHistory
            A list of changes, oldest first: `kind`, `version`, `timestamp`, `operation`,
            `message`, `old_name`, `name`, `old_type`, `type`, `statistics`.

        Raises
        ------
        ColumnNotFoundError
            No readable version has such a column.
        """
        from lancekit._api.histories import column_history_of

        return column_history_of(self._snapshot, column)

    def _version_test(
        self, condition: str | Callable[[Self], object]
    ) -> Callable[[Snapshot], object]:
        from lancekit._operations.checks.constraints import holds

        if isinstance(condition, str):
            return lambda snapshot: holds(snapshot, condition)
        if callable(condition):
            return lambda snapshot: condition(self._other(snapshot, read_only=True))
        raise InvalidTypeError(
            f"condition must be a filter or a function, got {shown(condition)}.",
            hint="Pass a filter that all rows meet, or a function that takes a handle and returns "
            "True for a good version.",
        )

"""The part of a dataset handle that merges rows of shards into the table, and maintains shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, get_args
from uuid import UUID

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_callback, check_count, check_wait
from lancekit._checked import checked_methods
from lancekit._defaults import CONFLICT_RETRIES, GRACE, RETRY_TIMEOUT, ROWS_PER_COMMIT
from lancekit._versions.listing import latest_snapshot

if TYPE_CHECKING:
    from lancekit._api.mem_wal_rows import MemWalQuarantine, MemWalSetAside
    from lancekit._operations.common.results import MemWalMergeResult
    from lancekit._operations.mem_wal.cleanup import MemWalCleanupStats
    from lancekit._operations.mem_wal.merge_step import OnError
    from lancekit._operations.mem_wal.quarantine import MemWalRepair


@checked_methods
class MemWalUpkeep(Handle):
    """The merge of generations into the table, and the cleanup and repair of shards."""

    def merge_mem_wal(
        self,
        shards: Iterable[str | UUID] | None = None,
        *,
        flush: bool = False,
        rows_per_commit: int = ROWS_PER_COMMIT,
        on_error: OnError = "raise",
        progress: Callable[[int, int], object] | None = None,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
    ) -> MemWalMergeResult:
        """Merge the rows of shards into the table; the handle moves.

        The newest row of each key replaces the table's row, and deleted keys are removed.  The same
        commit records how far each shard is merged.  So a row is merged exactly once, whoever else
        merges at the same time, and wherever the merge stops.  Then the manifests of the shards
        drop the merged generations; `cleanup_mem_wal` removes their files.

        Rows that are only in a log are flushed first, if an open writer of this process has them.
        Rows of other processes stay in their logs until their writers flush or close, or until
        ``flush=True`` takes the shards.  ``waiting`` of the result counts them.

        If the table refuses a row, for example because of a constraint, only the merge of its shard
        stops.  The error is raised after the other shards are merged.

        Parameters
        ----------
        shards
            The ids of the shards; all by default.
        flush
            Merge the rows of all logs, even if another process may have a writer open.  A shard
            with such rows is taken from its writer, whose next put raises `FencedError`.
            `mem_wal_upsert` and sinks then take their shards back, for ``retry_timeout`` at most.
            Other writers stay fenced.
        rows_per_commit
            The approximate number of generation rows that one commit merges.
        on_error
            ``"quarantine"`` moves refused rows into quarantine, and merges all other rows.
            `mem_wal_quarantine` reads these rows, corrects them and puts them back.  Until then,
            later rows of the same keys follow into quarantine, whatever ``on_error`` is.
        progress
            Called after each commit with the number of merged generations and of all generations.
        conflict_retries, retry_timeout
            How often and how long to retry a commit while other writers change the same rows.

        Returns
        -------
        MemWalMergeResult
            The numbers of merged, quarantined and waiting rows.

        Raises
        ------
        InvalidArgumentError
            The table has shards but no MemWAL. A table without both has nothing to merge.
        ShardError
            A writer without support for inherited shards began a shard on a branch.
        ConstraintViolationError, SchemaMismatchError, PredicateError, UnsupportedTypeError
            The table refuses rows.  All other shards were merged.  ``context`` has ``shard``,
            ``generation``, ``keys`` and ``reasons`` of the first rows, ``failed``, errors by shard,
            and ``merged``, the result of the merge.
        CorruptFileError
            A generation cannot be read; or, with ``flush=True``, a log.  All other shards were
            merged; ``context`` as above.
        RetriesExhaustedError
            Other writers changed the same rows before every attempt.  Earlier commits stay.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://merge-mem-wal-example", primary_key="id")
        >>> _ = ds.initialize_mem_wal(unsharded=True)
        >>> dict(ds.merge_mem_wal())["num_merged_generations"]
        0
        """
        from lancekit._choice import check_choice
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.mem_wal.flush_logs import flush_logs, flush_own_writers
        from lancekit._operations.mem_wal.merge import is_refusal, merge_generations
        from lancekit._operations.mem_wal.merge_step import OnError
        from lancekit._operations.mem_wal.shards import chosen_shards

        policy = RetryPolicy(conflict_retries, retry_timeout)
        rows = check_count("rows_per_commit", rows_per_commit, least=1)
        callback = check_callback("progress", progress)
        selected = chosen_shards(self._snapshot, shards)
        check_choice("on_error", on_error, get_args(OnError))
        self._check_movable()
        flush_own_writers(selected)
        failed = flush_logs(self._snapshot, selected, retry_timeout) if flush else []
        result, error = self._move(
            lambda snapshot: merge_generations(
                snapshot,
                selected,
                policy,
                rows_per_commit=rows,
                on_error=on_error,
                progress=callback,
            )
        )
        self._merge_refused = error is not None and is_refusal(error)
        if error is not None or failed:
            raise error or failed[0]
        return result

    def mem_wal_quarantine(self) -> MemWalQuarantine:
        """Return the rows that `merge_mem_wal` has moved into quarantine.

        These rows are in no version and in no log.  They can be read, corrected and put back, or
        discarded.  They belong to the newest version, or to a pinned handle's version.

        Raises
        ------
        CorruptFileError
            A table of the quarantine is missing or damaged.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1], "v": [5]}, "memory://set-aside", primary_key="id")
        >>> ds.mem_wal_upsert({"id": [2, 3], "v": [-1, 7]}, flush=True)  # doctest: +ELLIPSIS
        {...}
        >>> _ = ds.constraints.add("positive", "v > 0")
        >>> ds.merge_mem_wal(on_error="quarantine")["num_quarantined_rows"]
        1
        >>> quarantine = ds.mem_wal_quarantine()
        >>> quarantine.to_table().select(["id", "v", "_quarantine_reason"]).to_pylist()
        [{'id': 2, 'v': -1, '_quarantine_reason': "breaks the constraint 'positive' (v > 0)"}]
        >>> quarantine.put_back({"id": [2], "v": [1]})
        1
        >>> sorted(ds.to_table()["v"].to_pylist())
        [1, 5, 7]
        """
        from lancekit._api.mem_wal_rows import MemWalQuarantine

        return MemWalQuarantine._of(self)

    def cleanup_mem_wal(
        self, shards: Iterable[str | UUID] | None = None, *, grace: timedelta = GRACE
    ) -> MemWalCleanupStats:
        """Remove files of shards that no reader or writer needs any more.

        These are merged generations and generations of interrupted writers, log entries whose rows
        are in generations, and old manifests.  Files stay if a reader can still use them that began
        within the grace period.  Log entries also stay if they fence earlier writers.

        Rows in quarantine stay.  Without `shards`, a table of the quarantine is removed if none of
        its rows are in the quarantine of any version.  A table that no version references stays for
        seven days, whatever the grace period: a concurrent merge may be about to commit it.

        Parameters
        ----------
        shards
            The ids of the shards; all by default.
        grace
            How long readers can use files that they have planned to read.

        Returns
        -------
        MemWalCleanupStats
            The numbers of removed files and bytes.

        Raises
        ------
        InvalidArgumentError
            ``grace`` is negative, or the table has shards but no MemWAL.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://clean-mem-wal-example", primary_key="id")
        >>> _ = ds.initialize_mem_wal(unsharded=True)
        >>> ds.cleanup_mem_wal().generations_removed
        0
        """
        from lancekit._format.mem_wal.details import details_of
        from lancekit._operations.mem_wal.cleanup import clean_quarantine, clean_shards
        from lancekit._operations.mem_wal.initialize import details_with_shards
        from lancekit._operations.mem_wal.shards import chosen_shards

        check_wait("grace", grace)
        selected = chosen_shards(self._snapshot, shards)
        details_with_shards(self._snapshot, selected)
        done = clean_shards(selected, grace)
        if shards is not None or details_of(self._snapshot.indices) is None:
            return done
        return done + clean_quarantine(self._snapshot, grace)

    def repair_mem_wal(self, shards: Iterable[str | UUID] | None = None) -> MemWalRepair:
        """Set damaged files of write-ahead logs aside, so that the logs work again.

        Log entries, generations and manifests contain acknowledged rows.  So first restore the
        files, if there is a copy.  Also close the shard's writer, if it is open: it has the rows of
        its log in memory, and flushes them into a generation.

        All files of the shards are read.  No byte is lost: unusable files are copied into the
        folder ``set_aside`` of the shard.

        - A damaged or missing entry: a sentinel replaces it.  A log that lost its end continues
        after the remaining entries.
        - A damaged generation: it is rewritten, if its data file or the log has all of its rows.
        Otherwise the shard's manifest drops it, and its rows in the log are copied, too.
        - A manifest that is damaged or contradicts the log: the newest sound manifest replaces it,
        and the log has all later rows.  Without any manifest the shard begins again, and its
        entries and generations are copied.
        - A damaged table of the quarantine: it is rewritten or emptied, in one commit; the handle
        moves.  With `shards` the quarantine is not checked.

        A repair fences the writer of the shard.  Shards without damage keep their writers.

        `mem_wal_set_aside` shows the rows of these files, and puts the newest rows of keys back.

        Parameters
        ----------
        shards
            The ids of the shards; all by default.

        Returns
        -------
        MemWalRepair
            A list of damaged or missing files.  Each has the place of its bytes, the number and
            keys of lost rows, and the call that reads the other rows.

        Raises
        ------
        InvalidArgumentError
            The table has shards but no MemWAL, or a shard does not exist.
        ReadOnlyError
            The handle is pinned to a version.
        RetriesExhaustedError
            Another writer changed a shard, or the table, at the same time.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://repair-mem-wal-example", primary_key="id")
        >>> _ = ds.initialize_mem_wal(unsharded=True)
        >>> len(ds.repair_mem_wal())
        0
        """
        from lancekit._operations.mem_wal.damaged_generations import repair_quarantine
        from lancekit._operations.mem_wal.quarantine import MemWalRepair
        from lancekit._operations.mem_wal.repair import repair_logs
        from lancekit._operations.mem_wal.shards import chosen_shards

        self._check_movable()
        newest = latest_snapshot(self._snapshot.location)
        found = repair_logs(newest, chosen_shards(newest, shards, lost=True))
        if shards is None:
            landed, damaged = repair_quarantine(newest)
            if damaged:
                self._move(lambda _: (landed, None))
            found += damaged
        return MemWalRepair(found)

    def mem_wal_set_aside(self, shards: Iterable[str | UUID] | None = None) -> MemWalSetAside:
        """Return the rows that `repair_mem_wal` has set aside, with the state of each row.

        The rows can be inspected.  They can be put back if there is no newer row of the key.

        Parameters
        ----------
        shards
            The ids of the shards; all by default.

        Raises
        ------
        InvalidArgumentError
            A shard does not exist, or a column of the table has the name of a column of `to_table`.
        CorruptFileError
            A shard is damaged: repair it first.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://set-aside-of", primary_key="id")
        >>> _ = ds.initialize_mem_wal(unsharded=True)
        >>> ds.mem_wal_set_aside()
        0 rows moved aside by a repair
        """
        from lancekit._api.mem_wal_rows import MemWalSetAside

        return MemWalSetAside._of(self, shards)

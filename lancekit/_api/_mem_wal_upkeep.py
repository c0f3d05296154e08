"""The part of a handle that brings rows of shards into the table, and looks after their files."""

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

        The newest row of each key takes the place of the table's, deleted keys go, and one commit
        has both with the mark that says how far each shard is merged: a row lands once, whoever
        else merges at the time, and wherever this is stopped.  Then generations that are merged
        leave the manifests of their shards; `cleanup_mem_wal` removes their files.

        Rows that are in a log alone are flushed first, if an open writer of this process has them.
        The rows of other processes wait in their logs until their writers flush them or are closed,
        unless ``flush=True`` says to take the shards.  ``waiting`` of the result counts them.

        A row that the table refuses, such as one that breaks a constraint, stops the merge of its
        shard and of no other shard, and then this raises.

        Parameters
        ----------
        shards
            The ids of shards; all by default.
        flush
            Merge the rows of all logs, also where a writer of another process may be open: each
            shard that has such rows is taken from its writer, whose next put raises `FencedError`.
            `mem_wal_upsert` and sinks then take their shards back, for ``retry_timeout`` at most;
            a writer that was opened by hand stays fenced.
        rows_per_commit
            About how many rows of generations one commit merges.
        on_error
            ``"quarantine"`` sets rows that the table refuses aside, and merges all other rows.
            `mem_wal_quarantine` reads these rows, corrects them and puts them back.  Until then
            later rows of the same key follow into the quarantine, whatever this is.
        progress
            Is called after each commit with the number of generations that are merged, and of all.
        conflict_retries, retry_timeout
            How often and how long to do a commit again when others change the same rows meanwhile.

        Raises
        ------
        InvalidArgumentError
            The table has shards and no MemWAL.  A table without both has nothing to merge.
        ShardError
            A shard was begun on a branch by a writer that does not know what branches inherit.
        ConstraintViolationError, SchemaMismatchError, PredicateError, UnsupportedTypeError
            The table refuses rows.  All other shards were merged.  ``context`` has ``shard``,
            ``generation``, ``keys`` and ``reasons`` of the first rows, ``failed``, errors by
            shard, and ``merged``, the result of the merge.
        CorruptFileError
            A generation cannot be read; or, with ``flush=True``, a log.  All other shards were
            merged; ``context`` as above.
        RetriesExhaustedError
            Others changed the same rows before every attempt.  What was committed stays.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://merge-mem-wal-example", primary_key="id")
        >>> ds.initialize_mem_wal(unsharded=True)
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
        told = check_callback("progress", progress)
        chosen = chosen_shards(self._snapshot, shards)
        check_choice("on_error", on_error, get_args(OnError))
        self._check_movable()
        flush_own_writers(chosen)
        failed = flush_logs(self._snapshot, chosen, retry_timeout) if flush else []
        result, error = self._move(
            lambda snapshot: merge_generations(
                snapshot, chosen, policy, rows_per_commit=rows, on_error=on_error, progress=told
            )
        )
        self._merge_refused = error is not None and is_refusal(error)
        if error is not None or failed:
            raise error or failed[0]
        return result

    def mem_wal_quarantine(self) -> MemWalQuarantine:
        """Return the rows that `merge_mem_wal` set aside, which are in no version and in no log.

        They can be read, corrected and put back, or discarded.  They are those of the newest
        version, or of the version that the handle is pinned to.

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
        >>> ds.constraints.add("positive", "v > 0")
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
        """Remove files of shards that nobody needs any more.

        Generations that were merged, and those that a writer left behind when it was stopped; the
        entries of logs whose rows are in generations; old manifests.  What readers can hold that
        began within the grace stays, and so do the entries that keep earlier writers out.

        Rows in quarantine stay.  Without `shards`, this removes the tables of the quarantine whose
        rows wait in no version.  A table that no version marks stays for seven days, whatever the
        grace: a merge may be about to commit it.

        Parameters
        ----------
        shards
            The ids of shards; all by default.
        grace
            How long readers may go on with what they have planned.

        Raises
        ------
        InvalidArgumentError
            The grace is negative, or the table has shards and no MemWAL.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://clean-mem-wal-example", primary_key="id")
        >>> ds.initialize_mem_wal(unsharded=True)
        >>> ds.cleanup_mem_wal().generations_removed
        0
        """
        from lancekit._format.mem_wal.details import details_of
        from lancekit._operations.mem_wal.cleanup import clean_quarantine, clean_shards
        from lancekit._operations.mem_wal.initialize import details_with_shards
        from lancekit._operations.mem_wal.shards import chosen_shards

        check_wait("grace", grace)
        chosen = chosen_shards(self._snapshot, shards)
        details_with_shards(self._snapshot, chosen)
        done = clean_shards(chosen, grace)
        if shards is not None or details_of(self._snapshot.indices) is None:
            return done
        return done + clean_quarantine(self._snapshot, grace)

    def repair_mem_wal(self, shards: Iterable[str | UUID] | None = None) -> MemWalRepair:
        """Move aside what is damaged or missing in write-ahead logs, so that they work again.

        Entries of logs, generations and manifests have rows that were acknowledged.  So first
        restore the files, if there is a copy, and close the writer of the shard, if it is still
        open: the writer has the rows of its log in memory, and writes them into a generation.

        This reads all files of the shards.  No byte is lost: what cannot be used is copied into
        the folder ``set_aside`` of the shard.

        - A damaged entry: a sentinel takes its place, and the place of a missing entry.  A log
          that lost its end goes on behind the entries that are left.
        - A generation that cannot be read whole is written again, if its data file or the log has
          all of its rows.  Otherwise the manifest of the shard lists it no more, and its rows in
          the log are copied, too.
        - A damaged manifest, or one that contradicts the log: the newest one that is sound stands
          in, and the log has all later rows.  Where no manifest is left the shard begins again, and
          its entries and generations are copied.
        - A table of the quarantine that cannot be read whole is written again or emptied, in one
          commit; the handle moves.  With `shards` nobody looks at the quarantine.

        A repair fences the writer of the shard.  Shards without damage keep their writers.

        `mem_wal_set_aside` shows the rows of these files, and puts those back that are the newest
        of their keys.

        Parameters
        ----------
        shards
            The ids of shards; all by default.

        Returns
        -------
        MemWalRepair
            What was damaged or missing, in a list: where its bytes are, how many rows of which
            keys are lost, and what reads those that are left.

        Raises
        ------
        InvalidArgumentError
            The table has shards and no MemWAL, or no such shard.
        ReadOnlyError
            The handle is pinned to a version.
        RetriesExhaustedError
            Another writer changed a shard, or the table, at the same time.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://repair-mem-wal-example", primary_key="id")
        >>> ds.initialize_mem_wal(unsharded=True)
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
        """Return the rows that `repair_mem_wal` moved aside, and the state of each row.

        They can be looked at and put back where no newer row of the key is there.

        Parameters
        ----------
        shards
            The ids of shards; all by default.

        Raises
        ------
        InvalidArgumentError
            The table has no such shard, or a column that is called as one of `to_table`.
        CorruptFileError
            A shard is damaged: repair it first.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://set-aside-of", primary_key="id")
        >>> ds.initialize_mem_wal(unsharded=True)
        >>> ds.mem_wal_set_aside()
        0 rows moved aside by a repair
        """
        from lancekit._api.mem_wal_rows import MemWalSetAside

        return MemWalSetAside._of(self, shards)

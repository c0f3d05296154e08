"""The result of a count of rows that wait in shards, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

from lancekit._legible import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRows:
    """Counts of rows that are durable in shards, and that a version does not have yet.

    Each put row and each deletion counts, even if a later one has the same key.

    Attributes
    ----------
    in_generations
        Rows of unmerged generations.
    in_logs
        Rows of logs that no generation has.
    shards
        The number of shards with unmerged rows.
    quarantined
        Rows that a merge moved into the quarantine.
    complete
        False if there may be more rows: a count reads a limited number of log entries, and leaves
        out files that it cannot read.
    damaged
        True if files of shards are damaged or missing.
    refused
        True if the table just refused rows in a merge.
    quarantine_damaged
        True if files of the quarantine are damaged or missing; then `quarantined` is 0.
    without_logs
        True if the table has no MemWAL: nothing reads or merges the rows.
    """

    in_generations: int = 0
    in_logs: int = 0
    shards: int = 0
    quarantined: int = 0
    complete: bool = True
    damaged: bool = False
    refused: bool = False
    quarantine_damaged: bool = False
    without_logs: bool = False

    @property
    def rows(self) -> int:
        """The number of rows that a merge has to bring into the table."""
        return self.in_generations + self.in_logs

    def __bool__(self) -> bool:
        return bool(self.rows or self.quarantined) or not self.complete

    @property
    def words(self) -> str:
        """The counts as a phrase; empty if nothing waits."""
        least = "" if self.complete else "at least "
        logs = f", {self.in_logs:,} in logs" if self.in_logs else ""
        waiting = f"{least}{plural(self.rows, 'row')} of {plural(self.shards, 'shard')}{logs}"
        if not self.rows:
            waiting = "" if self.complete else "shards may have unmerged rows"
        quarantined = f"{plural(self.quarantined, 'row')} in quarantine" if self.quarantined else ""
        if self.quarantine_damaged:
            quarantined = "the quarantine is damaged"
        return ", ".join(filter(None, [waiting, quarantined]))

    def read_by(self, *of_shards: str) -> str:
        """Return a phrase that says which calls read the rows.

        Parameters
        ----------
        of_shards
            Calls that read or merge rows of shards, each with a verb: "ds.merge_mem_wal() merges".
        """
        if not self.quarantined:
            return ", and ".join(f"{call} them" for call in of_shards)
        if not self.rows and self.complete:
            return "ds.mem_wal_quarantine() reads them"
        shards = ", and ".join(f"{call} rows of shards" for call in of_shards)
        return f"{shards}; ds.mem_wal_quarantine() reads the quarantine"

    @property
    def merge_call(self) -> str:
        """The call that merges the rows; empty without rows, or if files are damaged."""
        if self.damaged or (self.complete and not self.rows):
            return ""
        return merge_call(flush=bool(self.in_logs) or not self.complete, refused=self.refused)

    @property
    def advice(self) -> str:
        """A phrase with the call to make next; empty if nothing is to be done."""
        if self.without_logs:
            return (
                "the table has no MemWAL, so these rows are not read: ds.initialize_mem_wal() "
                "resumes the logs, or says why it cannot"
            )
        if self.damaged:
            return (
                "files are damaged or missing: restore them from a copy, or call "
                "ds.repair_mem_wal(), which moves damaged files aside"
            )
        kept = ", and quarantines rows that the table rejects" if self.refused else ""
        return f"{self.merge_call} merges them{kept}" if self.merge_call else ""


def merge_call(*, flush: bool, refused: bool) -> str:
    """Return the call that merges rows of shards.

    flush: whether rows are in logs only.
    refused: whether the table refuses rows.
    """
    arguments = ["flush=True"] if flush else []
    arguments += ['on_error="quarantine"'] if refused else []
    return f"ds.merge_mem_wal({', '.join(arguments)})"

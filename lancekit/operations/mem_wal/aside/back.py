"""Rows that were moved aside: listed, put back into the log of their shard, or discarded.

Who puts rows back first claims the shard, so that no writer puts a newer row meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.errors import FencedError, LancekitError, RetriesExhaustedError
from lancekit.operations.mem_wal.aside.judged import JudgedRows, Mask, judged_rows
from lancekit.operations.mem_wal.aside.listed import GivenRows
from lancekit.operations.mem_wal.aside.order import NEWEST, OLDER, UNSURE
from lancekit.operations.mem_wal.initialize import initialized
from lancekit.operations.mem_wal.open_writer import open_writer
from lancekit.operations.mem_wal.settings import writer_settings
from lancekit.operations.mem_wal.shard_rows import ShardRows
from lancekit.operations.mem_wal.turn import LOOK_SECONDS
from lancekit.operations.mem_wal.writer import Writer
from lancekit.shards.aside import Aside, Note, put_note
from lancekit.shards.schema import TOMBSTONE
from lancekit.shards.shard import Shard
from lancekit.versions.line import Line
from lancekit.versions.listing import latest_snapshot
from lancekit.versions.snapshot import Snapshot

__all__ = ["MemWalPutBack", "discard_aside", "put_back_aside"]

#: how often a shard is claimed that other writers take meanwhile
_ATTEMPTS = 10
#: the note of a file that no repair moved, once its rows are put back or discarded
_NO_NOTE = Note(version=0, logs="", created="", merged=0, whole=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemWalPutBack:
    """What became of rows that a repair moved aside.

    Attributes
    ----------
    put_back
        The number of rows that are in the log of their shard again.
    tombstones
        The number of keys that were deleted again.
    older
        The number of rows that were left out because a newer row of the key is there.
    unsure
        The number of rows that were left out because nothing tells whether one is there.
    """

    put_back: int = 0
    tombstones: int = 0
    older: int = 0
    unsure: int = 0

    def __add__(self, other: MemWalPutBack) -> MemWalPutBack:
        return MemWalPutBack(
            put_back=self.put_back + other.put_back,
            tombstones=self.tombstones + other.tombstones,
            older=self.older + other.older,
            unsure=self.unsure + other.unsure,
        )


def put_back_aside(line: Line, shard: Shard, given: GivenRows, *, unsure: bool) -> MemWalPutBack:
    """Put rows of a shard back into its log, unless a newer row of the key is there.

    Parameters
    ----------
    line
        The table.
    shard
        The shard, whose writer is fenced if there is anything to put back.
    given
        Which rows the caller names, and what they are to be.
    unsure
        Put back rows of which nothing tells whether a newer row of the key is there, too.

    Raises
    ------
    FencedError, RetriesExhaustedError
        Other writers took the shard at each attempt.
    LancekitError
        The table refuses a row: none of the shard are put back.
    """
    for attempt in range(_ATTEMPTS):
        current = latest_snapshot(line)
        if not _chosen(judged_rows(current, shard), given, unsure).any():
            break
        try:
            with _claimed(current, shard) as (writer, form):
                judged = judged_rows(latest_snapshot(line), shard)
                chosen = _chosen(judged, given, unsure)
                done = _put(writer, form, judged, given.rows(judged, chosen), chosen)
        except (FencedError, RetriesExhaustedError):
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(LOOK_SECONDS)
            continue
        _finish(judged, chosen)
        return done + _left(judged, given, chosen)
    judged = judged_rows(current, shard)
    nothing = np.zeros(len(judged.verdicts), bool)
    _finish(judged, nothing)
    return _left(judged, given, nothing)


def _chosen(judged: JudgedRows, given: GivenRows, unsure: bool) -> Mask:
    states = judged.are(NEWEST) | judged.are(UNSURE) if unsure else judged.are(NEWEST)
    chosen: Mask = given.name(judged) & states
    return chosen


@contextmanager
def _claimed(current: Snapshot, shard: Shard) -> Iterator[tuple[Writer, ShardRows]]:
    """Open the writer of a shard; what it cannot make a generation of stays in the log."""
    settings = writer_settings(initialized(current).defaults)
    writer, form = open_writer(current, shard.id, replace(settings, durable_write=True))
    try:
        yield writer, form
    finally:
        with suppress(LancekitError):
            writer.close()


def _put(
    writer: Writer, form: ShardRows, judged: JudgedRows, rows: pa.Table, chosen: Mask
) -> MemWalPutBack:
    """Put the chosen rows, which are `rows`."""
    gone = rows.column(TOMBSTONE).to_numpy()
    live = ak.filter(rows.drop_columns([TOMBSTONE]), ~gone)
    if not form.key:  # nothing is deleted without one
        _put_files(writer, form, judged, chosen)
        return MemWalPutBack(put_back=live.num_rows)
    dead = ak.filter(rows.select(list(form.key)), gone)
    batches = form.live(live) if live.num_rows else []
    batches += form.tombstones(dead) if dead.num_rows else []
    for part in _parts(batches, writer.settings.max_memtable_rows):
        writer.put(part)
    return MemWalPutBack(put_back=live.num_rows, tombstones=dead.num_rows)


def _put_files(writer: Writer, form: ShardRows, judged: JudgedRows, chosen: Mask) -> None:
    """Put rows without a key, file by file: a call after a kill would put them a second time.

    So a note says before each entry where it goes.  All rows are cast first, because the table may
    refuse one.
    """
    aside, rows = judged.aside, judged.aside.rows.drop_columns([TOMBSTONE])
    form.live(ak.filter(rows, chosen))
    for place in dict.fromkeys(aside.file[chosen].tolist()):
        file, own = aside.files[place], aside.file == place
        back = int((own & ~chosen).sum())  # by a call that was stopped
        live = form.live(ak.filter(rows, own & chosen))
        for part in _parts(live, writer.settings.max_memtable_rows):
            count = sum(batch.num_rows for batch in part)
            note = replace(
                file.aside.note or _NO_NOTE,
                back=back,
                epoch=writer.epoch,
                entry=writer.position + 1,
                rows=count,
            )
            put_note(aside.shard, file.aside.name, note)
            writer.put(part)
            back += count


def _parts(batches: Sequence[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    for batch in batches:
        for start in range(0, batch.num_rows, most):
            yield [batch.slice(start, most)]


def _left(judged: JudgedRows, given: GivenRows, chosen: Mask) -> MemWalPutBack:
    left = given.name(judged) & ~chosen
    return MemWalPutBack(
        older=int((left & judged.are(OLDER)).sum()),
        unsure=int((left & ~judged.are(OLDER)).sum()),
    )


def _finish(judged: JudgedRows, gone: Mask) -> None:
    """Note the files that have no row left which could be put back."""
    waits = ~(gone | judged.are(OLDER))
    held = set(judged.aside.file[waits].tolist())
    for place, file in enumerate(judged.aside.files):
        # what cannot be read may be readable elsewhere
        if place not in held and file.rows:
            _note_done(judged.aside.shard, file.aside)


def discard_aside(shard: Shard, asides: Collection[Aside]) -> None:
    """Note that the rows of files are not wanted; the files stay until the shard is removed."""
    for one in asides:
        _note_done(shard, one)


def _note_done(shard: Shard, aside: Aside) -> None:
    put_note(shard, aside.name, replace(aside.note or _NO_NOTE, done=True))

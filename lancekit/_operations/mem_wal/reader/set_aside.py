"""Rows that were moved aside: listed for a caller, put back, or discarded."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.extensions import resolved_schema
from lancekit._format.schema import LanceSchema
from lancekit._legible import literals
from lancekit._operations.mem_wal.claim import POLL_SECONDS
from lancekit._operations.mem_wal.initialize import initialized
from lancekit._operations.mem_wal.open_writer import open_writer
from lancekit._operations.mem_wal.quarantine import nullable_schema
from lancekit._operations.mem_wal.reader.aside_order import NEWEST, OLDER, UNSURE, Verdict, verdicts
from lancekit._operations.mem_wal.reader.aside_rows import AsideFile, AsideRows, read_aside_rows
from lancekit._operations.mem_wal.settings import writer_settings
from lancekit._operations.mem_wal.shares import ShardRows, cast_columns, opened_rows
from lancekit._operations.mem_wal.writer import Writer
from lancekit._scan.fragments.rebatch import taken
from lancekit._shards.aside import Aside, Note, put_note
from lancekit._shards.schema import TOMBSTONE, Shard, primary_key
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import FencedError, InvalidArgumentError, LancekitError, RetriesExhaustedError

#: columns of listed rows, in addition to the table's columns and `_tombstone`
_FACTS = pa.schema(
    {
        "_set_aside_shard": pa.string(),
        "_set_aside_generation": pa.int64(),
        "_set_aside_position": pa.int64(),
        "_set_aside_file": pa.string(),
        "_set_aside_row": pa.int64(),
        "_set_aside_state": pa.string(),
        "_set_aside_reason": pa.string(),
    }
)
#: the value of each fact for the rows of a shard
_VALUES: dict[str, Callable[[JudgedRows], object]] = {
    "_set_aside_shard": lambda judged: [str(judged.aside.shard.id)] * len(judged.verdicts),
    "_set_aside_generation": lambda judged: [one.generation or None for one in _files(judged)],
    "_set_aside_position": lambda judged: [one.aside.position for one in _files(judged)],
    "_set_aside_file": lambda judged: [one.uri for one in _files(judged)],
    "_set_aside_row": lambda judged: judged.aside.offsets,
    "_set_aside_state": lambda judged: [one.state for one in judged.verdicts],
    "_set_aside_reason": lambda judged: [one.reason for one in judged.verdicts],
}
#: the columns that identify a row
_PLACE = ("_set_aside_file", "_set_aside_row")


def listed_schema(schema: LanceSchema) -> pa.Schema:
    """Return the schema of listed rows: the table's columns, nullable, `_tombstone`, and facts.

    Raises InvalidArgumentError: the table has a column with the name of a fact.
    """
    for name in _FACTS.names:
        if name in schema:
            raise InvalidArgumentError(
                f"Column {name!r} clashes with a column of rows that were moved aside.",
                hint="Rename the column.",
                column=name,
            )
    return pa.schema(
        [*nullable_schema(schema).to_arrow(), pa.field(TOMBSTONE, pa.bool_()), *_FACTS]
    )


def with_facts(judged: JudgedRows) -> pa.Table:
    """Add to rows their origin, and whether they are the newest of their keys."""
    rows = judged.aside.rows
    for field in _FACTS:
        rows = rows.append_column(field, _fact(judged, field.name))
    return rows


def _fact(judged: JudgedRows, name: str) -> pa.Array:
    return pa.array(_VALUES[name](judged), _FACTS.field(name).type)


def _files(judged: JudgedRows) -> list[AsideFile]:
    aside = judged.aside
    return [aside.files[place] for place in aside.file.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class GivenRows:
    """The rows that a caller names, with corrected values if it gave any.

    by: the columns that name a row: its file and index, or the primary key.  Empty for all rows.
    keys: the columns of the primary key.
    places: the index in `values` of each name, the last one for a duplicate.
    values: the columns of the table and `_tombstone`, or ``None`` to take the values of the files.
    """

    by: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    places: dict[tuple[object, ...], int] | None = None
    values: pa.Table | None = None

    def name(self, judged: JudgedRows) -> Mask:
        """Return flags of the rows of a shard that are named."""
        return np.array([place >= 0 for place in self._places_of(judged)], bool)

    def rows(self, judged: JudgedRows, selected: Mask) -> pa.Table:
        """Return the selected rows, with corrected values."""
        if self.values is None:
            return ak.filter(judged.aside.rows, selected)
        return taken(self.values, np.array(self._places_of(judged), np.int64)[selected])

    def check_keys(self, judged: JudgedRows) -> None:
        """Raise if a row was corrected to another key, whose newest row was not determined."""
        if self.values is None:
            return
        named = self.name(judged)
        tables = ak.filter(judged.aside.rows, named), self.rows(judged, named)
        keys = (table.select([*self.keys]).to_pylist() for table in tables)
        for before, after in zip(*keys, strict=True):
            if before != after:
                raise InvalidArgumentError(
                    f"A row with {literals(before)} was corrected to {literals(after)}, but there "
                    "may be a newer row with that key.",
                    hint="Keep the key. To write the row under another key, call "
                    "ds.mem_wal_upsert(rows).",
                    key=after,
                )

    def _places_of(self, judged: JudgedRows) -> list[int]:
        """Return the index of each row in the values, or -1."""
        if self.places is None:
            return [0] * len(judged.verdicts)
        rows = judged.aside.rows
        named = {n: _fact(judged, n) if n in _VALUES else rows.column(n) for n in self.by}
        return [self.places.get(name, -1) for name in _names(pa.table(named))]


def given_rows(schema: LanceSchema, given: object) -> GivenRows:
    """Read a caller's rows, which name rows that were moved aside, and can correct them.

    schema: the columns of the table.
    given: rows of any kind, or ``None`` for all rows without corrections.

    Raises InvalidArgumentError: the rows lack the columns that name rows, or have only some columns
        of the table.  Or the table has no primary key.
    Raises InvalidTypeError, SchemaMismatchError: the rows cannot be read, or do not fit the table.
    """
    if given is None:
        return GivenRows()
    keys = tuple(field.name for field in primary_key(schema))
    if not keys:
        raise InvalidArgumentError(
            "rows cannot select rows of a table without a primary key.",
            hint="Call put_back() without rows, which puts all rows back.",
            argument="rows",
        )
    known = listed_schema(schema)
    reader = opened_rows(given, None, resolved_schema(known))
    names = reader.schema.names
    by = next((by for by in (_PLACE, keys) if {*by} <= {*names}), None)
    if by is None:
        raise InvalidArgumentError(
            "rows does not identify rows.",
            hint=f"Pass rows of to_table(), or the key columns: {', '.join(map(repr, keys))}.",
            argument="rows",
        )
    corrects = any(name in names for name in schema.names if name not in keys)
    lacking = [name for name in schema.names if name not in names]
    if corrects and lacking:
        raise InvalidArgumentError(
            f"rows has new values, but lacks column {lacking[0]!r}.",
            hint="Pass corrected rows with all columns of the table. To put rows back unchanged, "
            f"pass only {', '.join(map(repr, by))}.",
            argument="rows",
            column=lacking[0],
        )
    wanted = [name for name in known.names if name in names and (corrects or name in by)]
    rows = cast_columns(reader, wanted, known)
    places = {name: place for place, name in enumerate(_names(rows.select([*by])))}
    if not corrects:
        return GivenRows(by, keys, places)
    if TOMBSTONE not in names:
        rows = rows.append_column(TOMBSTONE, pa.repeat(pa.scalar(False), rows.num_rows))
    marks = pc.fill_null(rows.column(TOMBSTONE), False)
    values = rows.select(schema.names).append_column(TOMBSTONE, marks)
    return GivenRows(by, keys, places, values)


def _names(rows: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


# ---- rows of a shard that were moved aside, with verdicts

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRows:
    """The rows of a shard that were moved aside, and whether each is the newest of its key."""

    aside: AsideRows
    verdicts: Sequence[Verdict]

    def are(self, state: str) -> Mask:
        """Return flags of the rows that have a state."""
        return np.array([one.state == state for one in self.verdicts], bool)


def judged_rows(current: Snapshot, shard: Shard) -> JudgedRows:
    """Return the rows of a shard that were moved aside, with a verdict for each."""
    aside = read_aside_rows(current, shard)
    return JudgedRows(aside, verdicts(current, aside))


# ---- put rows back into the log of their shard, or discard them
#
# The shard is claimed before rows are put back, so that no writer puts a newer row meanwhile.

#: the number of attempts to claim a shard that other writers claim
_ATTEMPTS = 10
#: the note of a file without one, once its rows are put back or discarded
_NO_NOTE = Note(version=0, logs="", created="", merged=0, whole=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemWalPutBack:
    """The result of putting back rows that a repair moved aside.

    Attributes
    ----------
    put_back
        The number of rows that are in the log of their shard again.
    tombstones
        The number of keys that were deleted again.
    older
        The number of rows that were left out because the key has a newer row.
    unsure
        The number of rows that were left out because it is unknown whether the key has a newer row.
    """

    put_back: int = 0
    tombstones: int = 0
    older: int = 0
    unsure: int = 0

    def __add__(self, other: MemWalPutBack) -> MemWalPutBack:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return MemWalPutBack(**sums)


def put_back_aside(
    location: BranchLocation, shard: Shard, given: GivenRows, *, unsure: bool
) -> MemWalPutBack:
    """Put rows of a shard back into its log, unless their key has a newer row.

    shard: the shard.  Its writer is fenced if there are rows to put back.
    given: the rows that the caller names, and their values.
    unsure: also put back rows whose key may have a newer row.

    Raises FencedError, RetriesExhaustedError: other writers claimed the shard at each attempt.
    Raises LancekitError: the table refuses a row.  No row of the shard is put back.
    """
    for attempt in range(_ATTEMPTS):
        current = latest_snapshot(location)
        if not _selected(judged_rows(current, shard), given, unsure).any():
            break
        try:
            with _claimed(current, shard) as (writer, form):
                judged = judged_rows(latest_snapshot(location), shard)
                selected = _selected(judged, given, unsure)
                done = _put(writer, form, judged, given.rows(judged, selected), selected)
        except (FencedError, RetriesExhaustedError):
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(POLL_SECONDS)
            continue
        _finish(judged, selected)
        return done + _left_out(judged, given, selected)
    judged = judged_rows(current, shard)
    nothing = np.zeros(len(judged.verdicts), bool)
    _finish(judged, nothing)
    return _left_out(judged, given, nothing)


def _selected(judged: JudgedRows, given: GivenRows, unsure: bool) -> Mask:
    states = judged.are(NEWEST) | judged.are(UNSURE) if unsure else judged.are(NEWEST)
    return given.name(judged) & states


@contextmanager
def _claimed(current: Snapshot, shard: Shard) -> Iterator[tuple[Writer, ShardRows]]:
    """Open the writer of a shard, and close it; rows that it cannot flush stay in the log."""
    settings = writer_settings(initialized(current).defaults)
    writer, form = open_writer(current, shard.id, replace(settings, durable_write=True))
    try:
        yield writer, form
    finally:
        with suppress(LancekitError):
            writer.close()


def _put(
    writer: Writer, form: ShardRows, judged: JudgedRows, rows: pa.Table, selected: Mask
) -> MemWalPutBack:
    """Put the selected rows, whose values are `rows`."""
    gone = rows.column(TOMBSTONE).to_numpy()
    live = ak.filter(rows.drop_columns([TOMBSTONE]), ~gone)
    if not form.key:  # no tombstones without a key
        _put_files(writer, form, judged, selected)
        return MemWalPutBack(put_back=live.num_rows)
    dead = ak.filter(rows.select(list(form.key)), gone)
    batches = form.live(live) if live.num_rows else []
    batches += form.tombstones(dead) if dead.num_rows else []
    for part in _parts(batches, writer.settings.max_memtable_rows):
        writer.put(part)
    return MemWalPutBack(put_back=live.num_rows, tombstones=dead.num_rows)


def _put_files(writer: Writer, form: ShardRows, judged: JudgedRows, selected: Mask) -> None:
    """Put rows without a key, file by file: a call after a kill must not put rows twice.

    So a note records the position of each entry before it is put.  All rows are cast first, because
    the table may refuse one.
    """
    aside, rows = judged.aside, judged.aside.rows.drop_columns([TOMBSTONE])
    form.live(ak.filter(rows, selected))
    for place in dict.fromkeys(aside.file[selected].tolist()):
        file, own = aside.files[place], aside.file == place
        back = int((own & ~selected).sum())  # put back by a call that was stopped
        live = form.live(ak.filter(rows, own & selected))
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


def _left_out(judged: JudgedRows, given: GivenRows, selected: Mask) -> MemWalPutBack:
    left = given.name(judged) & ~selected
    return MemWalPutBack(
        older=int((left & judged.are(OLDER)).sum()), unsure=int((left & ~judged.are(OLDER)).sum())
    )


def _finish(judged: JudgedRows, gone: Mask) -> None:
    """Note that files are done if they have no row left that could be put back."""
    waiting = set(judged.aside.file[~(gone | judged.are(OLDER))].tolist())
    for place, file in enumerate(judged.aside.files):
        # a file without readable rows stays: another version may read it
        if place not in waiting and file.rows:
            _note_done(judged.aside.shard, file.aside)


def discard_aside(shard: Shard, asides: Collection[Aside]) -> None:
    """Note that the rows of files are discarded; the files stay until the shard is removed."""
    for one in asides:
        _note_done(shard, one)


def _note_done(shard: Shard, aside: Aside) -> None:
    put_note(shard, aside.name, replace(aside.note or _NO_NOTE, done=True))

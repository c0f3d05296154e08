"""Rows that were moved aside, as a caller sees them and gives them back."""

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
from lancekit._operations.mem_wal.claim import LOOK_SECONDS
from lancekit._operations.mem_wal.initialize import initialized
from lancekit._operations.mem_wal.open_writer import open_writer
from lancekit._operations.mem_wal.quarantine import loose_schema
from lancekit._operations.mem_wal.reader.aside_order import NEWEST, OLDER, UNSURE, Verdict, verdicts
from lancekit._operations.mem_wal.reader.aside_rows import AsideFile, AsideRows, read_aside_rows
from lancekit._operations.mem_wal.settings import writer_settings
from lancekit._operations.mem_wal.shares import ShardRows, cast_columns, opened_rows
from lancekit._operations.mem_wal.writer import Writer
from lancekit._shards.aside import Aside, Note, put_note
from lancekit._shards.schema import TOMBSTONE, Shard, primary_key
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import FencedError, InvalidArgumentError, LancekitError, RetriesExhaustedError

#: what is told of each row beside the columns of the table and the mark of deleted rows
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
#: what tells a row from all others
_PLACE = ("_set_aside_file", "_set_aside_row")


def listed_schema(schema: LanceSchema) -> pa.Schema:
    """Return what a caller sees of a row: the table's columns, nulls allowed, and facts.

    Raises InvalidArgumentError: the table has a column of such a name.
    """
    for name in _FACTS.names:
        if name in schema:
            raise InvalidArgumentError(
                f"The table has a column {name!r}, which rows that were moved aside need.",
                hint="Rename the column.",
                column=name,
            )
    return pa.schema([*loose_schema(schema).to_arrow(), pa.field(TOMBSTONE, pa.bool_()), *_FACTS])


def with_facts(judged: JudgedRows) -> pa.Table:
    """Add to rows where they come from and what was found out about them."""
    rows = judged.aside.rows
    for field in _FACTS:
        rows = rows.append_column(field, _fact(judged, field.name))
    return rows


def _fact(judged: JudgedRows, name: str) -> pa.Array:
    return pa.array(_VALUES[name](judged), _FACTS.field(name).type)


def _files(judged: JudgedRows) -> list[AsideFile]:
    """Return the file of each row."""
    aside = judged.aside
    return [aside.files[place] for place in aside.file.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class GivenRows:
    """Which rows a caller names, and what they are to be.

    by: the columns that name a row: its place, or the primary key; nothing for all rows.
    keys: the columns of the primary key.
    places: the place in `values` of each name; of one that comes twice the last place.
    values: the columns of the table and its mark of deleted rows; ``None`` for those of the files.
    """

    by: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    places: dict[tuple[object, ...], int] | None = None
    values: pa.Table | None = None

    def name(self, judged: JudgedRows) -> Mask:
        """Return which rows of a shard are named."""
        return np.array([place >= 0 for place in self._places_of(judged)], bool)

    def rows(self, judged: JudgedRows, chosen: Mask) -> pa.Table:
        """Return some of the rows as they are to be."""
        if self.values is None:
            return ak.filter(judged.aside.rows, chosen)
        return ak.take(self.values, np.array(self._places_of(judged), np.int64)[chosen])

    def check_keys(self, judged: JudgedRows) -> None:
        """Raise if a row has another key than in its file: nothing is found out about that key."""
        if self.values is None:
            return
        named = self.name(judged)
        tables = ak.filter(judged.aside.rows, named), self.rows(judged, named)
        keys = (table.select([*self.keys]).to_pylist() for table in tables)
        for before, after in zip(*keys, strict=True):
            if before != after:
                raise InvalidArgumentError(
                    f"A row with {literals(before)} was corrected to {literals(after)}: of that "
                    "key nothing tells whether a newer row is there.",
                    hint="Leave the key as it is. To write the row under another key, call "
                    "ds.mem_wal_upsert(rows).",
                    key=after,
                )

    def _places_of(self, judged: JudgedRows) -> list[int]:
        """Return the place of each row in the values, or -1."""
        if self.places is None:
            return [0] * len(judged.verdicts)
        rows = judged.aside.rows
        named = {n: _fact(judged, n) if n in _VALUES else rows.column(n) for n in self.by}
        return [self.places.get(name, -1) for name in _names(pa.table(named))]


def given_rows(schema: LanceSchema, given: object) -> GivenRows:
    """Read what names rows that were moved aside, and corrects them if it has more columns.

    schema: the columns of the table.
    given: rows of any kind; ``None`` for all rows as they are.

    Raises InvalidArgumentError: they do not say which rows they name, or have some columns of the
        table and not all; or the table has no primary key.
    Raises InvalidTypeError, SchemaMismatchError: they cannot be read, or do not fit the table.
    """
    if given is None:
        return GivenRows()
    keys = tuple(field.name for field in primary_key(schema))
    if not keys:
        raise InvalidArgumentError(
            "rows names some rows of a table without a primary key.",
            hint="Call put_back() without rows: nothing would tell the others later.",
            argument="rows",
        )
    known = listed_schema(schema)
    reader = opened_rows(given, None, resolved_schema(known))
    names = reader.schema.names
    by = next((by for by in (_PLACE, keys) if {*by} <= {*names}), None)
    if by is None:
        raise InvalidArgumentError(
            "rows does not say which rows it names.",
            hint="Pass rows of to_table(), or the columns of the key: "
            f"{', '.join(map(repr, keys))}.",
            argument="rows",
        )
    corrects = any(name in names for name in schema.names if name not in keys)
    lacking = [name for name in schema.names if name not in names]
    if corrects and lacking:
        raise InvalidArgumentError(
            f"rows has values to be put back, and no column {lacking[0]!r}.",
            hint="Pass corrected rows with all columns of the table. To name rows whose values are "
            f"those of the files, pass only {', '.join(map(repr, by))}.",
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


# ---- rows of a shard that were moved aside, with what was found out about each

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRows:
    """The rows of a shard that were moved aside, and whether each is the newest of its key."""

    aside: AsideRows
    verdicts: Sequence[Verdict]

    def are(self, state: str) -> Mask:
        """Return which rows have a state."""
        return np.array([one.state == state for one in self.verdicts], bool)


def judged_rows(current: Snapshot, shard: Shard) -> JudgedRows:
    """Return the rows of a shard that were moved aside, with a verdict for each."""
    aside = read_aside_rows(current, shard)
    return JudgedRows(aside, verdicts(current, aside))


# ---- rows that were moved aside: listed, put back into the log of their shard, or discarded
#
# Who puts rows back first claims the shard, so that no writer puts a newer row meanwhile.

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
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return MemWalPutBack(**sums)


def put_back_aside(
    location: BranchLocation, shard: Shard, given: GivenRows, *, unsure: bool
) -> MemWalPutBack:
    """Put rows of a shard back into its log, unless a newer row of the key is there.

    line: the table.
    shard: the shard, whose writer is fenced if there is anything to put back.
    given: which rows the caller names, and what they are to be.
    unsure: put back rows of which nothing tells whether a newer row of the key is there, too.

    Raises FencedError, RetriesExhaustedError: other writers took the shard at each attempt.
    Raises LancekitError: the table refuses a row: none of the shard are put back.
    """
    for attempt in range(_ATTEMPTS):
        current = latest_snapshot(location)
        if not _chosen(judged_rows(current, shard), given, unsure).any():
            break
        try:
            with _claimed(current, shard) as (writer, form):
                judged = judged_rows(latest_snapshot(location), shard)
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
    return given.name(judged) & states


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
    held = set(judged.aside.file[~(gone | judged.are(OLDER))].tolist())
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

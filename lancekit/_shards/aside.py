"""Files of a shard that were moved aside, and the note that a repair writes for each.

A file is a copy of an entry, or the folder of a generation, below `set_aside`.  Its note records
the state of the table when the file was moved, which cannot be found out later.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass

import pyarrow as pa

from lancekit._format.mem_wal.names import ASIDE, generation_number
from lancekit._shards.entry import decoded
from lancekit._shards.log import readable_entry
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard
from lancekit.errors import CorruptFileError

_ENTRY = re.compile(r"([0-9]+)-[0-9a-f]{8}\.arrow")
_NOTE = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The state of the table when a repair moved a file, and how far its rows were put back.

    version: the newest version of the table.
    logs, created: the UUID and the time of that version's MemWAL, as text.
    merged: the last generation of the shard that this version had merged.
    whole: True if the file itself is not damaged, and was moved for another reason.
    done: True if the rows were put back or discarded.
    back: without a primary key: the number of the file's first rows that are in the log again.
    epoch, entry, rows: the put that follows these rows: the writer's epoch, the entry's position,
        and the number of rows.  The entry may not have been written.
    """

    version: int
    logs: str
    created: str
    merged: int
    whole: bool
    done: bool = False
    back: int = 0
    epoch: int = 0
    entry: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A file or folder below `set_aside`.

    name: the name, relative to the shard.
    position: the position of an entry in the log, or ``None`` for a generation.
    generation: the number of a generation, or ``None`` for an entry.
    note: the note of the repair, or ``None`` without a readable one.
    """

    name: str
    position: int | None = None
    generation: int | None = None
    note: Note | None = None

    @property
    def is_done(self) -> bool:
        """True if the rows were put back or discarded."""
        return self.note is not None and self.note.done


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideEntry:
    """The rows of an entry that was moved aside, as far as they can be decoded.

    generation: the generation that the rows were to be in, or ``None`` if the entry names none.
    batches: the rows.
    fault: the damage of the entry.  Empty if it has none.
    """

    generation: int | None
    batches: list[pa.RecordBatch]
    fault: str


def put_note(shard: Shard, name: str, note: Note) -> None:
    """Put the note of a file durably; `name` is the file's name, relative to the shard."""
    shard.store.put(f"{name}{_NOTE}", json.dumps(asdict(note)).encode())


def files_aside(shard: Shard) -> list[Aside]:
    """Return the files and folders of a shard that were moved aside, sorted by name."""
    names = {*shard.store.list_names(ASIDE), *shard.store.list_folders(ASIDE)}
    found = []
    for bare in sorted(name.rpartition("/")[2] for name in names):
        name, entry = f"{ASIDE}/{bare}", _ENTRY.fullmatch(bare)
        position = int(entry[1]) if entry else None
        generation = generation_number(bare) or None
        if entry or generation:
            note = _note(shard, name)
            found.append(Aside(name=name, position=position, generation=generation, note=note))
    return found


def rows_back(shard: Shard, note: Note) -> int:
    """Return how many rows of a file are back in the log, even if a call was stopped between puts.

    If the entry was never written, a later writer put its sentinel at that position, and sentinels
    are never removed.  So an entry that is missing before the cursor was written and collected.
    """
    if not note.entry:
        return note.back
    place = note.entry
    while found := readable_entry(shard, place):
        if not found.sentinel or found.epoch >= note.epoch:
            return note.back + note.rows * (found.epoch == note.epoch)
        place += 1  # a late sentinel of an earlier writer
    manifest = latest(shard)
    is_past = manifest is not None and place <= manifest.replay_after
    return note.back + note.rows * is_past


def _note(shard: Shard, name: str) -> Note | None:
    try:
        return Note(**json.loads(bytes(shard.store.read(f"{name}{_NOTE}"))))
    except (FileNotFoundError, CorruptFileError, ValueError, TypeError):
        return None


def read_aside_entry(shard: Shard, aside: Aside) -> AsideEntry:
    """Read an entry that was moved aside; batches after the first damage are left out."""
    data = shard.store.read(aside.name)
    fault, batches, schema = "", list[pa.RecordBatch](), pa.schema([])
    try:
        schema, batches, _ = decoded(data, aside.position or 0, f"{shard.store.uri}/{aside.name}")
    except CorruptFileError as error:
        fault = error.message
        with (
            suppress(pa.ArrowException, OSError, ValueError, KeyError),
            pa.ipc.open_stream(pa.BufferReader(data)) as reader,
        ):
            schema = reader.schema
            for batch in reader:
                batch.validate(full=True)
                batches.append(batch)
    generation = (schema.metadata or {}).get(b"generation", b"")
    return AsideEntry(
        generation=int(generation) if generation.isdigit() else None,
        batches=[batch for batch in batches if batch.num_columns],
        fault=fault,
    )

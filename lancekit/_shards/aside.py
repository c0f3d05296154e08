"""Files of a shard that were moved aside, and the note that a repair puts beside each.

A file is a copy of an entry or the folder of a generation, below `set_aside`.  Its note says what
the table had when the file was moved: later nobody can know that any more.

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
    """What a repair knew when it moved a file.

    version: the newest version of the table.
    logs, created: the UUID and the time of the MemWAL of that version, as text.
    merged: the last generation of the shard that this version had merged.
    whole: whether the file was moved for another reason than damage of its own.
    done: whether its rows were put back or discarded.
    back: without a primary key: the number of its first rows that are in the log again.
    epoch, entry, rows: the writer that put the rows after these, the position of its entry, and
        their number: the entry may be there or not.
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

    name: its name below the shard.
    position: the position of an entry in the log; ``None`` of a generation.
    generation: the number of a generation; ``None`` of an entry.
    note: what the repair knew; ``None`` if no repair moved the file.
    """

    name: str
    position: int | None = None
    generation: int | None = None
    note: Note | None = None

    @property
    def is_done(self) -> bool:
        """Whether the rows were put back or discarded."""
        return self.note is not None and self.note.done


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideEntry:
    """The rows of an entry that was moved aside, as far as they can be decoded.

    generation: the generation that the rows were to be in; ``None`` if the entry does not say.
    batches: the rows.
    fault: what is wrong with the entry; empty if nothing is.
    """

    generation: int | None
    batches: list[pa.RecordBatch]
    fault: str


def put_note(shard: Shard, name: str, note: Note) -> None:
    """Put the note of a file durably; `name` is the file's, below the shard."""
    shard.store.put(f"{name}{_NOTE}", json.dumps(asdict(note)).encode())


def files_aside(shard: Shard) -> list[Aside]:
    """Return the files and folders of a shard that were moved aside, by their names."""
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
    """Return how many rows of a file are in the log again, where a call may have been stopped.

    A writer that took the shard later put its sentinel where the entry is not, and such sentinels
    stay.  So an entry that is missing before the cursor was there, and was collected.
    """
    if not note.entry:
        return note.back
    place = note.entry
    while found := readable_entry(shard, place):
        if not found.sentinel or found.epoch >= note.epoch:
            return note.back + note.rows * (found.epoch == note.epoch)
        place += 1  # a sentinel of a writer from before, which was slow
    manifest = latest(shard)
    is_past = manifest is not None and place <= manifest.replay_after
    return note.back + note.rows * is_past


def _note(shard: Shard, name: str) -> Note | None:
    try:
        return Note(**json.loads(bytes(shard.store.read(f"{name}{_NOTE}"))))
    except (FileNotFoundError, CorruptFileError, ValueError, TypeError):
        return None


def read_aside_entry(shard: Shard, aside: Aside) -> AsideEntry:
    """Read an entry that was moved aside; rows behind the first damage are left out."""
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
    said = (schema.metadata or {}).get(b"generation", b"")
    return AsideEntry(
        generation=int(said) if said.isdigit() else None,
        batches=[batch for batch in batches if batch.num_columns],
        fault=fault,
    )

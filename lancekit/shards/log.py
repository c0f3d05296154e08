"""The log of a shard: entries at positions from 1, each an Arrow stream.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lancekit.cache import remembered
from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from lancekit.format.mem_wal.names import (
    ASIDE,
    WAL,
    aside_name,
    entry_name,
    manifest_name,
    position,
)
from lancekit.format.mem_wal.shard_manifest import ShardManifest
from lancekit.shards.shard import Shard
from lancekit.storage.base import Bytes

__all__ = [
    "Entry",
    "check_reach",
    "copy_aside",
    "copy_folder_aside",
    "count_entry_rows",
    "decoded",
    "encode_entry",
    "encode_sentinel",
    "flushed_up_to",
    "positions",
    "put_entry",
    "read_entry",
    "readable_entry",
    "replayable",
    "set_aside",
    "tip",
    "told_torn",
]

_EPOCH, _GENERATION, _SENTINEL = b"writer_epoch", b"generation", b"fence_sentinel"
#: what entries of tables with blobs of the second form have
_TARGET = b"mem_wal_target_"

#: what an entry takes besides its rows, about: its schema
_HELD_BYTES = 4000

#: what a count of rows takes, about
_COUNT_BYTES = 200

#: how an Arrow stream ends
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
#: after it, where other readers do not look: a mark, and the checksum of all before
_TRAILER = struct.Struct("<8sI")
_MARK = b"lk-crc32"

_WAY_OUT = (
    "Restore the file from a copy: rows that were acknowledged are in it. To go on without them, "
    "ds.repair_mem_wal() moves what is damaged aside."
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What was written to a log at once.

    Attributes
    ----------
    position
        Its place in the log.
    epoch
        That of its writer.
    generation
        The one that its rows were to be in; ``None`` if it does not say.
    batches
        Its rows, with `_tombstone` and the ids of fields; none of a sentinel.
    sentinel
        Whether it only takes the place from an earlier writer.
    torn
        Whether the file ends before the end marker of its stream, and nothing but sentinels come
        after it: no writer that flushes to disk acknowledged it.  Then there are no batches, and
        the epoch is 0.
    checked
        Whether it has a checksum: then a writer of ours wrote it, which flushes to disk.
    """

    position: int
    epoch: int
    generation: int | None = None
    batches: list[pa.RecordBatch] = field(default_factory=list, compare=False)
    sentinel: bool = False
    torn: bool = False
    checked: bool = False

    @property
    def rows(self) -> int:
        """The number of its rows, those that only delete their keys included."""
        return sum(batch.num_rows for batch in self.batches)


def encode_entry(
    schema: pa.Schema, batches: Sequence[pa.RecordBatch], epoch: int, generation: int
) -> bytes:
    """Encode rows as an entry; `schema` is that of `wal_schema`, which the batches have."""
    said = {_EPOCH: str(epoch).encode(), _GENERATION: str(generation).encode()}
    return _encoded(schema.with_metadata({**(schema.metadata or {}), **said}), batches)


def encode_sentinel(epoch: int) -> bytes:
    """Encode an entry that only takes a position."""
    return _encoded(pa.schema([], {_EPOCH: str(epoch).encode(), _SENTINEL: b"true"}), ())


def _encoded(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(
                batch if batch.schema.metadata is None else batch.replace_schema_metadata(None)
            )
    data = sink.getvalue()
    return b"".join([data, _TRAILER.pack(_MARK, zlib.crc32(data))])


def read_entry(shard: Shard, number: int) -> Entry:
    """Read the entry at a position.

    Raises
    ------
    FileNotFoundError
        There is none.
    CorruptFileError
        It is damaged or cut off.
    UnsupportedFeatureError
        It is of a table with blobs of the second form.
    """
    known = shard.store.identity(entry_name(number))
    return remembered(
        "logs",
        None if known is None else (known, number),
        lambda: _read_entry(shard, number),
        lambda entry: sum(batch.nbytes for batch in entry.batches) + _HELD_BYTES,
    )


def count_entry_rows(shard: Shard, number: int) -> int:
    """Count the rows of an entry, which is not checked: a tenth of the cost of `read_entry`.

    Raises
    ------
    FileNotFoundError
        There is no such entry.
    CorruptFileError
        The entry cannot be decoded, or is cut off.
    """
    name = entry_name(number)
    known = shard.store.identity(name)
    return remembered(
        "logs",
        None if known is None else (known, "rows"),
        lambda: _entry_rows(shard, number),
        lambda _: _COUNT_BYTES,
    )


def _entry_rows(shard: Shard, number: int) -> int:
    data = shard.store.read(entry_name(number))
    source = pa.BufferReader(data)
    try:
        with pa.ipc.open_stream(source) as reader:
            rows = sum(batch.num_rows for batch in reader)
    except (pa.ArrowException, OSError, ValueError, KeyError, UnicodeDecodeError) as error:
        raise _damaged(number, f"{shard.store.uri}/{entry_name(number)}", str(error)) from error
    end = source.tell()
    if bytes(data[end - len(_END) : end]) != _END:
        raise _damaged(number, f"{shard.store.uri}/{entry_name(number)}", "it has no end marker")
    return rows


def _read_entry(shard: Shard, number: int) -> Entry:
    name = entry_name(number)
    where = f"{shard.store.uri}/{name}"
    schema, batches, checked = decoded(shard.store.read(name), number, where)
    said = schema.metadata or {}
    if any(key.startswith(_TARGET) for key in said):
        raise UnsupportedFeatureError(
            f"{where} is of a table with blobs, which lancekit does not take from logs.",
            hint="Have its writer flush it to a generation.",
            file=where,
        )
    epoch, generation = _number(said, _EPOCH, where), _number(said, _GENERATION, where)
    if epoch is None:
        raise _damaged(number, where, "it says no epoch")
    sentinel = said.get(_SENTINEL) == b"true"
    return Entry(number, epoch, generation, [] if sentinel else batches, sentinel, checked=checked)


def decoded(
    data: pa.Buffer, number: int, where: str
) -> tuple[pa.Schema, list[pa.RecordBatch], bool]:
    """Return the schema and rows of an entry, and whether it has a checksum.

    Raises
    ------
    CorruptFileError
        It is damaged or cut off; ``context`` has ``cut_off``.
    """
    ending = bytes(data[max(0, len(data) - len(_END) - _TRAILER.size) :])
    trailer = ending[-_TRAILER.size :]
    checked = _is_nearly(trailer[: len(_MARK)], _MARK)
    checksum = zlib.crc32(data[: len(data) - _TRAILER.size]) if checked else 0
    if checked and trailer != _TRAILER.pack(_MARK, checksum):
        raise _damaged(number, where, "its checksum is another")
    ends = checked or _is_nearly(ending[-len(_END) :], _END)
    source = pa.BufferReader(data)
    try:
        with pa.ipc.open_stream(source) as reader:
            schema, batches = reader.schema, list(reader)
        _ = schema.names  # which may be no text
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, UnicodeDecodeError) as error:
        raise _damaged(number, where, str(error), cut_off=not ends) from error
    end = source.tell()
    if bytes(data[end - len(_END) : end]) != _END:  # a cut may fall between two batches
        raise _damaged(number, where, "it has no end marker", cut_off=not ends)
    return schema, batches, checked


def _is_nearly(found: bytes, wanted: bytes) -> bool:
    """Tell whether a marker is there, one byte of which may be damaged."""
    return len(found) == len(wanted) and sum(a != b for a, b in zip(found, wanted, strict=True)) < 2


def _number(said: Any, key: bytes, where: str) -> int | None:
    text = said.get(key)
    if text is None:
        return None
    if not text.isdigit():
        raise CorruptFileError(f"{where} is damaged: its {key.decode()} is {text!r}.", file=where)
    return int(text)


def _damaged(number: int, where: str, why: str, *, cut_off: bool = False) -> CorruptFileError:
    return CorruptFileError(
        f"Entry {number} of a write-ahead log, {where}, is damaged: {why}.",
        hint=_WAY_OUT,
        file=where,
        position=number,
        cut_off=cut_off,
    )


def positions(shard: Shard) -> list[int]:
    """Return the positions of all entries, ascending; files that are called otherwise are none."""
    names = shard.store.list_names(WAL)
    return sorted(filter(None, (position(name) for name in names if name.endswith(".arrow"))))


def tip(shard: Shard, known: int) -> int:
    """Return the last position that has an entry, 0 if none has.

    `known` is a position that may have one; later ones are looked for by name.
    """
    if not (known and shard.store.exists(entry_name(known))):
        return max(positions(shard), default=0)
    while shard.store.exists(entry_name(known + 1)):
        known += 1
    return known


def put_entry(shard: Shard, number: int, data: Bytes) -> bool:
    """Put an entry durably if its position is free; ``False`` if it is taken."""
    return shard.store.put_if_absent(entry_name(number), data)


def told_torn(shard: Shard, number: int) -> str:
    """Return how a warning about a torn entry begins."""
    return (
        f"Entry {number} of the write-ahead log in {shard.store.uri} is torn: the file ends before "
        "its end marker, and no rows come after it. A writer that flushes to disk never "
        "acknowledged it. It is left out"
    )


def copy_aside(shard: Shard, number: int) -> str:
    """Copy an entry durably; return the name of the copy, empty if there is no such entry."""
    aside = aside_name(number)
    try:
        shard.store.put(aside, shard.store.read(entry_name(number)))
    except FileNotFoundError:
        return ""
    return aside


def copy_folder_aside(shard: Shard, folder: str) -> str:
    """Copy all files of a folder durably; return the name of the copy, empty if there are none."""
    files = shard.store.list_tree(folder)
    for file in files:
        with suppress(FileNotFoundError):
            shard.store.put(f"{ASIDE}/{file.name}", shard.store.read(file.name, file.size))
    return f"{ASIDE}/{folder}" if files else ""


def set_aside(shard: Shard, number: int, epoch: int) -> str:
    """Put a sentinel in the place of a damaged or missing entry.

    Returns
    -------
    str
        The file below the shard that has the bytes of the entry now; empty if there were none.
    """
    aside = copy_aside(shard, number)
    shard.store.put(entry_name(number), encode_sentinel(epoch))
    return aside


def replayable(shard: Shard, manifest: ShardManifest) -> Iterator[Entry]:
    """Yield the entries whose rows no generation has, in order; sentinels, too.

    One that only sentinels follow may be torn: it is yielded last, as such.

    Raises
    ------
    CorruptFileError
        An entry is damaged or missing, or ends before its end marker and another one with rows
        comes after it; or the log contradicts the manifest.
    """
    numbers = positions(shard)
    check_reach(shard, manifest, numbers)
    expected = manifest.replay_after + 1
    torn: CorruptFileError | None = None
    for last in [number for number in numbers if number >= expected]:
        # a folder that is listed while it is written to may show the later of two names only
        for number in range(expected, last + 1):
            try:
                entry = read_entry(shard, number)
            except FileNotFoundError:
                raise _missing(shard, number) from None
            except CorruptFileError as error:
                if torn is not None or not error.context.get("cut_off"):
                    raise (torn or error) from error
                torn = error
                continue
            if torn is not None and not entry.sentinel:
                raise torn
            if entry.generation is not None and entry.generation < manifest.current_generation:
                if number <= flushed_up_to(shard, manifest):
                    continue
                raise _contradiction(
                    shard,
                    manifest,
                    f"rows of generation {entry.generation} at position {number} of the log are in "
                    f"no generation, and the next one is {manifest.current_generation}",
                )
            yield entry
        expected = last + 1
    if torn is not None:
        yield Entry(torn.context["position"], 0, torn=True)


def flushed_up_to(shard: Shard, manifest: ShardManifest) -> int:
    """Return the last position whose rows generations have.

    This is the cursor of the manifest, or a later position: release 14 lists generations with the
    rows of an entry that is being written, and with the cursor before that entry.  The number of
    rows of a generation tells whether it has all rows of its entries.
    """
    done = manifest.replay_after
    known = {table.generation: table.physical_rows for table in manifest.sstables}
    while (entry := readable_entry(shard, done + 1)) is not None:
        rows, last, whole = _rows_of(shard, entry)
        told = known.get(entry.generation or 0)
        if told is None or rows > told or (whole and rows != told):
            break
        done = last
    return done


def _rows_of(shard: Shard, entry: Entry) -> tuple[int, int, bool]:
    """Count the rows of all entries that have the generation of an entry, which is no sentinel.

    Returns
    -------
    tuple
        The rows, the last position, and whether no earlier entry of the generation is missing.
    """
    rows, first, last = entry.rows, entry.position - 1, entry.position
    while before := readable_entry(shard, first):
        if not before.sentinel and before.generation != entry.generation:
            break
        rows, first = rows + before.rows, first - 1
    while after := readable_entry(shard, last + 1):
        if after.generation != entry.generation:
            break
        rows, last = rows + after.rows, last + 1
    return rows, last, first == 0 or before is not None


def readable_entry(shard: Shard, number: int) -> Entry | None:
    """Return the entry at a position, if there is one that can be read."""
    try:
        return read_entry(shard, number) if number > 0 else None
    except (CorruptFileError, UnsupportedFeatureError, FileNotFoundError):
        return None


def check_reach(shard: Shard, manifest: ShardManifest, numbers: Sequence[int]) -> None:
    """Raise if the manifest says of entries what they, or their absence, contradict.

    Raises
    ------
    CorruptFileError
        It does; rows that were acknowledged may be missing.
    """
    seen, last = manifest.last_seen, max(numbers, default=0)
    if seen > max(manifest.replay_after, last) and not shard.store.exists(entry_name(seen)):
        raise _contradiction(
            shard, manifest, f"the log had an entry at position {seen}, and ends at {last}"
        )
    for number in reversed(numbers):
        if number > manifest.replay_after:
            continue
        entry = readable_entry(shard, number)
        if entry is None or entry.generation is None:
            continue  # a sentinel; or generations have its rows, and it may be collected meanwhile
        generation = entry.generation
        if generation >= manifest.current_generation:
            raise _contradiction(
                shard,
                manifest,
                f"generations have the rows of generation {generation} at position {number} of the "
                f"log, and the next one is {manifest.current_generation}",
            )
        return


def _contradiction(shard: Shard, manifest: ShardManifest, what: str) -> CorruptFileError:
    where = f"{shard.store.uri}/{manifest_name(manifest.version)}"
    return CorruptFileError(
        f"{where} and the write-ahead log beside it contradict each other: {what}.",
        hint="Restore the file from a copy: rows that were acknowledged would be missing.",
        file=where,
        shard=str(shard.id),
    )


def _missing(shard: Shard, number: int) -> CorruptFileError:
    where = f"{shard.store.uri}/{entry_name(number)}"
    return CorruptFileError(
        f"Entry {number} of a write-ahead log, {where}, is missing, and a later one is there.",
        hint=_WAY_OUT,
        file=where,
        position=number,
    )

"""An entry of a shard's log: an Arrow IPC stream followed by a checksum.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from lancekit._cache import remembered
from lancekit._format.mem_wal.names import entry_name
from lancekit._shards.schema import FIELD_ID, TOMBSTONE, Shard
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

_EPOCH, _GENERATION, _SENTINEL = b"writer_epoch", b"generation", b"fence_sentinel"
#: prefix of metadata keys in entries of tables with blob v2 columns
_TARGET = b"mem_wal_target_"

#: estimated memory of an entry's schema, beside its rows
_SCHEMA_BYTES = 4000

#: estimated memory of a cached row count
_COUNT_BYTES = 200

#: the end marker of an Arrow stream
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
#: behind the end marker, where other readers do not look: a mark and the CRC-32 of all before
_TRAILER = struct.Struct("<8sI")
_MARK = b"lk-crc32"

#: all logs are little-endian: another value of the flag is damage, so no byte is swapped
_READ_OPTIONS = pa.ipc.IpcReadOptions(ensure_native_endian=False)

RECOVERY_HINT = (
    "Restore the file from a copy: acknowledged rows are in it. To continue without them, "
    "ds.repair_mem_wal() moves damaged files aside."
)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a shard's log: the rows of one write, or a sentinel.

    position: the entry's position in the log.
    epoch: the epoch of the writer.
    generation: the generation that the rows are to be in, or ``None`` if the entry does not name
        one.
    batches: the rows, with `_tombstone` and field ids.  A sentinel has none.
    sentinel: True if the entry has no rows and only keeps an earlier writer out of its position.
    torn: True if the file ends before its end marker, and only sentinels follow.  No writer that
        flushes to disk acknowledged such an entry.  It has no batches, and the epoch is 0.
    checked: True if the entry has a checksum.  Then lancekit wrote it, which flushes to disk.
    file: the URI of the entry.
    """

    position: int
    epoch: int
    generation: int | None = None
    batches: list[pa.RecordBatch] = field(default_factory=list, compare=False)
    sentinel: bool = False
    torn: bool = False
    checked: bool = False
    file: str = field(default="", compare=False)

    @property
    def rows(self) -> int:
        """The number of rows, tombstones included."""
        return sum(batch.num_rows for batch in self.batches)


def encode_entry(
    schema: pa.Schema, batches: Sequence[pa.RecordBatch], epoch: int, generation: int
) -> bytes:
    """Encode rows as an entry; `schema` comes from `wal_schema`, and the batches have it."""
    metadata = {_EPOCH: str(epoch).encode(), _GENERATION: str(generation).encode()}
    return _encoded(schema.with_metadata({**(schema.metadata or {}), **metadata}), batches)


def encode_sentinel(epoch: int) -> bytes:
    """Encode a sentinel: an entry without rows, which only takes a position."""
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

    Raises FileNotFoundError: the position has no entry.
    Raises CorruptFileError: the entry is damaged or cut off.
    Raises UnsupportedFeatureError: the entry is of a table with blob v2 columns.
    """
    known = shard.store.identity(entry_name(number))
    return remembered(
        "logs",
        None if known is None else (known, number),
        lambda: _read_entry(shard, number),
        lambda entry: sum(batch.nbytes for batch in entry.batches) + _SCHEMA_BYTES,
    )


def count_entry_rows(shard: Shard, number: int) -> int:
    """Count the rows of an entry without checking values: much cheaper than `read_entry`.

    Raises FileNotFoundError: the position has no entry.
    Raises CorruptFileError: the entry cannot be decoded, or is cut off.
    """
    known = shard.store.identity(entry_name(number))
    return remembered(
        "logs",
        None if known is None else (known, "rows"),
        lambda: _entry_rows(shard, number),
        lambda _: _COUNT_BYTES,
    )


def _entry_rows(shard: Shard, number: int) -> int:
    name = entry_name(number)
    data, where = shard.store.read(name), f"{shard.store.uri}/{name}"
    _is_checked(data, number, where)
    with _stream(data, number, where) as reader:
        return sum(batch.num_rows for batch in reader)


@contextmanager
def _stream(
    data: pa.Buffer, number: int, where: str, *, cut_off: bool = False
) -> Iterator[pa.RecordBatchReader]:
    """Open the Arrow stream of an entry; the ``with`` block must read it to its end.

    Raises CorruptFileError: the stream cannot be decoded, or has no end marker.
    """
    source = pa.BufferReader(data)
    try:
        with pa.ipc.open_stream(source, options=_READ_OPTIONS) as reader:
            yield reader
    except (pa.ArrowException, OSError, ValueError, KeyError, UnicodeDecodeError) as error:
        raise damaged(number, where, str(error), cut_off=cut_off) from error
    end = source.tell()
    if bytes(data[end - len(_END) : end]) != _END:  # a cut may fall between two batches
        raise damaged(number, where, "it has no end marker", cut_off=cut_off)


def _read_entry(shard: Shard, number: int) -> Entry:
    name = entry_name(number)
    where = f"{shard.store.uri}/{name}"
    schema, batches, checked = decoded(shard.store.read(name), number, where)
    metadata = schema.metadata or {}
    if any(key.startswith(_TARGET) for key in metadata):
        raise UnsupportedFeatureError(
            f"{where} belongs to a table with blobs, which lancekit cannot read from logs.",
            hint="Flush it to a generation with its writer.",
            file=where,
        )
    epoch, generation = _number(metadata, _EPOCH, where), _number(metadata, _GENERATION, where)
    if epoch is None:
        raise damaged(number, where, "it has no epoch")
    sentinel = metadata.get(_SENTINEL) == b"true"
    if not checked and (why := _contradiction(schema)):
        raise damaged(number, where, why)
    rows = [] if sentinel else batches
    return Entry(number, epoch, generation, rows, sentinel, checked=checked, file=where)


def decoded(
    data: pa.Buffer, number: int, where: str
) -> tuple[pa.Schema, list[pa.RecordBatch], bool]:
    """Return the schema and rows of an entry, and whether it has a checksum.

    Raises CorruptFileError: the entry is damaged or cut off.  ``context`` has ``cut_off``.
    """
    checked = _is_checked(data, number, where)
    ends = checked or _nearly_equal(bytes(data[max(0, len(data) - len(_END)) :]), _END)
    with _stream(data, number, where, cut_off=not ends) as reader:
        schema, batches = reader.schema, list(reader)
        _ = schema.names  # raises if a name is not UTF-8
        for batch in batches:
            batch.validate(full=True)
    return schema, batches, checked


def _contradiction(schema: pa.Schema) -> str:
    """Return the fault of the field ids of an entry, as a phrase; empty if they are valid.

    An entry of another library has no checksum.  A column under a wrong id is read as another
    column.
    """
    columns = [field for field in schema if field.name != TOMBSTONE]
    ids = [(field.metadata or {}).get(FIELD_ID.encode()) for field in columns]
    lacking = [field.name for field, id_ in zip(columns, ids, strict=True) if id_ is None]
    if 0 < len(lacking) < len(columns):
        return f"column {lacking[0]!r} has no field id, but other columns have one"
    if not lacking and len(set(ids)) < len(ids):
        return "two of its columns have one field id"
    if not lacking and len(columns) == len(schema) > 0:
        return f"it has no column {TOMBSTONE!r}"
    return ""


def _is_checked(data: pa.Buffer, number: int, where: str) -> bool:
    """Return True if an entry has a checksum, which is verified."""
    trailer = bytes(data[max(0, len(data) - _TRAILER.size) :])
    if not _nearly_equal(trailer[: len(_MARK)], _MARK):
        return False
    if trailer != _TRAILER.pack(_MARK, zlib.crc32(data[: len(data) - _TRAILER.size])):
        raise damaged(number, where, "its checksum does not match")
    return True


def _nearly_equal(found: bytes, wanted: bytes) -> bool:
    """Return True if at most one byte of a marker differs: damage must not hide the marker."""
    return len(found) == len(wanted) and sum(a != b for a, b in zip(found, wanted, strict=True)) < 2


def _number(metadata: Mapping[bytes, bytes], key: bytes, where: str) -> int | None:
    text = metadata.get(key)
    if text is None:
        return None
    if not text.isdigit():
        raise CorruptFileError(f"{where} is damaged: its {key.decode()} is {text!r}.", file=where)
    return int(text)


def damaged(number: int, where: str, why: str, *, cut_off: bool = False) -> CorruptFileError:
    """Return the error for an unusable entry: its position, its file, and the reason."""
    return CorruptFileError(
        f"Entry {number} of a write-ahead log, {where}, is damaged: {why}.",
        hint=RECOVERY_HINT,
        file=where,
        position=number,
        cut_off=cut_off,
    )

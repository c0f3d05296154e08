"""The log of a shard: entries at positions from 1, and their rows in the table's current schema.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import child_of
from lancekit._format.mem_wal.names import WAL, aside_name, entry_name, manifest_name, position
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._shards.entry import RECOVERY_HINT, Entry, damaged, encode_sentinel, read_entry
from lancekit._shards.schema import FIELD_ID, TOMBSTONE, Shard
from lancekit._storage.base import Bytes
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

#: a file that ends with so many zero bytes has no end marker, which ends with four
_ZEROS = bytes(8)


def positions(shard: Shard) -> list[int]:
    """Return the positions of all entries, ascending; files with other names are ignored."""
    names = shard.store.list_names(WAL)
    return sorted(filter(None, (position(name) for name in names if name.endswith(".arrow"))))


def tip(shard: Shard, known: int) -> int:
    """Return the last position that has an entry, 0 for an empty log.

    `known` is a position that may have an entry; later positions are probed by name.
    """
    if not (known and shard.store.exists(entry_name(known))):
        return max(positions(shard), default=0)
    while shard.store.exists(entry_name(known + 1)):
        known += 1
    return known


def put_entry(shard: Shard, number: int, data: Bytes) -> bool:
    """Put an entry durably if its position is free; return False if it is taken."""
    return shard.store.put_if_absent(entry_name(number), data)


def torn_message(shard: Shard, number: int) -> str:
    """Return the beginning of a warning about a torn entry."""
    data = bytes(shard.store.read(entry_name(number)))
    if data.endswith(_ZEROS):
        zeros = len(data) - len(data.rstrip(b"\0"))
        what = f"the last {zeros:,} of its {len(data):,} bytes are zeros"
    else:
        what = f"the file ends after {len(data):,} bytes"
    return (
        f"Entry {number} of the write-ahead log in {shard.store.uri} is torn: {what} without the "
        "end marker, and no rows come after it. A writer that flushes to disk acknowledges an "
        "entry when all of its bytes are written, so this entry was never acknowledged, or the "
        "file was damaged later. It is skipped"
    )


def copy_aside(shard: Shard, number: int) -> str:
    """Copy an entry durably; return the name of the copy, empty if the entry is missing."""
    aside = aside_name(number)
    try:
        shard.store.put(aside, shard.store.read(entry_name(number)))
    except FileNotFoundError:
        return ""
    return aside


def set_aside(shard: Shard, number: int, epoch: int) -> str:
    """Put a sentinel in place of a damaged or missing entry.

    Returns
    -------
    str
        The copy of the entry's bytes, relative to the shard; empty if the entry was missing.
    """
    aside = copy_aside(shard, number)
    shard.store.put(entry_name(number), encode_sentinel(epoch))
    return aside


def replayable(shard: Shard, manifest: ShardManifest) -> Iterator[Entry]:
    """Yield the entries to replay, in order: sentinels, and entries whose rows no generation has.

    An entry that is cut off, and is the last one with rows, is yielded at the end as a torn entry.

    Raises CorruptFileError: an entry is damaged or missing, or is cut off and not the last one with
        rows.  Or the log contradicts the manifest.
    """
    numbers = positions(shard)
    check_log(shard, manifest, numbers)
    expected = manifest.replay_after + 1
    torn: CorruptFileError | None = None
    for last in [number for number in numbers if number >= expected]:
        # a listing during writes may show only the later of two names
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
                raise _contradiction(shard, manifest, _in_no_generation(manifest, entry))
            yield entry
        expected = last + 1
    if torn is not None:
        yield Entry(torn.context["position"], 0, torn=True)


def flushed_up_to(shard: Shard, manifest: ShardManifest) -> int:
    """Return the last position whose rows are in generations: the manifest's cursor, or later.

    Release 14 can list a generation with the rows of an entry that is still being written, and keep
    the cursor before that entry.  The row count of a generation shows if it has all rows of its
    entries.
    """
    done = manifest.replay_after
    known = {table.generation: table.physical_rows for table in manifest.sstables}
    while (entry := readable_entry(shard, done + 1)) is not None:
        rows, last, whole = _rows_of(shard, entry)
        listed = known.get(entry.generation or 0)
        if listed is None or rows > listed or (whole and rows != listed):
            break
        done = last
    return done


def _rows_of(shard: Shard, entry: Entry) -> tuple[int, int, bool]:
    """Count the rows of all adjacent entries that share the generation of a non-sentinel entry.

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
    """Return the entry at a position; ``None`` if it is missing or cannot be read."""
    try:
        return read_entry(shard, number) if number > 0 else None
    except (CorruptFileError, UnsupportedFeatureError, FileNotFoundError):
        return None


def check_log(shard: Shard, manifest: ShardManifest, numbers: Sequence[int]) -> None:
    """Raise if the log contradicts the manifest.

    Raises CorruptFileError: entries are missing or contradict the manifest.  Acknowledged rows may
        be lost.
    """
    if end := lost_end(shard, manifest, numbers):
        raise _missing_end(shard, manifest, end, max(numbers, default=0))
    if fault := _flushed_too_early(shard, manifest, numbers):
        raise _contradiction(shard, manifest, fault)


def lost_end(shard: Shard, manifest: ShardManifest, numbers: Sequence[int]) -> range:
    """Return the positions missing after the end of the log, up to the manifest's `last_seen`."""
    seen, last = manifest.last_seen, max([manifest.replay_after, *numbers])
    if seen <= last or shard.store.exists(entry_name(seen)):
        return range(0)
    return range(last + 1, seen + 1)


def _flushed_too_early(shard: Shard, manifest: ShardManifest, numbers: Sequence[int]) -> str:
    """Return the contradiction, as a phrase, if an entry up to the cursor is not flushed yet."""
    for number in reversed(numbers):
        if number > manifest.replay_after:
            continue
        entry = readable_entry(shard, number)
        if entry is None or entry.generation is None:
            continue  # a sentinel, or an entry that a cleanup just removed
        if entry.generation >= manifest.current_generation:
            return (
                f"position {number} of the log counts as flushed, but has rows of generation "
                f"{entry.generation}: the next generation is {manifest.current_generation}"
            )
        break
    return ""


def _in_no_generation(manifest: ShardManifest, entry: Entry) -> str:
    return (
        f"position {entry.position} of the log has rows of generation {entry.generation}, which "
        f"are in no generation: the next generation is {manifest.current_generation}"
    )


def contradiction(shard: Shard, manifest: ShardManifest) -> str:
    """Return how the readable entries contradict a manifest, as a phrase; empty if they do not."""
    numbers = positions(shard)
    if fault := _flushed_too_early(shard, manifest, numbers):
        return fault
    for number in numbers:
        entry = readable_entry(shard, number) if number > manifest.replay_after else None
        if entry is None or entry.generation is None:
            continue
        is_past = entry.generation < manifest.current_generation
        if is_past and number > flushed_up_to(shard, manifest):
            return _in_no_generation(manifest, entry)
    return ""


def _contradiction(shard: Shard, manifest: ShardManifest, what: str) -> CorruptFileError:
    where = f"{shard.store.uri}/{manifest_name(manifest.version)}"
    return CorruptFileError(
        f"{where} contradicts its write-ahead log: {what}.",
        hint=RECOVERY_HINT,
        file=where,
        shard=str(shard.id),
    )


def _missing_end(shard: Shard, manifest: ShardManifest, end: range, last: int) -> CorruptFileError:
    where = f"{shard.store.uri}/{WAL}"
    return CorruptFileError(
        f"The end of the write-ahead log {where} is missing: the log had an entry at position "
        f"{end[-1]}, recorded by {manifest_name(manifest.version)}, but now ends at {last}.",
        hint=RECOVERY_HINT,
        file=where,
        shard=str(shard.id),
        position=end[0],
    )


def _missing(shard: Shard, number: int) -> CorruptFileError:
    where = f"{shard.store.uri}/{entry_name(number)}"
    return CorruptFileError(
        f"Entry {number} of a write-ahead log, {where}, is missing, but a later entry exists.",
        hint=RECOVERY_HINT,
        file=where,
        position=number,
    )


# ---- rows of a log in the table's current schema: columns are matched by field id
#
# See docs/format/memwal.md, 3.

_ID = FIELD_ID.encode()


def by_id(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of an entry in the current schema of the log, matching columns by field id.

    A column that the entry lacks is null, and a column that the table no longer has is dropped.
    Without `_tombstone` all rows are live.  Entries without field ids are matched by name.

    batch: rows as the entry has them.
    schema: the result of `wal_schema` for the table's schema.

    Examples
    --------
    >>> from lancekit._format.schema import LanceSchema
    >>> from lancekit._shards.schema import wal_schema
    >>> schema = wal_schema(LanceSchema.from_arrow(pa.schema({"x": pa.int8()})))
    >>> renamed = pa.field("old", pa.int8(), metadata={"lance:field_id": "0"})
    >>> by_id(pa.record_batch([[1]], pa.schema([renamed])), schema).to_pydict()
    {'x': [1], '_tombstone': [False]}
    """
    given, rows = batch.schema, batch.num_rows
    same = given.remove_metadata().equals(schema.remove_metadata(), check_metadata=True)
    if same or (given.types == schema.types and _ids(given) == _ids(schema)):
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    has_ids = any(_ID in (field.metadata or {}) for field in given)
    columns = _matched(batch.columns, list(given), list(schema)[:-1], rows, by_name=not has_ids)
    at = given.get_field_index(TOMBSTONE)
    gone = batch.column(at) if at >= 0 else pa.array(np.zeros(rows, bool))
    return pa.RecordBatch.from_arrays([*columns, gone], schema=schema)


def entry_rows(entry: Entry, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the rows of an entry in the current schema of the log.

    schema: the result of `wal_schema` for the table's schema.

    Raises CorruptFileError: the entry has no checksum, and its rows cannot be rows of the table.
    """
    batches = [batch for batch in entry.batches if batch.num_rows]
    if entry.checked:
        return [by_id(batch, schema) for batch in batches]
    if batches and (why := _type_mismatch(batches[0].schema, schema)):
        raise damaged(entry.position, entry.file, why)
    try:
        rows = [by_id(batch, schema) for batch in batches]
    except (pa.ArrowException, ValueError) as error:
        raise damaged(entry.position, entry.file, str(error)) from error
    for place, field in enumerate(schema):
        if not field.nullable and any(ak.null_count(batch.column(place)) for batch in rows):
            why = f"a row has no value in primary-key column {field.name!r}"
            raise damaged(entry.position, entry.file, why)
    return rows


def _type_mismatch(given: pa.Schema, schema: pa.Schema) -> str:
    """Return which column has a type that its id excludes (a cast changes ids), as a phrase."""
    ids = [(field.metadata or {}).get(_ID) for field in schema]
    types = {id_: field.type for id_, field in zip(ids, schema, strict=True) if id_ is not None}
    for field in given:
        wanted = types.get((field.metadata or {}).get(_ID, b""), field.type)
        if (
            _is_number_or_bool(field.type)
            and _is_number_or_bool(wanted)
            and not field.type.equals(wanted)
        ):
            return f"its column {field.name!r} is of {field.type}, the table's of {wanted}"
    return ""


def _is_number_or_bool(kind: pa.DataType) -> bool:
    """Return True for numbers and bool, whose types are the same in every library."""
    return bool(pt.is_primitive(kind) and not pt.is_temporal(kind))


def lacking_columns(given: pa.Schema, schema: pa.Schema) -> frozenset[str]:
    """Return the columns of the current log schema that an entry lacks.

    given: the schema of the entry.
    schema: the result of `wal_schema` for the table's schema.
    """
    has_ids = any(_ID in (field.metadata or {}) for field in given)

    def key(field: pa.Field) -> object:
        return (field.metadata or {}).get(_ID) if has_ids else field.name

    known = set(map(key, given))
    return frozenset(f.name for f in schema if key(f) not in known and f.name != TOMBSTONE)


def _ids(fields: Iterable[pa.Field]) -> list[bytes | None]:
    """Return the ids of fields and of all their nested fields."""
    found = []
    for field in fields:
        found.append((field.metadata or {}).get(_ID))
        found += _ids(_children(field.type))
    return found


def _children(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(place) for place in range(kind.num_fields)] if pt.is_nested(kind) else []


def _matched(
    columns: Sequence[pa.Array],
    given: Sequence[pa.Field],
    wanted: Sequence[pa.Field],
    rows: int,
    *,
    by_name: bool,
) -> list[pa.Array]:
    def key(field: pa.Field) -> object:
        return field.name if by_name else (field.metadata or {}).get(_ID)

    places = {key(field): place for place, field in enumerate(given)}
    found = []
    for field in wanted:
        place = places.get(key(field))
        if place is None:
            found.append(pa.nulls(rows, field.type))
        else:
            found.append(_as_field(columns[place], given[place], field, by_name=by_name))
    return found


def _as_field(values: pa.Array, given: pa.Field, wanted: pa.Field, *, by_name: bool) -> pa.Array:
    """Convert values to the current type of their field: parts of structs may be new or dropped."""
    same = by_name or _ids(_children(given.type)) == _ids(_children(wanted.type))
    if same and values.type.equals(wanted.type):
        return values
    if pt.is_struct(given.type) and pt.is_struct(wanted.type):
        before, after = _children(given.type), _children(wanted.type)
        parts = [child_of(values, place) for place in range(len(before))]
        matched = _matched(parts, before, after, len(values), by_name=by_name)
        mask = values.is_null() if ak.null_count(values) else None
        return pa.StructArray.from_arrays(matched, fields=after, mask=mask)
    return values.cast(wanted.type)

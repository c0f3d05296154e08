"""Decide which rows that were moved aside are still the newest rows of their keys.

The log shows it if it has every later entry.  Otherwise the shard's generations and the table's
rows show it: they are compared with the table's state when the file was moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.mem_wal.names import mem_wal_entry
from lancekit._format.schema import LanceSchema
from lancekit._lazy import cached_property
from lancekit._operations.mem_wal.generation import open_generation
from lancekit._operations.mem_wal.newest_rows import GenerationRows
from lancekit._operations.mem_wal.quarantine import keys_in, read_quarantine
from lancekit._operations.mem_wal.reader.aside_rows import AsideFile, AsideRows, rows_of_keys
from lancekit._operations.unmerged.marks import Marks
from lancekit._pipeline.diff.values import Seeds, digests
from lancekit._scan.fragments.rebatch import joined
from lancekit._shards.aside import Note, rows_back
from lancekit._shards.log import by_id, positions, readable_entry
from lancekit._shards.manifests import latest
from lancekit._shards.schema import wal_schema
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import VersionNotFoundError

#: the key has no newer row, has a newer row, or it is unknown
NEWEST, OLDER, UNSURE = "newest", "older", "unsure"

_Digests = dict[object, tuple[int, int]]


class Verdict(NamedTuple):
    """The state of a row (newest, older or unsure), and the reason."""

    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that was moved aside: its number, key and file, and the note of its repair."""

    number: int
    key: object
    file: AsideFile
    note: Note

    @property
    def generation(self) -> int:
        return self.file.generation


def verdicts(current: Snapshot, aside: AsideRows) -> list[Verdict]:
    """Return for each row that was moved aside whether it is the newest row of its key.

    current: the newest version of the table.  To put rows back, load it after claiming the shard.
    aside: the rows, which have the columns of the version.

    Raises CorruptFileError: another file of the shard is damaged and must be repaired first.
    """
    evidence = _Evidence(current, aside)
    return [_first(evidence, number) for number in range(aside.rows.num_rows)]


def _first(evidence: _Evidence, number: int) -> Verdict:
    file = evidence.aside.files[evidence.aside.file[number]]
    if file.aside.note is None:
        return Verdict(UNSURE, "no readable note of a repair: the table's state then is unknown")
    row = _Row(number, evidence.keys[number], file, file.aside.note)
    rules = _KEYED if evidence.schema.primary_key else _PLAIN
    found = next((one for rule in rules if (one := rule(evidence, row))), None)
    return found or Verdict(NEWEST, "")


class _Evidence:
    """The facts about rows' keys in the log, the generations and the versions."""

    def __init__(self, current: Snapshot, aside: AsideRows) -> None:
        self.current = current
        self.schema = current.manifest.schema
        self.aside = aside
        self.merged = Marks(current).merged.get(aside.shard.id, 0)
        self.same_table = lru_cache(self._same_table)
        self.before = lru_cache(self._before)
        self.back = lru_cache(partial(rows_back, aside.shard))
        self._seeds = Seeds.drawn()

    @cached_property
    def keys(self) -> list[object]:
        """The key of each row that was moved aside; ``None`` without a primary key."""
        return _keys(self.aside.rows, self.schema)

    @cached_property
    def last(self) -> dict[object, int]:
        """The number of the last row of each key among files with a note."""
        noted = [file.aside.note is not None for file in self.aside.files]
        return {key: n for n, key in enumerate(self.keys) if noted[self.aside.file[n]]}

    # ---- the log

    @cached_property
    def _entries(self) -> dict[int, tuple[int, pa.Table]]:
        """The generation and rows of each readable entry, without rows of entries moved aside."""
        form = wal_schema(self.schema)
        moved = self.aside.done | {f.aside.position for f in self.aside.files if f.aside.note}
        found = {}
        for number in positions(self.aside.shard):
            entry = readable_entry(self.aside.shard, number)
            if entry is not None:
                batches = [] if number in moved else [by_id(b, form) for b in entry.batches]
                found[number] = entry.generation or 0, pa.Table.from_batches(batches, form)
        return found

    @cached_property
    def in_log(self) -> dict[object, tuple[int, int]]:
        """The last position in the log of each key, and the generation of the entry there."""
        found = {}
        for number, (generation, rows) in self._entries.items():
            found.update(dict.fromkeys(_keys(rows, self.schema), (number, generation)))
        return found

    @cached_property
    def _ends(self) -> dict[int, int]:
        """The last known position of each generation."""
        found = {generation: number for number, (generation, _) in self._entries.items()}
        for file in self.aside.files:
            own = file.aside.position or 0
            found[file.generation] = max(found.get(file.generation, 0), own)
        return found

    def position(self, row: _Row) -> int:
        """Return the position of a row in the log, or of the last row of its generation."""
        return row.file.aside.position or self._ends.get(row.generation, 0)

    @cached_property
    def _gaps(self) -> tuple[int, int]:
        """The last position without a readable entry, and the last position."""
        last = max(positions(self.aside.shard), default=0)
        missing = (number for number in range(last, 0, -1) if number not in self._entries)
        return next(missing, 0), last

    def has_later_entries(self, row: _Row) -> bool:
        """Return True if the log has every entry after a row."""
        position = self.position(row)
        return 0 < position >= self._gaps[0]

    # ---- generations

    @cached_property
    def generations(self) -> list[tuple[int, set[object]]]:
        """The numbers and keys of the generations that the version has not merged."""
        shard, found = self.aside.shard, []
        manifest = latest(shard)
        for table in manifest.sstables if manifest else ():
            if table.generation > self.merged:
                opened = open_generation(shard, table, self.schema)
                rows = GenerationRows.read([opened], self.schema).keys
                found.append((table.generation, set(_keys(rows, self.schema))))
        return found

    @cached_property
    def quarantined(self) -> set[object]:
        """The keys of rows in quarantine."""
        return set(_keys(read_quarantine(self.current).rows, self.schema))

    # ---- versions of the table

    def _same_table(self, note: Note) -> bool:
        """Return True if the table still has the logs that it had when a file was moved."""
        now, location = mem_wal_entry(self.current.indices), self.current.location
        if now is None or note.version > self.current.version:
            return False
        if note.logs == str(now.uuid) or note.created == str(now.created_at):
            return True
        # the reference recreates the MemWAL entry at each merge
        try:
            between = range(note.version, self.current.version)
            return all(mem_wal_entry(load_snapshot(location, one).indices) for one in between)
        except VersionNotFoundError:
            return False

    @cached_property
    def now(self) -> _Digests:
        """A digest of each row of the table whose key was moved aside, by key."""
        return self._digests(self.current)

    def _before(self, version: int) -> _Digests | None:
        """Return the digests of `now` for an earlier version; ``None`` if it was cleaned up."""
        if version == self.current.version:
            return self.now
        try:
            return self._digests(load_snapshot(self.current.location, version))
        except VersionNotFoundError:
            return None

    def _digests(self, snapshot: Snapshot) -> _Digests:
        """Return digests over the current columns, which another version can name differently."""
        called = {(f.id, f.logical_type): f.name for f in snapshot.manifest.schema.fields}
        fields = [(f.id, f.logical_type) for f in self.schema.fields]
        keys = [(f.id, f.logical_type) for f in self.schema.primary_key]
        if not set(keys) <= called.keys():
            return {}
        names = tuple(called[key] for key in keys)
        columns = tuple(
            ak.combine_chunks(self.aside.rows.column(f.name)) for f in self.schema.primary_key
        )
        others = [called[field] for field in fields if field in called and field not in keys]
        _, rows = rows_of_keys(snapshot, names, columns, others)
        values = [joined(c.chunks, c.type) for c in rows.select([*names, *others]).columns]
        found = digests(values, self._seeds)
        own = rows.select(list(names)).rename_columns([f.name for f in self.schema.primary_key])
        halves = zip(found.first.tolist(), found.second.tolist(), strict=True)
        return dict(zip(_keys(own, self.schema), halves, strict=True))


def _keys(rows: pa.Table, schema: LanceSchema) -> list[object]:
    if not schema.primary_key:
        return [None] * rows.num_rows
    return keys_in(rows, schema).to_pylist()


# ---- the rules: the first verdict of a rule counts


def _of_another_table(evidence: _Evidence, row: _Row) -> Verdict | None:
    if evidence.same_table(row.note):
        return None
    return Verdict(UNSURE, "the table may have other logs since the file was moved")


def _was_merged(_: _Evidence, row: _Row) -> Verdict | None:
    if row.generation > row.note.merged or not row.generation:
        return None
    return Verdict(OLDER, f"version {row.note.version} had merged generation {row.generation}")


def _later_aside(evidence: _Evidence, row: _Row) -> Verdict | None:
    if evidence.last[row.key] == row.number:
        return None
    return Verdict(OLDER, "a later row of the key was also moved aside")


def _later_in_log(evidence: _Evidence, row: _Row) -> Verdict | None:
    (found, generation), position = evidence.in_log.get(row.key, (0, 0)), evidence.position(row)
    if not found or found <= position:
        return None
    if position or generation > row.generation:
        return Verdict(OLDER, f"entry {found} of the log has a later row")
    return Verdict(UNSURE, f"entry {found} of the log has the key and may be later")


def _later_generation(evidence: _Evidence, row: _Row) -> Verdict | None:
    if evidence.has_later_entries(row):
        return None
    for generation, keys in evidence.generations:
        if generation > row.generation and row.key in keys:
            return Verdict(OLDER, f"generation {generation} has a later row")
        if generation == row.generation and row.key in keys:
            return Verdict(UNSURE, f"generation {generation} has the key and may be later")
    return None


def _damaged(_: _Evidence, row: _Row) -> Verdict | None:
    return Verdict(UNSURE, row.file.fault) if row.file.fault else None


def _lacks_columns(_: _Evidence, row: _Row) -> Verdict | None:
    if not row.file.lacking:
        return None
    names = ", ".join(map(repr, sorted(row.file.lacking)))
    return Verdict(UNSURE, f"the row was put before the table had {names}")


def _in_quarantine(evidence: _Evidence, row: _Row) -> Verdict | None:
    if row.key not in evidence.quarantined:
        return None
    return Verdict(UNSURE, "the quarantine has a row of the key")


def _in_table(evidence: _Evidence, row: _Row) -> Verdict | None:
    """Compare the table's row of the key with the row of the version before the repair."""
    version, now = row.note.version, evidence.now.get(row.key)
    before = evidence.before(version)
    if before is None and now is not None:
        return Verdict(UNSURE, f"the table has the key, and version {version} was cleaned up")
    if before is not None and now != before.get(row.key):
        if evidence.merged == row.note.merged:
            return Verdict(OLDER, f"the table's row was written after version {version}")
        return Verdict(UNSURE, f"the table's row changed after version {version}")
    if now is None and not evidence.has_later_entries(row) and evidence.merged >= row.generation:
        return Verdict(UNSURE, f"a merge after version {version} may have deleted the key")
    return None


def _is_back(evidence: _Evidence, row: _Row) -> Verdict | None:
    """Without a key: a call that was stopped may have put back the first rows of a file."""
    if evidence.aside.offsets[row.number] >= evidence.back(row.note):
        return None
    return Verdict(OLDER, "an interrupted call already put the row back")


def _twice(evidence: _Evidence, row: _Row) -> Verdict | None:
    """Without a key: a row of an entry can also be in a generation that was moved aside."""
    same = [
        file
        for file in evidence.aside.files
        if file.aside.generation == row.generation and file is not row.file and not file.fault
    ]
    if not same:
        return None
    if row.file.aside.position is not None:
        return Verdict(OLDER, f"generation {row.generation}, which was moved aside, has the row")
    return Verdict(UNSURE, f"generation {row.generation} was moved aside more than once")


_Rule = Callable[[_Evidence, _Row], Verdict | None]

_KEYED: tuple[_Rule, ...] = (
    _of_another_table,
    _was_merged,
    _later_aside,
    _later_in_log,
    _later_generation,
    _damaged,
    _lacks_columns,
    _in_quarantine,
    _in_table,
)
#: without a primary key no row replaces another
_PLAIN: tuple[_Rule, ...] = (
    _is_back,
    _of_another_table,
    _was_merged,
    _twice,
    _damaged,
    _lacks_columns,
)

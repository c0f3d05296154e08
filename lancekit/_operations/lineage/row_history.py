"""The history of rows: every version that created, changed or deleted them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._checked import is_whole
from lancekit._format import row_address
from lancekit._format.deletions import to_offsets
from lancekit._format.row_id_bounds import row_id_bounds
from lancekit._legible import literals, python_rows, python_value, shown
from lancekit._operations.lineage.trace import (
    Compared,
    Step,
    VersionPair,
    is_first,
    places_in,
    step_back,
    version_pairs,
)
from lancekit._pipeline.diff.match import contained_in
from lancekit._pipeline.diff.row_values import Addresses, Side, read_rows, row_values, seen
from lancekit._pipeline.diff.values import Digests, Seeds, differing, digests, plain_values
from lancekit._scan.expressions.objects import Filter
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.expressions.texts import as_sql
from lancekit._scan.fragments.reader import FragmentReader, Offsets
from lancekit._scan.fragments.source import FragmentSource, fragment_sources, sources_for
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    RowOutOfRangeError,
    UnsupportedFeatureError,
)

#: a filter that selects more rows than this is refused
MOST_ROWS = 100

_NO_KEYS = pa.table({})
#: physical rows that are searched together
_BLOCK_ROWS = 1 << 18

#: the columns that identify a row, and their values
Key: TypeAlias = Mapping[str, object]
Kind: TypeAlias = Literal["born", "updated", "died", "found"]
Cells: TypeAlias = dict[str, tuple[object, object]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A change of a row by a version; `before` is the previous readable version, if any."""

    kind: Kind
    key: dict[str, object]
    version: Snapshot
    before: Snapshot | None
    cells: Cells


def history_of(snapshot: Snapshot, rows: Key | Filter | int) -> list[Entry]:
    """Return the changes of rows up to a version, newest first.

    rows: key columns with their values, a filter that selects rows of the version, or a row id.

    Raises ColumnNotFoundError: a column does not exist.
    Raises PredicateError: the filter does not parse.
    Raises InvalidArgumentError: no version ever had such a row, the filter selects no row or too
        many, or rows cannot be matched with other versions.
    """
    wanted = _wanted(snapshot, rows)
    return list(_Walk(snapshot, wanted).entries())


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The rows to follow: by row ids, or by keys.

    `keys` has the column names of the newest version.  `unique`: no two rows share a key.
    """

    ids: tuple[int, ...]
    keys: pa.Table
    unique: bool


def _wanted(snapshot: Snapshot, rows: Any) -> _Wanted:
    schema, stable = snapshot.manifest.schema, snapshot.manifest.has_stable_row_ids
    primary = [field.name for field in schema.primary_key]
    if is_whole(rows):
        if not stable:
            raise UnsupportedFeatureError(
                "Row ids of this table are row addresses, valid only in their own version.",
                hint="Identify the row by columns: row_history({'id': 7}).",
            )
        if not 0 <= int(rows) < 1 << 64:
            raise RowOutOfRangeError(
                f"Row id {rows} is out of range.", hint="Row ids are from 0 to 2**64 - 1.", row=rows
            )
        return _Wanted((int(rows),), _NO_KEYS, unique=True)
    if isinstance(rows, Mapping):
        return _Wanted((), _as_table(snapshot, rows), bool(primary) and {*primary} <= {*rows})
    if not stable and not primary:
        raise InvalidArgumentError(
            "Rows cannot be matched between versions: the table has neither stable row ids nor a "
            "primary key.",
            hint="Pass columns that identify the row: row_history({'id': 7}).",
        )
    found = _selected(snapshot, rows, ["_rowid"] if stable else primary)
    if stable:
        return _Wanted(tuple(found["_rowid"].to_pylist()), _NO_KEYS, unique=True)
    return _Wanted((), found, unique=True)


def _as_table(snapshot: Snapshot, key: Key) -> pa.Table:
    if not key:
        raise InvalidArgumentError(
            "The key is empty.", hint="Pass column values, such as {'id': 7}."
        )
    columns = {}
    for name, value in key.items():
        if not isinstance(name, str):
            raise InvalidTypeError(
                f"Key columns must be strings, got {shown(name)}.",
                hint="Pass column values, such as {'id': 7}.",
            )
        kind = seen(snapshot).field(name).to_arrow().type
        try:
            columns[name] = pa.array([value], kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise InvalidArgumentError(
                f"{shown(value)} is not a value of column {name!r} of type {kind}.",
                hint="Pass a value of that type.",
                column=name,
            ) from error
    return pa.table(columns)


def _selected(snapshot: Snapshot, rows: Filter, columns: Sequence[str]) -> pa.Table:
    predicate = Predicate.parse(as_sql(rows), seen(snapshot).to_arrow())
    sources = sources_for(fragment_sources(snapshot, seen(snapshot)), predicate)
    parts, count = [], 0
    for source in sources:
        side, id_ = Side([source], predicate), source.fragment.id
        offsets = side.rows(id_)
        count += len(offsets)
        if count > MOST_ROWS:
            raise InvalidArgumentError(
                f"The filter {rows!s} selects more than {MOST_ROWS} rows.",
                hint="Use blame(), which shows the last change of many rows.",
                limit=MOST_ROWS,
            )
        if len(offsets):
            addresses = row_address.addresses(id_, offsets.astype(np.uint64))
            parts.append(side.read(columns, addresses))
    if not parts:
        raise InvalidArgumentError(
            f"The filter {rows!s} selects no row of version {snapshot.version}.",
            hint="To find a deleted row, pass its key: row_history({'id': 7}).",
        )
    return pa.concat_tables(parts)


class _Finder:
    """Finds rows by id or key in fragments; searches the same files for keys only once."""

    def __init__(self, wanted: _Wanted) -> None:
        self._keys = wanted.keys
        self._seeds = Seeds.drawn()
        self._known: dict[tuple[str, ...], Offsets] = {}
        #: the row ids to find
        self.ids = np.array(wanted.ids, np.uint64)
        #: whether to find keys, too, and the names of their columns in the searched version
        self.by_key = bool(len(wanted.keys))
        self.names: Mapping[str, str] = {}

    def __call__(self, snapshot: Snapshot, places: Sequence[int]) -> Addresses:
        sources = fragment_sources(snapshot, seen(snapshot))
        found = [np.empty(0, np.uint64)]
        if len(self.ids) and sources.stable_row_ids:
            ids = np.sort(self.ids)
            encoded = snapshot.manifest.fragments.encoded
            bounds = row_id_bounds([encoded[place] for place in places])
            holding = (places[at] for at in bounds.candidates(ids).tolist())
            found += [_with_ids(FragmentReader(sources[place]), ids) for place in holding]
        keys = self._digests_in(snapshot) if self.by_key else None
        if keys is not None:
            found += [self._with_key(sources[place], keys) for place in places]
        return np.unique(np.concatenate(found))

    def _digests_in(self, snapshot: Snapshot) -> Digests | None:
        """Return digests of the keys in the types of a version; ``None`` if no row can match."""
        if len(self.names) < len(self._keys.column_names):
            return None
        schema = seen(snapshot)
        columns = []
        for name, now in self.names.items():
            kind = schema.field(now).to_arrow().type
            try:
                columns.append(plain_values(self._keys[name], kind))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the key does not fit the type
                return None
        return digests(columns, self._seeds)

    def _with_key(self, source: FragmentSource, keys: Digests) -> Addresses:
        files = tuple(map(str, source.files))
        offsets = self._known.get(files)
        if offsets is None:
            offsets = self._known[files] = self._offsets(source, keys)
        return _live(FragmentReader(source), offsets) if len(offsets) else np.empty(0, np.uint64)

    def _offsets(self, source: FragmentSource, keys: Digests) -> Offsets:
        """Return which rows of a fragment have one of the keys, including deleted rows."""
        reader = FragmentReader(replace(source, with_deleted=True))
        found = [np.empty(0, np.int64)]
        for start in range(0, reader.physical_rows, _BLOCK_ROWS):
            rows = range(start, min(start + _BLOCK_ROWS, reader.physical_rows))
            table = reader.read([*self.names.values()], rows)
            columns = [ak.combine_chunks(table[name]) for name in self.names.values()]
            mine = digests(columns, self._seeds)
            maybe = np.flatnonzero(np.isin(mine.first, keys.first))
            found.append(start + maybe[contained_in(mine.at(maybe), keys)])
        return np.concatenate(found)


def _with_ids(reader: FragmentReader, ids: Addresses) -> Addresses:
    known = reader.stable_ids
    if known is None:
        return np.empty(0, np.uint64)
    offsets = known.find(ids)
    return _live(reader, offsets[offsets >= 0])


def _live(reader: FragmentReader, offsets: Offsets) -> Addresses:
    return reader.addresses(np.setdiff1d(offsets, to_offsets(reader.deleted).astype(np.int64)))


class _Walk:
    """Follows rows back through the versions of a branch."""

    def __init__(self, snapshot: Snapshot, wanted: _Wanted) -> None:
        self.snapshot = snapshot
        self.wanted = wanted
        self.find = _Finder(wanted)
        self._keyed = bool(len(wanted.keys))

    def entries(self) -> Iterator[Entry]:
        snapshot, wanted = self.snapshot, self.wanted
        self.find.names = {name: name for name in wanted.keys.column_names}
        rows = self.find(snapshot, range(len(snapshot.manifest.fragments)))
        anything, oldest = bool(len(rows)), snapshot
        for versions in version_pairs(snapshot, wanted.keys.column_names):
            oldest = versions.old
            step = self._step(versions, rows)
            yield from self._step_entries(versions, step, rows)
            if not self._keyed:
                self._forget(versions, rows[step.born])
            rows = np.union1d(step.before[~step.born], step.gone)
            anything = anything or bool(len(rows))
            if not self._keyed and len(self.find.ids) == 0:
                return
        if len(rows):
            kind: Kind = "born" if is_first(oldest) else "found"
            for key, cells in self._alone(oldest, rows, dict(self.find.names), new=True):
                yield Entry(kind, key, oldest, None, cells)
        if not anything:
            raise self._not_found()

    def _step(self, versions: VersionPair, rows: Addresses) -> Step:
        wanted = self.wanted
        stable = all(side.manifest.has_stable_row_ids for side in (versions.old, versions.new))
        if self._keyed and len(places_in(rows, versions.changed)):
            self.find.ids = self._facts("_rowid", versions.new, rows)
        self.find.names = versions.older_names

        def step(*, by_key: bool, find_deleted: bool) -> Step:
            self.find.by_key = by_key
            return step_back(
                versions,
                rows,
                on=None if stable or not self._keyed else [*versions.names.values()],
                find=self.find,
                find_deleted=find_deleted or len(rows) < len(self.find.ids),
            )

        if not self._keyed:
            return step(by_key=False, find_deleted=False)
        # unique keys: once all rows are found, no more can exist
        find_deleted = not (wanted.unique and len(rows) == len(wanted.keys))
        if find_deleted or not stable:
            return step(by_key=True, find_deleted=find_deleted)
        # a row is followed by its id alone until it was born
        found = step(by_key=False, find_deleted=False)
        return step(by_key=True, find_deleted=True) if found.born.any() else found

    def _forget(self, versions: VersionPair, rows: Addresses) -> None:
        """Stop the search for rows that no older version can have."""
        created = self._facts("_row_created_at_version", versions.new, rows)
        ids = self._facts("_rowid", versions.new, rows)
        self.find.ids = np.setdiff1d(self.find.ids, ids[created > versions.old.version])

    def _facts(self, name: str, snapshot: Snapshot, rows: Addresses) -> Addresses:
        """Return the values of a hidden column of rows."""
        if not len(rows):
            return rows
        return read_rows(snapshot, rows).read([name], rows)[name].to_numpy()

    def _step_entries(self, versions: VersionPair, step: Step, rows: Addresses) -> Iterator[Entry]:
        ends = versions.new, versions.old
        for key, cells in self._alone(versions.new, rows[step.born], versions.names, new=True):
            yield Entry("born", key, *ends, cells)
        if step.compared is not None and step.updated.any():
            changed = _cells(step.compared, step.before[step.updated], rows[step.updated])
            keys = self._keys(versions.new, rows[step.updated], versions.names)
            for key, cells in zip(keys, changed, strict=True):
                yield Entry("updated", key, *ends, cells)
        for key, cells in self._alone(versions.old, step.gone, versions.older_names, new=False):
            yield Entry("died", key, *ends, cells)

    def _keys(
        self, snapshot: Snapshot, rows: Addresses, names: Mapping[str, str]
    ) -> list[dict[str, object]]:
        """Return the key columns (or ``_rowid``) of rows, under the names of the newest version."""
        read = [*names.values()] if self._keyed else ["_rowid"]
        table = read_rows(snapshot, rows).read(read, rows)
        shown = [*names] if self._keyed else read
        return python_rows(table.rename_columns(shown))

    def _alone(
        self, snapshot: Snapshot, rows: Addresses, names: Mapping[str, str], *, new: bool
    ) -> Iterator[tuple[dict[str, object], Cells]]:
        if not len(rows):
            return
        keys = self._keys(snapshot, rows, names)
        columns = [
            field.name for field in seen(snapshot).fields if field.name not in {*names.values()}
        ]
        values: list[dict[str, object]] = [{}] * len(rows)  # a table without columns has no rows
        if columns:
            values = python_rows(read_rows(snapshot, rows).read(columns, rows))
        for key, row in zip(keys, values, strict=True):
            yield (
                key,
                {
                    name: (None, value) if new else (value, None)
                    for name, value in row.items()
                    if value is not None
                },
            )

    def _not_found(self) -> InvalidArgumentError:
        if self.wanted.ids:
            return RowOutOfRangeError(
                f"No readable version has a row with id {self.wanted.ids[0]}.",
                row=self.wanted.ids[0],
            )
        named = literals(self.wanted.keys.slice(0, 1).to_pylist()[0], " and ")
        return InvalidArgumentError(
            f"No readable version has a row with {named}.", hint="Check the values and their types."
        )


def _cells(compared: Compared, old: Addresses, new: Addresses) -> list[Cells]:
    """Return for each pair of rows its differing values, as (old, new) by column."""
    columns, (olds, news) = compared.plan.columns, compared.sides
    found = [Cells() for _ in old]
    for pair, before, after in zip(
        columns,
        row_values(columns, olds, old, new=False),
        row_values(columns, news, new, new=True),
        strict=True,
    ):
        for place in np.flatnonzero(differing(before, after)).tolist():
            found[place][pair.name] = (python_value(before[place]), python_value(after[place]))
    return found

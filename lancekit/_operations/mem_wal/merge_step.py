"""One commit of a merge: the rows of some generations, and the marks that they are merged.

See docs/format/memwal.md, 7.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._commit.protocol import check_writable
from lancekit._file.columns.split_leaves import columns_of_20
from lancekit._format.mem_wal.shard_manifest import SsTable
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.schema import LanceSchema
from lancekit._legible import cut, literals, plural, warn
from lancekit._operations.checks.constraint_audit import RowConstraints
from lancekit._operations.checks.constraints import Constraint
from lancekit._operations.mem_wal.generation import open_generation
from lancekit._operations.mem_wal.initialize import initialized
from lancekit._operations.mem_wal.newest_rows import GenerationRows, NewestRows, land, prepare_merge
from lancekit._operations.mem_wal.quarantine import (
    keys_in,
    read_quarantine,
    with_facts,
    written_to_quarantine,
)
from lancekit._operations.unmerged.marks import quarantine_ids
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.engine import Choice, EngineName, LocalRunner, choose_engine, spark_engine
from lancekit._pipeline.inputs import ScannedRows
from lancekit._pipeline.source import LocalSource, Source
from lancekit._scan.expressions.condition import Condition
from lancekit._shards.schema import Shard
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    CommitUnknownError,
    ConstraintViolationError,
    LancekitError,
    NullKeyError,
    PredicateError,
    RetryableConflictError,
    SchemaMismatchError,
    ShardError,
    UnsupportedTypeError,
)
from lancekit.options import options

#: how to handle rows that cannot be merged
OnError = Literal["raise", "quarantine"]

#: the most rows that an error shows, and the most characters of each key
_SHOWN = 5
_KEY_CHARACTERS = 100

Mask = npt.NDArray[np.bool_]


class MixedColumnsError(ShardError):
    """Generations with different columns, which one commit cannot merge."""

    kind = "shard"


class WaitingGeneration(NamedTuple):
    """A generation that waits to be merged."""

    shard: Shard
    table: SsTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The result of a step."""

    merged: tuple[WaitingGeneration, ...] = ()
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    quarantined: int = 0
    engine: EngineName = "local"


def engine_of(current: Snapshot, step: Iterable[WaitingGeneration]) -> Choice:
    """Choose the engine of a step by the rows of the table and its generations."""
    rows = sum(each.table.physical_rows or 0 for each in step)
    return choose_engine(current.manifest.num_rows + rows)


@dataclass(frozen=True, slots=True)
class Step:
    """Generations that one commit merges; called with the version to merge into."""

    waiting: tuple[WaitingGeneration, ...]
    on_error: OnError = "raise"

    def __call__(self, current: Snapshot) -> tuple[Snapshot, Landed]:
        """Merge the generations.

        Raises RetryableConflictError: another commit landed first.
        Raises LancekitError: a generation cannot be read or merged.  ``context`` has ``shard`` and
            ``generation``.
        """
        left = self._left(current)
        if not left:
            return current, Landed()
        try:
            return self._merged(current, left)
        except (CommitUnknownError, RetryableConflictError):
            raise
        except LancekitError as error:
            # a concurrent merge can cause the error, by its mark or by removed files
            if self._left(latest_snapshot(current.location)) == left:
                raise
            raise RetryableConflictError(
                f"Generations of shard {left[0].shard.id} were merged by another merger: "
                f"{error.message}",
                read_version=current.version,
            ) from error

    def _left(self, current: Snapshot) -> tuple[WaitingGeneration, ...]:
        merged = initialized(current).merged
        return tuple(w for w in self.waiting if w.table.generation > merged.get(w.shard.id, 0))

    def _merged(
        self, current: Snapshot, left: tuple[WaitingGeneration, ...]
    ) -> tuple[Snapshot, Landed]:
        """Merge generations; rows that the table refuses go to quarantine if `on_error` says so."""
        refused: dict[int, str] = {}
        while True:
            rows = _read(current, left)
            if len(set(rows.lacking)) > 1:
                raise MixedColumnsError("Generations in one commit have different columns.")
            excluded = {**_followers(current, rows), **refused}
            newest = rows.newest(_mask(rows, excluded) if excluded else None)
            try:
                return _land(current, left, rows, newest, excluded)
            except OF_ROWS as error:
                # a concurrent commit may have added a constraint
                current = latest_snapshot(current.location)
                if self._left(current) != left:
                    raise
                found = _refused_rows(current, newest)
                if not found:
                    raise
                if self.on_error == "raise":
                    raise _cannot_be_merged(error, left, rows, found) from error
                refused |= found


def _read(current: Snapshot, waiting: Sequence[WaitingGeneration]) -> GenerationRows:
    schema = current.manifest.schema
    found = LocalRunner().map(lambda one: open_generation(one.shard, one.table, schema), waiting)
    return GenerationRows.read(found, schema)


# ---- rows for the quarantine


def _mask(rows: GenerationRows, excluded: Mapping[int, str]) -> Mask:
    mask = np.zeros(rows.keys.num_rows, bool)
    mask[list(excluded)] = True
    return mask


def _followers(current: Snapshot, rows: GenerationRows) -> dict[int, str]:
    """Return the rows whose key has an earlier row in quarantine, with the reason."""
    schema = current.manifest.schema
    if not (schema.primary_key and quarantine_ids(current)):
        return {}
    keys, known = keys_in(rows.keys, schema), keys_in(read_quarantine(current).rows, schema)
    places = np.flatnonzero(pc.is_in(keys, value_set=known))
    return dict.fromkeys(places.tolist(), "an earlier row of the same key is in quarantine")


def _quarantine_rows(
    waiting: Sequence[WaitingGeneration], rows: GenerationRows, excluded: Mapping[int, str]
) -> pa.Table | None:
    """Return the excluded rows in the form of a quarantine, or ``None``."""
    if not excluded:
        return None
    mask = _mask(rows, excluded)
    places = np.flatnonzero(mask)
    origins = [waiting[number] for number in rows.generation[places]]
    return with_facts(
        rows.rows(mask),
        [one.shard.id for one in origins],
        [one.table.generation for one in origins],
        [excluded[place] for place in places.tolist()],
    )


def _cannot_be_merged(
    error: LancekitError,
    waiting: Sequence[WaitingGeneration],
    rows: GenerationRows,
    found: Mapping[int, str],
) -> LancekitError:
    """Return the error for refused rows: of the same class, with shard, keys and reasons."""
    at = rows.generation[min(found)]
    same = {place: why for place, why in sorted(found.items()) if rows.generation[place] == at}
    shown = dict(list(same.items())[:_SHOWN])
    names = [field.name for field in rows.schema.primary_key] or rows.schema.names
    keys = rows.rows(_mask(rows, shown)).select(names).to_pylist()
    shard, generation = str(waiting[at].shard.id), waiting[at].table.generation
    return type(error)(
        f"Generation {generation} of shard {shard} cannot be merged: the table rejects "
        f"{plural(len(same), 'row')}.",
        details=[
            *(
                f"  the row with {cut(literals(key), _KEY_CHARACTERS)}: {why}"
                for key, why in zip(keys, shown.values(), strict=True)
            ),
            *([f"  and {len(same) - _SHOWN} more"] if len(same) > _SHOWN else []),
            "",
        ],
        hint='Pass on_error="quarantine" to merge all other rows and keep these for correction.',
        **{
            **error.context,
            "shard": shard,
            "generation": generation,
            "keys": keys,
            "reasons": list(shown.values()),
        },
    )


# ---- one commit


def _land(
    current: Snapshot,
    waiting: Sequence[WaitingGeneration],
    rows: GenerationRows,
    newest: NewestRows,
    excluded: Mapping[int, str],
) -> tuple[Snapshot, Landed]:
    check_writable(current)
    engine = engine_of(current, waiting).engine
    highest = {each.shard.id: each.table.generation for each in waiting}
    marks = tuple(CompactedSsTable(*mark) for mark in highest.items())
    with written_to_quarantine(current, _quarantine_rows(waiting, rows, excluded)) as kept:
        live = partial(_source, newest.given, engine)
        work = prepare_merge(current, live, newest.deleted, engine, lacking=newest.lacking)
        landed = land(current, work, (*marks, *kept), doing="merge_mem_wal")
    for each, columns in zip(waiting, rows.replaced, strict=True):
        if columns:
            warn(
                f"The values of columns {', '.join(map(repr, sorted(columns)))} in generation "
                f"{each.table.generation} of shard {each.shard.id} were not merged: the table's "
                "columns were cast or recreated."
            )
    return landed, Landed(
        merged=tuple(waiting),
        inserted=work.inserted,
        updated=work.updated,
        deleted=work.deleted,
        quarantined=len(excluded),
        engine=engine,
    )


def _source(rows: NewestRows, engine: EngineName) -> Source:
    if engine == "spark":  # the tasks read the generations
        source: Source = spark_engine().source(ScannedRows(rows.scan(), rows.reader), None)
        return source
    return LocalSource(rows.reader(), options.source_memory_bytes)


# ---- rows of generations that a table refuses, and the reasons

#: errors of a merge that a row can cause
OF_ROWS = (
    ConstraintViolationError,
    NullKeyError,
    PredicateError,
    SchemaMismatchError,
    UnsupportedTypeError,
)

Check = Callable[[pa.RecordBatch], object]
Refused = tuple[int, str]


def _refused_rows(table: Snapshot, rows: NewestRows) -> dict[int, str]:
    """Return the rows that a version refuses, by their `places`, and the reason for each.

    Conditions on the whole table refuse no single row.
    """
    checks, found = _Checks.of(table), dict[int, str]()
    first = 0
    for batch in rows.reader():
        for row, reason in checks.refused(batch):
            found.setdefault(int(rows.places[first + row]), reason)
        first += batch.num_rows
    return found


@dataclass(frozen=True, slots=True)
class _Checks:
    """The checks that a merge makes on rows."""

    schema: LanceSchema
    constraints: RowConstraints
    is_20: bool

    @classmethod
    def of(cls, table: Snapshot) -> _Checks:
        manifest = table.manifest
        return cls(manifest.schema, RowConstraints.of(table), manifest.new_file_version == "2.0")

    def refused(self, batch: pa.RecordBatch) -> Iterator[Refused]:
        """Yield the rows of a batch that fail a check; a row can be yielded several times."""
        for constraint, condition, _ in self.constraints.conditions:
            try:
                yield from _refused_by(condition.broken.mask(batch), _breaks(constraint))
            except PredicateError:
                yield from _bisected(batch, _row_check(constraint, condition))
        sound = np.ones(batch.num_rows, bool)
        for field in batch.schema:
            if not field.nullable and ak.null_count(nulls := batch.column(field.name)):
                sound &= ~nulls.is_null().to_numpy(zero_copy_only=False)
                yield from _refused_by(nulls.is_null(), f"column {field.name!r} is not nullable")
        left = ak.filter(batch, sound)
        places = np.flatnonzero(sound)
        yield from ((int(places[row]), reason) for row, reason in _bisected(left, self._store))

    def _store(self, batch: pa.RecordBatch) -> None:
        """Convert rows to the form of data files."""
        form = self.schema.to_arrow()
        for rows in cast_all(plan_cast(form, form), [batch]):
            for field in self.schema.fields:
                if self.is_20 and field.children:
                    deque(columns_of_20(rows.column(field.name), field), maxlen=0)


def _refused_by(mask: pa.Array, reason: str) -> Iterator[Refused]:
    return ((int(row), reason) for row in np.flatnonzero(pc.fill_null(mask, False)))


def _breaks(constraint: Constraint) -> str:
    return f"breaks the constraint {constraint.name!r} ({constraint.condition})"


def _row_check(constraint: Constraint, condition: Condition) -> Check:
    def check(batch: pa.RecordBatch) -> None:
        try:
            broken = pc.any(condition.broken.mask(batch)).as_py()
        except PredicateError as error:
            cannot = f"the constraint {constraint.name!r} cannot be computed: {error.message}"
            raise PredicateError(cannot) from error
        if broken:
            raise ConstraintViolationError(_breaks(constraint))

    return check


def _bisected(batch: pa.RecordBatch, check: Check, first: int = 0) -> Iterator[Refused]:
    """Yield the rows that fail a check of whole batches, by bisecting the batch."""
    if not batch.num_rows:
        return
    try:
        check(batch)
    except OF_ROWS as error:
        if batch.num_rows == 1:
            yield first, " ".join(error.message.split())
            return
        half = batch.num_rows // 2
        yield from _bisected(batch.slice(0, half), check, first)
        yield from _bisected(batch.slice(half), check, first + half)

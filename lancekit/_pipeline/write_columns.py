"""New columns for the rows of a fragment, in an additional data file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_kernels as ak
from lancekit._format.fragment import Fragment
from lancekit._pipeline.casts.values import Conversion, convert
from lancekit._pipeline.engine import Runner
from lancekit._pipeline.inputs import as_reader
from lancekit._pipeline.probe import KeyTable
from lancekit._pipeline.write_rows import (
    WriteTarget,
    WriteTask,
    data_file,
    delete_fragments,
    new_data_file,
    opened,
)
from lancekit._scan.expressions.kernels.casts import check_finite
from lancekit._scan.expressions.predicate import ComputedColumn
from lancekit._scan.fragment_rows import ScanRequest, Workers, row_bytes, scan_fragment
from lancekit._scan.fragments.reader import FragmentReader, Offsets
from lancekit._scan.fragments.rebatch import combined, joined, taken, taken_values
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import plan_columns
from lancekit.errors import InvalidArgumentError, InvalidTypeError, LancekitError, type_name
from lancekit.progress import step, users_code


@dataclass(frozen=True, slots=True)
class Calls:
    """The most rows in a call of a user's function, and the number of threads that call it."""

    rows: int
    threads: int = 1


class Maker(Protocol):
    """A maker of new columns for the live rows of a table."""

    @property
    def columns(self) -> Sequence[str]:
        """The stored and hidden columns that the maker reads."""

    @property
    def calls(self) -> Calls | None:
        """The limits on calls; ``None`` for any number of rows, in one thread."""

    def make(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """Return the new columns, with one value for each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsTask:
    """A fragment, and the columns to add to it.  Can be sent to a worker if its maker can.

    The schema of `write` has the new fields with their ids, and new fields of a struct within the
    struct.
    """

    source: FragmentSource
    maker: Maker
    write: WriteTask

    @property
    def num_rows(self) -> int:
        """The number of rows to make values for."""
        return self.source.fragment.num_rows


def write_columns(task: ColumnsTask) -> Fragment:
    """Write the new columns of a fragment to a file; return the fragment with this file added.

    Deleted rows get arbitrary values, because no read returns them; the maker does not get them.
    """
    name = new_data_file()
    with opened(task.write, WriteTarget(task.write.store), name) as (_, writer):
        for batch in _blocks(task):
            writer.write(batch)
        summary = writer.finish()
    fragment = task.source.fragment
    return replace(fragment, files=(*fragment.files, data_file(name, summary)))


def write_beside(
    tasks: Sequence[ColumnsTask], runner: Runner, finish: Callable[[], None] | None = None
) -> list[Fragment]:
    """Write the new columns of several fragments, and return the fragments uncommitted.

    ``finish`` is called after all are written.  If anything raises, even the user's function or an
    interrupt, the files of all fragments are removed.
    """
    work = _Writing(as_results=runner.name != "local")
    found: list[Fragment | LancekitError] = []
    try:
        found = runner.map(work, tasks)
        written = list(map(_succeeded, found))
        if finish is not None:
            finish()
    except BaseException:
        known = [result for result in found if isinstance(result, Fragment)] or work.written
        for task in tasks[:1]:
            delete_fragments(task.write.store, map(last_file, known))
        raise
    return written


def _succeeded(result: Fragment | LancekitError) -> Fragment:
    if isinstance(result, LancekitError):
        raise result
    return result


@dataclass(frozen=True, slots=True)
class _Writing:
    """A function that writes columns, and records the fragments, to remove their files on errors.

    On Spark, an error of lancekit is returned, because workers can only return results.  In this
    process, it is raised and stops the other tasks.
    """

    as_results: bool
    written: list[Fragment] = field(default_factory=list)

    def __call__(self, task: ColumnsTask) -> Fragment | LancekitError:
        try:
            fragment = write_columns(task)
        except LancekitError as error:
            if not self.as_results:
                raise
            return error
        self.written.append(fragment)
        return fragment


def last_file(fragment: Fragment) -> Fragment:
    """Return a fragment with only the file that was added."""
    return replace(fragment, files=fragment.files[-1:])


def _blocks(task: ColumnsTask) -> Iterator[pa.RecordBatch]:
    reader, columns = FragmentReader(task.source), list(task.maker.columns)
    arrow = task.write.schema.to_arrow()
    request = ScanRequest(outputs=plan_columns(task.source.schema, columns or ["_rowaddr"]))
    rows = max(request.block_bytes // row_bytes(task.source.schema, request), request.batch_rows)
    for start in range(0, reader.physical_rows, rows):
        stop = min(start + rows, reader.physical_rows)
        live = reader.live_between(start, stop)
        made = _made(task.maker, reader.read(columns, live)) if len(live) else None
        whole = [
            blank(f, stop - start) if made is None else _spread(made[at], live, start, stop)
            for at, f in enumerate(arrow)
        ]
        yield from pa.table(whole, schema=arrow).to_batches()


def _made(maker: Maker, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
    """Make the columns of some rows, batch by batch if the maker limits its calls."""
    calls = maker.calls
    if calls is None:
        made = maker.make(rows)
        step(rows.num_rows)
        return made
    whole = combined(rows)
    batches = [whole.slice(at, calls.rows) for at in range(0, rows.num_rows, calls.rows)]
    work = (partial(maker.make, batch) for batch in batches)
    parts = []
    with Workers(calls.threads) as workers:
        results = workers.results(work) if calls.threads > 1 else (do() for do in work)
        for batch, made in zip(batches, results, strict=True):
            parts.append(made)
            step(batch.num_rows)
    return [_joined(columns) for columns in zip(*parts, strict=True)]


def _joined(parts: Sequence[pa.Array | pa.ChunkedArray]) -> pa.ChunkedArray:
    chunks = [p.chunks if isinstance(p, pa.ChunkedArray) else [p] for p in parts]
    return pa.chunked_array(list(chain.from_iterable(chunks)), parts[0].type)


def _spread(
    values: pa.Array | pa.ChunkedArray, live: Offsets | range, start: int, stop: int
) -> pa.Array | pa.ChunkedArray:
    """Put the values of live rows at their offsets; a deleted row repeats the value before it."""
    if isinstance(live, range):
        return values
    places = np.searchsorted(live, np.arange(start, stop), side="right") - 1
    rows = np.maximum(places, 0)
    return ak.take(values, rows) if isinstance(values, pa.Array) else taken_values(values, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class NullsTask:
    """A fragment, and a column in which to count nulls.  Can be sent to a worker."""

    source: FragmentSource
    path: str

    @property
    def num_rows(self) -> int:
        """The number of rows to read, deleted rows included."""
        return self.source.fragment.physical_rows


def count_nulls(task: NullsTask) -> int:
    """Count the live rows of a fragment that are null in a column."""
    request = ScanRequest(outputs=plan_columns(task.source.schema, [task.path]))
    return sum(ak.null_count(table.column(0)) for table in scan_fragment(task.source, request))


# ---- makers


@dataclass(frozen=True, slots=True)
class Computed:
    """A maker that evaluates SQL expressions, and casts them to types, perhaps dictionaries."""

    expressions: tuple[ComputedColumn, ...]
    types: tuple[pa.DataType, ...]
    calls: None = None

    @property
    def columns(self) -> Sequence[str]:
        """The columns that the expressions read."""
        return sorted({name for e in self.expressions for name in e.columns}) or ["_rowaddr"]

    def make(self, rows: pa.Table) -> Sequence[pa.Array]:
        """Evaluate the expressions."""
        pairs = zip(self.expressions, self.types, strict=True)
        return [convert(expression.evaluate(rows), kind) for expression, kind in pairs]


@dataclass(frozen=True, slots=True)
class Converted:
    """A maker that casts stored columns to other types."""

    columns: tuple[str, ...]
    conversions: tuple[Conversion, ...]
    calls: None = None

    def make(self, rows: pa.Table) -> Sequence[pa.ChunkedArray]:
        """Cast each column."""
        return [
            conversion.apply(column)
            for conversion, column in zip(self.conversions, rows.columns, strict=True)
        ]


def returned_rows(
    function: Callable[[pa.RecordBatch], object],
    batch: pa.RecordBatch,
    like: pa.Schema | None = None,
) -> pa.RecordBatchReader:
    """Call a user's function on a batch; raise ``InvalidTypeError`` if it returns no rows."""
    try:
        returned = users_code().within(lambda: function(batch))
    except (AttributeError, TypeError) as error:
        if "pyarrow" in str(error):
            error.add_note("The function receives a pyarrow.RecordBatch, not a pandas frame.")
        raise
    try:
        return as_reader(returned, like=like)
    except InvalidTypeError as error:
        inner = getattr(function, "func", function)  # the function of a batch_udf or a partial
        name = getattr(inner, "__name__", repr(inner))
        what = "None" if returned is None else f"a {type_name(returned)}"
        raise InvalidTypeError(
            f"The function {name} returned {what}: {error.message}",
            hint="Return the new columns as a record batch, a table, a data frame, or a dict of "
            "columns by their names.",
            function=name,
        ) from error


@dataclass(frozen=True, slots=True)
class Made:
    """A maker that calls a user's function on record batches."""

    function: Callable[[pa.RecordBatch], object]
    columns: tuple[str, ...]
    schema: pa.Schema
    calls: Calls

    def make(self, rows: pa.Table) -> Sequence[pa.ChunkedArray]:
        """Call the function on a batch."""
        (batch,) = ak.combine_chunks(rows).to_batches()
        return self.call(batch).columns

    def call(self, batch: pa.RecordBatch) -> pa.Table:
        """Call the function on one batch, and check its result."""
        made = returned_rows(self.function, batch, self.schema).read_all()
        if made.num_rows != batch.num_rows:
            raise InvalidArgumentError(
                f"The function returned {made.num_rows} rows for {batch.num_rows}.",
                hint="Return one row for each row of the batch, in the same order.",
            )
        if sorted(made.column_names) != sorted(self.schema.names):
            raise InvalidArgumentError(
                "Output schema of function does not match the expected schema: it returned "
                f"columns {made.column_names}, and before {self.schema.names}.",
                hint="Return the same columns for each batch.",
            )
        try:
            made = made.select(self.schema.names)
            found = ak.cast(made, self.schema)
            for before, after in zip(made.columns, found.columns, strict=True):
                check_finite(ak.combine_chunks(before), ak.combine_chunks(after))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise InvalidArgumentError(
                f"The function returned {made.schema.types}, which cannot be converted to "
                f"{self.schema.types}: {str(error).splitlines()[0]}.",
                hint="Return columns of fixed types, or pass reader_schema=.",
            ) from error
        return found


@dataclass(slots=True)
class Streamed:
    """A maker that takes columns from a stream in row order.  Cannot be sent to a worker."""

    batches: Iterator[pa.RecordBatch]
    schema: pa.Schema
    columns: tuple[str, ...] = ()
    calls: None = None
    _rest: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        self._rest = self.schema.empty_table()

    def make(self, rows: pa.Table) -> Sequence[pa.ChunkedArray]:
        """Take the next values, one for each row."""
        while self._rest.num_rows < rows.num_rows:
            batch = next(self.batches, None)
            if batch is None:
                raise InvalidArgumentError(
                    "Stream ended before producing values for all rows in dataset: "
                    "the new columns have fewer rows.",
                    hint="Pass one row for each row of the dataset, in its order.",
                )
            new = pa.Table.from_batches([batch], self.schema)
            self._rest = pa.concat_tables([self._rest, new])
        taken = self._rest.slice(0, rows.num_rows)
        self._rest = self._rest.slice(rows.num_rows)
        return list(taken.columns)

    def finish(self) -> None:
        """Raise ``InvalidArgumentError`` if the stream has more rows."""
        if self._rest.num_rows or any(batch.num_rows for batch in self.batches):
            raise InvalidArgumentError(
                "Stream produced more values than expected for dataset: "
                "the new columns have more rows.",
                hint="Pass one row for each row of the dataset, in its order.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A maker that looks up columns of another table by a key.

    A row without a match gets nulls, or keeps its values if `old` names its columns.  If several
    rows have one key, the last counts, because `keys` and `values` are in reverse order.
    """

    key: str
    keys: KeyTable
    values: pa.Table
    old: tuple[str, ...] = ()
    calls: None = None

    @classmethod
    def by(cls, table: pa.Table, left_on: str, right_on: str, old: Iterable[str] = ()) -> Joined:
        """Prepare the lookup of a table's rows by one of its columns."""
        backwards = taken(table, np.arange(table.num_rows)[::-1])
        key = backwards.column(right_on)
        keys = KeyTable((left_on,), (joined(key.chunks, key.type),))
        return cls(
            key=left_on, keys=keys, values=backwards.drop_columns([right_on]), old=tuple(old)
        )

    @property
    def columns(self) -> Sequence[str]:
        """The key, and the columns whose values may be kept."""
        return list(dict.fromkeys([self.key, *self.old]))

    def find(self, rows: pa.Table) -> Offsets:
        """Return the position of each row's match in `values`, or -1."""
        codes = self.keys.extend(np.zeros(rows.num_rows, np.int64), 0, rows.column(self.key))
        if not len(self.keys.first_rows):
            return np.full(rows.num_rows, -1)
        return np.where(codes < 0, -1, self.keys.first_rows[np.maximum(codes, 0)])

    def make(self, rows: pa.Table) -> Sequence[pa.ChunkedArray]:
        """Look up the values of the rows."""
        found = self.find(rows)
        if not self.old:
            places = pa.array(found, mask=found < 0)
            return [taken_values(column, places) for column in self.values.columns]
        kept = np.arange(rows.num_rows)
        places = pa.array(np.where(found < 0, kept, found + rows.num_rows))
        return [
            taken_values(pa.chunked_array([*rows.column(name).chunks, *column.chunks]), places)
            for name, column in zip(self.old, self.values.columns, strict=True)
        ]


# ---- values of deleted rows, which no read returns


def blank(field: pa.Field, rows: int) -> pa.Array:
    """Return nulls, or zeros and empty values for a field that is not nullable."""
    return pa.nulls(rows, field.type) if field.nullable else _zeros(field.type, rows)


def _zeros(kind: pa.DataType, rows: int) -> pa.Array:
    if pt.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays([blank(f, rows) for f in fields], fields=fields)
    if pt.is_fixed_size_list(kind):
        items = blank(kind.value_field, rows * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(items, type=kind)
    if pt.is_dictionary(kind):
        values = _zeros(kind.value_type, 1)
        return pa.DictionaryArray.from_arrays(_zeros(kind.index_type, rows), values)
    offsets = pa.py_buffer(bytes(8 * (rows + 1)))
    if pt.is_map(kind) or pt.is_list(kind) or pt.is_large_list(kind):
        items = pa.nulls(0, kind.field(0).type)
        return pa.Array.from_buffers(kind, rows, [None, offsets], children=[items])
    try:
        width = kind.bit_width
    except ValueError:  # text and bytes
        return pa.Array.from_buffers(kind, rows, [None, offsets, pa.py_buffer(b"")])
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(bytes(width * rows // 8 + 8))])

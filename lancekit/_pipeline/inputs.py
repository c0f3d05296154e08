"""Conversion of the caller's rows to a stream of Arrow batches, and how often it can be repeated.

Types are recognised by their protocols and modules, without importing their libraries: a process
that writes a dataset may never have loaded Polars.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
import pyarrow as pa

from lancekit._format.column_names import check_column_name
from lancekit._format.extensions import stored_batch, stored_schema
from lancekit._legible import shown, warn
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.casts.python_values import Guide, cast_if_exact, python_array
from lancekit._pipeline.casts.values import LossError
from lancekit._pipeline.frames import frame_columns, numpy_array, polars_reader, series_array
from lancekit.errors import InvalidArgumentError, InvalidTypeError, SchemaMismatchError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset as pads

    from lancekit._scan.scan import Scan


_ACCEPTED = (
    "a pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner; a LanceDataset, a "
    "fragment or scanner of one; a list or iterable of record batches; a pandas or Polars frame; "
    "a dict of columns; a list of dicts; anything with __arrow_c_stream__ or __arrow_c_array__; "
    "or a Spark DataFrame"
)


def is_spark_dataframe(data: object) -> TypeGuard[Any]:
    """Return True for a Spark DataFrame, classic or Connect, without importing PySpark.

    Examples
    --------
    >>> is_spark_dataframe([1])
    False
    """
    return _is_of_spark(data, "DataFrame")


def is_spark_column(value: object) -> bool:
    """Return True for a Spark Column, classic or Connect, without importing PySpark."""
    return _is_of_spark(value, "Column")


def _is_of_spark(value: object, name: str) -> bool:
    return any(
        cls.__module__.startswith("pyspark.sql.") and cls.__name__ == name
        for cls in type(value).__mro__
    )


def loaded_type(module: str, name: str) -> tuple[type, ...]:
    """Return a library's type if the library is loaded; otherwise no object of the type exists."""
    found = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()


@dataclass(frozen=True, slots=True)
class _Expected:
    """The known part of the rows' schema before they are read."""

    schema: pa.Schema | None = None
    like: pa.Schema | None = None

    @property
    def names(self) -> set[str]:
        known = self.like if self.schema is None else self.schema
        return set() if known is None else set(known.names)

    def guide(self, name: str, *, nan_is_null: bool = False) -> Guide:
        """Return the guide to the conversion of a column's Python values."""
        given = self.schema is not None and self.schema.get_field_index(name) >= 0
        known = self.schema if given else self.like
        at = -1 if known is None else known.get_field_index(name)
        kind = None if known is None or at < 0 else known.field(at).type
        return Guide(kind, given=given, nan_is_null=nan_is_null)


def _from_pandas(frame: pd.DataFrame, expected: _Expected) -> pa.RecordBatchReader:
    try:
        columns = dict(frame_columns(frame, expected.names, only=expected.schema is not None))
    except ValueError as error:
        raise SchemaMismatchError(
            f"the pandas frame cannot be converted to a table: {error}.",
            hint="Give every column its own name.",
        ) from error
    arrays = {
        name: _column(name, series, expected.guide(name, nan_is_null=True))
        for name, series in columns.items()
    }
    return pa.table(arrays).to_reader()


def _from_batches(items: Iterable[object], expected: _Expected) -> pa.RecordBatchReader:
    """Stream record batches or tables; the first one determines the schema."""
    batches = _flatten(iter(items))
    first = next(batches, None)
    if first is None:
        known = expected.schema or expected.like
        if not known:
            raise InvalidTypeError(
                "an empty list of rows has no schema.",
                hint="Pass schema= with the columns (those of a dataset are ds.schema), or leave "
                "the call out if there are no rows.",
            )
        return pa.RecordBatchReader.from_batches(known, [])
    return pa.RecordBatchReader.from_batches(
        first.schema, _of_one_schema(first.schema, chain([first], batches))
    )


def _flatten(items: Iterator[object]) -> Iterator[pa.RecordBatch]:
    for number, item in enumerate(items):
        if isinstance(item, pa.Table):
            # A table without rows may have no batch, but its schema still counts.
            yield from item.to_batches() or [_empty(item.schema)]
        elif isinstance(item, pa.RecordBatch):
            yield item
        else:
            raise InvalidTypeError(
                f"item {number} of the rows is a {type(item).__name__}, not a record batch.",
                hint="Pass record batches, or a list of dicts.",
            )


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _of_one_schema(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches):
        if not batch.schema.equals(schema):
            differing = [str(f) for f in batch.schema if f not in list(schema)]
            raise SchemaMismatchError(
                f"batch {number} has another schema than the first: "
                f"{', '.join(differing) or 'columns are missing'}.",
                hint="Cast the batches to one schema.",
                batch=number,
            )
        yield batch


def _from_sequence(data: Sequence[Any], expected: _Expected) -> pa.RecordBatchReader:
    if data and all(issubclass(cls, Mapping) for cls in set[type](map(type, data))):
        names = dict.fromkeys(chain.from_iterable(data))
        if expected.schema is not None:
            names |= dict.fromkeys(expected.schema.names)
        elif any(len(row) < len(names) for row in data):
            _warn_of_gaps(data, names)
        # Arrow would take the names from the first row, and drop all later names.
        columns = {name: [row.get(name) for row in data] for name in names}
        return _from_columns(columns, expected)
    return _from_batches(data, expected)


def _warn_of_gaps(rows: Sequence[Mapping[str, object]], names: Iterable[str]) -> None:
    lacking = ((name, [at for at, row in enumerate(rows) if name not in row]) for name in names)
    gaps = [f"{name!r} in {len(at)} (first: row {at[0]})" for name, at in lacking if at]
    more = f" and {len(gaps) - 3} more keys" if len(gaps) > 3 else ""
    warn(
        f"Keys are missing in some of {len(rows)} rows, and become null: {', '.join(gaps[:3])}"
        f"{more}. Give every row all keys, with None for null, or pass schema=. A merge keeps old "
        "values only of columns that no row has."
    )


def _from_columns(data: Mapping[str, object], expected: _Expected) -> pa.RecordBatchReader:
    for name in data:
        if not isinstance(name, str):
            raise InvalidTypeError(f"column names must be text, got {shown(name)}.")
        check_column_name(name)
    arrays = {name: _column(name, data[name], expected.guide(name)) for name in data}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} ({length})" for name, length in lengths.items())
        raise SchemaMismatchError(f"the columns must have the same length, got {listed}.")
    return pa.table(arrays).to_reader()


def _column(name: str, values: object, guide: Guide) -> pa.Array | pa.ChunkedArray:
    """Make one column; typed values keep their type, Python objects get a type that fits."""
    try:
        return _column_array(values, guide)
    except LossError as loss:
        raise SchemaMismatchError(
            f"the values of {name!r} cannot be converted to a column: {shown(loss.value)} in row "
            f"{loss.index} {loss.reason}.",
            hint="Convert the values of a column to one type, or leave the row out.",
            column=name,
            row=loss.index,
            value=loss.value,
        ) from loss
    except InvalidTypeError as error:
        raise SchemaMismatchError(
            f"the values of {name!r} cannot be converted to a column: {error.message}",
            hint=error.hint,
            column=name,
        ) from error
    except (pa.ArrowException, OverflowError, TypeError, ValueError, RecursionError) as error:
        raise SchemaMismatchError(
            f"the values of {name!r} cannot be converted to a column: {error!s:.200}.", column=name
        ) from error


def _column_array(values: Any, guide: Guide) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, loaded_type("pandas", "Series")):
        return series_array(values, replace(guide, nan_is_null=True))
    if isinstance(values, memoryview):
        values = np.asarray(values)
    if isinstance(values, np.ndarray):
        is_python = values.dtype == object and values.ndim
        return _column_array(list(values), guide) if is_python else numpy_array(values)
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if hasattr(values, "__arrow_array__") or hasattr(values, "__arrow_c_array__"):
        return pa.array(values)
    if hasattr(values, "__array__"):
        return _column_array(np.asarray(values), guide)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidTypeError(
            f"{shown(values)} is one value.",
            hint="Pass a list of values for each column, or a list of rows: [{...}, {...}].",
        )
    return cast_if_exact(
        python_array(values if isinstance(values, list) else [*values], guide), guide
    )


#: types that scan, and types with a method that returns a scanner
_SCANNERS = (("pyarrow.dataset", "Scanner"), ("lancekit._api.scanner", "LanceScanner"))
_SCANNED = (
    ("pyarrow.dataset", "Dataset"),
    ("lancekit._api.lance_dataset", "LanceDataset"),
    ("lancekit._api.fragment", "LanceFragment"),
)


def _sources() -> Iterator[tuple[tuple[type, ...], Callable[[Any, _Expected], Any]]]:
    """Yield the known types and the function that makes a reader, subclasses first."""
    yield (pa.RecordBatchReader,), lambda data, _: data
    yield (pa.Table,), lambda data, _: data.to_reader()
    yield (pa.RecordBatch,), lambda data, _: pa.Table.from_batches([data]).to_reader()
    yield loaded_type("pandas", "DataFrame"), _from_pandas
    yield loaded_type("polars", "DataFrame"), lambda data, _: polars_reader(data)
    yield loaded_type("polars", "LazyFrame"), lambda data, _: polars_reader(data.collect())
    for module, name in _SCANNERS:
        yield loaded_type(module, name), lambda data, _: data.to_reader()
    yield loaded_type("pyarrow.dataset", "FileSystemDataset"), _from_files
    for module, name in _SCANNED:
        yield loaded_type(module, name), lambda data, _: data.scanner().to_reader()
    yield (Mapping,), _from_columns


def _from_files(files: pads.FileSystemDataset, _: _Expected) -> pa.RecordBatchReader:
    from pyarrow.dataset import CsvFileFormat

    if not isinstance(files.format, CsvFileFormat):
        return files.scanner().to_reader()
    from lancekit._pipeline.csv_rows import csv_reader

    return csv_reader(files, files.format)


def is_listed(data: object) -> bool:
    """Return True if the rows have a type of `_sources`, and are not only compatible with one."""
    return any(isinstance(data, types) for types, _ in _sources())


def _not_rows(data: object) -> InvalidTypeError:
    kind = f"{type(data).__module__}.{type(data).__qualname__}"
    hint = f"Pass {_ACCEPTED}."
    if isinstance(data, str | os.PathLike):
        ending = os.fspath(data).rpartition(".")[2]
        opener = f"read_{ending}" if ending in ("csv", "parquet") else "dataset"
        hint = f"Read the rows of a path: lk.{opener}({os.fspath(data)!r})."
    elif type(data).__name__ == "Series":  # of pandas: a column, or a row with names as index
        name = getattr(data, "name", None)
        frame = f"df[[{name!r}]]" if isinstance(name, str) else "df.iloc[[0]]"
        hint = f"Pass a frame: {frame}, or series.to_frame()."
    return InvalidTypeError(f"rows cannot be read from a {kind}.", hint=hint, type=kind)


@dataclass(frozen=True, slots=True)
class ScannedRows:
    """Rows in stored form: tasks scan them if they can, and this process uses a reader."""

    scan: Scan
    reader: Callable[[], pa.RecordBatchReader]


def as_reader(
    data: object, schema: pa.Schema | None = None, like: pa.Schema | None = None
) -> pa.RecordBatchReader:
    """Convert rows of any accepted type to one stream of record batches.

    Extension types become their storage types; the fields' metadata name them.

    data: one of these forms.  A pyarrow ``Table``, ``RecordBatch``, ``RecordBatchReader``,
        ``Dataset`` or ``Scanner``.  A `LanceDataset`, a fragment or a scanner of one.  A list or
        another iterable of record batches.  A pandas or Polars frame, whose index levels become
        columns, except unnamed row numbers.  A dict of columns, or a list of dicts.  Any object
        with ``__arrow_c_stream__`` or ``__arrow_c_array__``.
    schema: the columns of the rows and their types, to which they are cast without loss.  Keys
        that dicts of a list lack become nulls; without it, a warning says so.
    like: the known part of the schema of a later cast.  Python values get the closest type to it,
        typed values keep their type, and an empty list of rows gets this schema.

    Raises InvalidTypeError: the data has another type.  (A Spark DataFrame is not read here.)
    Raises SchemaMismatchError: batches have different schemas, or rows do not fit the schema.  Or
        rows have no columns, or columns have different lengths or mixed values.

    Examples
    --------
    >>> as_reader([{"x": 1, "y": None}, {"x": 2, "y": "b"}]).read_all().to_pydict()
    {'x': [1, 2], 'y': [None, 'b']}
    """
    if isinstance(data, ScannedRows):
        return data.reader()
    schema = checked_schema(schema)
    reader = _reader(data, _Expected(schema, like))
    if not reader.schema.names and (rows := getattr(data, "num_rows", None)):
        raise SchemaMismatchError(
            f"{rows} rows have no columns, so there is nothing to write.",
            hint="Select the columns to write.",
        )
    stored = _in_stored_form(reader)
    return stored if schema is None else _cast_to(stored_schema(schema), stored)


def _cast_to(schema: pa.Schema, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Cast rows to the schema that the caller named; refuse rows that lose something."""
    if reader.schema.equals(schema, check_metadata=True):
        return reader
    plan = plan_cast(reader.schema, schema, whose="schema=")

    def cast_batches() -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in reader:
            yield from plan.pieces(batch, row)
            row += batch.num_rows

    return pa.RecordBatchReader.from_batches(schema, cast_batches())


def checked_schema(schema: object) -> pa.Schema | None:
    """Return a schema that was passed, after a check that its names are unique.

    Raises InvalidTypeError: it is not an Arrow schema.
    Raises InvalidArgumentError: columns have the same name.
    """
    if schema is None:
        return None
    if not isinstance(schema, pa.Schema):
        raise InvalidTypeError(
            f"schema must be a pyarrow schema, got {shown(schema)}.", argument="schema"
        )
    repeated = [name for name, times in Counter(schema.names).items() if times > 1]
    if repeated:
        raise InvalidArgumentError(
            f"Column {repeated[0]!r} occurs several times in schema.", hint="Rename all but one."
        )
    return schema


def _in_stored_form(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Replace extension types by their storage types, which all other modules expect."""
    given = reader.schema  # a new object on each access
    schema = stored_schema(given)
    if schema is given:
        return reader
    batches = (stored_batch(batch, schema) for batch in reader)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _reader(data: object, expected: _Expected) -> pa.RecordBatchReader:
    """Return a reader of rows of any accepted type."""
    for types, convert in _sources():
        if isinstance(data, types):
            return cast(pa.RecordBatchReader, convert(data, expected))
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            return _reader(pa.record_batch(data), expected)
    except pa.ArrowInvalid as error:
        raise _not_rows(data) from error  # a single column, not a table
    if isinstance(data, list | tuple):
        return _from_sequence(data, expected)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | pa.Array):
        return _from_batches(data, expected)
    raise _not_rows(data)


def scan_of(data: object) -> Scan | None:
    """Return the scan of a dataset, a fragment or a scanner of lancekit, or of `ScannedRows`.

    Return ``None`` for all other data, and for a scanner that sorts, which the scan does not do.
    """
    if isinstance(data, ScannedRows):
        return data.scan
    datasets: object = loaded_type("lancekit._api.lance_dataset", "LanceDataset")
    fragments: Any = loaded_type("lancekit._api.fragment", "LanceFragment")
    scanners: Any = loaded_type("lancekit._api.scanner", "LanceScanner")
    scanner = data.scanner() if isinstance(data, datasets + fragments) else data
    if not isinstance(scanner, scanners):
        return None
    scan: Scan | None = scanner.unsorted
    return scan


# ---- rows that are needed more than once: whether they can be read again, and copies


def is_replayable(data: object) -> bool:
    """Return True if ``as_reader`` can be called again on the data, with the same rows.

    Examples
    --------
    >>> is_replayable({"x": [1]}), is_replayable(iter([]))
    (True, False)
    """
    if isinstance(data, pa.Table | pa.RecordBatch):
        return True
    if isinstance(data, pa.RecordBatchReader | Iterator):
        return False
    one_shot = loaded_type("pyarrow.dataset", "Scanner")
    if isinstance(data, one_shot):
        return False
    return is_spark_dataframe(data) or is_listed(data) or isinstance(data, list | tuple)


def in_memory(data: object) -> bool:
    """Return True if all rows are in memory before they are read.

    Examples
    --------
    >>> in_memory({"x": [1]}), in_memory(iter([]))
    (True, False)
    """
    scanned = chain.from_iterable(loaded_type(*place) for place in (*_SCANNED, _SCANNERS[1]))
    return is_replayable(data) and not isinstance(data, tuple(scanned))


def owned(data: object, schema: pa.Schema | None = None, like: pa.Schema | None = None) -> object:
    """Return rows that do not change when the caller changes the data.

    Arrow reads the memory of NumPy arrays, and so of pandas, without a copy.  Rows that outlive a
    call must be a copy.

    Examples
    --------
    >>> import numpy as np
    >>> mine = np.array([1, 2])
    >>> kept = owned({"x": mine})
    >>> mine[0] = 7
    >>> kept["x"].to_pylist()
    [1, 2]
    """
    if not isinstance(data, (Mapping, *loaded_type("pandas", "DataFrame"))):
        return data
    reader, copy = as_reader(data, schema, like), pa.BufferOutputStream()
    with pa.ipc.new_stream(copy, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return pa.ipc.open_stream(copy.getvalue()).read_all()

"""What a caller may hand over as rows, as one stream of Arrow batches.

Recognised by what they offer, not by importing their libraries: a dataset is often written by a
process that has never loaded Polars.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import pyarrow as pa

from lancekit.errors import InvalidTypeError, SchemaMismatchError
from lancekit.format.extensions import stored_batch, stored_schema
from lancekit.scan.scanner import Scan

__all__ = [
    "as_reader",
    "in_memory",
    "is_replayable",
    "is_spark_column",
    "is_spark_dataframe",
    "owned",
    "replayable",
    "scan_of",
]

_ACCEPTED = (
    "a pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner; a LanceDataset, a "
    "fragment or scanner of one; a list or iterable of record batches; a pandas or Polars frame; "
    "a dict of columns; a list of dicts; anything with __arrow_c_stream__ or __arrow_c_array__; "
    "or a Spark DataFrame"
)


def is_spark_dataframe(data: object) -> bool:
    """Tell whether this is a Spark DataFrame, classic or Connect, without importing PySpark.

    Examples
    --------
    >>> is_spark_dataframe([1])
    False
    """
    return _is_of_spark(data, "DataFrame")


def is_spark_column(value: object) -> bool:
    """Tell whether this is a Spark Column, classic or Connect, without importing PySpark."""
    return _is_of_spark(value, "Column")


def _is_of_spark(value: object, name: str) -> bool:
    return any(
        cls.__module__.startswith("pyspark.sql.") and cls.__name__ == name
        for cls in type(value).__mro__
    )


def _loaded_type(module: str, name: str) -> tuple[type, ...]:
    """Return a library's type if the library is loaded: no object of it can exist otherwise."""
    found = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()


def _from_pandas(frame: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    """Keep the levels of the index that have a name; row numbers are no column.

    An index without a name that is no row number holds data too: it becomes
    ``__index_level_0__``, as in the reference.
    """
    levels = [name for name in frame.index.names if name is not None]
    if not levels and frame.index.nlevels == 1 and frame.index.dtype.kind not in "iu":
        frame = frame.assign(__index_level_0__=frame.index)
    try:
        if levels and (schema is None or set(levels) & set(schema.names)):
            frame = frame.reset_index(levels).reset_index(drop=True)
        return pa.Table.from_pandas(frame, preserve_index=False).to_reader()
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError) as error:
        reason = "; ".join(str(part).strip() for part in error.args)
        raise SchemaMismatchError(
            f"the pandas frame does not make a table: {reason}.",
            hint="Give every column one type, and a name of its own.",
        ) from error


def _from_batches(items: Iterable[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    """Stream record batches or tables; the first one says what the schema is."""
    batches = _flatten(iter(items))
    first = next(batches, None)
    if first is None:
        if schema is None:
            raise InvalidTypeError(
                "an empty list of rows has no schema.", hint="Pass schema= with the columns."
            )
        return schema.empty_table().to_reader()
    return pa.RecordBatchReader.from_batches(
        first.schema, _of_one_schema(first.schema, chain([first], batches))
    )


def _flatten(items: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    for number, item in enumerate(items):
        if isinstance(item, pa.Table):
            # A table of no rows may have no batch; its schema counts all the same.
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


def _from_sequence(data: Sequence[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    if data and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(name for row in data for name in row)
        # Arrow alone would take the names from the first row and drop every later one.
        columns = {name: [row.get(name) for row in data] for name in names}
        return _from_columns(columns, schema)
    return _from_batches(data, schema)


def _from_columns(data: Mapping[str, Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    """Build columns from Python values: those that the schema names get its types."""
    types = {} if schema is None else {field.name: field.type for field in schema}
    arrays: dict[str, Any] = {}
    for name, values in data.items():
        try:
            arrays[name] = (
                values
                if isinstance(values, pa.Array | pa.ChunkedArray)
                else pa.array(values, types.get(name))
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
            expected = f" of type {types[name]}" if name in types else ""
            raise SchemaMismatchError(
                f"the values of {name!r} do not make a column{expected}: "
                f"{str(error).splitlines()[0]}.",
                column=name,
            ) from error
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} ({length})" for name, length in lengths.items())
        raise SchemaMismatchError(f"the columns are of different lengths: {listed}.")
    return pa.table(arrays).to_reader()


def _from_scanner(scanner: Any, _schema: pa.Schema | None) -> pa.RecordBatchReader:
    return scanner.to_reader()


def _from_scanned(dataset: Any, _schema: pa.Schema | None) -> pa.RecordBatchReader:
    return dataset.scanner().to_reader()


def _sources() -> Iterator[tuple[tuple[type, ...], Callable[[Any, pa.Schema | None], Any]]]:
    """List the known types and how each becomes a reader, the special before the general."""
    yield (pa.RecordBatchReader,), lambda data, _: data
    yield (pa.Table,), lambda data, _: data.to_reader()
    yield (pa.RecordBatch,), lambda data, _: pa.Table.from_batches([data]).to_reader()
    yield _loaded_type("pandas", "DataFrame"), _from_pandas
    yield _loaded_type("polars", "DataFrame"), lambda data, _: data.to_arrow().to_reader()
    yield _loaded_type("polars", "LazyFrame"), lambda data, _: data.collect().to_arrow().to_reader()
    yield _loaded_type("pyarrow.dataset", "Scanner"), _from_scanner
    yield _loaded_type("pyarrow.dataset", "Dataset"), _from_scanned
    yield _loaded_type("lancekit.scanner", "LanceScanner"), _from_scanner
    yield _loaded_type("lancekit.dataset", "LanceDataset"), _from_scanned
    yield _loaded_type("lancekit.fragment", "LanceFragment"), _from_scanned
    yield (Mapping,), _from_columns


def _not_rows(data: object) -> InvalidTypeError:
    kind = f"{type(data).__module__}.{type(data).__qualname__}"
    return InvalidTypeError(
        f"rows cannot be read from a {kind}.", hint=f"Pass {_ACCEPTED}.", type=kind
    )


def as_reader(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Turn rows of any accepted kind into one stream of record batches.

    Parameters
    ----------
    data
        A pyarrow ``Table``, ``RecordBatch``, ``RecordBatchReader``, ``Dataset`` or ``Scanner``; a
        `LanceDataset`, a fragment or a scanner of one; a list or another iterable of record
        batches; a pandas or Polars frame; a dict of columns; a list of dicts; or any object with
        ``__arrow_c_stream__`` or ``__arrow_c_array__``.  The row numbers of a pandas frame are
        dropped; index levels that have a name are columns.
    schema
        The types that Python values get, and the columns of an input without any batch.  Arrow
        data keep their own types: casting is the next step.  An extension type becomes its
        storage type; the field's metadata name it.

    Raises
    ------
    InvalidTypeError
        Anything else.  (A Spark DataFrame is not read here.)
    SchemaMismatchError
        Batches of different schemas, columns of different lengths or of mixed values, or rows
        without columns.

    Examples
    --------
    >>> as_reader([{"x": 1}, {"x": 2, "y": "b"}]).read_all().to_pydict()
    {'x': [1, 2], 'y': [None, 'b']}
    """
    reader = _reader(data, schema)
    if not reader.schema.names and getattr(data, "num_rows", None):
        raise SchemaMismatchError(
            f"{data.num_rows} rows have no columns, so they hold nothing to write.",
            hint="Select the columns that are meant.",
        )
    return _in_stored_form(reader)


def _in_stored_form(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Replace extension types by their storage types, which is what the other rooms work on."""
    schema = stored_schema(reader.schema)
    if schema is reader.schema:
        return reader
    batches = (stored_batch(batch, schema) for batch in reader)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    for types, convert in _sources():
        if isinstance(data, types):
            return cast(pa.RecordBatchReader, convert(data, schema))
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            return _reader(pa.record_batch(data), None)
    except pa.ArrowInvalid as error:
        raise _not_rows(data) from error  # one column, not a table
    if isinstance(data, list | tuple):
        return _from_sequence(data, schema)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | pa.Array):
        return _from_batches(data, schema)
    raise _not_rows(data)


def scan_of(data: Any) -> Scan | None:
    """Return the scan of a dataset, a fragment or a scanner of ours; of all else, ``None``.

    That of a scanner which sorts its rows does not say so, and is ``None`` too.
    """
    datasets: Any = _loaded_type("lancekit.dataset", "LanceDataset")
    fragments: Any = _loaded_type("lancekit.fragment", "LanceFragment")
    scanners: Any = _loaded_type("lancekit.scanner", "LanceScanner")
    scanner = data.scanner() if isinstance(data, datasets + fragments) else data
    if not isinstance(scanner, scanners):
        return None
    scan: Scan | None = scanner.unsorted
    return scan


def is_replayable(data: Any) -> bool:
    """Tell whether ``as_reader`` may be called on this more than once, with the same rows.

    Examples
    --------
    >>> is_replayable({"x": [1]}), is_replayable(iter([]))
    (True, False)
    """
    if isinstance(data, pa.RecordBatchReader | Iterator):
        return False
    one_shot = _loaded_type("pyarrow.dataset", "Scanner")
    if isinstance(data, one_shot):
        return False
    known = (*(t for types, _ in _sources() for t in types), list, tuple)
    return is_spark_dataframe(data) or isinstance(data, known)


def in_memory(data: Any) -> bool:
    """Tell whether all of these rows are in memory already, before they are read.

    Examples
    --------
    >>> in_memory({"x": [1]}), in_memory(iter([]))
    (True, False)
    """
    scanned = [
        *_loaded_type("pyarrow.dataset", "Dataset"),
        *_loaded_type("lancekit.scanner", "LanceScanner"),
        *_loaded_type("lancekit.dataset", "LanceDataset"),
        *_loaded_type("lancekit.fragment", "LanceFragment"),
    ]
    return is_replayable(data) and not isinstance(data, tuple(scanned))


def replayable(data: Any, schema: pa.Schema | None = None) -> Any:
    """Return the data itself if it can be read again, else all of its rows as a table.

    A commit that loses against another writer may have to do its work again, with rows that a
    stream gives only once.

    Examples
    --------
    >>> batches = (pa.record_batch({"x": [n]}) for n in range(2))
    >>> replayable(batches).num_rows
    2
    """
    return data if is_replayable(data) else as_reader(data, schema).read_all()


def owned(data: Any, schema: pa.Schema | None = None) -> Any:
    """Return rows that stay as they are when the caller changes theirs.

    Arrow reads NumPy's arrays, and so those of pandas, where they are; what is kept beyond a call
    is a copy of them.

    Examples
    --------
    >>> import numpy as np
    >>> mine = np.array([1, 2])
    >>> kept = owned({"x": mine})
    >>> mine[0] = 7
    >>> kept["x"].to_pylist()
    [1, 2]
    """
    if not isinstance(data, (Mapping, *_loaded_type("pandas", "DataFrame"))):
        return data
    reader, copy = as_reader(data, schema), pa.BufferOutputStream()
    with pa.ipc.new_stream(copy, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return pa.ipc.open_stream(copy.getvalue()).read_all()

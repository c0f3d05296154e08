"""What a caller may hand over as rows, as a stream of batches, and how it is read again.

Recognised by what they offer, not by importing their libraries: a dataset is often written by a
process that has never loaded Polars.
"""

from __future__ import annotations

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
from lancekit._legible import shown
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.casts.python_values import Guide, python_array, towards
from lancekit._pipeline.casts.values import LossError
from lancekit._pipeline.frames import frame_columns, numpy_array, polars_reader, series_array
from lancekit.errors import InvalidArgumentError, InvalidTypeError, SchemaMismatchError

if TYPE_CHECKING:
    import pandas as pd

    from lancekit._scan.scan import Scan


_ACCEPTED = (
    "a pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner; a LanceDataset, a "
    "fragment or scanner of one; a list or iterable of record batches; a pandas or Polars frame; "
    "a dict of columns; a list of dicts; anything with __arrow_c_stream__ or __arrow_c_array__; "
    "or a Spark DataFrame"
)


def is_spark_dataframe(data: object) -> TypeGuard[Any]:
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


def loaded_type(module: str, name: str) -> tuple[type, ...]:
    """Return a library's type if the library is loaded: no object of it can exist otherwise."""
    found = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is known of the rows' columns before they are read."""

    schema: pa.Schema | None = None
    like: pa.Schema | None = None

    @property
    def names(self) -> set[str]:
        known = self.like if self.schema is None else self.schema
        return set() if known is None else set(known.names)

    def guide(self, name: str, *, nan_is_null: bool = False) -> Guide:
        """Return what a column's Python values are to become."""
        given = self.schema is not None and self.schema.get_field_index(name) >= 0
        known = self.schema if given else self.like
        at = -1 if known is None else known.get_field_index(name)
        kind = None if known is None or at < 0 else known.field(at).type
        return Guide(kind, given=given, nan_is_null=nan_is_null)


def _from_pandas(frame: pd.DataFrame, asked: _Asked) -> pa.RecordBatchReader:
    try:
        columns = dict(frame_columns(frame, asked.names, only=asked.schema is not None))
    except ValueError as error:
        raise SchemaMismatchError(
            f"the pandas frame does not make a table: {error}.",
            hint="Give every column a name of its own.",
        ) from error
    arrays = {
        name: _column(name, series, asked.guide(name, nan_is_null=True))
        for name, series in columns.items()
    }
    return pa.table(arrays).to_reader()


def _from_batches(items: Iterable[object], asked: _Asked) -> pa.RecordBatchReader:
    """Stream record batches or tables; the first one says what the schema is."""
    batches = _flatten(iter(items))
    first = next(batches, None)
    if first is None:
        if asked.schema is None:
            raise InvalidTypeError(
                "an empty list of rows has no schema.", hint="Pass schema= with the columns."
            )
        return asked.schema.empty_table().to_reader()
    return pa.RecordBatchReader.from_batches(
        first.schema, _of_one_schema(first.schema, chain([first], batches))
    )


def _flatten(items: Iterator[object]) -> Iterator[pa.RecordBatch]:
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


def _from_sequence(data: Sequence[Any], asked: _Asked) -> pa.RecordBatchReader:
    if data and all(issubclass(cls, Mapping) for cls in set[type](map(type, data))):
        names = dict.fromkeys(chain.from_iterable(data))
        if asked.schema is not None:
            names |= dict.fromkeys(asked.schema.names)
        # Arrow alone would take the names from the first row and drop every later one.
        columns = {name: [row.get(name) for row in data] for name in names}
        return _from_columns(columns, asked)
    return _from_batches(data, asked)


def _from_columns(data: Mapping[str, object], asked: _Asked) -> pa.RecordBatchReader:
    for name in data:
        if not isinstance(name, str):
            raise InvalidTypeError(
                f"a column is called {shown(name)}.", hint="Pass the names of columns as text."
            )
        check_column_name(name)
    arrays = {name: _column(name, data[name], asked.guide(name)) for name in data}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} ({length})" for name, length in lengths.items())
        raise SchemaMismatchError(f"the columns are of different lengths: {listed}.")
    return pa.table(arrays).to_reader()


def _column(name: str, values: object, guide: Guide) -> pa.Array | pa.ChunkedArray:
    """Make one column: what has a type keeps it, Python's objects get the one that holds them."""
    try:
        return _column_array(values, guide)
    except LossError as loss:
        raise SchemaMismatchError(
            f"the values of {name!r} do not make a column: "
            f"{shown(loss.value)} in row {loss.index} {loss.reason}.",
            hint="Bring the values of a column to one type, or leave the row out.",
            column=name,
            row=loss.index,
            value=loss.value,
        ) from loss
    except InvalidTypeError as error:
        raise SchemaMismatchError(
            f"the values of {name!r} do not make a column: {error.message}",
            hint=error.hint,
            column=name,
        ) from error
    except (pa.ArrowException, OverflowError, TypeError, ValueError, RecursionError) as error:
        raise SchemaMismatchError(
            f"the values of {name!r} do not make a column: {error!s:.200}.",
            column=name,
        ) from error


def _column_array(values: Any, guide: Guide) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes):
        raise TypeError(f"{shown(values)} is one value")
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
    return towards(python_array(values if isinstance(values, list) else [*values], guide), guide)


#: what scans, and what has a scanner made of it
_SCANNERS = (("pyarrow.dataset", "Scanner"), ("lancekit._api.scanner", "LanceScanner"))
_SCANNED = (
    ("pyarrow.dataset", "Dataset"),
    ("lancekit._api.lance_dataset", "LanceDataset"),
    ("lancekit._api.fragment", "LanceFragment"),
)


def _sources() -> Iterator[tuple[tuple[type, ...], Callable[[Any, _Asked], Any]]]:
    """List the known types and how each becomes a reader, the special before the general."""
    yield (pa.RecordBatchReader,), lambda data, _: data
    yield (pa.Table,), lambda data, _: data.to_reader()
    yield (pa.RecordBatch,), lambda data, _: pa.Table.from_batches([data]).to_reader()
    yield loaded_type("pandas", "DataFrame"), _from_pandas
    yield loaded_type("polars", "DataFrame"), lambda data, _: polars_reader(data)
    yield loaded_type("polars", "LazyFrame"), lambda data, _: polars_reader(data.collect())
    for module, name in _SCANNERS:
        yield loaded_type(module, name), lambda data, _: data.to_reader()
    for module, name in _SCANNED:
        yield loaded_type(module, name), lambda data, _: data.scanner().to_reader()
    yield (Mapping,), _from_columns


def is_known(data: object) -> bool:
    """Tell whether these rows are of a type that is listed, and not only like one."""
    return any(isinstance(data, types) for types, _ in _sources())


def _not_rows(data: object) -> InvalidTypeError:
    kind = f"{type(data).__module__}.{type(data).__qualname__}"
    return InvalidTypeError(
        f"rows cannot be read from a {kind}.", hint=f"Pass {_ACCEPTED}.", type=kind
    )


@dataclass(frozen=True, slots=True)
class ScannedRows:
    """Rows in stored form that tasks read by a scan, if they can, and this process by a reader."""

    scan: Scan
    reader: Callable[[], pa.RecordBatchReader]


def as_reader(
    data: object, schema: pa.Schema | None = None, like: pa.Schema | None = None
) -> pa.RecordBatchReader:
    """Turn rows of any accepted kind into one stream of record batches.

    Extension types become their storage types; the fields' metadata name them.

    data: a pyarrow ``Table``, ``RecordBatch``, ``RecordBatchReader``, ``Dataset`` or ``Scanner``; a
        `LanceDataset`, a fragment or a scanner of one; a list or another iterable of record
        batches; a pandas or Polars frame; a dict of columns; a list of dicts; or any object with
        ``__arrow_c_stream__`` or ``__arrow_c_array__``.  Index levels of a pandas frame are
        columns, but for row numbers without a name.
    schema: the columns that the rows have, and their types: to these they are cast, if nothing is
        lost.  Keys that no dict of a list has are null.
    like: the schema that they will be cast to later, as far as it is known: Python's values become
        what comes closest to its types, and what has a type keeps it.

    Raises InvalidTypeError: anything else.  (A Spark DataFrame is not read here.)
    Raises SchemaMismatchError: batches of different schemas, columns of different lengths or of
        mixed values, rows without columns, or such as do not fit the schema.

    Examples
    --------
    >>> as_reader([{"x": 1}, {"x": 2, "y": "b"}]).read_all().to_pydict()
    {'x': [1, 2], 'y': [None, 'b']}
    """
    if isinstance(data, ScannedRows):
        return data.reader()
    schema = checked_schema(schema)
    reader = _reader(data, _Asked(schema, like))
    if not reader.schema.names and (rows := getattr(data, "num_rows", None)):
        raise SchemaMismatchError(
            f"{rows} rows have no columns, so they hold nothing to write.",
            hint="Select the columns that are meant.",
        )
    stored = _in_stored_form(reader)
    return stored if schema is None else _cast_to(stored_schema(schema), stored)


def _cast_to(schema: pa.Schema, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Bring rows to the schema that the caller named, and to nothing less."""
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
    """Return a schema that was passed, if each of its columns has a name of its own.

    Raises InvalidTypeError: it is none of Arrow's.
    Raises InvalidArgumentError: columns have the same name.
    """
    if schema is None:
        return None
    if not isinstance(schema, pa.Schema):
        raise InvalidTypeError(
            f"schema is {shown(schema)}.", hint="Pass a pyarrow schema.", argument="schema"
        )
    repeated = [name for name, times in Counter(schema.names).items() if times > 1]
    if repeated:
        raise InvalidArgumentError(
            f"schema has several columns called {repeated[0]!r}.", hint="Rename all but one."
        )
    return schema


def _in_stored_form(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Replace extension types by their storage types, which is what the other rooms work on."""
    given = reader.schema  # each time another object
    schema = stored_schema(given)
    if schema is given:
        return reader
    batches = (stored_batch(batch, schema) for batch in reader)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _reader(data: object, asked: _Asked) -> pa.RecordBatchReader:
    for types, convert in _sources():
        if isinstance(data, types):
            return cast(pa.RecordBatchReader, convert(data, asked))
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            return _reader(pa.record_batch(data), asked)
    except pa.ArrowInvalid as error:
        raise _not_rows(data) from error  # one column, not a table
    if isinstance(data, list | tuple):
        return _from_sequence(data, asked)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | pa.Array):
        return _from_batches(data, asked)
    raise _not_rows(data)


def scan_of(data: object) -> Scan | None:
    """Return the scan of a dataset, a fragment or a scanner of ours, or of `ScannedRows`.

    Of all else it is ``None``.

    That of a scanner which sorts its rows does not say so, and is ``None`` too.
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


# ---- rows beyond one reading: whether they can be read again, and what keeps them as they are


def is_replayable(data: object) -> bool:
    """Tell whether ``as_reader`` may be called on this more than once, with the same rows.

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
    return is_spark_dataframe(data) or is_known(data) or isinstance(data, list | tuple)


def in_memory(data: object) -> bool:
    """Tell whether all of these rows are in memory already, before they are read.

    Examples
    --------
    >>> in_memory({"x": [1]}), in_memory(iter([]))
    (True, False)
    """
    scanned = chain.from_iterable(loaded_type(*place) for place in (*_SCANNED, _SCANNERS[1]))
    return is_replayable(data) and not isinstance(data, tuple(scanned))


def owned(data: object, schema: pa.Schema | None = None, like: pa.Schema | None = None) -> object:
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
    if not isinstance(data, (Mapping, *loaded_type("pandas", "DataFrame"))):
        return data
    reader, copy = as_reader(data, schema, like), pa.BufferOutputStream()
    with pa.ipc.new_stream(copy, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return pa.ipc.open_stream(copy.getvalue()).read_all()

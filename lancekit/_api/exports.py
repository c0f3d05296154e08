"""Rows in and out of other libraries: Polars frames, DuckDB relations, Parquet and CSV files."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._api._handle import Handle
from lancekit._api.scanner import LanceScanner, scan_of
from lancekit._arguments.checks import check_place
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked
from lancekit._format.arrow_parts import child_of
from lancekit._format.field_marks import is_blob
from lancekit._legible import shown
from lancekit._operations.common.new_file import WrittenFiles, local_path
from lancekit._operations.export import export_rows
from lancekit._operations.unmerged.counts import waiting_rows
from lancekit._pipeline.frames import optional_module, polars_frame
from lancekit._scan.expressions.constants import arrow_type_of
from lancekit._scan.expressions.syntax_text import literal_text, quoted
from lancekit._scan.fragments.blobs import blob_view
from lancekit._versions.branch_location import open_location
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    LancekitError,
    SchemaMismatchError,
)
from lancekit.progress import tracking

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow.dataset as pads

#: the most bytes of a batch that a frame is made of
_BATCH_BYTES = 64 << 20


def duckdb_module(what: str) -> ModuleType:
    """Return DuckDB; ``NotOfferedError`` with the install command if it is not installed."""
    return optional_module("duckdb", "sql", what)


# ---- a lazy Polars frame: projection, filters and limits reach the scan


@checked
def scan_polars(source: Handle | str | os.PathLike[str]) -> pl.LazyFrame:
    """Return a lazy Polars frame over one version, which reads batch by batch when it runs.

    Polars passes the columns, the limit and the filter of its plan to the scan.  The scan
    evaluates comparisons of a column with a value, ``is_in``, ``is_null``, and combinations of
    these, so that it reads other columns only for matching rows.  Polars evaluates the rest.

    Parameters
    ----------
    source
        A handle, whose version is read, or the place of a dataset.

    Raises
    ------
    NotOfferedError
        The package ``polars`` is not installed.
    UnsupportedTypeError
        Polars has no type for a column.

    Examples
    --------
    >>> import lancekit as lk, polars as pl
    >>> ds = lk.write_dataset({"x": [1, 2, 3], "y": ["a", "b", "c"]}, "memory://scan-polars")
    >>> lk.scan_polars(ds).filter(pl.col("x") > 1).select("y").collect()["y"].to_list()
    ['b', 'c']
    """
    plugins = optional_module("polars.io.plugins", "polars", "A Polars frame")
    if isinstance(source, Handle):
        snapshot = source._snapshot
    else:
        snapshot = latest_snapshot(open_location(check_place(source)))
    known = scan_of(snapshot, ScanArguments()).projected_schema
    schema = polars_frame(known.empty_table()).schema

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        condition = None if predicate is None else _pushed(predicate, known, schema)
        scanner = scan_of(
            snapshot,
            ScanArguments(
                columns=columns,
                filter=condition,
                limit=limit if predicate is None else None,
                batch_size_bytes=_BATCH_BYTES,
            ),
        )
        left = limit
        for batch in scanner.to_batches():
            frame = polars_frame(pa.Table.from_batches([batch]))
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame, left = frame.head(left), left - min(left, frame.height)
            yield frame
            if left == 0:
                return

    lazy: pl.LazyFrame = plugins.register_io_source(read, schema=schema)
    return lazy


_COMPARED = {"Eq": "=", "Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<=", "NotEq": "<>"}
#: for Polars, NaN is larger than all numbers and equal to itself
_WITHOUT_NAN = ("=", "<", "<=")
_UNITS = {"Milliseconds": "ms", "Microseconds": "us", "Nanoseconds": "ns"}


def _pushed(predicate: pl.Expr, known: pa.Schema, schema: pl.Schema) -> str | None:
    """Return a filter that all rows of a Polars predicate pass; ``None`` if none is known.

    Polars evaluates the whole predicate afterwards, so parts that are not understood are left out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the form of the JSON can change between releases
        tree = json.loads(predicate.meta.serialize(format="json"))
    try:
        return _condition(tree, known, schema)
    except (pa.ArrowException, KeyError, OverflowError, TypeError, ValueError):
        return None


def _condition(tree: object, known: pa.Schema, schema: pl.Schema) -> str | None:
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "Or" as joined, "right": right}}:
            both = (_condition(part, known, schema) for part in (left, right))
            parts = [f"({part})" for part in both if part]
            return f" {joined} ".join(parts) if len(parts) > (joined == "Or") else None
        case {
            "BinaryExpr": {
                "left": {"Column": str(name)},
                "op": str(op),
                "right": {"Literal": {"Scalar": value}},
            }
        } if op in _COMPARED:
            kind, compared = known.field(name).type, _COMPARED[op]
            text = _literal(value, kind, str(schema[name]))
            if text is not None and (compared in _WITHOUT_NAN or not pa.types.is_floating(kind)):
                return f"{quoted(name)} {compared} {text}"
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNull"}}}:
            return f"{quoted(name)} IS NULL"
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNotNull"}}}:
            return f"{quoted(name)} IS NOT NULL"
        case {
            "Function": {
                "input": [{"Column": str(name)}, {"Literal": {"Scalar": {"List": stored}}}],
                "function": {"Boolean": {"IsIn": {"nulls_equal": False}}},
            }
        }:
            values = pa.ipc.open_stream(bytes(stored)).read_all().column(0)
            kind = known.field(name).type
            same = pa.types.is_integer(kind) and values.type == kind
            if same or pa.types.is_string(kind) or pa.types.is_large_string(kind):
                texts = [literal_text(value) for value in values.to_pylist() if value is not None]
                return f"{quoted(name)} IN ({', '.join(texts)})" if texts else None
    return None


def _literal(value: object, kind: pa.DataType, dtype: str) -> str | None:
    """Return the literal of a Polars predicate as SQL, if it has the type of its column."""
    match value:
        case {"Datetime": [int(number), str(unit), None]}:
            if pa.types.is_timestamp(kind) and kind.tz is None and kind.unit == _UNITS[unit]:
                return f"TIMESTAMP '{ak.cast(pa.array([number], kind), pa.string())[0]}'"
        case {"Date": int(number)} if pa.types.is_date32(kind):
            return f"DATE '{pa.scalar(number, kind)}'"
        case {"Boolean": bool(flag)} if pa.types.is_boolean(kind):
            return str(flag)
        case {"String": str(text)} if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return literal_text(text)
        case dict():
            plain = value.get(dtype)
            if isinstance(plain, int) and pa.types.is_integer(kind):
                return str(plain)
            if isinstance(plain, float) and math.isfinite(plain) and pa.types.is_floating(kind):
                # in the column's width, so that it has the same value in any other
                return repr(pa.scalar(plain, kind).as_py())
    return None


# ---- DuckDB


class _Rows:
    """Rows of a scan that DuckDB can read repeatedly."""

    def __init__(self, scanner: LanceScanner) -> None:
        self._scanner = scanner

    def __arrow_c_schema__(self) -> object:
        return self._scanner.projected_schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._scanner.to_reader().__arrow_c_stream__(requested_schema)


def duckdb_relation(
    scanner: LanceScanner, connection: duckdb.DuckDBPyConnection | None
) -> duckdb.DuckDBPyRelation:
    """Return a DuckDB relation over a scan, which each query runs again."""
    duck = connection or duckdb_module("A DuckDB relation").default_connection()
    try:
        return duck.from_arrow(_Rows(scanner))
    except AttributeError as error:
        raise InvalidArgumentError(
            f"connection must be a DuckDB connection, got {type(connection).__name__}.",
            hint="Pass the result of duckdb.connect(), or leave it out.",
        ) from error


# ---- files that Arrow reads


@checked
def read_parquet(path: str | os.PathLike[str], *, schema: pa.Schema | None = None) -> pads.Dataset:
    """Return the rows of Parquet files as a source for writes; nothing is read yet.

    Parameters
    ----------
    path
        A file, a folder (with all files below it), a pattern such as ``"in/*.parquet"``, or a URI
        that Arrow knows.  Folders such as ``year=2024`` become columns.
    schema
        The columns and their types.  By default those of all files.

    Returns
    -------
    pyarrow.dataset.Dataset
        The files, as ``data_obj`` of `write_dataset`.

    Raises
    ------
    InvalidArgumentError
        There is no such file, or Arrow cannot read it.
    SchemaMismatchError
        A column has types in several files that no type can hold.

    Examples
    --------
    >>> import lancekit as lk
    >>> lk.write_dataset(lk.read_parquet("in/*.parquet"), "all.lance")  # doctest: +SKIP
    """
    return _files(path, "parquet", schema)


@checked
def read_csv(
    path: str | os.PathLike[str],
    *,
    schema: pa.Schema | None = None,
    column_types: Mapping[str, object] | None = None,
) -> pads.Dataset:
    """Return the rows of CSV files as a source for writes; only their beginnings are read yet.

    Arrow guesses each column's type from the first megabyte of a file.  A write refuses a later
    value of another type, and a number with more digits than a guessed float can hold.  An empty
    field is null, and ``""`` is empty text.

    Parameters
    ----------
    path
        As in `read_parquet`.
    schema
        As in `read_parquet`.  Other columns are left out.  ``ds.schema`` reads an exported file
        exactly.
    column_types
        The types of some columns: ``{"zip": pa.string()}``, ``"string"`` or ``str``.

    Returns
    -------
    pyarrow.dataset.Dataset
        The files, as ``data_obj`` of `write_dataset`.

    Raises
    ------
    InvalidArgumentError, SchemaMismatchError
        As in `read_parquet`.

    Examples
    --------
    >>> import lancekit as lk
    >>> lk.write_dataset(lk.read_csv("prices.csv"), "prices.lance")  # doctest: +SKIP
    """
    types = {f.name: f.type for f in schema or ()}
    for name, kind in ((column_types or {}) if schema is None else {}).items():
        found = arrow_type_of(kind)
        if not isinstance(found, pa.DataType):
            raise InvalidTypeError(
                f"column_types[{name!r}] must be a type, got {shown(kind)}.",
                hint=f"Use column_types={{{name!r}: pa.string()}}.",
            )
        types[name] = found
    return _files(path, "csv", schema, types)


def _files(
    path: str | os.PathLike[str],
    form: str,
    schema: pa.Schema | None,
    types: Mapping[str, pa.DataType] | None = None,
) -> pads.Dataset:
    place = os.fspath(path)
    found: str | list[str] = place
    if "://" not in place:
        found = sorted(glob(place, recursive=True)) if has_magic(place) else place  # noqa: PTH207
        if not found or (isinstance(found, str) and not Path(found).exists()):
            raise InvalidArgumentError(
                f"There is no file at {place!r}.", hint="Check the path, or pass a pattern with *."
            )
    types = types or {}
    try:
        if schema is not None and len(schema) > 1:
            return _opened(found, form, schema, types)
        files = _opened(found, form, None, {}, one_column=True)
        alone = len(files.schema) == 1
        if schema is not None:
            return _opened(found, form, schema, types, one_column=alone)
        # Arrow would take the first file's columns, and drop all others
        each = [files.schema, *(part.physical_schema for part in files.get_fragments())]
        each = [pa.schema([f.with_type(types.get(f.name, f.type)) for f in one]) for one in each]
        merged = pa.unify_schemas(each, promote_options="permissive")
        if form == "csv":
            merged = _guessed(found, merged, types)
        return _opened(found, form, merged, types, one_column=alone)
    except pa.ArrowTypeError as error:
        raise SchemaMismatchError(
            f"The files of {place!r} have columns of different types: {error!s:.200}.",
            hint="Pass schema= with one type for each column.",
        ) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, LancekitError):
            raise
        raise InvalidArgumentError(
            f"{place!r} cannot be read as {form}: {error!s:.200}.",
            hint=f"Check that all files are {form} files.",
        ) from error


def _opened(
    found: str | list[str],
    form: str,
    schema: pa.Schema | None,
    types: Mapping[str, pa.DataType],
    *,
    one_column: bool = False,
) -> pads.Dataset:
    import pyarrow.dataset as pads

    how = _csv_format(types, one_column=one_column) if form == "csv" else form
    return pads.dataset(found, schema, format=how, partitioning="hive")


def _guessed(
    found: str | list[str], schema: pa.Schema, types: Mapping[str, pa.DataType]
) -> pa.Schema:
    """Return Arrow's guess, with ``uint64`` for whole numbers beyond ``int64``."""
    if unknown := [name for name in types if name not in schema.names]:
        raise InvalidArgumentError(
            f"The files have no column {unknown[0]!r}.",
            hint=f"They have {', '.join(map(repr, schema.names)):.300}.",
            column=unknown[0],
        )
    for at, field in enumerate(schema):
        if field.type == pa.binary() and field.name not in types:
            raise InvalidArgumentError(
                f"Column {field.name!r} is not UTF-8 text.",
                hint="Convert the file, or read bytes: column_types={"
                f"{field.name!r}: pa.binary()}}.",
                column=field.name,
            )
        if field.type == pa.float64() and field.name not in types:
            whole = _opened(found, "csv", pa.schema([field.with_type(pa.uint64())]), types)
            with suppress(pa.ArrowInvalid):
                for file in whole.get_fragments():
                    next(file.to_batches(schema=whole.schema), None)
                schema = schema.set(at, field.with_type(pa.uint64()))
    return schema


def _csv_format(types: Mapping[str, pa.DataType], *, one_column: bool) -> pads.CsvFileFormat:
    """Return how CSV files are read: an empty field is null, and ``""`` is empty text."""
    import pyarrow.csv as pacsv
    import pyarrow.dataset as pads

    nulls = [text for text in pacsv.ConvertOptions().null_values if "nan" not in text.lower()]
    convert = pacsv.ConvertOptions(
        column_types=types,
        null_values=nulls,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # a line without fields is the null of a file with one column; Arrow would skip it
    parse = pacsv.ParseOptions(ignore_empty_lines=not one_column)
    return pads.CsvFileFormat(parse_options=parse, convert_options=convert)


# ---- blobs in memory

#: the most bytes of blobs to read at once, except for a single larger row
_BLOB_BYTES = 64 << 20


def exported(
    handle: Handle,
    wanted: ScanArguments,
    path: str | os.PathLike[str],
    *,
    overwrite: bool,
    most: int,
) -> WrittenFiles:
    """Write rows to files of at most ``most`` rows; count rows that wait in shards."""
    target, snapshot = local_path(path, "export()"), handle._snapshot
    wanted = wanted.over(handle._scan_defaults)
    handle._check_shards(requested=wanted.include_mem_wal)
    scanner = scan_of(snapshot, wanted)._in_blocks(rows_with_blobs(snapshot))
    rows = scanner.projected_schema, scanner.to_batches()
    known = None if wanted.filter is not None else snapshot.manifest.num_rows
    with tracking("exporting", total_rows=known):
        found = export_rows(*rows, target, overwrite=overwrite, max_rows_per_file=most)
    waiting = None if wanted.include_mem_wal else waiting_rows(snapshot)
    return replace(found, waiting=waiting)


def rows_with_blobs(snapshot: Snapshot) -> int | None:
    """Return how many rows of a version to read at once with their blobs; ``None`` without blobs.

    This reads the sizes of all blobs that are columns.
    """
    schema = blob_view(snapshot.manifest.schema)
    names = [field.name for field in schema.fields if is_blob(field.metadata)]
    if not names:
        return None
    most = 1
    for batch in scan_of(snapshot, ScanArguments(columns=names)).to_batches():
        sizes = (pc.max(child_of(column, "size")).as_py() for column in batch.columns)
        most = max(most, *(size or 0 for size in sizes))
    return min(max(_BLOB_BYTES // most, 1), 8192)

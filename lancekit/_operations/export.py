"""Rows as Parquet and CSV files, written in bounded memory."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Protocol, Self

import pyarrow as pa
import pyarrow.types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import unit_and_zone, unit_of
from lancekit._legible import plural, shown, warn
from lancekit._operations.common.new_file import WrittenFiles, written_aside
from lancekit.errors import DatasetExistsError, InvalidArgumentError, UnsupportedTypeError
from lancekit.progress import step

#: the most rows and bytes of a row group, which are in memory at once
_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 64 << 20
_PART = re.compile(r"part-\d{5,}\.parquet")


class _Writer(Protocol):
    def write_table(self, table: pa.Table) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> object: ...


def export_rows(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    path: Path,
    *,
    overwrite: bool,
    max_rows_per_file: int,
) -> WrittenFiles:
    """Write rows to a Parquet file, a CSV file, or a folder of Parquet files.

    Raises InvalidArgumentError: the suffix of the path is unknown.
    Raises UnsupportedTypeError: the file cannot hold a column; nothing is written.
    Raises DatasetExistsError: the path exists.
    """
    form, is_folder = _form(path)
    if form == "csv":
        schema, batches = _in_csv(schema), (_batch_in_csv(batch) for batch in batches)
    _check_types(form, schema)
    if is_folder and overwrite:
        _check_parts(path)
    groups = _grouped(schema, batches)
    with written_aside(path, overwrite=overwrite) as aside:
        if is_folder:
            aside.mkdir()
            rows, files = _write_parts(schema, groups, aside, max_rows_per_file)
        else:
            rows, files = _write(form, schema, groups, aside), 1
        size = sum(f.stat().st_size for f in (aside.iterdir() if is_folder else [aside]))
    return WrittenFiles(path=path, num_rows=rows, num_files=files, num_bytes=size)


def _form(path: Path) -> tuple[str, bool]:
    if path.is_dir() or not path.suffix:
        return "parquet", True
    form = path.suffix[1:].lower()
    if form not in ("csv", "parquet"):
        raise InvalidArgumentError(
            f"export() cannot write {path.suffix} files, got {shown(str(path))}.",
            hint="Pass a name that ends with .parquet or .csv, or a folder. A copy of the dataset "
            "is ds.deep_clone(path) or ds.pack('x.zip').",
        )
    return form, False


def _writer(form: str, target: object, schema: pa.Schema) -> _Writer:
    writer: _Writer
    if form == "csv":
        import pyarrow.csv as pcsv

        writer = pcsv.CSVWriter(target, schema)
    else:
        import pyarrow.parquet as pq

        writer = pq.ParquetWriter(target, schema, compression="zstd")
    return writer


def _check_types(form: str, schema: pa.Schema) -> None:
    for field in schema:
        try:
            if form == "csv" and _is_bytes(field.type):
                raise pa.ArrowNotImplementedError("bytes are not text")
            one = pa.schema([field])
            with _writer(form, io.BytesIO(), one) as writer:
                writer.write_table(one.empty_table())
        except (pa.ArrowException, TypeError) as error:
            other = "" if form == "parquet" else ", or write a .parquet file"
            raise UnsupportedTypeError(
                f"A {form} file cannot hold column {field.name!r} ({field.type}): {error!s:.200}.",
                hint=f"Leave it out, or convert it, with columns={{...}}{other}.",
                column=field.name,
            ) from error


def _in_csv(schema: pa.Schema) -> pa.Schema:
    """Return the types to write: JSON as text, and times with a zone in UTC.

    Arrow would write local time with the hours and minutes of its offset, which can have seconds.
    """
    fields = []
    for field in schema:
        kind = field.type
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        zoned = pt.is_timestamp(kind) and unit_and_zone(kind)[1]
        fields.append(field if kind is field.type else pa.field(field.name, kind))
        if zoned:
            fields[-1] = pa.field(field.name, pa.timestamp(unit_of(kind), "UTC"))
    return pa.schema(fields)


def _batch_in_csv(batch: pa.RecordBatch) -> pa.RecordBatch:
    schema = _in_csv(batch.schema)
    columns = [c.storage if isinstance(c, pa.ExtensionArray) else c for c in batch.columns]
    columns = [
        column if column.type == field.type else pc.cast(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_bytes(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.DictionaryType):
        return _is_bytes(kind.value_type)
    return pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind)


def _check_parts(folder: Path) -> None:
    """Raise ``DatasetExistsError`` if a folder has other files than those of an export."""
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.is_symlink() or not file.is_file() or not _PART.fullmatch(file.name):
            raise DatasetExistsError(
                f"{str(folder)!r} has other files, such as {shown(file.name)}, and is kept.",
                hint="Pass another folder, or a name in this one that ends with .parquet.",
            )


def _grouped(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of the size of row groups."""
    waiting, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        step()
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting, schema)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def _write(form: str, schema: pa.Schema, tables: Iterable[pa.Table], path: Path) -> int:
    rows = empty = 0
    with path.open("xb") as file, _writer(form, file, schema) as writer:
        for table in tables:
            writer.write_table(table)
            rows += table.num_rows
            if form == "csv" and table.num_columns == 1:
                empty += ak.null_count(table.column(0))
    if empty:
        warn(
            f"{plural(empty, 'null')} of the only column became empty lines, which lk.read_csv, "
            "Polars and DuckDB read as null. pandas skips such lines without "
            "skip_blank_lines=False, pyarrow without ParseOptions(ignore_empty_lines=False)."
        )
    return rows


def _write_parts(
    schema: pa.Schema, tables: Iterator[pa.Table], folder: Path, most: int
) -> tuple[int, int]:
    rest, rows, files = schema.empty_table(), 0, 0

    def part() -> Iterator[pa.Table]:
        nonlocal rest
        left = most
        for table in chain([rest], tables):
            yield table.slice(0, left)
            rest, left = table.slice(left), max(left - table.num_rows, 0)
            if not left:
                return

    while not files or rest.num_rows or (rest := next(tables, rest)).num_rows:
        rows += _write("parquet", schema, part(), folder / f"part-{files:05}.parquet")
        files += 1
    return rows, files

"""Rows of CSV files: guessed floats keep all digits, and errors name the file and the value."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit._legible import shown
from lancekit._scan.expressions.kernels.casts import cast_column
from lancekit.errors import SchemaMismatchError

if TYPE_CHECKING:
    import pyarrow.dataset as pads

#: a float has the digits of every shorter number
_EXACT = 15
_FAULT = re.compile(r"CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (.+?): (.+)")
_SHORT = re.compile(r"Row #(\d+): (Expected .+)", re.DOTALL)


def csv_reader(files: pads.FileSystemDataset, form: pads.CsvFileFormat) -> pa.RecordBatchReader:
    """Read CSV files one after the other.

    The options of the format have the types that the user named.  Arrow guessed the others.

    Raises SchemaMismatchError: a value does not have the column's type, or loses digits as a float.
    """
    declared = form.default_fragment_scan_options.convert_options.column_types
    schema = read = files.schema
    guessed = [f.name for f in schema if f.type == pa.float64() and f.name not in declared]
    for at, field in enumerate(schema):
        if field.name in guessed:
            read = read.set(at, field.with_type(pa.string()))
        elif field.type in (pa.float16(), pa.float32()):
            # Arrow reads no half floats, and numbers beyond the range of floats as infinite
            read = read.set(at, field.with_type(pa.float64()))

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files.get_fragments():
            row = 2  # below the header
            try:
                for batch in file.to_batches(schema=read):
                    columns = [
                        _floats(column, f"{file.path!r}", field.name, row)
                        if field.name in guessed
                        else _exact(column, field.type)
                        for field, column in zip(schema, batch.columns, strict=True)
                    ]
                    row += batch.num_rows
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
            except pa.ArrowInvalid as error:
                raise _misread(str(error), file) from error

    return pa.RecordBatchReader.from_batches(schema, batches())


def _exact(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast floats without infinite ones; Arrow reads decimals with too many digits."""
    if pt.is_decimal(kind):
        column.validate(full=True)
    return cast_column(column, kind)


def _floats(texts: pa.Array, file: str, name: str, row: int) -> pa.Array:
    """Parse numbers; raise an error for the first one whose digits a float cannot hold."""
    texts = pc.utf8_trim_whitespace(texts)
    try:
        numbers = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        at = next(at for at, text in enumerate(texts.to_pylist()) if not _is_number(text))
        raise _fault(file, name, row + at, texts[at].as_py(), "no number") from None
    long = pc.or_(pc.greater(pc.utf8_length(texts), _EXACT), pc.is_inf(numbers))
    long = pc.and_(long, pc.not_equal(pc.cast(numbers, pa.string()), texts))
    for at, is_long in enumerate(long.to_pylist() if pc.any(long).as_py() else ()):
        if is_long and _loses(texts[at].as_py(), numbers[at].as_py()):
            what = f"a number that a float would store as {numbers[at]}"
            raise _fault(file, name, row + at, texts[at].as_py(), what)
    return numbers


def _is_number(text: str | None) -> bool:
    try:
        return text is None or pc.cast(pa.scalar(text), pa.float64()) is not None
    except pa.ArrowInvalid:
        return False


def _loses(text: str, number: float) -> bool:
    """Return True if a number in a text has more digits than its float.

    Digits that repeat the float itself, as ``%.18e`` writes them, are no loss.

    Examples
    --------
    >>> texts = "0.1000000000000000055511", "12345678901234567890", "1e400", "0.100000000000000000"
    >>> [_loses(text, float(text)) for text in texts]
    [False, True, True, False]
    """
    written = Decimal(text).normalize(Context(prec=max(len(text), 1)))
    if not written.is_finite() or math.isinf(number):
        return written.is_finite()
    digits = len(written.as_tuple().digits)
    return Context(prec=max(digits, _EXACT)).create_decimal(Decimal(number)) != written


def _misread(message: str, file: pads.FileFragment) -> SchemaMismatchError:
    if (fault := _FAULT.search(message)) is not None:
        number, row, kind, what = fault.groups()
        with file.open() as opened:
            start = opened.read(1 << 20).decode("utf-8", "replace")
        names = next(csv.reader(io.StringIO(start)))
        name = names[int(number)] if int(number) < len(names) else f"#{number}"
        value = what.partition("invalid value ")[2].strip("'") or what
        return _fault(f"{file.path!r}", name, int(row or 0), value, f"no value of type {kind}")
    message = message.rpartition("Invalid: ")[2]
    if (fault := _SHORT.search(message)) is not None:
        message = f"row {int(fault[1]):,} is damaged: {fault[2]}"
    return SchemaMismatchError(
        f"{file.path!r} cannot be read as CSV: {message:.300}.",
        hint="Correct the row, or name another type with column_types=. Texts with line ends must "
        "be in double quotes.",
        path=file.path,
    )


def _fault(file: str, name: str, row: int, value: str, what: str) -> SchemaMismatchError:
    where = f", row {row:,} (the header is row 1)" if row else ""
    return SchemaMismatchError(
        f"{file}: column {name!r} has {shown(value)}{where}, {what}.",
        hint=f"Name the type: lk.read_csv(path, column_types={{{name!r}: pa.string()}}), or "
        "pa.decimal128(38, 10), pa.float64(), ...",
        column=name,
        value=value,
        row=row,
    )

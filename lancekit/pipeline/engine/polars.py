"""Frames of Polars, which has types that Arrow has not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancekit.errors import UnsupportedTypeError

__all__ = ["polars_reader"]


def polars_reader(frame: Any) -> pa.RecordBatchReader:
    """Return the rows of a frame.

    Raises
    ------
    UnsupportedTypeError
        A column is of a type that Arrow has not.
    """
    for name, kind in frame.schema.items():
        if str(kind) == "Object":  # Arrow is given the addresses of the objects
            raise UnsupportedTypeError(
                f"column {name!r} of the Polars frame holds Python objects.",
                hint="Cast it to one of Polars' own types, or pass frame.to_dicts().",
                column=name,
            )
    try:
        table: pa.Table = frame.to_arrow()
        return table.to_reader()
    except pa.ArrowException as error:
        name = next((series.name for series in frame if _is_foreign(series)), "")
        kind = frame.schema.get(name)
        raise UnsupportedTypeError(
            f"column {name!r} of the Polars frame is {kind}, which is no type of Arrow's.",
            hint="Cast it to one that is, such as pl.Int64, or pl.Decimal(38, 0) for 128 bits: "
            f"frame.with_columns(pl.col({name!r}).cast(...)).",
            column=name,
            type=str(kind),
        ) from error


def _is_foreign(series: Any) -> bool:
    try:
        series.to_arrow()
    except pa.ArrowException:
        return True
    return False

"""What a call gave, as text that two checkouts can be compared by."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

import lancekit as lk

__all__ = ["error_text", "shown", "without_ids"]

#: random names, in the forms that lancekit and the format write them
_IDS = re.compile(
    r"[01]{24}[0-9a-f]{26}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b"
    r"|\b0x[0-9a-f]{6,}\b|(?<=uuid: )\"(?:\\.|[^\"\\])*\"|(?<=/\d-)\d+-\d{9,20}(?=\.(?:arrow|bin))"
    r"|\.tmp-[^/\s']+|\b[0-9a-f]{8}(?=_gen_)"
)
#: rows from which on a digest of the columns is enough
_MANY = 5000
_TOOK = re.compile(r"(\b(?:duration|seconds|elapsed)\w*['\"]?[=:] ?)[\d.e-]+|\b\d+\.\d+ s\b")
#: a hint of DataFusion's that comes in any order
_GUESS = re.compile(r"(?<=Did you mean )'\w+'(?=\?)")


def without_ids(text: str, place: str) -> str:
    """Write ids by the order in which they appear, and leave out places and durations."""
    known: dict[str, str] = {}
    text = _GUESS.sub("<guess>", text.replace(place, "<place>"))
    text = _IDS.sub(lambda found: known.setdefault(found[0], f"<id {len(known) + 1}>"), text)
    return _TOOK.sub(lambda found: f"{found[1] or ''}<time>", text)


def error_text(error: BaseException) -> str:
    """Class, text and facts of an error; the facts hold positions."""
    context = getattr(error, "context", {})
    facts = "".join(f"\n  {name} = {_fact(context[name])}" for name in sorted(context))
    return f"{type(error).__name__}: {error}{facts}"


def _fact(value: Any) -> str:
    plain = str | int | float | bool | None | list | tuple | dict
    return repr(value) if isinstance(value, plain) else type(value).__name__


def shown(value: Any) -> str:
    """Return a result as text; rows one to a line, in their order."""
    for kinds, show in _SHOWN:
        if isinstance(value, kinds):
            return show(value)
    return repr(value)


def _table(table: Any) -> str:
    if table.num_rows > _MANY:
        digests = (f"{f.name} {_digest(table[f.name])}" for f in table.schema)
        return f"{table.num_rows} rows of {table.schema.types}\n" + "\n".join(digests)
    columns = [column.to_pylist() for column in table.columns]
    fields = ", ".join(
        f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in table.schema
    )
    rows = "\n".join(map(repr, zip(*columns, strict=True)))
    return f"{table.num_rows} rows of {fields}\n{rows}"


def _digest(column: Any) -> str:
    """Return a digest of many values; of numbers by their bits, nulls as zeros."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        data = column.fill_null(0).to_numpy(zero_copy_only=False).tobytes()
    else:
        data = repr(column.to_pylist()).encode()
    return hashlib.sha1(valid.tobytes() + data).hexdigest()


def _frame(frame: pd.DataFrame) -> str:
    kinds = ", ".join(f"{name}: {kind}" for name, kind in frame.dtypes.items())
    return f"frame of {kinds}\n" + "\n".join(
        repr(row) for row in frame.itertuples(index=False, name=None)
    )


def _dataset(ds: lk.LanceDataset) -> str:
    return f"dataset at version {ds.version} of {ds.branch}"


def _items(values: Any) -> str:
    return "\n".join(shown(value) for value in itertools.islice(values, 500))


def _mapping(value: Mapping[Any, Any]) -> str:
    parts = (f"{name}: {shown(item)}" for name, item in value.items())
    return f"{type(value).__name__}\n" + "\n".join(sorted(parts))


def _statistics(found: lk.ScanStatistics) -> str:
    return repr(dataclasses.replace(found, all_times={}))


_SHOWN: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (lk.ScanStatistics, _statistics),
    (pa.Table | pa.RecordBatch, _table),
    (pa.RecordBatchReader, lambda reader: _table(reader.read_all())),
    (pd.DataFrame, _frame),
    (lk.LanceDataset, _dataset),
    (lk.SqlResult, lambda result: _table(result.to_table())),
    (lk.Explanation | lk.MergePlan, str),
    (Mapping, _mapping),
    (list | tuple | Iterator, _items),
)

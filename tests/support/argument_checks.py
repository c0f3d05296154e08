"""Checks that an argument is not ignored, and datasets to try them on.

Another value gives another result, or a value that cannot be is refused.  Arguments that only say
how much to read ahead, or what to cache, change no result: of these nonsense is refused.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa

import lancekit as lk
from lancekit.errors import LancekitError

__all__ = [
    "ROWS",
    "Check",
    "Hint",
    "Keywords",
    "Made",
    "Method",
    "Refused",
    "Value",
    "fragment",
    "fresh",
    "outcome",
    "place",
    "shared",
]

Call = Callable[..., Any]


# ---- checks


def outcome(call: Call, arguments: Mapping[str, Any]) -> Any:
    """Return what a call shows, or the error that it ends with."""
    made = {name: v.make() if isinstance(v, Made) else v for name, v in arguments.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that pylance gave up
            return seen(call(**made))
    except LancekitError as error:
        return type(error), str(error)


def seen(result: Any) -> Any:
    """Return a result as something that can be compared."""
    if isinstance(result, lk.BlobFile):
        return "file", result.readall()
    if isinstance(result, float):
        return repr(result)  # NaN, too
    if isinstance(result, lk.LanceDataset):
        return seen(result.to_table()), result.version, result.branch
    if isinstance(result, lk.LanceScanner):
        return seen(result.to_batches())
    if isinstance(result, pa.RecordBatchReader):
        return seen(result.read_all())
    if isinstance(result, pa.Table | pa.RecordBatch):
        # the metadata of fields come in any order
        return [(f.name, str(f.type), f.nullable) for f in result.schema], result.to_pylist()
    if isinstance(result, pd.DataFrame):
        return (
            list(result.columns),
            [str(kind) for kind in result.dtypes],
            seen(result.to_dict("list")),
        )
    if isinstance(result, Mapping):
        return {name: seen(value) for name, value in result.items()}
    if isinstance(result, Iterator | list | tuple):
        return [seen(item) for item in result]
    return result


@dataclass(frozen=True)
class Made:
    """A value that has to be new for each call."""

    make: Callable[[], Any]


class Check:
    """Says whether an argument is taken seriously."""

    def holds(self, method: Method, name: str) -> bool:
        raise NotImplementedError


@dataclass(frozen=True)
class Value(Check):
    """With this value the result is another one than without."""

    value: Any
    beside: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, method: Method, name: str) -> bool:
        given = {**method.base, **self.beside, name: self.value}
        return bool(method.without(self.beside) != outcome(method.call, given))


@dataclass(frozen=True)
class Refused(Check):
    """This value is an error that names the argument, or what is wrong with it."""

    value: Any
    says: str = ""

    def holds(self, method: Method, name: str) -> bool:
        found = outcome(method.call, {**method.base, name: self.value})
        return (
            isinstance(found, tuple)
            and isinstance(found[0], type)
            and (self.says or name).lower() in found[1].lower()
        )


@dataclass(frozen=True)
class Hint(Check):
    """This value changes nothing but how it is done, and another one is refused."""

    value: Any
    wrong: Any
    says: str = ""

    def holds(self, method: Method, name: str) -> bool:
        same = outcome(method.call, {**method.base, name: self.value})
        return bool(
            same == method.without({}) and Refused(self.wrong, self.says).holds(method, name)
        )


@dataclass(frozen=True)
class Keywords(Check):
    """Of further keywords, this one changes the result or is refused."""

    name: str
    value: Any

    def holds(self, method: Method, name: str) -> bool:
        return Value(self.value).holds(method, self.name)


@dataclass(frozen=True)
class Method:
    """How to call a function, and a check for each of its arguments."""

    call: Call
    arguments: Mapping[str, Check]
    base: Mapping[str, Any] = field(default_factory=dict)
    _found: list[tuple[Mapping[str, Any], Any]] = field(default_factory=list, init=False)

    def without(self, beside: Mapping[str, Any]) -> Any:
        """Return the outcome without another argument; many are compared with the same one."""
        for known, found in self._found:
            if known == beside:
                return found
        found = outcome(self.call, {**self.base, **beside})
        self._found.append((beside, found))
        return found


# ---- what is called

_NUMBERS = itertools.count()
ROWS = pa.table(
    {"id": pa.array(range(10)), "x": [float(-n) for n in range(10)], "s": list("abcdefghij")}
)


def place() -> str:
    """Return a place that nothing is at."""
    return f"memory://every-argument-{next(_NUMBERS)}"


def fresh(**options: Any) -> lk.LanceDataset:
    """Return a dataset that may be changed: two fragments, and a version before the last."""
    ds = lk.write_dataset(ROWS, place(), max_rows_per_file=5, **options)
    ds.delete("id = 3")
    return ds


@cache
def shared() -> lk.LanceDataset:
    """Return a dataset to read, with a blob, tags and a branch."""
    schema = pa.schema([*ROWS.schema, lk.blob_field("b")])
    blobs = lk.blob_array([b"%d" % n for n in range(10)])
    rows = pa.table([*ROWS.columns, blobs], schema=schema)
    ds = lk.write_dataset(
        rows, place(), max_rows_per_file=5, enable_stable_row_ids=True, data_storage_version="2.2"
    )
    ds.delete("id = 3")
    ds.tags.create("t", 1)
    ds.tags.create("u", 2)
    for name in "bc":
        ds.create_branch(name, 1 if name == "b" else 2)
    return ds


def fragment(ds: lk.LanceDataset | None = None) -> lk.LanceFragment:
    """Return the first fragment, one row of which is deleted."""
    return (ds or shared()).get_fragments()[0]

"""An error of a caller's own, or an interrupt, leaves no file of the columns that were begun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidTypeError, type_name
from lancekit.progress import Progress

DOING: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda ds, values: ds.add_columns(values),
    "replace": lambda ds, values: ds.replace_columns(values),
    "one fragment": lambda ds, values: ds.get_fragments()[0].merge_columns(values),
}


class OwnError(Exception):
    """Nothing that lancekit knows."""


def stream(failure: BaseException, last: int) -> Iterator[pa.RecordBatch]:
    """Give the values of some rows, and fail."""
    yield pa.record_batch({"y": list(range(last))})
    raise failure


def function(failure: BaseException) -> Callable[[pa.RecordBatch], Any]:
    def work(batch: pa.RecordBatch) -> Any:
        if batch["k"][-1].as_py() >= 8:
            raise failure
        return {"y": batch["k"]}

    return work


def names(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def given(kind: str, failure: BaseException) -> Any:
    rows = {"a stream": 5, "a stream that is too long": 10}
    return stream(failure, rows[kind]) if kind in rows else function(failure)


@pytest.mark.parametrize("failure", [OwnError("mine"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("kind", ["a stream", "a stream that is too long", "a function"])
@pytest.mark.parametrize("doing", DOING)
def test_nothing_is_left(tmp_path: Path, doing: str, kind: str, failure: BaseException) -> None:
    column = {"y": [0] * 10} if doing == "replace" else {}
    rows = 10 if doing == "one fragment" else 4
    ds = lk.write_dataset({"k": list(range(10)), **column}, tmp_path / "d", max_rows_per_file=rows)
    before = names(tmp_path)
    with pytest.raises(type(failure)):
        DOING[doing](ds, given(kind, failure))
    assert names(tmp_path) == before


def test_an_interrupted_join_leaves_nothing(tmp_path: Path) -> None:
    ds = lk.write_dataset({"k": list(range(10))}, tmp_path / "d", max_rows_per_file=4)
    before = names(tmp_path)

    def interrupt(progress: Progress) -> None:
        if progress.what == "computing columns" and progress.done and not progress.finished:
            raise KeyboardInterrupt

    with lk.options(progress=interrupt), pytest.raises(KeyboardInterrupt):
        ds.merge({"k": [1, 5, 9], "y": [1, 2, 3]}, "k")
    assert names(tmp_path) == before


@pytest.mark.parametrize("returned", [None, 7, pa.array([1, 2]), [1, 2]], ids=type_name)
@pytest.mark.parametrize("schema", [None, pa.schema({"y": pa.int64()})], ids=["seen", "declared"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_what_a_function_returned_is_named(
    schema: pa.Schema | None, returned: Any, wrapped: bool
) -> None:
    def forgetful(_: pa.RecordBatch) -> Any:
        return returned

    ds = lk.write_dataset({"k": [1, 2]}, f"memory://{uuid4()}")
    what = "None" if returned is None else f"a {type_name(returned)}"
    given = lk.batch_udf(schema)(forgetful) if wrapped else forgetful
    with pytest.raises(InvalidTypeError, match=f"function forgetful returned {what}: "):
        ds.add_columns(given, reader_schema=None if wrapped else schema)

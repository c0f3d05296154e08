"""Small new files that lie beside each other become one, with the rows as they were."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._format.fragment import Fragment
from lancekit._format.row_ids import count_row_ids, parse_row_ids
from lancekit._format.row_ids_encode import encode_row_ids
from lancekit._format.schema import LanceSchema
from lancekit._pipeline.join_files import join_small_files, new_sources
from lancekit._pipeline.write_rows import WriteTarget, WriteTask, write_fragments
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._storage.base import Store
from lancekit._storage.places import open_store
from tests.support.arrow_columns import columns


def _own() -> Store:
    return open_store(f"memory://{uuid.uuid4()}")


def task_for(rows: pa.Table, version: str = "2.1", **more: object) -> WriteTask:
    schema = LanceSchema.from_arrow(rows.schema)
    return WriteTask(store=_own(), schema=schema, storage_version=version, **more)


def written(task: WriteTask, parts: Sequence[pa.Table]) -> list[Fragment]:
    arrow = task.schema.to_arrow()
    return [
        fragment
        for part in parts
        for fragment in write_fragments(part.cast(arrow).to_batches(), task)
    ]


def rows_of(task: WriteTask, fragments: Sequence[Fragment]) -> pa.Table:
    names = task.schema.names
    readers = [FragmentReader(source) for source in new_sources(task, fragments)]
    return pa.concat_tables([r.read(names, range(r.physical_rows)) for r in readers])


def ids_of(fragment: Fragment) -> list[int]:
    data = fragment.row_ids or b""
    return list(parse_row_ids(data, count_row_ids(data, ""), "")) if data else []


@given(st.data(), st.sampled_from(["2.0", "2.1", "2.2"]))
def test_rows_of_every_type_stay(data: st.DataObject, version: str) -> None:
    column = data.draw(columns(most_rows=6))
    rows = pa.table({"n": np.arange(len(column)), "x": column})
    cut = data.draw(st.integers(0, len(rows)))
    try:
        task = task_for(rows, version)
        parts = written(task, [rows.slice(0, cut), rows.slice(cut)])
    except lk.errors.LancekitError:
        return  # not a column of this version
    before = rows_of(task, parts) if parts else None
    joined = join_small_files(task, parts)
    assert len(joined) == min(len(parts), 1)
    if before is not None:
        assert rows_of(task, joined).to_pylist() == before.to_pylist()


def test_neighbours_alone_are_joined_and_their_files_go() -> None:
    rng = np.random.default_rng(1)
    rows = pa.table({"x": rng.integers(0, 1 << 62, 30_000)})
    task = task_for(rows)
    cuts = [0, 10, 20, 10_020, 10_030, 10_040, 30_000]
    parts = [rows.slice(a, b - a) for a, b in pairwise(cuts)]
    with lk.options(target_file_bytes=100_000):
        joined = join_small_files(task, written(task, parts))
    assert [f.physical_rows for f in joined] == [20, 10_000, 20, 19_960]
    assert rows_of(task, joined) == rows
    names = {file.path for fragment in joined for file in fragment.files}
    assert set(task.store.list_names("data")) == names


def test_a_joined_file_stays_within_the_limits() -> None:
    rows = pa.table({"x": np.arange(100)})
    parts = [rows.slice(at, 10) for at in range(0, 100, 10)]
    task = task_for(rows, max_rows_per_file=35)
    assert [f.physical_rows for f in join_small_files(task, written(task, parts))] == [30] * 3 + [
        10
    ]
    few = task_for(rows)
    size = written(few, parts[:1])[0].files[0].file_size_bytes
    with lk.options(target_file_bytes=size * 10):
        joined = join_small_files(few, written(few, parts))
    assert len(joined) == 1
    with lk.options(target_file_bytes=0):
        assert len(join_small_files(few, written(few, parts))) == 10


def test_moved_rows_come_first_with_their_ids() -> None:
    rows = pa.table({"x": np.arange(12)})
    task = task_for(rows)
    parts = written(task, [rows.slice(0, 4), rows.slice(4, 4), rows.slice(8, 4)])
    ids = [np.array([70, 50], np.uint64), np.empty(0, np.uint64), np.array([3], np.uint64)]
    parts = [
        replace(part, row_ids=encode_row_ids(own)) if len(own) else part
        for part, own in zip(parts, ids, strict=True)
    ]
    (joined,) = join_small_files(task, parts)
    moved = [0, 1, 8]
    assert rows_of(task, [joined])["x"].to_pylist() == [*moved, 2, 3, 4, 5, 6, 7, 9, 10, 11]
    assert ids_of(joined) == [70, 50, 3]


def test_joined_files_take_turns_among_the_places() -> None:
    rows = pa.table({"x": np.arange(40)})
    places = tuple(WriteTarget(_own(), folder, id_) for folder, id_ in (("", 1), ("data", 2)))
    task = task_for(rows, places=places, max_rows_per_file=20)
    parts = [rows.slice(at, 10) for at in range(0, 40, 10)]
    joined = join_small_files(task, written(task, parts))
    assert [fragment.files[0].base_id for fragment in joined] == [1, 2]
    assert rows_of(task, joined) == rows


def test_blobs_stay_in_their_files() -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([b"x"] * 4, pa.large_binary())], schema=pa.schema([blob]))
    task = task_for(rows, "2.0")
    assert len(join_small_files(task, written(task, [rows.slice(0, 2), rows.slice(2)]))) == 2


def test_a_failure_leaves_no_file() -> None:
    rows = pa.table({"x": np.arange(20)})
    task = task_for(rows)
    parts = written(task, [rows.slice(0, 10), rows.slice(10)])
    task.store.delete(f"data/{parts[1].files[0].path}")
    with pytest.raises(lk.errors.CorruptFileError):
        join_small_files(task, parts)
    assert task.store.list_names("data") == []

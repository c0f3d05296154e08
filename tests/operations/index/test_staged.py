"""Full-text indices whose parts are made in one folder: by both libraries, in any mixture."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._index.build.files import add_files
from lancekit._operations.index import staged
from lancekit.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
    NotOfferedError,
)

ROWS = {"t": [f"hello w{i % 7} x{i} the" for i in range(40)], "n": list(range(40))}
SETTINGS: dict[str, Any] = {"with_position": True, "remove_stop_words": False}
QUERIES = ["w3 hello the", '"hello w3"', "x7"]
Found = list[list[tuple[str, float]]]


@pytest.fixture
def place(tmp_path: Path) -> str:
    path = str(tmp_path / "d.lance")
    lance.write_dataset(pa.table(ROWS), path, max_rows_per_file=10)
    return path


def commit(library: ModuleType, place: str, uuid: str) -> None:
    index = library.Index(
        uuid=uuid,
        name="n",
        fields=[0],
        dataset_version=1,
        fragment_ids=set(range(4)),
        index_version=0,
    )
    made = library.LanceOperation.CreateIndex(new_indices=[index], removed_indices=[])
    library.LanceDataset.commit(place, made, read_version=library.dataset(place).version)


def found(library: ModuleType, place: str) -> Found:
    ds = library.dataset(place)
    return [
        sorted(
            (row["t"], pytest.approx(row["_score"], rel=1e-5))
            for row in ds.to_table(full_text_query=query).to_pylist()
        )
        for query in QUERIES
    ]


@pytest.mark.cover(2)
@pytest.mark.parametrize(
    ("makers", "merger"),
    [([lk, lk], lk), ([lk, lk], lance), ([lance, lance], lk), ([lk, lance], lk)],
    ids=["ours", "theirs of ours", "ours of theirs", "ours of both"],
)
def test_parts_are_put_together(place: str, makers: list[ModuleType], merger: ModuleType) -> None:
    lk.dataset(place).create_scalar_index("t", "INVERTED", **SETTINGS)
    wanted = found(lk, place)
    lk.dataset(place).drop_index("t_idx")
    uuid = str(uuid4())
    for fragment in range(4):
        makers[fragment % 2].dataset(place).create_scalar_index(
            "t",
            "INVERTED",
            name="n",
            replace=False,
            index_uuid=uuid,
            fragment_ids=[fragment],
            **SETTINGS,
        )
    for _ in range(2):  # the second time there is nothing left to do
        merger.dataset(place).merge_index_metadata(uuid, "INVERTED")
    commit(merger, place, uuid)
    assert found(lk, place) == wanted
    assert found(lance, place) == wanted
    (index,) = lk.dataset(place)._snapshot.indices
    assert {file.path for file in index.files} >= {"metadata.lance", "part_0_docs.lance"}
    ds = lance.dataset(place)
    ds.insert(ds.to_table(filter="n < 3"))
    lk.dataset(place).optimize.optimize_indices()
    again = lance.dataset(place).to_table(full_text_query="x1")["t"].to_pylist()
    assert again == ["hello w1 x1 the"] * 2


def test_several_fragments_are_one_part(place: str) -> None:
    ds, uuid = lk.dataset(place), str(uuid4())
    for fragments in ([3, 1], [0, 2]):
        ds.create_scalar_index("t", "FTS", fragment_ids=fragments, index_uuid=uuid)
    lance.dataset(place).merge_index_metadata(uuid, "INVERTED")
    commit(lk, place, uuid)
    assert lk.dataset(place).to_table(full_text_query="x33")["n"].to_pylist() == [33]
    assert lance.dataset(place).to_table(full_text_query="hello").num_rows == 40


def test_what_failed_is_done_again(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ds, uuid = lk.dataset(place), str(uuid4())
    for fragments in ([0, 1], [0, 1], [2, 3]):  # a task that is run a second time
        ds.create_scalar_index("t", "INVERTED", fragment_ids=fragments, index_uuid=uuid)

    def dies(*args: Any, **more: Any) -> Any:
        for number, file in enumerate(add_files(*args, **more)):
            if number == 4:
                raise InterruptedError
            yield file

    with monkeypatch.context() as patch:
        patch.setattr(staged, "add_files", dies)
        with pytest.raises(InterruptedError):
            ds.merge_index_metadata(uuid, "INVERTED")
    ds.merge_index_metadata(uuid, "INVERTED")
    commit(lk, place, uuid)
    for library in (lk, lance):
        assert library.dataset(place).to_table(full_text_query="x33")["n"].to_pylist() == [33]


def test_what_cannot_be_put_together(place: str) -> None:
    ds, uuid = lk.dataset(place), str(uuid4())
    with pytest.raises(InvalidArgumentError, match="are missing"):
        ds.merge_index_metadata(uuid, "INVERTED")
    with pytest.raises(InvalidArgumentError, match=r"index_uuid must be .* got 'x'"):
        ds.merge_index_metadata("x", "INVERTED")
    for kind in ("BTREE", "IVF_FLAT", "nope"):
        with pytest.raises(NotOfferedError, match="merge_existing_index_segments"):
            ds.merge_index_metadata(uuid, kind)
    with pytest.raises(InvalidArgumentError, match="has no fragment 99"):
        ds.create_scalar_index("t", "INVERTED", fragment_ids=[99])
    with pytest.raises(InvalidArgumentError, match="No fragments"):
        ds.create_scalar_index("t", "INVERTED", fragment_ids=[])
    with pytest.raises(ColumnNotFoundError):
        ds.create_scalar_index("nope", "INVERTED", fragment_ids=[0])
    with pytest.raises(InvalidTypeError):
        ds.create_scalar_index("n", "INVERTED", fragment_ids=[0])
    with pytest.raises(ValueError, match="create_index_uncommitted"):
        ds.create_scalar_index("n", "BTREE", fragment_ids=[0])
    ds.create_scalar_index("t", "INVERTED", fragment_ids=[0], index_uuid=uuid)
    with pytest.raises(InvalidArgumentError, match="are not merged yet"):
        commit(lk, place, uuid)
    ds.create_scalar_index("t", "INVERTED", fragment_ids=[1], index_uuid=uuid, stem=False)
    with pytest.raises(InvalidArgumentError, match="built with different settings"):
        ds.merge_index_metadata(uuid, "INVERTED")
    assert not lk.dataset(place).list_indices()

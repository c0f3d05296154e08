"""What is told of indices, beside what pylance tells of the same."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._index.kinds import KINDS
from lancekit.errors import IndexNotFoundError
from lancekit.indices import IndexConfig, IndexDescription, IndexSegmentDescription
from tests.support.indexed_columns import rows

COLUMN = {"LABEL_LIST": "labels", "NGRAM": "text", "BLOOMFILTER": "int8"}


@pytest.mark.cover
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "theirs"])
@pytest.mark.parametrize("name", KINDS)
def test_as_pylance_tells(name: str, theirs: bool, tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    ds = lk.write_dataset(rows(), str(path), max_rows_per_file=10)
    column = COLUMN.get(name, "int32")
    (lance.dataset(str(path)) if theirs else ds).create_scalar_index(column, name)
    ds = lk.dataset(str(path))
    ds.delete("row < 5")
    ds.insert(rows())
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    ds.insert(rows())
    (ours,), (other,) = ds.describe_indices(), lance.dataset(str(path)).describe_indices()
    for one in fields(IndexDescription):
        if one.name != "segments":
            assert getattr(ours, one.name) == getattr(other, one.name)
    for mine, segment in zip(ours.segments, other.segments, strict=True):
        for one in fields(IndexSegmentDescription):
            found = getattr(segment, one.name)
            found = set(found) if one.name == "fragment_ids" else found
            value = getattr(mine, one.name)
            assert (list(value) if isinstance(found, list) else value) == found
    stats = lance.dataset(str(path)).stats.index_stats(ours.name)
    assert ds.stats.index_stats(ours.name) == ds.index_statistics(ours.name) == stats


INDICES = {
    "text": ("text", "INVERTED", {"language": "German", "with_position": True}),
    "parts of texts": ("text", "INVERTED", {"base_tokenizer": "ngram", "max_ngram_length": 4}),
    "code": ("text", "INVERTED", {"base_tokenizer": "code", "index_operators": True}),
    "flat": ("vector", "IVF_FLAT", {"metric": "cosine", "target_partition_size": 64}),
    "pq": ("vector", "IVF_PQ", {"num_partitions": 2, "num_sub_vectors": 2, "num_bits": 4}),
    "sq": ("vector", "IVF_SQ", {"num_partitions": 2}),
    "rq": ("vector", "IVF_RQ", {"num_partitions": 2}),
    "graph": ("vector", "IVF_HNSW_SQ", {"num_partitions": 2, "m": 12, "max_level": 5}),
}


@pytest.mark.parametrize("name", INDICES)
def test_the_parameters_of_an_index_as_pylance_tells(name: str, tmp_path: Path) -> None:
    column, kind, settings = INDICES[name]
    vectors = pa.FixedSizeListArray.from_arrays(np.arange(2400, dtype="float32"), 8)
    table = pa.table({"vector": vectors, "text": [f"foo_{at} bar+baz" for at in range(300)]})
    theirs = lance.write_dataset(table, tmp_path / "d.lance")
    if column == "text":
        theirs.create_scalar_index(column, kind, **settings)
    else:
        theirs.create_index(column, kind, **settings)
    (told,) = lance.dataset(tmp_path / "d.lance").describe_indices()
    (ours,) = lk.dataset(tmp_path / "d.lance").describe_indices()
    assert told.details
    assert ours.details == told.details


@pytest.mark.parametrize(("column", "kind"), [("int32", "BTREE"), ("text", "INVERTED")])
def test_statistics_know_what_an_index_without_details_is(
    column: str, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "d.lance"
    lance.write_dataset(rows(), path).create_scalar_index(column, kind, name="i")
    operation = lance.dataset(path).get_transactions(1)[0].operation
    # pylance hides a newer one that does not say what it is
    silent = replace(operation.new_indices[0], index_details=None, index_version=0)
    change = lance.LanceOperation.CreateIndex([silent], operation.new_indices)
    theirs = lance.LanceDataset.commit(path, change, read_version=2)
    ours = lk.dataset(path)
    assert ours.describe_indices()[0].index_type == "Unknown"
    found = [ds.stats.index_stats("i")["index_type"] for ds in (ours, theirs)]
    assert found == [{"BTREE": "BTree", "INVERTED": "Inverted"}[kind]] * 2


def test_parameters_are_told(tmp_path: Path) -> None:
    ds = lk.write_dataset(rows(), str(tmp_path / "d.lance"))
    parameters = {"number_of_items": 100, "probability": 0.01}
    ds.create_scalar_index("int32", IndexConfig("bloomfilter", parameters))
    (found,) = ds.stats.index_stats("int32_idx")["segments"]
    assert {name: found[name] for name in parameters} == parameters


def test_indices_of_other_kinds(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    lk.write_dataset(rows(), str(path))
    lance.dataset(str(path)).create_scalar_index("text", "INVERTED")
    ds = lk.dataset(str(path))
    assert ds.describe_indices()[0].index_type == "Inverted"
    with pytest.raises(IndexNotFoundError, match="'mine'") as caught:
        ds.stats.index_stats("mine")
    assert isinstance(caught.value, KeyError)


@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "theirs"])
def test_of_text(theirs: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "d.lance")
    ds = lk.write_dataset({"t": ["late snow", "the", None, "snows"]}, path)
    (lance.dataset(path) if theirs else ds).create_scalar_index("t", "INVERTED", stem=False)
    (mine,) = lk.dataset(path).stats.index_stats("t_idx")["indices"]
    (other,) = lance.dataset(path).stats.index_stats("t_idx")["indices"]
    assert mine["params"].items() <= other["params"].items()
    assert mine["params"]["stem"] is False
    assert {**mine, "params": {}} == {**other, "params": {}}
    assert (mine["num_tokens"], mine["num_docs"]) == (3, 2)

"""Indices that are read before they are asked."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._storage import base
from lancekit.errors import IndexNotFoundError, InvalidArgumentError

NUMBERS = pa.array(range(600))
TEXTS = pa.array([f"word{number} and so on" for number in range(600)])
LABELS = pa.array([[number % 7, number] for number in range(600)])
VECTORS = pa.FixedSizeListArray.from_arrays(
    pa.array(np.random.default_rng(0).standard_normal(2400).astype(np.float32)), 4
)
#: of each kind a column, which is called like it, and what asks it
REGISTRY: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "BTREE": (NUMBERS, {"filter": "BTREE = 77"}),
    "BITMAP": (NUMBERS, {"filter": "BITMAP = 77"}),
    "ZONEMAP": (NUMBERS, {"filter": "ZONEMAP = 77"}),
    "BLOOMFILTER": (NUMBERS, {"filter": "BLOOMFILTER = 77"}),
    "NGRAM": (TEXTS, {"filter": "contains(NGRAM, 'word77')"}),
    "LABEL_LIST": (LABELS, {"filter": "array_has(LABEL_LIST, 599)"}),
    "INVERTED": (TEXTS, {"full_text_query": {"query": "word77", "columns": ["INVERTED"]}}),
    "IVF_FLAT": (VECTORS, {"nearest": {"column": "IVF_FLAT", "q": [0.1] * 4, "k": 3}}),
}
NOTHING = "00000000-0000-4000-8000-000000000001"


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SETTLED_SECONDS", -1.0)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lk.LanceDataset:
    columns = {kind: column for kind, (column, _) in REGISTRY.items()}
    found = lk.write_dataset(columns, tmp_path_factory.mktemp("prewarmed") / "t")
    for kind in REGISTRY:
        if kind == "IVF_FLAT":
            found.create_index(kind, kind, num_partitions=2)
        else:
            found.create_scalar_index(kind, kind)
    return found


def missed() -> int:
    return lk.cache_info().kinds["indices"].misses


@pytest.mark.parametrize("kind", REGISTRY)
def test_what_searches_need_is_remembered(ds: lk.LanceDataset, kind: str) -> None:
    lk.clear_cache()
    ds.prewarm_index(f"{kind}_idx")
    known, before = ds.session().index_cache_size_bytes(), missed()
    ds.prewarm_index(f"{kind}_idx")
    assert (ds.session().index_cache_size_bytes(), missed()) == (known, before)
    assert ds.to_table([kind], **REGISTRY[kind][1]).num_rows
    # of texts the posting list of a word is read when it is asked for
    assert missed() == before or kind == "INVERTED"


def test_pages_of_a_tree(ds: lk.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are remembered if there is room for them."""
    for limit, held in ((1 << 20, True), (5_000, False)):
        with lk.options(cache_bytes=limit):
            lk.clear_cache()
            monkeypatch.setattr("lancekit._index.search.btree.cache_limit", lambda at=limit: at)
            ds.prewarm_index("BTREE_idx")
            assert ("values" in lk.cache_info().kinds) is held


def test_segments(ds: lk.LanceDataset) -> None:
    (segment,) = ds.describe_indices()[0].segments
    name = ds.describe_indices()[0].name
    lk.clear_cache()
    ds.prewarm_index(name, index_segments=[])
    assert "indices" not in lk.cache_info().kinds
    ds.prewarm_index(name, index_segments=[segment.uuid])
    assert lk.cache_info().kinds["indices"].bytes
    with pytest.raises(IndexNotFoundError, match=f"no segment {NOTHING}"):
        ds.prewarm_index(name, index_segments=[NOTHING])
    with pytest.raises(InvalidArgumentError, match=r"index_segments must be .* got 'zz'"):
        ds.prewarm_index(name, index_segments=["zz"])


def test_what_is_refused_as_by_pylance(ds: lk.LanceDataset, tmp_path: Any) -> None:
    uri = str(tmp_path / "t")
    theirs = lance.write_dataset(pa.table({"BTREE": NUMBERS, "INVERTED": TEXTS}), uri)
    theirs.create_scalar_index("BTREE", "BTREE")
    theirs.create_scalar_index("INVERTED", "INVERTED")
    for either in (ds, theirs, lk.dataset(uri)):
        with pytest.raises(RuntimeError, match="index not found"):
            either.prewarm_index("nothing")
        with pytest.raises(ValueError, match="BTree"):
            either.prewarm_index("BTREE_idx", with_position=True)
        with pytest.raises(ValueError, match="zz"):
            either.prewarm_index("BTREE_idx", index_segments=["zz"])
        with pytest.raises(RuntimeError, match="index not found"):
            either.prewarm_index("BTREE_idx", index_segments=[NOTHING])
        with pytest.raises(ValueError, match="positions"):
            either.prewarm_index("INVERTED_idx", with_position=True)
    theirs.create_scalar_index("INVERTED", "INVERTED", with_position=True)
    theirs.prewarm_index("INVERTED_idx", with_position=True)
    answer = lk.dataset(uri).prewarm_index("INVERTED_idx", with_position=True)
    assert "loaded 1 segment of index INVERTED_idx" in repr(answer)

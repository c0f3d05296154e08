"""Random histories of tables with indices of text and vectors, by both libraries, and searches."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit._format.index import fragment_reuse_of

SIZE, COUNT = 8, 12
WORDS = ["apple", "berries", "cherry", "dates", "elder", "figs", "grape"]
UPKEEP = ["append", "delete", "update", "merge", "optimize", "optimize", "compact", "defer"]
METRICS = ["l2", "cosine", "dot"]
#: histories of a whole run; a short one has the first of each share
HISTORIES, SHARES = 240, 4


def rows(rng: random.Random, count: int, first: int) -> pa.Table:
    draw = np.random.default_rng(rng.randrange(1 << 30))
    vectors = draw.standard_normal((count, SIZE)).astype("f4")
    if count > 9:
        vectors[3, 1] = np.nan
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), SIZE)
    gone = pa.array([rng.random() < 0.05 for _ in range(count)])
    texts = [
        None if rng.random() < 0.1 else " ".join(rng.choices(WORDS, k=rng.randint(0, 9)))
        for _ in range(count)
    ]
    return pa.table(
        {
            "k": pa.array(range(first, first + count), pa.int64()),
            "v": pc.if_else(gone, pa.scalar(None, column.type), column),
            "t": pa.array(texts, pa.string()),
        }
    )


def index(rng: random.Random, uri: str, stable: bool) -> str:
    """Make both indices anew, by one of the libraries; return how."""
    kind, metric = rng.choice(["IVF_FLAT", "IVF_FLAT", "IVF_PQ", "IVF_SQ"]), rng.choice(METRICS)
    by: Any = lk if kind == "IVF_FLAT" and rng.random() < 0.6 else lance
    more = {"num_sub_vectors": 4} if kind == "IVF_PQ" else {}
    partitions = rng.choice([1, 2, 4])
    by.dataset(uri).create_index(
        "v", kind, metric=metric, num_partitions=partitions, replace=True, **more
    )
    text: Any = rng.choice([lk, lance])
    text.dataset(uri).create_scalar_index(
        "t", "INVERTED", with_position=rng.random() < 0.5, replace=True
    )
    return f"{by.__name__}: {kind} {metric} {partitions}; {text.__name__}: INVERTED"


def step(rng: random.Random, uri: str, first: int) -> str:
    """Do something with one of the libraries; return what."""
    module: Any = rng.choice([lk, lk, lance])
    what, ds = rng.choice(UPKEEP), module.dataset(uri)
    if what == "append":
        table = rows(rng, rng.choice([1, 30, 200]), first)
        module.write_dataset(table, uri, mode="append", max_rows_per_file=rng.choice([20, 1000]))
    elif what == "delete":
        ds.delete(f"k % {rng.randint(2, 9)} = 1")
    elif what == "update":
        changed = rng.choice([{"k": "k"}, {"t": "'figs and apple'"}])
        ds.update(changed, where=f"k % {rng.randint(2, 7)} = 0")
    elif what == "merge":
        merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows(rng, 20, rng.randint(0, first)))
    elif what == "compact" and not (module is lance and is_noted(uri)):
        ds.optimize.compact_files()
    elif what == "defer" and not ds.has_stable_row_ids:
        ds.optimize.compact_files(defer_index_remap=True)
    elif what == "optimize":
        # deltas of pylance beside a segment with updated rows find these by their old values
        merge = rng.choice([None, 0, 1, 2] if module is lk or not ds.has_stable_row_ids else [9])
        ds.optimize.optimize_indices(num_indices_to_merge=merge)
        if module is lk:
            covered(uri)
        what += f" {merge}"
    return f"{module.__name__}: {what}"


def is_noted(uri: str) -> bool:
    """Whether indices wait for a remap: pylance loses rows of text if it compacts then."""
    return fragment_reuse_of(lk.dataset(uri)._snapshot.indices) is not None


def covered(uri: str) -> None:
    """All rows are in both indices."""
    live = set(lk.dataset(uri).fragment_ids())
    for name in ("v_idx", "t_idx"):
        segments = next(one for one in lance.dataset(uri).describe_indices() if one.name == name)
        found = {id_ for part in segments.segments for id_ in part.fragment_ids}
        assert live <= found, (name, live, found)


def nearest(ds: Any, q: Any, metric: str, **more: Any) -> list[int]:
    asked = {"column": "v", "q": q, "k": COUNT, "metric": metric, **more}
    return list(ds.to_table(columns=["k"], nearest=asked)["k"].to_pylist())


def searched(ds: Any, words: str, **more: Any) -> list[int]:
    table = ds.to_table(columns=["k"], full_text_query=words, **more)
    return sorted(table["k"].to_pylist())


def compare(uri: str, rng: random.Random) -> None:
    """Go through a history, and search after each of its steps."""
    stable = rng.random() < 0.5
    lk.write_dataset(
        rows(rng, rng.choice([300, 500]), 0),
        uri,
        max_rows_per_file=rng.choice([60, 150, 1000]),
        enable_stable_row_ids=stable,
    )
    done = [f"stable {stable}", index(rng, uri, stable)]
    metric = done[1].split()[2]
    draw = np.random.default_rng(rng.randrange(1 << 30))
    for number in range(rng.randint(4, 9)):
        done.append(step(rng, uri, 1000 * (number + 1)))
        both = [lk.dataset(uri), lance.dataset(uri)]
        q = draw.standard_normal(SIZE).astype("f4")
        exact = nearest(both[1], q, metric, use_index=False)
        for ds in both:
            found = nearest(ds, q, metric, nprobes=1000, refine_factor=100)
            assert set(found) == set(exact), (ds, done)
        word = rng.choice(WORDS)
        texts = both[0].to_table(["k", "t"])
        there = [
            k
            for k, t in zip(texts["k"].to_pylist(), texts["t"].to_pylist(), strict=True)
            if t and word in t.split()
        ]
        for ds in both:
            assert searched(ds, word) == sorted(there), (ds, word, done)


@pytest.mark.torture
@pytest.mark.parametrize("share", range(SHARES))
def test_searches_find_what_is_there(tmp_path: Path, share: int, whole: bool) -> None:
    for seed in range(share, HISTORIES if whole else SHARES, SHARES):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            compare(str(tmp_path / str(seed)), random.Random(seed))

"""Indices of vectors, as pylance builds them, propose the rows that they propose there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._storage import base

SIZE = 16
KINDS = {
    "flat": ("IVF_FLAT", "float32", {}),
    "half": ("IVF_FLAT", "float16", {}),
    "double": ("IVF_FLAT", "float64", {}),
    "cosine": ("IVF_FLAT", "float32", {"metric": "cosine"}),
    "dot": ("IVF_FLAT", "float32", {"metric": "dot"}),
    "products": ("IVF_PQ", "float32", {"num_sub_vectors": 4}),
    "products, cosine": ("IVF_PQ", "float32", {"num_sub_vectors": 4, "metric": "cosine"}),
    "products, dot": ("IVF_PQ", "float32", {"num_sub_vectors": 4, "metric": "dot"}),
    "steps": ("IVF_SQ", "float32", {}),
    "steps, cosine": ("IVF_SQ", "float32", {"metric": "cosine"}),
    "graph": ("IVF_HNSW_SQ", "float32", {}),
}


def rows(count: int, first: int, kind: str = "float32", seed: int = 0) -> pa.Table:
    values = np.random.default_rng([seed, first]).standard_normal((count, SIZE)).astype(kind)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), SIZE)
    return pa.table({"n": range(first, first + count), "v": column})


def made(uri: str, kind: str, values: str, options: dict[str, Any], *, stable: bool) -> None:
    """Write fragments with an index over them, then deletions, updates and rows without it."""
    theirs = lance.write_dataset(
        rows(1200, 0, values), uri, max_rows_per_file=500, enable_stable_row_ids=stable
    )
    theirs.create_index("v", kind, num_partitions=6, **options)
    lance.dataset(uri).delete("n % 7 = 0")
    lance.write_dataset(rows(100, 1200, values), uri, mode="append")
    lance.dataset(uri).update({"n": "n + 10000"}, where="n < 30")


@pytest.mark.cover
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row ids"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_rows_are_found(tmp_path: Path, name: str, stable: bool, seed: int) -> None:
    kind, values, options = KINDS[name]
    uri = str(tmp_path / "t")
    made(uri, kind, values, options, stable=stable)
    ours, theirs = lk.dataset(uri), lance.dataset(uri)
    assert ours.scanner(nearest=near([0.5] * SIZE)).explain() != ""
    q = np.random.default_rng(seed).standard_normal(SIZE).astype(values)
    for scan in ({}, {"filter": "n % 3 = 0", "prefilter": True}, {"filter": "n % 3 = 0"}):
        for probes in (1, 3):
            asked = near(q, nprobes=probes, refine_factor=1)
            found, known = (ds.to_table(["n"], nearest=asked, **scan) for ds in (ours, theirs))
            assert set(found["n"].to_pylist()) == set(known["n"].to_pylist())
            assert np.allclose(
                found["_distance"].to_numpy(), known["_distance"].to_numpy(), rtol=1e-3
            )


def near(q: Any, **more: Any) -> dict[str, Any]:
    return {"column": "v", "q": q, "k": 10, **more}


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("vectors") / "t")
    made(place, "IVF_FLAT", "float32", {}, stable=False)
    return place


Q = [0.25] * SIZE


def test_what_is_looked_at(uri: str) -> None:
    ds = lk.dataset(uri)
    exact = ds.to_table(nearest=near(Q, use_index=False))
    assert ds.to_table(nearest=near(Q, nprobes=6)).equals(exact)
    assert ds.to_table(nearest=near(Q, search_effort=1.0)).equals(exact)
    assert ds.to_table(nearest=near(Q, nprobes=1)) != exact
    assert ds.to_table(nearest=near(Q, search_effort=0.0)) == ds.to_table(
        nearest=near(Q, minimum_nprobes=1, maximum_nprobes=1)
    )
    # of one partition too few rows are left: others are looked at, if they may be
    many = near(Q, minimum_nprobes=1) | {"k": 900}
    assert ds.to_table(nearest=many).num_rows == 900
    assert ds.to_table(nearest=many | {"maximum_nprobes": 1}).num_rows < 900
    plan = ds.scanner(nearest=near(Q, nprobes=2)).explain()
    assert "index v_idx, the 2 nearest of 6 partitions" in str(plan)


def test_several_queries_ranges_and_fragments(uri: str) -> None:
    ds, theirs = lk.dataset(uri), lance.dataset(uri)
    queries = np.random.default_rng(3).standard_normal((3, SIZE)).astype(np.float32)
    found, known = (one.to_table(["n"], nearest=near(queries, nprobes=2)) for one in (ds, theirs))
    assert found.select(["query_index", "n"]) == known.select(["query_index", "n"])
    far = near(Q, nprobes=2, distance_range=(8.0, 11.0))
    assert ds.to_table(["n"], nearest=far)["n"] == theirs.to_table(["n"], nearest=far)["n"]
    part = ds.scanner(nearest=near(Q, nprobes=6), fragments=ds.get_fragments()[1:2]).to_table()
    assert set(part["n"].to_pylist()) <= {*range(500, 1000)}
    assert part.num_rows == 10
    other = near(Q, metric="cosine", nprobes=1)  # the index compares by another metric
    assert ds.to_table(nearest=other) == ds.to_table(nearest=other | {"use_index": False})


def test_the_metric_of_an_index(tmp_path: Path, pylance4: Callable[..., Any]) -> None:
    """It is what is meant if nothing is said, also where only its files tell it, as of 4.0.0."""
    uri = str(tmp_path / "t")
    lk.write_dataset(rows(300, 0), uri)
    program = """
ds = lance.dataset(arguments["uri"])
result = ds.create_index("v", "IVF_FLAT", metric="cosine", num_partitions=2).version
"""
    assert pylance4(program, uri=uri) == 2
    ds = lk.dataset(uri)
    cosine = ds.to_table(nearest=near(Q, metric="cosine", use_index=False))
    assert ds.to_table(nearest=near(Q))["n"] == cosine["n"]
    assert ds.to_table(nearest=near(Q, use_index=False))["n"] != cosine["n"]


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_SQ"])
def test_compactions_that_indices_wait_for(tmp_path: Path, kind: str) -> None:
    """Rows that moved twice are proposed as where they are; those in between were deleted."""
    uri = str(tmp_path / "t")
    made(uri, kind, "float32", {}, stable=False)
    for module in (lance, lk):
        module.dataset(uri).optimize.compact_files(defer_index_remap=True)
        module.dataset(uri).delete("n % 11 = 5")
        lance.write_dataset(rows(100, 2000, seed=len(module.__name__)), uri, mode="append")
    ours, theirs = lk.dataset(uri), lance.dataset(uri)
    plan = str(ours.scanner(nearest=near(Q, nprobes=2)).explain())
    assert "index v_idx, the 2 nearest of 6 partitions" in plan
    for probes in (2, 6):
        for scan in ({}, {"filter": "n % 3 = 0", "prefilter": True}):
            asked = near(Q, nprobes=probes, refine_factor=9)
            found, known = (ds.to_table(["n"], nearest=asked, **scan) for ds in (ours, theirs))
            assert set(found["n"].to_pylist()) == set(known["n"].to_pylist())
            assert np.allclose(found["_distance"], known["_distance"], rtol=1e-3)


@pytest.mark.parametrize("file", ["index.idx", "auxiliary.idx"])
@pytest.mark.parametrize("how", ["gone", "cut", "other bytes"])
def test_files_that_are_damaged_are_passed_over(tmp_path: Path, file: str, how: str) -> None:
    uri = tmp_path / "t"
    made(str(uri), "IVF_FLAT", "float32", {}, stable=False)
    (place,) = uri.glob(f"_indices/*/{file}")
    data = place.read_bytes()
    if how == "gone":
        place.unlink()
    else:
        place.write_bytes(data[: len(data) // 2] if how == "cut" else b"\x07" * len(data))
    ds = lk.dataset(uri)
    told = r"'v_idx' is not used, all vectors are read: segment \S+ cannot be read: "
    with pytest.warns(UserWarning, match=told):
        found = ds.to_table(nearest=near(Q))
    assert found == ds.to_table(nearest=near(Q, use_index=False))


def test_kinds_that_are_not_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    made(uri, "IVF_RQ", "float32", {}, stable=False)
    ds = lk.dataset(uri)
    with pytest.warns(UserWarning, match="type IVF_RQ"):
        found = ds.to_table(nearest=near(Q))
    assert found == ds.to_table(nearest=near(Q, use_index=False))


@pytest.fixture
def _own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, which files are remembered in as soon as they are there."""
    monkeypatch.setattr(base, "SETTLED_SECONDS", -1)
    lk.clear_cache()


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.parametrize("values", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("case", ["plain", "far from 0", "very long", "of all lengths"])
def test_estimates_of_distances_change_nothing(
    tmp_path: Path, case: str, metric: str, values: str
) -> None:
    drawn = np.random.default_rng(5)
    some = drawn.standard_normal((400, SIZE))
    some[:100] = some[100:200] + drawn.standard_normal((100, SIZE)) * 1e-4
    some = {
        "plain": some,
        "far from 0": some * 1e-3 + 1000,
        "very long": some * 1e15,
        "of all lengths": some * 10.0 ** drawn.integers(-4, 5, (400, 1)),
    }[case].astype(values)
    column = pa.FixedSizeListArray.from_arrays(pa.array(some.ravel()), SIZE)
    uri = str(tmp_path / "t")
    ds = lk.write_dataset(pa.table({"n": range(400), "v": column}), uri)
    ds.create_index("v", "IVF_FLAT", num_partitions=4, metric=metric)
    for q in (some[7], some[30] * 1.0001, some[:5].mean(axis=0)):
        exact = ds.to_table(["n"], nearest=near(q, metric=metric, use_index=False, k=20))
        far = exact["_distance"].to_numpy()
        # cold, kept, and as it was kept
        for _ in range(3):
            found = ds.to_table(["n"], nearest=near(q, nprobes=4, k=20))
            assert np.allclose(found["_distance"], far, rtol=1e-3, atol=1e-6 * max(far[-1], 1))
            if metric == "l2":
                assert found["n"].equals(exact["n"])
        between = [float(far[3]), float(far[12])]
        asked = {"distance_range": between, "metric": metric, "k": 20}
        found = ds.to_table(["n"], nearest=near(q, nprobes=4) | asked)
        exact = ds.to_table(["n"], nearest=near(q, use_index=False) | asked)
        if metric == "l2":
            assert found.equals(exact)


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.parametrize(
    ("kind", "options"), [("IVF_FLAT", {}), ("IVF_SQ", {}), ("IVF_PQ", {"num_sub_vectors": 4})]
)
def test_partitions_are_kept_when_they_are_wanted_again(
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    ds = lk.write_dataset(rows(1000, 0), str(tmp_path / "t"))
    ds.create_index("v", kind, num_partitions=4, **options)
    q = [0.1] * SIZE

    def searched() -> tuple[pa.Table, int, int]:
        found = lk.dataset(ds.uri).to_table([], nearest=near(q, nprobes=4, refine_factor=9))
        use = lk.cache_info().kinds["values"]  # also of what was not found
        return found, use.entries, use.hits

    first, once, _ = searched()
    second, twice, hits = searched()
    third, again, more = searched()
    assert first.equals(second)
    assert second.equals(third)
    assert twice >= once + 4
    assert again >= twice
    assert more >= hits + 4
    with lk.options(cache_bytes=0):
        assert (
            lk.dataset(ds.uri)
            .to_table([], nearest=near(q, nprobes=4, refine_factor=9))
            .equals(first)
        )

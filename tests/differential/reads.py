"""Calls that read: scans, takes, searches, plans, histories."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import lancekit as lk
from tests.differential.filters import arrow_filter, few_columns, from_corpus, value
from tests.differential.scene import Maker, Scene, Step, handle, maybe, some
from tests.differential.tables import VECTOR

__all__ = ["HISTORIES", "OF_CORPUS", "READS", "SEARCHES", "SHARD_READS"]

_AT = (None, None, None, None, "", "", 1, 2, "t0", ("b1", None))
_WORDS = ("apple", "figs dates", "berries", "nosuch", "elder grape cherry")


def _columns(draw: Random, scene: Scene) -> Any:
    return draw.choice(
        [
            lambda: None,
            lambda: some(draw, scene.columns),
            lambda: some(draw, scene.columns, 2),
            lambda: {name: name for name in some(draw, scene.columns, 3)},
            lambda: {"n": "n", "y": value(draw)},
            lambda: [],
        ]
    )()


def _ordering(draw: Random, scene: Scene) -> list[Any]:
    return [
        draw.choice([name, lk.ColumnOrdering(name, ascending=draw.random() < 0.5)])
        for name in some(draw, ("n", "i", "s", "f", *scene.columns[:3]), 2)
    ]


def scan_arguments(draw: Random, scene: Scene) -> dict[str, Any]:
    """Draw arguments of a scan; most are left out."""
    given = {
        "columns": _columns(draw, scene),
        "filter": maybe(draw, 0.6, lambda: scene.filters(draw))
        or maybe(draw, 0.2, lambda: arrow_filter(draw)),
        "limit": maybe(draw, 0.2, lambda: draw.choice([0, 1, 5, 40, 10**6])),
        "offset": maybe(draw, 0.15, lambda: draw.choice([0, 3, 50, 10**6])),
        "order_by": maybe(draw, 0.12, lambda: _ordering(draw, scene)),
        "with_row_id": maybe(draw, 0.2, lambda: True),
        "with_row_address": maybe(draw, 0.15, lambda: True),
        "batch_size": maybe(draw, 0.1, lambda: max(scene.least_batch, draw.choice([1, 7, 1000]))),
        "use_scalar_index": maybe(draw, 0.1, lambda: False),
        "late_materialization": maybe(draw, 0.08, lambda: draw.choice([True, False, ["s"]])),
        "scan_in_order": maybe(draw, 0.05, lambda: False),
        "include_deleted_rows": maybe(draw, 0.04, lambda: True),
        "use_stats": maybe(draw, 0.05, lambda: False),
    }
    return {name: found for name, found in given.items() if found is not None}


def _scanned(name: str) -> Maker:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        ds = handle(scene, given.pop("at", None))
        found: list[Any] = []
        scanner = ds.scanner(**given, scan_stats_callback=found.append)
        if name == "batches":
            rows: Any = [(batch.num_rows, batch) for batch in scanner.to_batches()]
        else:
            rows = getattr(scanner, name)()
        return [rows, *(dataclasses.replace(one, all_times={}) for one in found)]

    def make(draw: Random, scene: Scene) -> Step:
        return Step(f"scanner.{name}", {"at": draw.choice(_AT), **scan_arguments(draw, scene)}, run)

    return make


def _method(name: str, *, arguments: Any) -> Maker:
    """Return a maker of calls of a handle's method."""

    def run(scene: Scene, given: dict[str, Any]) -> Any:
        return getattr(handle(scene, given.pop("at", None)), name)(**given)

    def make(draw: Random, scene: Scene) -> Step:
        return Step(name, {"at": draw.choice(_AT), **arguments(draw, scene)}, run)

    return make


def _explained(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        ds = handle(scene, given.pop("at", None))
        return getattr(ds.explain, given.pop("of"))(**given)

    given = {"filter": scene.filters(draw)}
    made = draw.choice(
        [
            {"of": "scanner", **scan_arguments(draw, scene)},
            {"of": "count_rows", **given},
            {"of": "delete", "predicate": scene.filters(draw)},
            {"of": "update", "updates": {"i": value(draw)}, "where": scene.filters(draw)},
            {"of": "compact_files", "target_rows_per_fragment": draw.choice([10, 50, 10**6])},
            {"of": "add_columns", "transforms": {"new": value(draw)}},
            {"of": "drop_columns", "columns": some(draw, scene.columns, 2)},
            {"of": "create_scalar_index", "column": draw.choice("nisbl"), "index_type": "BTREE"},
            {"of": "restore"},
        ]
    )
    return Step("explain", {"at": draw.choice(_AT), **made}, run)


def _filter_of_rows(draw: Random, scene: Scene) -> Step:
    """Count rows, and read those of the filter, which a plan may find otherwise."""

    def run(scene: Scene, given: dict[str, Any]) -> Any:
        ds = handle(scene, given.pop("at", None))
        return [
            ds.count_rows(**given),
            ds.to_table(columns=["n"], **given),
            ds.explain.filter(given["filter"]),
        ]

    return Step("filtered", {"at": draw.choice(_AT), "filter": scene.filters(draw)}, run)


def _taken(draw: Random, scene: Scene) -> dict[str, Any]:
    rows = [draw.randint(0, 90) for _ in range(draw.randint(0, 6))]
    return {"indices": rows, "columns": _columns(draw, scene)}


def _head(draw: Random, scene: Scene) -> dict[str, Any]:
    return {"num_rows": draw.choice([0, 1, 5, 500]), **scan_arguments(draw, scene)} | {
        "limit": None
    }


def _sample(draw: Random, scene: Scene) -> dict[str, Any]:
    return {"num_rows": draw.choice([1, 5, 20]), "columns": some(draw, scene.columns, 3)}


def _fragment(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        fragment = handle(scene, given.pop("at", None)).get_fragments()[given.pop("number")]
        match given.pop("of"):
            case "count":
                return fragment.count_rows(given["filter"])
            case "take":
                return fragment.take([0, 2, 1], columns=given["columns"])
        return fragment.to_table(columns=given["columns"], filter=given["filter"])

    given = {
        "of": draw.choice(["count", "take", "table"]),
        "number": draw.randint(0, 2),
        "columns": some(draw, scene.columns, 3),
        "filter": scene.filters(draw),
    }
    return Step("fragment", {"at": draw.choice(_AT), **given}, run)


def _one_of_corpus(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        if given.pop("of") == "value":
            return scene.dataset.to_table(columns={"y": given["filter"]})
        return scene.dataset.to_table(columns=["n"], **given)["n"].to_pylist()

    of = draw.choice(["filter"] * 5 + ["value"])
    return Step("corpus", {"of": of, "filter": from_corpus(draw)}, run)


# ---- searches


def _nearest(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        return handle(scene, given.pop("at")).to_table(**given)

    nearest = {
        "column": "fsl",
        "q": [round(draw.uniform(-1, 1), 2) for _ in range(VECTOR)],
        "k": draw.choice([1, 5, 20]),
        **draw.choice([{}, {"nprobes": 1}, {"refine_factor": 2}, {"use_index": False}]),
        **draw.choice([{}, {}, {"metric": "L2"}, {"metric": "cosine"}]),
    }
    given = {"nearest": nearest, "columns": draw.choice([["n"], ["n", "w"], None])}
    if draw.random() < 0.4:
        given |= {"filter": few_columns(draw), "prefilter": draw.random() < 0.5}
    return Step("nearest", {"at": draw.choice([None, "", 1]), **given}, run)


def _words(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        return handle(scene, given.pop("at")).to_table(**given)

    text = draw.choice(_WORDS)
    query = draw.choice(
        [text, {"query": text, "columns": ["w"]}, {"query": f"{text} e", "columns": ["w"]}]
    )
    given: dict[str, Any] = {"full_text_query": query, "columns": ["n", "w"]}
    if draw.random() < 0.4:
        given |= {"filter": few_columns(draw), "prefilter": draw.random() < 0.7}
    if draw.random() < 0.3:
        given["limit"] = draw.choice([1, 7])
    return Step("full_text", {"at": draw.choice([None, "", 1]), **given}, run)


# ---- shards


def _sharded_scan(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        return lk.dataset(scene.uri).to_table(**given, include_mem_wal=True)

    given = {"columns": some(draw, scene.columns, 3), "filter": few_columns(draw)}
    if draw.random() < 0.3:
        given["order_by"] = ["n"]
    return Step("with_shards", given, run)


def _lsm(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        scanner = (
            lk.dataset(scene.uri).lsm_scanner().project(given["columns"]).filter(given["filter"])
        )
        return scanner.explain() if given["explain"] else scanner.limit(given["limit"]).to_table()

    given = {
        "columns": some(draw, scene.columns, 3),
        "filter": few_columns(draw),
        "limit": draw.choice([None, 5]),
        "explain": draw.random() < 0.3,
    }
    return Step("lsm_scanner", given, run)


def _shards(draw: Random, scene: Scene) -> Step:
    return Step("shards", {}, lambda scene, given: lk.dataset(scene.uri).mem_wal_shards())


# ---- histories


def _versions(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        ds = scene.dataset
        return [ds.versions(), ds.tags.list(), ds.branches.list(), ds.get_transactions()]

    return Step("versions", {}, run)


def _diff(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        diff = scene.dataset.diff(**given)
        return [diff.counts, diff.to_table()]

    given: dict[str, Any] = {"old": draw.choice([1, 1, 2, 3, "t0", ("b1", None)])}
    given |= {"filter": maybe(draw, 0.3, lambda: scene.filters(draw))}
    given |= {"columns": maybe(draw, 0.2, lambda: some(draw, scene.columns, 3))}
    given |= {"on": maybe(draw, 0.3, lambda: "n")}
    return Step("diff", given, run)


def _row_history(draw: Random, scene: Scene) -> dict[str, Any]:
    return {"rows": draw.choice([{"n": draw.randint(0, 50)}, f"n = {draw.randint(0, 50)}", 3])}


READS: dict[Maker, int] = {
    _scanned("to_table"): 16,
    _scanned("batches"): 5,
    _scanned("to_pandas"): 2,
    _scanned("count_rows"): 3,
    _scanned("explain"): 4,
    _filter_of_rows: 14,
    _explained: 6,
    _method("take", arguments=_taken): 4,
    _method("head", arguments=_head): 2,
    _method("sample", arguments=_sample): 1,
    _method("count_rows", arguments=lambda draw, s: {"filter": s.filters(draw)}): 3,
    _fragment: 3,
}
OF_CORPUS: dict[Maker, int] = {_one_of_corpus: 1}
SEARCHES: dict[Maker, int] = {_nearest: 8, _words: 8, _scanned("to_table"): 3}
SHARD_READS: dict[Maker, int] = {_sharded_scan: 8, _lsm: 5, _shards: 1}
HISTORIES: dict[Maker, int] = {
    _versions: 1,
    _diff: 4,
    _method("row_history", arguments=_row_history): 1,
    _method("blame", arguments=lambda draw, s: {"filter": s.filters(draw)}): 1,
    _method("column_history", arguments=lambda draw, s: {"column": draw.choice(s.columns)}): 1,
}

"""Calls that change a table: rows, columns, files, indices, versions, branches, shards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa

import lancekit as lk
from tests.differential.filters import value
from tests.differential.scene import Maker, Rows, Scene, Step, handle, maybe, some

__all__ = ["CHANGES", "SHARD_CHANGES", "UPKEEP"]

_ON = (None, None, None, None, None, "", ("b1", None))
Arguments = Callable[[Random, Scene], dict[str, Any]]


def _method(name: str, arguments: Arguments, of: str = "") -> Maker:
    """Return a maker of calls of a handle's method, or of that of one of its companions."""

    def run(scene: Scene, given: dict[str, Any]) -> Any:
        ds = handle(scene, given.pop("at", None))
        places = given.pop("positional", ())
        return getattr(getattr(ds, of) if of else ds, name)(*places, **given)

    def make(draw: Random, scene: Scene) -> Step:
        return Step(
            f"{of}.{name}" if of else name, {"at": draw.choice(_ON), **arguments(draw, scene)}, run
        )

    return make


def _rows(draw: Random, scene: Scene, *, most: int = 30) -> Rows:
    columns = maybe(draw, 0.2, lambda: ("n", *some(draw, scene.columns[1:])))
    return Rows(
        draw.randrange(10**6), draw.randint(0, most), columns, draw.choice([0, 20, 60, 500])
    )


def _write(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        made = scene.made(given.pop("rows"))
        done = lk.write_dataset(made, scene.uri, **given)
        scene.dataset.checkout_latest()
        return done

    given: dict[str, Any] = {"rows": _rows(draw, scene)}
    given["mode"] = draw.choice(["append"] * 8 + ["overwrite", "create"])
    if draw.random() < 0.3:
        given["max_rows_per_file"] = draw.choice([3, 10])
    return Step("write_dataset", given, run)


def _merge(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        merge = handle(scene, given["at"]).merge_insert(given["on"])
        for method, arguments in given["clauses"]:
            merge = getattr(merge, method)(*arguments)
        return getattr(merge, given["do"])(scene.made(given["rows"]))

    matched = draw.choice(
        [
            [],
            [("when_matched_update_all", ())],
            [("when_matched_update_all", ())],
            [("when_matched_update_all", (_pairs(draw),))],
            [("when_matched_delete", ())],
            [("when_matched_fail", ())],
        ]
    )
    clauses = [*matched]
    if draw.random() < 0.7:
        clauses.append(("when_not_matched_insert_all", ()))
    if draw.random() < 0.2:
        expr = maybe(draw, 0.7, lambda: scene.filters(draw))
        clauses.append(("when_not_matched_by_source_delete", (expr,) if expr else ()))
    if draw.random() < 0.15:
        clauses.append(("write_mode", (draw.choice(["rewrite_rows", "rewrite_columns"]),)))
    if draw.random() < 0.2:
        clauses.append(("dedupe", (draw.choice(["first", "last"]),)))
    if draw.random() < 0.1:
        clauses.append(("use_index", (False,)))
    given = {
        "at": draw.choice(_ON),
        "on": draw.choice(["n", "n", "n", ["n", "i"], "s"]),
        "clauses": clauses,
        "rows": _rows(draw, scene),
        "do": draw.choice(["execute"] * 5 + ["preview", "explain"]),
    }
    return Step("merge_insert", given, run)


def _pairs(draw: Random) -> str:
    return draw.choice(
        [
            "source.i > target.i",
            "source.s <> target.s OR target.s IS NULL",
            "target.n < 30",
            "source.f = source.f AND target.i IS NOT NULL",
            "source.nosuch > 1",
        ]
    )


def _updates(draw: Random, scene: Scene) -> dict[str, Any]:
    assignments = draw.choice(
        [
            {"i": "i + 1"},
            {"s": "lower(s) || 'x'"},
            {"f": "f * 2", "i": "NULL"},
            {"k": value(draw)},
            {"s": value(draw), "b": "NOT b"},
            {"d": "date '2020-05-05'"},
            {"l": "NULL"},
            {"n": "n + 1000"},
        ]
    )
    return {"updates": assignments, "where": maybe(draw, 0.85, lambda: scene.filters(draw))}


def _added(draw: Random, scene: Scene) -> dict[str, Any]:
    name = draw.choice(["new1", "new2", "new3"])
    fields = [pa.field(name, pa.int32()), pa.field(name, pa.list_(pa.string()))]
    return {"transforms": draw.choice([{name: value(draw)}, {name: value(draw)}, *fields])}


def _altered(draw: Random, scene: Scene) -> dict[str, Any]:
    column = draw.choice(["k", "h", "g", "new1", "new2", "t"])
    changes = draw.choice(
        [
            {"name": f"{column}_"},
            {"data_type": draw.choice([pa.int64(), pa.float64(), pa.large_string()])},
            {"nullable": draw.random() < 0.5},
        ]
    )
    return {"positional": ({"path": column, **changes},)}


def _replaced(draw: Random, scene: Scene) -> dict[str, Any]:
    return {"transforms": {draw.choice(["i", "s", "f"]): value(draw)}}


def _joined(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        right = scene.made(given["rows"]).select(["n"])
        return scene.dataset.merge(right.append_column("joined", right["n"]), "n")

    return Step("merge", {"rows": Rows(draw.randrange(10**6), draw.randint(1, 40))}, run)


# ---- files, indices, versions


def _indexed(draw: Random, scene: Scene) -> dict[str, Any]:
    column, kind = draw.choice(
        [
            ("n", "BTREE"), ("i", "BTREE"), ("s", "BTREE"), ("f", "BTREE"), ("d", "BTREE"),
            ("q", "BTREE"), ("x", "BTREE"), ("i", "BITMAP"), ("s", "BITMAP"), ("b", "BITMAP"),
            ("dic", "BITMAP"), ("l", "LABEL_LIST"), ("n", "ZONEMAP"), ("f", "ZONEMAP"),
            ("s", "ZONEMAP"), ("m", "ZONEMAP"), ("s", "BLOOMFILTER"), ("i", "BLOOMFILTER"),
            ("w", "NGRAM"), ("s", "NGRAM"), ("w", "INVERTED"),
        ]
    )  # fmt: skip
    return {
        "column": column,
        "index_type": kind,
        "name": maybe(draw, 0.5, lambda: f"{column}_{kind}"),
    }


def _compacted(draw: Random, scene: Scene) -> dict[str, Any]:
    return draw.choice(
        [
            {},
            {"target_rows_per_fragment": 25},
            {"materialize_deletions": False},
            {"materialize_deletions_threshold": 0.0},
            {"defer_index_remap": True},
        ]
    )


def _optimized(draw: Random, scene: Scene) -> dict[str, Any]:
    return draw.choice(
        [{}, {}, {"num_indices_to_merge": 0}, {"num_indices_to_merge": 2}, {"retrain": True}]
    )


def _cleaned(draw: Random, scene: Scene) -> dict[str, Any]:
    return {
        "older_than": draw.choice([timedelta(0), timedelta(days=3)]),
        "retain_versions": draw.choice([None, 1, 4]),
        "error_if_tagged_old_versions": draw.random() < 0.3,
    }


def _restored(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        lk.dataset(scene.uri, version=given["version"]).restore()
        return scene.dataset.checkout_latest()

    return Step("restore", {"version": draw.randint(1, 6)}, run)


def _branched(draw: Random, scene: Scene) -> dict[str, Any]:
    return {"branch": draw.choice(["b1", "b1", "b2"]), "reference": draw.choice([None, 1, 2, "t0"])}


def _merged_branch(draw: Random, scene: Scene) -> dict[str, Any]:
    return {
        "source": draw.choice(["b1", "b1", "b2"]),
        "on": maybe(draw, 0.6, lambda: "n"),
        "conflicts": draw.choice(["fail", "ours", "theirs"]),
        "dry_run": draw.random() < 0.3,
    }


def _tagged(draw: Random, scene: Scene) -> dict[str, Any]:
    return {"tag": draw.choice(["t0", "t1", "t2"]), "reference": draw.choice([None, 1, 2, 9])}


def _cloned(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        target = str(scene.folder / given["name"])
        done = getattr(scene.dataset, given["how"])(target, given["reference"])
        return [done, done.to_table(columns=["n"])]

    given = {"how": draw.choice(["shallow_clone", "deep_clone"]), "name": draw.choice(["c1", "c2"])}
    return Step("clone", given | {"reference": draw.choice([1, 2, "t0"])}, run)


def _constrained(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        constraints = scene.dataset.constraints
        constraints.add(given["name"], given["condition"])
        return constraints.run()

    texts = ["count(n) >= 0", "n >= 0", "i < 3 OR i IS NULL", "max(n) < 400", scene.filters(draw)]
    return Step(
        "constraints.add", {"name": draw.choice("ab"), "condition": draw.choice(texts)}, run
    )


# ---- shards


def _upserted(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        return len(lk.dataset(scene.uri).mem_wal_upsert(scene.made(given["rows"]), flush=True))

    rows = Rows(draw.randrange(10**6), draw.randint(1, 20), None, draw.choice([0, 30, 100]))
    return Step("mem_wal_upsert", {"rows": rows}, run, counted=False)


def _put(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        with lk.dataset(scene.uri).mem_wal_writer(given["shard"]) as writer:
            for rows in given["rows"]:
                writer.put(scene.made(rows))
            if given["delete"]:
                writer.delete(scene.made(given["rows"][0]).slice(0, 2).select(["n"]))

    first = draw.choice([0, 30, 100])
    rows = [Rows(draw.randrange(10**6), draw.randint(1, 20), None, first) for _ in range(2)]
    shard = f"00000000-0000-0000-0000-00000000000{draw.randint(1, 2)}"
    given = {"shard": shard, "rows": rows, "delete": draw.random() < 0.4}
    return Step("mem_wal_writer", given, run, counted=False)


def _merged_shards(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        done = lk.dataset(scene.uri).merge_mem_wal(**given)
        scene.dataset.checkout_latest()
        return done

    return Step("merge_mem_wal", {"flush": draw.random() < 0.6}, run)


CHANGES: dict[Maker, int] = {
    _write: 12,
    _method("delete", lambda draw, s: {"predicate": s.filters(draw)}): 8,
    _method("update", _updates): 8,
    _merge: 14,
    _method("add_columns", _added): 4,
    _method("alter_columns", _altered): 3,
    _method(
        "drop_columns", lambda draw, _: {"columns": [draw.choice(["new1", "v", "z", "lb"])]}
    ): 1,
    _method("replace_columns", _replaced): 2,
    _joined: 1,
    _constrained: 1,
}
UPKEEP: dict[Maker, int] = {
    _method("create_scalar_index", _indexed): 12,
    _method("compact_files", _compacted, "optimize"): 5,
    _method("optimize_indices", _optimized, "optimize"): 4,
    _method("cleanup_old_versions", _cleaned): 1,
    _restored: 2,
    _method("create_branch", _branched): 5,
    _method("merge", _merged_branch, "branches"): 4,
    _method("compare", lambda draw, _: {"branch": "b1", "on": "n"}, "branches"): 2,
    _method("create", _tagged, "tags"): 2,
    _method("update", _tagged, "tags"): 1,
    _method("undo", lambda draw, _: {}): 1,
    _method("revert", lambda draw, _: {"version": draw.randint(2, 6)}): 2,
    _method("truncate_table", lambda draw, _: {}): 0,
    _method("update_config", lambda draw, _: {"values": {"a": draw.choice(["1", "2"])}}): 1,
    _cloned: 1,
}
SHARD_CHANGES: dict[Maker, int] = {
    _upserted: 3,
    _put: 4,
    _merged_shards: 3,
    _method("delete", lambda draw, _: {"predicate": f"n < {draw.randint(0, 20)}"}): 1,
    _method("update", lambda draw, _: {"updates": {"i": "i + 1"}, "where": "n < 30"}): 1,
    _method("compact_files", _compacted, "optimize"): 1,
    _method("cleanup_mem_wal", lambda draw, _: {"grace": timedelta(0)}): 1,
}

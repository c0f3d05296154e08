"""Statements in SQL, drawn as in the tests that compare them with the API, and forms beside."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import lancekit as lk
from tests.differential.scene import Maker, Scene, Step
from tests.statements.test_generated import case_of, condition

__all__ = ["STATEMENTS"]


def _run(scene: Scene, given: dict[str, Any]) -> Any:
    frames = scene.frames if re.search(r"\b(FROM|JOIN|USING) s\b", given["sql"]) else {}
    found = lk.sql(
        given["sql"], **{n: v for n, v in given.items() if n != "sql"}, t=scene.dataset, **frames
    )
    ordered = "ORDER BY" in given["sql"] or not isinstance(found, lk.SqlResult)
    return found if ordered else sorted(map(repr, found.to_table().to_pylist()))


def _generated(draw: Random, scene: Scene) -> Step:
    case = case_of(draw.randrange(10**6))
    given: dict[str, Any] = {"sql": case.sql, "params": case.params}
    if draw.random() < 0.15:
        given["preview"] = True
    return Step("sql", given, _run)


_SELECTED = (
    "id",
    "k",
    "k + id",
    "x / 2",
    "upper(s)",
    "year(d)",
    "CASE WHEN k > 0 THEN s END",
    "CAST(x AS int)",
)


def _query(draw: Random, scene: Scene) -> Step:
    where, value, number = condition(draw), draw.choice(_SELECTED), draw.randint(-3, 2)
    sql = draw.choice(
        [
            f"SELECT id, {value} AS y FROM t WHERE {where} ORDER BY id LIMIT {draw.randint(0, 9)}",
            f"SELECT count(*), sum(k), min(s) FROM t WHERE {where}",
            f"SELECT k, count(*) AS c FROM t WHERE {where} GROUP BY k ORDER BY k",
            f"SELECT t.id, s.k FROM t JOIN s ON t.id = s.id WHERE t.k > {number} ORDER BY t.id",
            f"SELECT id, rank() OVER (PARTITION BY k ORDER BY id) FROM t WHERE {where} ORDER BY id",
            f"WITH a AS (SELECT id, {value} AS y FROM t) SELECT count(y) FROM a",
            "SELECT id FROM t VERSION AS OF 1 EXCEPT SELECT id FROM t@other ORDER BY id",
            f"SELECT DISTINCT k FROM t WHERE {where} ORDER BY k NULLS LAST",
            f"SELECT id FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.id = t.id) AND {where}",
        ]
    )
    return Step("sql", {"sql": sql, "params": {}}, _run)


def _of_dataset(draw: Random, scene: Scene) -> Step:
    def run(scene: Scene, given: dict[str, Any]) -> Any:
        return scene.dataset.sql(given["sql"]).build().to_batch_records()

    where, value = condition(draw), draw.choice(_SELECTED)
    return Step(
        "ds.sql", {"sql": f"SELECT id, {value} FROM dataset WHERE {where} ORDER BY id"}, run
    )


STATEMENTS: dict[Maker, int] = {_generated: 12, _query: 7, _of_dataset: 3}

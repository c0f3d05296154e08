"""Random histories with constraints, against a model that keeps all rows in a list."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import ConstraintViolationError

Row = dict[str, Any]
SCHEMA = pa.schema({"id": pa.int64(), "x": pa.int64(), "g": pa.string()})

#: of a row, and of a table
OF_ROWS: dict[str, Callable[[Row], bool]] = {
    "x >= -3": lambda row: row["x"] is None or row["x"] >= -3,
    "g IN ('a', 'b') OR x > 2": lambda row: row["g"] in "ab" or row["x"] is None or row["x"] > 2,
    "x IS NOT NULL": lambda row: row["x"] is not None,
}
OF_TABLES: dict[str, Callable[[list[Row]], bool]] = {
    "count(DISTINCT id) >= count(*) - 2": lambda rows: (
        len({r["id"] for r in rows}) >= len(rows) - 2
    ),
    "count(*) FILTER (WHERE g = 'c') < 4": lambda rows: sum(r["g"] == "c" for r in rows) < 4,
    "sum(x) > -5": lambda rows: sum(values(rows)) > -5 if values(rows) else True,
    "max(x) - min(x) < 14 AND count(*) < 25": lambda rows: (
        (not values(rows) or max(values(rows)) - min(values(rows)) < 14) and len(rows) < 25
    ),
}


def values(rows: list[Row]) -> list[int]:
    return [row["x"] for row in rows if row["x"] is not None]


class Story:
    """A table, and what it should be."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.chance = chance
        self.rows = self.drawn(6)
        self.ds = lk.write_dataset(
            self.table(self.rows),
            path,
            max_rows_per_file=3,
            enable_stable_row_ids=chance.random() < 0.5,
            data_storage_version=chance.choice(["2.0", "2.1", "2.2"]),
        )
        self.constraints: dict[str, str] = {}

    def drawn(self, most: int) -> list[Row]:
        chance = self.chance
        return [
            {
                "id": chance.randrange(30),
                "x": chance.choice([None, *range(-5, 10), *range(10)]),
                "g": chance.choice("aabbc"),
            }
            for _ in range(chance.randrange(1, most))
        ]

    @staticmethod
    def table(rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, SCHEMA)

    def refuses(self, rows: list[Row], changed: list[Row], *, removes: bool) -> bool:
        """Tell whether a change is to be refused, that makes ``rows`` and brings ``changed``."""
        for text in self.constraints.values():
            if text in OF_ROWS and not all(map(OF_ROWS[text], changed)):
                return True
            repairs = removes and text in OF_TABLES and not OF_TABLES[text](self.rows)
            if text in OF_TABLES and not OF_TABLES[text](rows) and not repairs:
                return True
        return False

    def change(
        self,
        call: Callable[[lk.LanceDataset], object],
        rows: list[Row],
        changed: list[Row],
        *,
        removes: bool = False,
        touches: bool = True,
    ) -> None:
        """Do it, and look; what ``touches`` no row cannot break anything."""
        expected = touches and self.refuses(rows, changed, removes=removes)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call(self.ds)
            landed = True
        except ConstraintViolationError:
            landed = False
        assert landed != expected
        if landed:
            self.rows = rows
        self.ds = lk.dataset(self.ds.uri)
        self.check()

    def check(self) -> None:
        def key(row: Row) -> str:
            return repr(sorted(row.items()))

        assert sorted(self.ds.to_table().to_pylist(), key=key) == sorted(self.rows, key=key)
        run = {result.name: result for result in self.ds.constraints.run()}
        assert {name: result.condition for name, result in run.items()} == self.constraints
        for name, text in self.constraints.items():
            if text in OF_ROWS:
                broken = [row for row in self.rows if not OF_ROWS[text](row)]
                assert run[name].violations == len(broken)
                assert all(row in broken for row in run[name].sample.to_pylist())
            else:
                assert run[name].holds == OF_TABLES[text](self.rows)

    # ---- what is done

    def append(self) -> None:
        new = self.drawn(4)
        self.change(lambda ds: ds.insert(self.table(new)), self.rows + new, new)

    def append_by_others(self) -> None:
        new = self.drawn(3)
        lance.write_dataset(self.table(new), self.ds.uri, mode="append")
        self.rows = self.rows + new
        self.ds = lk.dataset(self.ds.uri)
        self.check()

    def delete(self) -> None:
        gone = self.chance.randrange(30)
        left = [row for row in self.rows if row["id"] > gone + 2 or row["id"] < gone]
        where = f"id BETWEEN {gone} AND {gone + 2}"
        self.change(lambda ds: ds.delete(where), left, [], removes=True)

    def update(self) -> None:
        group, by = self.chance.choice("abc"), self.chance.choice([-2, 1, 2])
        new = [
            {**row, "x": None if row["x"] is None else row["x"] + by} if row["g"] == group else row
            for row in self.rows
        ]
        changed = [row for row in new if row["g"] == group]
        where = f"g = '{group}'"
        self.change(
            lambda ds: ds.update({"x": f"x + {by}"}, where=where),
            new,
            changed,
            touches=bool(changed),
        )

    def merge(self) -> None:
        mode = self.chance.choice(["auto", "rewrite_columns"])
        source = {row["id"]: row["x"] for row in self.drawn(5)}
        new = [{**row, "x": source.get(row["id"], row["x"])} for row in self.rows]
        changed = [
            row
            for row, old in zip(new, self.rows, strict=True)
            if row["id"] in source and (mode == "auto" or row["x"] != old["x"])
        ]
        table = pa.table({"id": list(source), "x": pa.array(source.values(), pa.int64())})

        def call(ds: lk.LanceDataset) -> object:
            merge = ds.merge_insert("id").when_matched_update_all()
            return merge.write_mode(mode).execute(table)

        self.change(call, new, changed, touches=any(row["id"] in source for row in new))

    def overwrite(self) -> None:
        new = self.drawn(8)
        self.change(lambda ds: lk.write_dataset(self.table(new), ds, mode="overwrite"), new, new)

    def compact(self) -> None:
        self.change(lambda ds: ds.optimize.compact_files(), self.rows, [], removes=True)

    def add(self) -> None:
        text = self.chance.choice([*OF_ROWS, *OF_TABLES])
        name, existing = f"c{self.chance.randrange(4)}", self.chance.choice(["refuse", "allow"])
        if name in self.constraints:
            self.ds.constraints.drop(name)
            del self.constraints[name]
            return
        broken = (
            not all(map(OF_ROWS[text], self.rows))
            if text in OF_ROWS
            else not OF_TABLES[text](self.rows)
        )
        if broken and existing == "refuse":
            with pytest.raises(ConstraintViolationError):
                self.ds.constraints.add(name, text)
        else:
            self.ds.constraints.add(name, text, existing=existing)
            self.constraints[name] = text
        self.check()


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(40))
def test_random_histories(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with lk.options(fsync=False):
        story = Story(tmp_path / "d", chance)
        steps = [story.append, story.add, story.delete, story.update, story.merge]
        steps = [*steps, *steps, story.append_by_others, story.overwrite, story.compact]
        for _ in range(40):
            chance.choice(steps)()
    assert lance.dataset(story.ds.uri).to_table() == story.ds.to_table()

"""A dataset as a plain dictionary, and random operations on it by lancekit and the reference."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa

import lancekit as lk

__all__ = ["SCHEMA", "Rows", "World"]

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}),
        pa.field("s", pa.string()),
        pa.field("x", pa.float64()),
    ]
)

#: key to the other values; the model's whole state
Rows = dict[int, tuple[str | None, float | None]]


def to_table(rows: Rows) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(list(rows), pa.int64()),
            "s": pa.array([row[0] for row in rows.values()], pa.string()),
            "x": pa.array([row[1] for row in rows.values()], pa.float64()),
        },
        schema=SCHEMA,
    )


def to_rows(table: pa.Table) -> Rows:
    columns = (table.column(name).to_pylist() for name in ("k", "s", "x"))
    rows = {key: (text, number) for key, text, number in zip(*columns, strict=True)}
    assert len(rows) == table.num_rows, "a key occurs twice"
    return rows


@dataclass
class Branch:
    """A line of versions: its rows at each version."""

    versions: dict[int, Rows] = field(default_factory=dict)

    @property
    def latest(self) -> int:
        return max(self.versions)


@dataclass
class World:
    """One dataset on disk and in the model; operations change both."""

    path: Path
    rng: random.Random
    branches: dict[str | None, Branch] = field(default_factory=dict)
    tags: dict[str, tuple[str | None, int]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows = self._new_rows(5)
        self.log.append("create")
        self._side().write_dataset(to_table(rows), str(self.path))
        self.branches[None] = Branch({1: rows})

    # ---- random parts

    def _side(self) -> ModuleType:
        side = self.rng.choice([lk, lance])
        self.log[-1] += f" by {side.__name__}"
        return side

    def _new_rows(self, count: int) -> Rows:
        keys = self.rng.sample(range(10_000), count)
        return {key: self._values() for key in keys}

    def _values(self) -> tuple[str | None, float | None]:
        rng = self.rng
        text = rng.choice([None, "", "a", "b" * rng.randint(1, 40), "ä€"])
        return text, rng.choice([None, 0.0, rng.random(), -1.5])

    def _handle(self, side: ModuleType, branch: str | None) -> Any:
        root = side.dataset(str(self.path))
        return root if branch is None else root.checkout_version((branch, None))

    def _branch(self) -> tuple[str | None, Branch]:
        name = self.rng.choice(list(self.branches))
        self.log[-1] += f" on {name}"
        return name, self.branches[name]

    # ---- operations

    def append(self) -> None:
        name, line = self._branch()
        current = line.versions[line.latest]
        new = {k: v for k, v in self._new_rows(self.rng.randint(0, 8)).items() if k not in current}
        side = self._side()
        handle = self._handle(side, name)
        side.write_dataset(to_table(new), handle, mode="append")
        line.versions[line.latest + 1] = current | new

    def overwrite(self) -> None:
        name, line = self._branch()
        new = self._new_rows(self.rng.randint(0, 12))
        side = self._side()
        side.write_dataset(to_table(new), self._handle(side, name), mode="overwrite")
        line.versions[line.latest + 1] = new

    def delete(self) -> None:
        name, line = self._branch()
        predicate: str
        keep: Callable[[int, tuple[Any, Any]], bool]
        bound = self.rng.randrange(10_000)
        predicate, keep = self.rng.choice(
            [
                (f"k < {bound}", lambda k, _: k >= bound),
                (f"k % 3 = {bound % 3}", lambda k, _: k % 3 != bound % 3),
                ("s IS NULL", lambda _, v: v[0] is not None),
                ("x > 0 OR s = 'a'", lambda _, v: not ((v[1] or 0) > 0 or v[0] == "a")),
            ]
        )
        self._handle(self._side(), name).delete(predicate)
        current = line.versions[line.latest]
        line.versions[line.latest + 1] = {k: v for k, v in current.items() if keep(k, v)}

    def merge(self) -> None:
        name, line = self._branch()
        current = line.versions[line.latest]
        known = list(current)
        old = self.rng.sample(known, min(len(known), self.rng.randint(0, 4)))
        source = {key: self._values() for key in old} | self._new_rows(self.rng.randint(0, 4))
        builder = self._handle(self._side(), name).merge_insert("k")
        clauses = self.rng.choice(["upsert", "insert", "update", "upsert and delete"])
        self.log[-1] += f" {clauses}"
        updated = {k: v for k, v in source.items() if k in current}
        inserted = {k: v for k, v in source.items() if k not in current}
        result = dict(current)
        if clauses != "insert":
            builder = builder.when_matched_update_all()
            result |= updated
        if clauses != "update":
            builder = builder.when_not_matched_insert_all()
            result |= inserted
        if clauses == "upsert and delete":
            builder = builder.when_not_matched_by_source_delete("k > 5000")
            result = {k: v for k, v in result.items() if k in source or k <= 5000}
        builder.execute(to_table(source))
        line.versions[line.latest + 1] = result

    def restore(self) -> None:
        name, line = self._branch()
        version = self.rng.choice(list(line.versions))
        side = self._side()
        self._handle(side, name).checkout_version((name, version)).restore()
        line.versions[line.latest + 1] = line.versions[version]

    def tag(self) -> None:
        name, line = self._branch()
        version = self.rng.choice(list(line.versions))
        tag = f"t{len(self.tags)}"
        self._handle(self._side(), name).tags.create(tag, (name, version))
        self.tags[tag] = (name, version)

    def fork(self) -> None:
        name, line = self._branch()
        if len(self.branches) > 3:
            return
        version = self.rng.choice(list(line.versions))
        branch = f"b{len(self.branches)}"
        self._handle(self._side(), name).create_branch(branch, (name, version))
        self.branches[branch] = Branch({version: line.versions[version]})

    def step(self) -> None:
        operations = {
            self.append: 4, self.merge: 4, self.delete: 3, self.restore: 1,
            self.overwrite: 1, self.tag: 1, self.fork: 1,
        }  # fmt: skip
        (chosen,) = self.rng.choices(list(operations), list(operations.values()))
        self.log.append(chosen.__name__)
        chosen()

    # ---- comparison

    def check(self) -> None:
        """Compare every version of every branch, and every tag, in both libraries."""
        for side in (lk, lance):
            for name, line in self.branches.items():
                handle = self._handle(side, name)
                assert handle.version == line.latest
                for version, rows in line.versions.items():
                    at = handle.checkout_version((name, version))
                    table = at.to_table()
                    assert to_rows(table) == rows, (side.__name__, name, version)
                    assert at.count_rows() == len(rows)
            root = side.dataset(str(self.path))
            assert {
                n: (t["branch"], t["version"]) for n, t in root.tags.list().items()
            } == self.tags
            for tag, (name, version) in self.tags.items():
                found = to_rows(root.checkout_version(tag).to_table())
                assert found == self.branches[name].versions[version]
            assert set(root.branches.list()) == {n for n in self.branches if n is not None}

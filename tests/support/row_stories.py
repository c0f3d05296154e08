"""Random histories of a table with a key, told by both libraries, and what they did to each row."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lancekit as lk

__all__ = ["Change", "Story", "story"]

Row = dict[str, Any]
#: the version, what became of the row there, and its values before and after
Change = tuple[int, str, Row | None, Row | None]

_FIRST = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@dataclass
class Story:
    """A table, and for each version that can be read its rows by key.

    `names` are what columns are called in a version, by what they were called first.
    """

    path: Path
    #: whether rows are told by ids, so that one of the same key may be another
    by_ids: bool = False
    names: dict[int, dict[str, str]] = field(default_factory=dict)

    def versions(self) -> list[int]:
        return [v["version"] for v in lance.dataset(str(self.path)).versions()]

    def rows(self, version: int) -> dict[int, Row]:
        """Return the rows of a version by their ids, columns by their first names."""
        ds = lance.dataset(str(self.path), version=version)
        hidden = ["_rowid", "_row_created_at_version"] if self.by_ids else []
        table = ds.to_table(columns=[*ds.schema.names, *hidden])
        first = {now: name for name, now in self.names[version].items()}
        rows = table.rename_columns([first.get(name, name) for name in table.column_names])
        rows = rows.to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row for row in rows}

    def changes(self, key: int) -> list[Change]:
        """Return what became of a row, version by version, oldest first."""
        found: list[Change] = []
        before, known = None, list[str]()
        for version in self.versions():
            now, names = self.rows(version).get(key), [*self.names[version]]
            if before is None and now is not None:
                kind = "born" if found or version == 1 or known else "found"
                found.append((version, kind, None, now))
            elif before is not None and now is None:
                found.append((version, "died", before, None))
            elif before and now and self.by_ids and told(before) != told(now):
                found += [(version, "died", before, None), (version, "born", None, now)]
            elif before and now and any(before.get(name) != now[name] for name in names):
                found.append((version, "updated", before, now))
            before, known = now, names
        return found

    def last_change(self, key: int) -> int | None:
        """Return the version that last changed a row; ``None`` if it is gone."""
        version, kind, _, _ = self.changes(key)[-1]
        return None if kind == "found" else version


def told(row: Row) -> tuple[int, int]:
    return row["_rowid"], row["_row_created_at_version"]


class _Teller:
    def __init__(self, path: Path, draw: random.Random, *, stable: bool) -> None:
        self.draw = draw
        self.story = Story(path)
        self.next = 6
        self.extra = 0
        rows = pa.table([list(range(6)), list("abcdef")], schema=_FIRST)
        key = draw.choice([None, "id"])
        self.story.by_ids = stable and key is None
        if key is None and draw.random() < 0.5:
            lance.write_dataset(rows, str(path), enable_stable_row_ids=stable, max_rows_per_file=3)
        else:
            lk.write_dataset(
                rows,
                path,
                enable_stable_row_ids=stable,
                max_rows_per_file=3,
                primary_key=key,
            )
        self.names = {"id": "id", "v": "v"}
        self.keep()

    def keep(self) -> None:
        known = self.story.names
        latest = lance.dataset(str(self.story.path)).version
        for version in range(max(known, default=0) + 1, latest + 1):
            known[version] = dict(self.names)

    @property
    def ours(self) -> lk.LanceDataset:
        return lk.dataset(self.story.path)

    @property
    def theirs(self) -> Any:
        return lance.dataset(str(self.story.path))

    def either(self) -> Any:
        return self.draw.choice([self.ours, self.theirs])

    def some(self) -> list[int]:
        there = sorted(self.story.rows(self.theirs.version))
        return self.draw.sample(there, min(len(there), self.draw.randint(1, 3)))

    def where(self) -> str:
        return f"{self.names['id']} IN ({', '.join(map(str, self.some() or [-1]))})"

    def source(self, ids: list[int]) -> pa.Table:
        schema = self.theirs.schema
        columns = []
        for column in schema:
            if column.name == self.names["id"]:
                columns.append(pa.array(ids, pa.int64()))
            else:
                some = [None, 1, 2, 3] if column.nullable else [1, 2, 3]
                values = [self.draw.choice(some) for _ in ids]
                columns.append(pa.array(values, pa.int64()).cast(column.type))
        return pa.table(columns, schema=schema)

    # ---- what may happen

    def append(self) -> None:
        ids = [self.next, self.next + 1]
        gone = sorted(set(range(self.next)) - set(self.story.rows(self.theirs.version)))
        ids += self.draw.sample(gone, min(len(gone), 1))  # a row comes back
        self.next += 2
        self.either().insert(self.source(ids), mode="append")

    def delete(self) -> None:
        self.either().delete(self.where())

    def update(self) -> None:
        value = self.draw.choice("xyz")
        self.either().update({self.names["v"]: f"'{value}'"}, where=self.where())

    def upsert(self) -> None:
        ids = sorted({*self.some(), self.next})
        self.next += 1
        merge = self.either().merge_insert(self.names["id"])
        merge.when_matched_update_all().when_not_matched_insert_all().execute(self.source(ids))

    def compact(self) -> None:
        self.either().optimize.compact_files()

    def add_column(self) -> None:
        name = f"n{self.extra}"
        self.extra += 1
        self.names = {**self.names, name: name}
        how = self.draw.choice(["values", "nulls"])
        if how == "nulls":
            self.either().add_columns(pa.field(name, pa.int64()))
        else:
            self.either().add_columns({name: f"{self.names['id']} * 2"})

    def drop_column(self) -> None:
        others = [name for name in self.names if name not in {"id", "v"}]
        if others:
            name = self.draw.choice(others)
            self.either().drop_columns([self.names[name]])
            self.names = {n: now for n, now in self.names.items() if n != name}

    def rename(self) -> None:
        name = self.draw.choice(["v", "id"])
        now = f"{name}{self.draw.randint(0, 9)}x{self.extra}"
        self.extra += 1
        self.either().alter_columns({"path": self.names[name], "name": now})
        self.names = {**self.names, name: now}

    def restore(self) -> None:
        version = self.draw.choice(self.story.versions())
        self.names = dict(self.story.names[version])
        self.either().checkout_version(version).restore()

    def replace(self) -> None:
        values = pa.table({"id": sorted(self.story.rows(self.theirs.version))})
        if self.names["id"] == "id" and self.names["v"] == "v" and values.num_rows:
            self.ours.replace_columns({"v": "concat(coalesce(v, ''), 'r')"})

    def clean(self) -> None:
        keep = self.draw.choice(self.story.versions())
        self.theirs.tags.create(f"t{keep}-{self.extra}", keep)
        self.extra += 1
        self.theirs.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)


def story(path: Path, seed: int, steps: int, *, stable: bool, clean: bool) -> Story:
    """Write a random history; `clean` removes versions now and then, else columns are renamed."""
    draw = random.Random(seed)
    teller = _Teller(path, draw, stable=stable)
    ways: list[tuple[Callable[[], None], int]] = [
        (teller.append, 3),
        (teller.delete, 3),
        (teller.update, 4),
        (teller.upsert, 3),
        (teller.compact, 2),
        (teller.add_column, 1),
        (teller.drop_column, 1),
        (teller.rename, 0 if clean else 1),  # over a gap nobody can tell what was renamed
        (teller.restore, 2),
        (teller.replace, 1),
        (teller.clean, 1 if clean else 0),
    ]
    for _ in range(steps):
        (way,) = draw.choices([way for way, _ in ways], [weight for _, weight in ways])
        way()
        teller.keep()
    return teller.story

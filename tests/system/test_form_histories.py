"""Random histories of tables in forms that pylance 14 writes, by both libraries in turn.

Blobs of both versions, managed blobs, and lineage columns in data files: each step is compared with
pylance and with a plain model, on the table, its branches and its clones.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from tests.support.interplay import IDS, NOW

Rows = dict[int, tuple[str, bytes | None]]

V1 = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
#: inline up to 64 bytes, in files of their own above 512
V2 = lk.blob_field("b", inline_size_threshold=64, dedicated_size_threshold=512)
SIZES = (0, 1, 63, 64, 65, 300, 512, 513)
MANAGED = {"lance.blob.managed": "true"}
SPILL = {"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1"}
#: by form: the blob columns that rows may have
FORMS: dict[str, tuple[pa.Field, ...]] = {
    "blobs of version 1": (V1,),
    "blobs of version 2": (V2,),
    "mixed blobs": (V1, lk.blob_field("b")),
    "managed blobs": (V2,),
    "lineage columns": (),
    "managed blobs and lineage columns": (V2,),
}


@dataclass(frozen=True)
class Line:
    """A table or a branch, what is in it, and the ids of its rows."""

    uri: str
    branch: str | None
    rows: Rows
    ids: dict[int, int] = field(default_factory=dict)

    def open(self, module: Any) -> Any:
        ds = module.dataset(self.uri)
        return ds if self.branch is None else ds.checkout_version((self.branch, None))

    def read(self) -> Line:
        """Read it by both libraries; return it with the ids that were read."""
        blobs = "b" in self.open(lk).schema.names
        found = []
        for module in (lance, lk):
            columns = ["id", "v", *(["b"] if blobs else []), *IDS]
            how = {"blob_handling": "all_binary"} if blobs else {}
            table = self.open(module).to_table(columns=columns, **how)
            found.append(sorted(table.to_pylist(), key=lambda row: row["id"]))
        assert found[1] == found[0]
        assert {row["id"]: (row["v"], row.get("b")) for row in found[1]} == self.rows
        ids = {row["id"]: row["_rowid"] for row in found[1]}
        assert len(set(ids.values())) == len(ids)
        assert all(ids[key] == id_ for key, id_ in self.ids.items() if key in ids)
        return replace(self, ids=ids)


class History:
    def __init__(self, form: str, seed: int, home: Path) -> None:
        self.draw, self.form, self.home = random.Random(seed), form, home
        self.marked, self.count = FORMS[form], 0
        table, rows = self.made(self.fresh(30), "first", self.marked[:1])
        if form.startswith("managed"):
            table = table.replace_schema_metadata(MANAGED)
        version = "2.2" if self.marked[:1] == (V2,) else "2.1"
        first: Any = self.draw.choice([lance, lk]).write_dataset(
            table, str(home / "t"), data_storage_version=version, max_rows_per_file=7,
            enable_stable_row_ids=True,
        )  # fmt: skip
        if form.endswith("lineage columns"):
            lance.dataset(first.uri).update_config(SPILL)
        self.lines = [Line(str(home / "t"), None, rows).read()]

    def fresh(self, count: int) -> list[int]:
        self.count += count
        return list(range(self.count - count, self.count))

    def made(
        self, ids: list[int], text: str, marked: tuple[pa.Field, ...]
    ) -> tuple[pa.Table, Rows]:
        table = pa.table({"id": pa.array(ids, pa.int64()), "v": [text] * len(ids)})
        if not marked:
            return table, dict.fromkeys(ids, (text, None))
        sizes = [self.draw.choice([None, *SIZES]) for _ in ids]
        data = [
            None if size is None else (b"%d:" % id_ * size)[:size]
            for id_, size in zip(ids, sizes, strict=True)
        ]
        values = pa.array(data, pa.large_binary()) if marked == (V1,) else lk.blob_array(data)
        rows = {id_: (text, blob) for id_, blob in zip(ids, data, strict=True)}
        return table.append_column(marked[0], values), rows

    def columns(self, line: Line) -> tuple[pa.Field, ...]:
        """Return the blob column of the line's newest version, as rows for it have it."""
        is_v1 = self.marked and line.open(lk).schema.field("b").type == pa.large_binary()
        return (V1,) if is_v1 else self.marked[-1:]

    def step(self, number: int) -> None:
        at = self.draw.randrange(len(self.lines))
        module = self.draw.choice([lance, lk])
        steps = [self.append, self.update, self.delete, self.merge, self.upkeep, self.fork]
        try:
            rows = self.draw.choice(steps)(self.lines[at], module, f"{module.__name__} {number}")
        except OSError as error:  # pylance refuses some changes of mixed tables
            if module is lk or "Blob v2 requires file version" not in str(error):
                raise
            rows = self.lines[at].rows
        self.lines[at] = replace(self.lines[at], rows=rows)
        self.lines = [line.read() for line in self.lines]

    def append(self, line: Line, module: Any, text: str) -> Rows:
        table, rows = self.made(self.fresh(5), text, self.columns(line))
        newer = {"data_storage_version": "2.2"} if self.form == "mixed blobs" else {}
        module.write_dataset(table, line.open(module), mode="append", **newer)
        return line.rows | rows

    def part(self) -> tuple[str, Callable[[int], bool]]:
        modulus = self.draw.randint(2, 5)
        return f"id % {modulus} = 1", lambda id_: id_ % modulus == 1

    def update(self, line: Line, module: Any, text: str) -> Rows:
        where, chosen = self.part()
        line.open(module).update({"v": f"'{text}'"}, where=where)
        return {id_: (text if chosen(id_) else v, b) for id_, (v, b) in line.rows.items()}

    def delete(self, line: Line, module: Any, _: str) -> Rows:
        where, chosen = self.part()
        line.open(module).delete(f"{where} AND id % 7 = 0")
        return {id_: row for id_, row in line.rows.items() if not (chosen(id_) and id_ % 7 == 0)}

    def merge(self, line: Line, module: Any, text: str) -> Rows:
        there = self.draw.sample(sorted(line.rows), min(4, len(line.rows)))
        table, rows = self.made(there + self.fresh(2), text, self.columns(line))
        builder = line.open(module).merge_insert("id").when_matched_update_all()
        builder.when_not_matched_insert_all().execute(table)
        return line.rows | rows

    def upkeep(self, line: Line, module: Any, _: str) -> Rows:
        if self.draw.random() < 0.5:
            line.open(module).optimize.compact_files()
        else:
            line.open(module).cleanup_old_versions(
                older_than=NOW, delete_unverified=True, error_if_tagged_old_versions=False
            )
        return line.rows

    def fork(self, line: Line, module: Any, _: str) -> Rows:
        """Make a branch, or a clone, whose version has a tag."""
        name, ds = f"n{len(self.lines)}", line.open(module)
        if len(self.lines) < 4 and line.branch is None:
            if self.draw.random() < 0.5:
                ds.create_branch(name)
                self.lines.append(replace(line, branch=name))
            else:
                ds.tags.create(f"tag-{name}", ds.version)
                kinds = [ds.shallow_clone, lk.dataset(line.uri).deep_clone]
                self.draw.choice(kinds)(str(self.home / name), ds.version)
                self.lines.append(replace(line, uri=str(self.home / name)))
        return line.rows


@pytest.mark.torture
@pytest.mark.parametrize("form", FORMS)
def test_random_histories(form: str, tmp_path: Path, whole: bool) -> None:
    for seed in range(40 if whole else 1):
        (home := tmp_path / str(seed)).mkdir()
        history = History(form, seed, home)
        for number in range(25 if whole else 10):
            history.step(number)
        for line in history.lines:
            line.open(lk).validate(deep=True)

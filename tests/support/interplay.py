"""Stories that both libraries are told, and what is looked at afterwards: docs/interplay.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lancekit as lk

__all__ = [
    "BLOBS",
    "IDS",
    "KEY",
    "NOW",
    "SCHEMA",
    "Cells",
    "blob_rows",
    "blobs",
    "contents",
    "facts",
    "files",
    "indexed",
    "keys",
    "looked_up",
    "read",
    "rows",
    "table",
    "told",
    "upsert",
    "with_bases",
]

NOW = timedelta(0)
KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.string())])
IDS = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
BLOBS = [b"small", None, b"", b"p" * 100_000, b"d" * (5 << 20), b"last"]

Story = Callable[[Any, Path], Any]


class Cells(dict[str, Callable[[Path], None]]):
    """A column of a table of docs/interplay.md: what shows each cell, by feature."""

    def shows(self, *features: str) -> Callable[[Callable[[Path], None]], None]:
        return lambda case: self.update(dict.fromkeys(features, case))


def rows(*keys: int, text: str = "x") -> pa.Table:
    return pa.table({"k": list(keys), "v": [f"{text}{k}" for k in keys]}, schema=SCHEMA)


def table(home: Path, **options: Any) -> lk.LanceDataset:
    """Write six rows in two fragments, with a primary key and stable row ids."""
    options = {"primary_key": "k", "enable_stable_row_ids": True, **options}
    return lk.write_dataset(rows(*range(6)), home / "t", max_rows_per_file=3, **options)


def told(tmp_path: Path, story: Story) -> Any:
    """Tell a story with either library, in a folder of its own: it ends the same."""
    seen = []
    for module in (lance, lk):
        (tmp_path / module.__name__).mkdir()
        seen.append(story(module, tmp_path / module.__name__))
    assert seen[1] == seen[0]
    return seen[1]


def read(uri: Path | str, at: Any = None, columns: list[str] | None = None) -> list[Any]:
    """Read rows by both libraries, in the order of their keys."""
    found = []
    for module in (lance, lk):
        ds: Any = module.dataset(str(uri))
        ds = ds if at is None else ds.checkout_version(at)
        ds.validate()
        got = ds.to_table(columns=columns)
        found.append(sorted(map(tuple, zip(*(c.to_pylist() for c in got.columns), strict=True))))
    assert found[1] == found[0]
    return found[1]


def facts(uri: Path | str, at: Any = None) -> list[Any]:
    """Read the keys, with row ids and row versions."""
    return read(uri, at, ["k", *IDS])


def keys(uri: Path | str, at: Any = None) -> list[int]:
    return [row[0] for row in read(uri, at)]


def files(path: Path) -> Counter[str]:
    """Count files by folder and kind: names are random. Transactions of forks differ."""
    kept = [f.relative_to(path) for f in path.rglob("*") if f.is_file() and f.suffix != ".txn"]
    folders = [re.sub("(_indices)/.*", r"\1", str(file.parent)) for file in kept]
    return Counter(
        f"{folder if file.suffix == '.lance' else ''} {file.suffix}"
        for folder, file in zip(folders, kept, strict=True)
    )


def contents(path: Path) -> dict[str, bytes]:
    return {str(f): f.read_bytes() for f in path.rglob("*") if f.is_file()}


def with_bases(module: Any, home: Path, **options: Any) -> Any:
    """Write a table of twelve rows, a half of them in either of two base paths."""
    for name in ("p", "q"):
        (home / name).mkdir()
    kind = module.DatasetBasePath
    bases = [kind(str(home / "p"), "p"), kind(str(home / "q"), "q", is_dataset_root=True)]
    options |= {"initial_bases": bases, "target_bases": ["p", "q"], "max_rows_per_file": 6}
    return module.write_dataset(rows(*range(12)), str(home / "t"), **options)


def upsert(ds: Any) -> Any:
    return ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()


def indexed(path: Path, **options: Any) -> Any:
    """Write a table with an index on its keys, which only pylance can make."""
    ds: Any = lance.write_dataset(rows(*range(12)), str(path), max_rows_per_file=4, **options)
    ds.create_scalar_index("k", "BTREE")
    return lk.dataset(path)


def looked_up(uri: Path | str, key: int, at: Any = None, column: str = "k") -> int:
    """Ask pylance for a key, by the index; return how many rows there are."""
    ds: Any = lance.dataset(str(uri))
    ds = ds if at is None else ds.checkout_version(at)
    scan = ds.scanner(filter=f"{column} = {key}")
    assert "ScalarIndexQuery" in scan.explain_plan()
    table: pa.Table = scan.to_table()
    return table.num_rows


def blob_rows(module: Any, path: Path, **options: Any) -> Any:
    """Write blobs by pylance, which keeps large ones beside the data file."""
    schema = pa.schema([pa.field("k", pa.int64()), lk.blob_field("b")])
    table = pa.table([pa.array(range(6)), lk.blob_array(BLOBS)], schema)
    lance.write_dataset(
        table, str(path), data_storage_version="2.2", max_rows_per_file=3, **options
    )
    return module.dataset(str(path))


def blobs(uri: Path | str, at: Any = None) -> dict[int, bytes | None]:
    """Read all blobs by both libraries, by their key."""
    found = []
    for module in (lance, lk):
        ds: Any = module.dataset(str(uri))
        ds = ds if at is None else ds.checkout_version(at)
        table = ds.to_table(blob_handling="all_binary")
        found.append(dict(zip(table["k"].to_pylist(), table["b"].to_pylist(), strict=True)))
    assert found[1] == found[0]
    return found[1]

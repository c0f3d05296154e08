"""Stale writers over what pylance 4.0.0 committed, and the other way round."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("k", pa.int64(), False, KEY), ("v", pa.string())])

#: what 4.0.0 does, each on a dataset of its own
THEIRS = {
    "append": "ds = lance.write_dataset(rows(50), ds.uri, mode='append')",
    "delete": "ds.delete('k = 1')",
    "delete of a fragment": "ds.delete('k < 10')",
    "update": "ds.update({'v': \"'new'\"}, where='k = 2')",
    "overwrite": "lance.write_dataset(rows(7), ds.uri, mode='overwrite')",
    "column added": "ds.add_columns({'x': 'k + 1'})",
    "rename": "ds.alter_columns({'path': 'v', 'name': 'w'})",
    "cast": "ds.alter_columns({'path': 'v', 'data_type': pa.large_string()})",
    "restore": "ds.restore()",
    "index": "ds.create_scalar_index('v', 'BTREE')",
    "compaction": "ds.optimize.compact_files()",
    "upsert of a new key": "upsert(ds, rows(99))",
}

PREAMBLE = """
schema = pa.schema([
    pa.field("k", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}),
    ("v", pa.string()),
])
def rows(*keys):
    return pa.table({"k": list(keys), "v": ["x"] * len(keys)}, schema=schema)
def upsert(ds, table):
    ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(table)
"""

COMMIT_ALL = (
    PREAMBLE
    + """
for name, code in arguments["changes"].items():
    uri = arguments["folder"] + "/" + name
    lance.write_dataset(rows(1, 2, 3), uri)
    ds = lance.write_dataset(rows(11, 12), uri, mode="append")
    exec(code)
result = None
"""
)

UPSERT = (
    PREAMBLE
    + """
ds = lance.dataset(arguments["uri"], version=arguments["version"])
upsert(ds, rows(*range(*arguments["keys"])))
result = None
"""
)


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": ["y"] * len(keys)}, schema=SCHEMA)


def upsert(ds: Any, table: pa.Table) -> Any:
    builder = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    return builder.execute(table)


MINE: dict[str, Callable[[Any], Any]] = {
    "append": lambda ds: ds.insert(rows(60)),
    "delete": lambda ds: ds.delete("k = 3"),
    "delete of the same row": lambda ds: ds.delete("k = 1"),
    "upsert": lambda ds: upsert(ds, rows(2, 99, 70)),
}


def _second(module: Any, uri: str, change: Callable[[Any], Any]) -> Any:
    try:
        change(module.dataset(uri, version=2))
    except lk.errors.SchemaMismatchError:
        return "again"  # it was tried again, and the rows do not fit any more
    except OSError as error:
        text = str(error).lower()
        return "incompatible" if "incompatible" in type(error).__name__.lower() + text else "again"
    except ValueError:
        return "refused"
    table = lance.dataset(uri).to_table()
    return sorted(map(repr, table.to_pylist())), table.schema.names


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory, pylance4: Callable[..., Any]) -> Path:
    folder = tmp_path_factory.mktemp("by 4")
    pylance4(COMMIT_ALL, folder=str(folder), changes=THEIRS)
    return folder


@pytest.mark.filterwarnings("ignore:This handle is at")
@pytest.mark.parametrize("theirs", THEIRS)
def test_over_an_old_release_both_libraries_do_the_same(
    committed: Path, tmp_path: Path, theirs: str
) -> None:
    for mine, change in MINE.items():
        results = []
        for module in (lance, lk):
            uri = tmp_path / module.__name__ / mine
            shutil.copytree(committed / theirs, uri)
            results.append(_second(module, str(uri), change))
        reference, ours = results
        if (theirs, mine) == ("cast", "append"):
            assert ours == "again"
            continue
        if (theirs, mine) == ("cast", "upsert"):
            assert ours[1] == ["k", "v"]  # worked out again, for the new type
            continue
        assert ours == reference, (theirs, mine)


@pytest.mark.parametrize("count", [30, 60])
def test_keys_are_guarded_in_both_orders(
    tmp_path: Path, pylance4: Callable[..., Any], count: int
) -> None:
    """Half of the keys are new to both; 4.0.0 understands either kind of filter of ours."""
    first, second = range(100, 100 + count), range(100 + count // 2, 100 + 2 * count)
    for name in ("ours first", "theirs first"):
        uri = str(tmp_path / name)
        lk.write_dataset(rows(1), uri)
        stale = lk.dataset(uri)
        if name == "ours first":
            upsert(lk.dataset(uri), rows(*first))
            pylance4(UPSERT, uri=uri, version=1, keys=[second.start, second.stop])
        else:
            pylance4(UPSERT, uri=uri, version=1, keys=[first.start, first.stop])
            assert upsert(stale, rows(*second)).attempts == 2
        keys = lk.dataset(uri).to_table()["k"].to_pylist()
        assert sorted(keys) == [1, *range(100, 100 + 2 * count)], name

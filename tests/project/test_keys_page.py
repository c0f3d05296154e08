"""The page of keys lists each key that the sources have, and each that a table has."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import lancekit as lk

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/format/keys.md"
#: how keys begin that are stored in tables
KEY = re.compile(
    r"(lancekit[.:]|lance-schema:|lance-encoding:|lance:|lance\.(auto_cleanup|compaction|blob\.man)"
    r"|__lance_commit|ARROW:)[\w.:<>-]*"
)


def listed() -> set[str]:
    """Return the keys of the page, up to what differs from table to table."""
    keys = re.findall(r"`([^`]+)`", PAGE.read_text())
    return {key.partition("<")[0] for key in keys if KEY.match(key)}


def is_a_name(text: str) -> bool:
    """Return True for a module or a public name, which is no key."""
    home, _, rest = text.partition(".")
    if home != "lancekit" or (rest and text.endswith(".")):
        return False
    name = rest.split(".")[0].split(":")[0]
    return not name or hasattr(lk, name) or importlib.util.find_spec(f"lancekit.{name}") is not None


def keys_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = KEY.fullmatch(node.value)
            if found and not is_a_name(node.value):
                yield node.value


def test_each_key_of_the_sources_is_listed() -> None:
    known, found = listed(), set[str]()
    for path in (ROOT / "lancekit").rglob("*.py"):
        for key in keys_of(path):
            found.add(key)
            assert any(key.startswith(one) or one.startswith(key) for one in known), (path, key)
    for key in known:
        if key.startswith(("lancekit.", "lancekit:")):
            assert any(key.startswith(one) for one in found), f"nothing writes or reads {key}"


def test_a_key_that_is_not_listed_is_found(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text('KEY = "lancekit.unheard."\nHOME = "lancekit.errors"\nTEXT = "lancekit"\n')
    assert list(keys_of(source)) == ["lancekit.unheard."]


def written(ds: lk.LanceDataset) -> Iterator[str]:
    """Yield the keys of all versions of all branches, and of reference files."""
    for branch in [None, *ds.branches.list()]:
        handle = ds.checkout_version((branch, None))
        for number in (entry["version"] for entry in handle.versions()):
            snapshot = ds.checkout_version((branch, number))._snapshot
            manifest = snapshot.manifest
            yield from (*manifest.config, *manifest.table_metadata, *manifest.schema.metadata)
            for field in manifest.schema.walk():
                yield from field.metadata
            if snapshot.transaction is not None:
                yield from snapshot.transaction.transaction_properties
    for path in Path(ds.uri).glob("_refs/*/*.json"):
        yield from json.loads(path.read_text())


def test_each_key_that_a_table_gets_is_listed(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    ds.tags.create("first", 1)
    ds.constraints.add("positive", "n > 0")
    exp.update({"n": "5"}, where="id = 1")
    ds.branches.merge("exp")
    exp.add_columns({"x": "n * 2"})
    exp.alter_columns({"path": "n", "data_type": pa.int32()})
    ds.insert({"id": [8], "n": [8]}, mode="append", commit_message="more")
    ds.branches.merge("exp")
    exp.branches.rebase("exp")
    exp.checkout_latest()
    exp.update({"n": "6"}, where="id = 1")
    ds.branches.cherry_pick("exp", exp.version)
    ds.revert(ds.version)
    lk.diff(ds, exp).apply(ds)
    ds.optimize.compact_files()
    found = set(written(ds))
    known = re.findall(r"`([^`]+)`", PAGE.read_text())
    ends = tuple(one.partition("<")[0] for one in known if one.find("<") > 0)
    missing = {one for one in found if one not in known and not one.startswith(ends)}
    assert not missing
    assert {one.rpartition(".")[0] for one in found if ".merge." in one} >= {"lancekit.merge.main"}
    assert {"lancekit.apply.theirs.columns", "identifier", "createdAt"} <= found

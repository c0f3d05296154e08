"""Versions as dictionaries that are filled at the first look."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api.history import LazyDict
from lancekit.errors import VersionNotFoundError


class Letters(LazyDict):
    def __init__(self) -> None:
        super().__init__("ab")
        self.asked = 0

    def _items(self) -> dict[str, Any]:
        self.asked += 1
        return {"a": 1, "b": 2}


LOOKS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "item": (lambda d: d["b"], 2),
    "length": (len, 2),
    "truth": (bool, True),
    "member": (lambda d: "b" in d, True),
    "equal": (lambda d: d == {"a": 1, "b": 2}, True),
    "equal the other way": (lambda d: d == {"a": 1, "b": 2}, True),
    "equal to another": (lambda d: d == Letters(), True),
    "unequal": (lambda d: d != {"a": 1}, True),
    "iterated": (list, ["a", "b"]),
    "backwards": (lambda d: list(reversed(d)), ["b", "a"]),
    "as a dictionary": (dict, {"a": 1, "b": 2}),
    "unpacked": (lambda d: {**d, "c": 3}, {"a": 1, "b": 2, "c": 3}),
    "as keywords": (lambda d: dict(**d), {"a": 1, "b": 2}),
    "merged": (lambda d: d | {"b": 3}, {"a": 1, "b": 3}),
    "merged into": (lambda d: {"b": 3} | d, {"b": 2, "a": 1}),
    "updated from": (lambda d: _updated({"b": 3}, d), {"b": 2, "a": 1}),
    "keys": (lambda d: list(d.keys()), ["a", "b"]),
    "values": (lambda d: list(d.values()), [1, 2]),
    "items": (lambda d: list(d.items()), [("a", 1), ("b", 2)]),
    "get": (lambda d: (d.get("a"), d.get("c", 9)), (1, 9)),
    "pop": (lambda d: d.pop("a"), 1),
    "popitem": (lambda d: d.popitem(), ("b", 2)),
    "setdefault": (lambda d: d.setdefault("a", 7), 1),
    "set": (lambda d: _updated(d, {"a": 5}), {"a": 5, "b": 2}),
    "copy": (lambda d: d.copy(), {"a": 1, "b": 2}),
    "json": (json.dumps, '{"a": 1, "b": 2}'),
    "pandas": (lambda d: pd.DataFrame([d]).to_dict("list"), {"a": [1], "b": [2]}),
    "arrow": (lambda d: pa.Table.from_pylist([d]).to_pydict(), {"a": [1], "b": [2]}),
}


def _updated(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    one.update(other)
    return one


@pytest.mark.parametrize("look", LOOKS)
def test_every_look_finds_all(look: str) -> None:
    found, expected = LOOKS[look]
    letters = Letters()
    assert letters.asked == 0
    assert found(letters) == expected
    assert found(Letters()) == expected
    list(letters)
    assert letters.asked == 1


def test_what_looks_into_its_memory_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="not read yet"):
        pa.array([Letters()])
    assert pa.array([dict(Letters())]).to_pylist() == [{"a": 1, "b": 2}]


def test_numbers_of_versions_open_nothing(tmp_path) -> None:
    ds = lk.write_dataset(pa.table({"x": [1]}), tmp_path / "d")
    ds.insert(pa.table({"x": [2]}))
    seen = list(ds.versions())
    known = seen[1].num_rows
    versions = ds.versions()
    shutil.rmtree(tmp_path / "d" / "_versions")
    assert [version["version"] for version in versions] == [1, 2]
    assert [version.version for version in versions] == [1, 2]
    with pytest.raises(VersionNotFoundError, match="Version 2"):
        versions[-1]["timestamp"]
    with pytest.raises(VersionNotFoundError, match="Version 1"):
        _ = versions[0].num_rows
    assert seen[1]["metadata"]["total_rows"] == str(known) == "2"


def test_a_version_travels() -> None:
    ds = lk.write_dataset(pa.table({"x": [1, 2]}), "memory://lazy-version")
    version = ds.versions()[0]
    for again in (pickle.loads(pickle.dumps(version)), copy.copy(version), copy.deepcopy(version)):
        assert again == version
        assert (again.version, again.num_rows, again.branch) == (1, 2, "main")

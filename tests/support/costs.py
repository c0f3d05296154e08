"""What calls read and write, by kind of file: the tables of docs/cost.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

import lancekit as lk
from tests.support.faults import Call, Faults, injected

__all__ = ["TOPICS", "cost_table"]

_READS = {"read", "tail", "reader.read", "reader.read_many"}
_LISTS = {"list_names", "list_tree"}
_WRITES = {"put", "put_if_absent", "sink.write"}
#: what files are called, by the folder or the ending that they have
_FOLDERS = {
    "_versions": "manifest",
    "_transactions": "transaction",
    "data": "data file",
    "_deletions": "deletion file",
    "_indices": "index file",
    "tags": "tag",
    "branches": "branch",
}
_FRAGMENTS, _ROWS = 4, 1000


def _kind(name: str) -> str:
    folders = [_FOLDERS[part] for part in name.split("/")[:-1] if part in _FOLDERS]
    return folders[-1] if folders else "other file"


def _named(calls: Sequence[Call], kinds: set[str]) -> str:
    files = {call.name for call in calls if call.kind in kinds}
    counts = Counter(map(_kind, files))
    order = [*_FOLDERS.values(), "other file"]
    named = [
        f"{counts[kind]} {kind}{'s' if counts[kind] > 1 else ''}".replace("branchs", "branches")
        for kind in order
        if counts[kind]
    ]
    return ", ".join(named) or "nothing"


def _upsert(ds: Any) -> Any:
    source = pa.table({"id": [5, 10**6], "name": ["new", "new"], "amount": [1.0, 2.0]})
    return ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all(), source


#: by what a person would call it: the code, and what it does
_CALLS: Mapping[str, tuple[tuple[str, Callable[[Any], object]], ...]] = {
    "looking": (
        ("ds", repr),
        ("ds.schema, ds.count_rows()", lambda ds: (ds.schema, ds.count_rows())),
        ("ds.versions()", lambda ds: repr(ds.versions())),
        ("ds.tags.list()", lambda ds: ds.tags.list()),
        ("ds.diff(2)", lambda ds: repr(ds.diff(2))),
        ('ds.explain.delete("id = 5")', lambda ds: ds.explain.delete("id = 5")),
    ),
    "reading": (
        ("ds.to_table()", lambda ds: ds.to_table()),
        ('ds.to_table(columns=["id"])', lambda ds: ds.to_table(columns=["id"])),
        ('ds.to_table(filter="id = 5")', lambda ds: ds.to_table(filter="id = 5")),
        ('ds.count_rows("amount > 10")', lambda ds: ds.count_rows("amount > 10")),
        ("ds.head(10)", lambda ds: ds.head(10)),
        ("ds.take([7])", lambda ds: ds.take([7])),
        ("ds.diff(2).counts", lambda ds: ds.diff(2).counts),
    ),
    "changing": (
        ("ds.insert(rows)", lambda ds: ds.insert(_upsert(ds)[1])),
        ('ds.delete("id = 5")', lambda ds: ds.delete("id = 5")),
        (
            'ds.update({"amount": "0.0"}, where="id = 5")',
            lambda ds: ds.update({"amount": "0.0"}, where="id = 5"),
        ),
        (
            'ds.merge_insert("id")....preview(rows)',
            lambda ds: _upsert(ds)[0].preview(_upsert(ds)[1]),
        ),
        (
            'ds.merge_insert("id")....execute(rows)',
            lambda ds: _upsert(ds)[0].execute(_upsert(ds)[1]),
        ),
        (
            'ds.add_columns({"twice": "amount * 2"})',
            lambda ds: ds.add_columns({"twice": "amount * 2"}),
        ),
        ('ds.drop_columns(["name"])', lambda ds: ds.drop_columns(["name"])),
        (
            'ds.alter_columns({"path": "name", "name": "title"})',
            lambda ds: ds.alter_columns({"path": "name", "name": "title"}),
        ),
    ),
    "versions": (
        ('ds.tags.create("jan", 1)', lambda ds: ds.tags.create("jan", 1)),
        ('ds.create_branch("trial")', lambda ds: ds.create_branch("trial")),
        ("ds.checkout_version(1)", lambda ds: ds.checkout_version(1)),
        ("ds.checkout_version(1).restore()", lambda ds: ds.checkout_version(1).restore()),
        ("ds.revert(4)", lambda ds: ds.revert(4)),
        ('ds.shallow_clone("clone.lance", 4)', lambda ds: ds.shallow_clone(f"{ds.uri}.clone", 4)),
        ("ds.optimize.compact_files()", lambda ds: ds.optimize.compact_files()),
        (
            'ds.create_scalar_index("id", "BTREE")',
            lambda ds: ds.create_scalar_index("id", "BTREE"),
        ),
    ),
}

TOPICS = tuple(_CALLS)


def _lines(topic: str, folder: str) -> Iterator[str]:
    for number, (code, run) in enumerate(_CALLS[topic]):
        uri = f"{folder}/{topic}{number}.lance"
        for part in range(_FRAGMENTS):
            ids = range(part * _ROWS, part * _ROWS + _ROWS)
            rows = {"id": [*ids], "name": [f"row {i}" for i in ids], "amount": [i / 2 for i in ids]}
            mode = "append" if part else "create"
            lk.write_dataset(rows, uri, mode=mode, primary_key=None if part else "id")
        lk.clear_cache()
        with injected(Faults()) as faults:
            ds = lk.dataset(uri)
            faults.calls.clear()
            run(ds)
        read, written = (_named(faults.calls, kinds) for kinds in (_READS, _WRITES))
        lists = sum(call.kind in _LISTS for call in faults.calls)
        yield f"| `{code}` | {read} | {lists or ''} | {written} |"


def cost_table(topic: str, folder: str) -> str:
    """Return a table of calls: which files each reads and writes, with a handle just opened."""
    return "\n".join(["| | reads | folders listed | writes |", "|-|-|-|-|", *_lines(topic, folder)])

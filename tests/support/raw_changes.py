"""Operations that somebody works out by hand and commits, one for each kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

import lancekit as lk
from lancekit._format.index import IndexDetails
from lancekit.file import LanceFileWriter
from tests.support.crash_points import SCHEMA, Change, Place, rows

__all__ = ["RAW"]

ops = lk.LanceOperation
VERSION = 3


def by_hand(make: Callable[[Any, Place], Any], **settings: Any) -> Change:
    """Commit what `make` returns."""
    return Change(
        lambda ds, at: lk.LanceDataset.commit(
            str(at.path), make(ds, at), read_version=VERSION, **settings
        )
    )


def new_rows(at: Place, key: int) -> Any:
    return lk.LanceFragment.create(str(at.path), rows(key))


def create_index(ds: Any, at: Place) -> Any:
    details = IndexDetails("/lance.table.BTreeIndexDetails")
    index = lk.Index(uuid.uuid4(), "k_idx", (0,), VERSION, BitMap([0, 1]), index_details=details)
    folder = at.path / "_indices" / str(index.uuid)
    folder.mkdir(parents=True)
    (folder / "page_data.lance").touch()  # an index is committed when its files are there
    return ops.CreateIndex([index])


def data_replacement(ds: Any, at: Place) -> Any:
    name = f"{uuid.uuid4().hex}.lance"
    place = at.path / "data" / name
    with LanceFileWriter(str(place), SCHEMA, version="2.2") as writer:
        writer.write_batch(rows(50, 60, 70, 80))
    file = lk.fragment.DataFile(name, [0, 1], [0, 1], 2, 2, file_size_bytes=place.stat().st_size)
    return ops.DataReplacement([ops.DataReplacementGroup(1, file)])


def update_columns(ds: Any, at: Place) -> Any:
    values = pa.table({"k": [5, 6], "v": ["new", None]})
    changed, fields = ds.get_fragments()[1].update_columns(values, "k")
    return ops.Update([], [changed], [], fields, [], "rewrite_columns")


def merge(ds: Any, at: Place) -> Any:
    made = [f.merge_columns({"w": "k * 2"}) for f in ds.get_fragments()]
    return ops.Merge([fragment for fragment, _ in made], made[0][1])


def project(ds: Any, at: Place) -> Any:
    return ops.Project(pa.schema([SCHEMA.field("k")]))


def rewrite(ds: Any, at: Place) -> Any:
    old = [f.metadata for f in ds.get_fragments()]
    new = lk.LanceFragment.create(str(at.path), ds.to_table())
    return ops.Rewrite([ops.RewriteGroup(old, [new])], [])


def delete(ds: Any, at: Place) -> Any:
    return ops.Delete([ds.get_fragments()[0].delete("k = 1")], [1], "k = 1 or k > 4")


def mem_wal(ds: Any, at: Place) -> Any:
    return ops.UpdateMemWalState([])  # of a table that may have no logs


def deep_clone(ds: Any, at: Place) -> Any:
    ds.deep_clone(at.clone, 3)


def batch(ds: Any, at: Place) -> Any:
    appends = [lk.Transaction(VERSION, ops.Append([new_rows(at, key)])) for key in (50, 60)]
    return lk.LanceDataset.commit_batch(str(at.path), appends)


#: by name: operations made by hand, and what is committed in one of the unusual ways
RAW: dict[str, Change] = {
    "raw append": by_hand(lambda ds, at: ops.Append([new_rows(at, 50)])),
    "raw overwrite": by_hand(lambda ds, at: ops.Overwrite(SCHEMA, [new_rows(at, 50)])),
    "raw delete": by_hand(delete),
    "raw index": by_hand(create_index),
    "raw data replacement": by_hand(data_replacement),
    "raw columns": by_hand(update_columns),
    "raw merge": by_hand(merge),
    "raw project": by_hand(project),
    "raw rewrite": by_hand(rewrite),
    "raw reservation": by_hand(lambda ds, at: ops.ReserveFragments(4)),
    "raw write-ahead state": by_hand(mem_wal),
    "raw base": by_hand(
        lambda ds, at: ops.UpdateBases([lk.DatasetBasePath(str(at.folder / "base"), "base")])
    ),
    "raw config": by_hand(lambda ds, at: ops.UpdateConfig(ops.UpdateMap({"a": "b"}))),
    "detached": by_hand(lambda ds, at: ops.Append([new_rows(at, 50)]), detached=True),
    "batch": Change(batch),
    "deep clone": Change(deep_clone),
}

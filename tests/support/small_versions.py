"""Versions made by hand, with little in them, to try single rules of building the next one."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from lancekit._commit.manifest.build import Built, build_manifest
from lancekit._format import flags
from lancekit._format.fragment import DataFile, Fragment, FragmentList
from lancekit._format.index import IndexDetails, IndexMetadata
from lancekit._format.manifest import Manifest
from lancekit._format.row_ids import parse_row_ids, read_row_versions
from lancekit._format.row_ids_encode import encode_row_ids, uniform_versions
from lancekit._format.schema import PRIMARY_KEY, LanceSchema

SCHEMA = LanceSchema.from_arrow(
    pa.schema(
        [
            pa.field("k", pa.int64(), False, {PRIMARY_KEY: "true"}),
            pa.field("s", pa.string()),
            pa.field("t", pa.struct([pa.field("u", pa.int32())])),
        ]
    )
)
K, S, T, U = (field.id for field in SCHEMA.walk())


def data_file(name: str, *fields: int, version: tuple[int, int] = (2, 1)) -> DataFile:
    return DataFile(name, fields, tuple(range(len(fields))), *version)


def fragment(id_: int = 0, rows: int = 4, **changes: Any) -> Fragment:
    files = (data_file(f"{id_}.lance", K, S, U),)
    return Fragment(**{"id": id_, "files": files, "physical_rows": rows, **changes})


def manifest(*fragments: Fragment, stable: bool = False, **changes: Any) -> Manifest:
    word = flags.STABLE_ROW_IDS if stable else 0
    base = Manifest(
        schema=SCHEMA,
        fragments=FragmentList.of(fragments),
        version=5,
        reader_flags=word,
        writer_flags=word,
        max_fragment_id=max((f.id for f in fragments), default=None),
        storage_version="2.1",
    )
    return replace(base, **changes)


def with_ids(id_: int, first: int, rows: int = 4, **changes: Any) -> Fragment:
    versions = uniform_versions(rows, 2)
    return fragment(
        id_, rows, row_ids=encode_row_ids(range(first, first + rows)),
        created_at=versions, last_updated_at=versions, **changes,
    )  # fmt: skip


def index(name: str, *fields: int, covers: Any = (0, 1), **changes: Any) -> IndexMetadata:
    bitmap = None if covers is None else BitMap(covers)
    kind = IndexDetails("/lance.table.BitmapIndexDetails")
    given = {"name": name, "fields": fields, "fragment_ids": bitmap, "index_details": kind}
    return IndexMetadata(**{"uuid": uuid.uuid4(), "dataset_version": 1, **given, **changes})


def build(latest: Manifest, operation: Any, *indices: IndexMetadata, **given: Any) -> Built:
    return build_manifest(latest, operation, timestamp_ns=7, indices=indices, **given)


def covers(built: Built) -> dict[str, list[int]]:
    return {i.name: list(i.fragment_ids or ()) for i in built.indices}


def sequences(fragment: Fragment) -> Any:
    rows, where = fragment.physical_rows, f"fragment {fragment.id}"
    return (
        None if fragment.row_ids is None else parse_row_ids(fragment.row_ids, rows, where).tolist(),
        read_row_versions(fragment.created_at, rows, where).values().tolist(),
        read_row_versions(fragment.last_updated_at, rows, where).values().tolist(),
    )

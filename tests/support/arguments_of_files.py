"""Checks of the arguments of data files and blobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lancekit.file import LanceFileReader, LanceFileWriter
from tests.support.argument_checks import ROWS, Check, Hint, Method, Refused, Value, place, shared

__all__ = ["FILES"]


def _file(**arguments: Any) -> LanceFileReader:
    return LanceFileReader(**{"path": _written_file(), **arguments})


def _written_file() -> str:
    path = f"{place()}/data.lance"
    with LanceFileWriter(path) as writer:
        writer.write_batch(ROWS)
    return path


def _read_file(name: str, *fixed: Any) -> Callable[..., Any]:
    return lambda **kw: [b.num_rows for b in getattr(_file(), name)(*fixed, **kw).to_batches()]


READING_FILES: dict[str, Check] = {"batch_size": Value(3), "batch_readahead": Hint(3, "x")}


def _blobs(**arguments: Any) -> Any:
    found = shared().take_blobs(**{"blob_column": "b", **arguments})
    return [None if blob is None else (blob.readall(), blob._buffer_size) for blob in found]


def _blob() -> Any:
    return shared().take_blobs("b", indices=[0])[0]


CHOSEN: dict[str, Check] = {
    "ids": Value([0, 1], {"indices": None}),
    "addresses": Value([0, 1], {"indices": None}),
    "indices": Value([1], {}),
}


MANY = {"id": list(range(5000))}


def _file_written(name: str, **arguments: Any) -> Any:
    path = arguments.pop("path", None) or f"{place()}/a.lance"
    own = name == "LanceFileWriter"
    with LanceFileWriter(path, **(arguments if own else {})) as writer:
        batch = arguments.get("batch") or pa.table(MANY)
        writer.write_batch(batch)
        if not own and name != "write_batch":
            getattr(writer, name)(**arguments)
    reader = LanceFileReader(path)
    told = reader.metadata()
    pages = [len(c.pages) for c in told.columns]
    table = reader.read_all().to_table()
    return (
        table,
        table.schema.metadata,
        (told.major_version, told.minor_version),
        pages,
        [reader.read_global_buffer(at) for at in range(1, 2) if name == "add_global_buffer"],
    )


FILES: dict[str, Method] = {
    "LanceDataset.take_blobs": Method(
        _blobs,
        {"blob_column": Refused("x", "'x'"), "buffer_size": Value(7), **CHOSEN},
        {"indices": [0]},
    ),
    "LanceDataset.read_blobs": Method(
        lambda **kw: shared().read_blobs(**{"blob_column": "b", **kw}),
        {
            "blob_column": Refused("x", "'x'"),
            "io_buffer_size": Hint(10, "x"),
            "preserve_order": Hint(True, "x"),
            **CHOSEN,
        },
        {"indices": [0]},
    ),
    "LanceDataset.read_blob_ranges": Method(
        lambda **kw: shared().read_blob_ranges(**kw),
        {
            "blob_column": Refused("x", "'x'"),
            "requests": Value([(1, 0, 1)]),
            "selector": Value("addresses"),
            "io_buffer_size": Hint(10, "x"),
            "preserve_order": Hint(True, "x"),
        },
        {"blob_column": "b", "requests": [(4, 0, 1)], "selector": "indices"},
    ),
    "BlobFile.read": Method(lambda **kw: _blob().read(**kw), {"size": Value(0)}),
    "BlobFile.read1": Method(lambda **kw: _blob().read1(**kw), {"size": Value(0)}),
    "BlobFile.readinto": Method(
        lambda buffer: _blob().readinto(bytearray(buffer)), {"buffer": Value(0)}, {"buffer": 1}
    ),
    "BlobFile.read_range": Method(
        lambda **kw: _blob().read_range(**kw),
        {"offset": Value(1), "length": Value(0)},
        {"offset": 0, "length": 1},
    ),
    "BlobFile.read_ranges": Method(
        lambda ranges: _blob().read_ranges(ranges),
        {"ranges": Value([(0, 0)])},
        {"ranges": [(0, 1)]},
    ),
    "BlobFile.seek": Method(
        lambda **kw: _blob().seek(**kw), {"offset": Value(1), "whence": Value(2)}, {"offset": 0}
    ),
    "LanceFileReader": Method(
        lambda **kw: _file(**kw).read_all().to_table(),
        {
            "path": Refused("memory://nothing/x.lance", "nothing"),
            "storage_options": Refused("text"),
            "columns": Value(["x"]),
            "namespace_client": Refused(object(), "Namespaces"),
            "table_id": Refused(["a"], "Namespaces"),
        },
    ),
    "LanceFileReader.read_all": Method(_read_file("read_all"), READING_FILES),
    "LanceFileReader.read_range": Method(
        _read_file("read_range"),
        READING_FILES | {"start": Value(6), "num_rows": Value(3)},
        {"start": 0, "num_rows": 5},
    ),
    "LanceFileReader.take_rows": Method(
        _read_file("take_rows"),
        READING_FILES | {"indices": Value([1])},
        {"indices": [0, 2, 4, 6]},
    ),
    "LanceFileReader.read_global_buffer": Method(
        lambda index: _file().read_global_buffer(index), {"index": Refused(9, "9")}, {"index": 0}
    ),
    "LanceFileWriter": Method(
        lambda **kw: _file_written("LanceFileWriter", **kw),
        {
            "path": Value("memory://every-argument-file/none/../a.lance"),
            "schema": Value(pa.schema({"none": pa.int8()})),
            "data_cache_bytes": Value(4096),
            "version": Value("2.1"),
            "storage_options": Refused("text"),
            "namespace_client": Refused(object(), "Namespaces"),
            "table_id": Refused(["a"], "Namespaces"),
            "max_page_bytes": Value(64),
            "optimize_for": Refused("speed", "speed"),
        },
    ),
    "LanceFileWriter.write_batch": Method(
        lambda **kw: _file_written("write_batch", **kw), {"batch": Value(pa.table({"id": [1]}))}
    ),
    "LanceFileWriter.add_schema_metadata": Method(
        lambda **kw: _file_written("add_schema_metadata", **kw),
        {"key": Value("b"), "value": Value("2")},
        {"key": "a", "value": "1"},
    ),
    "LanceFileWriter.add_global_buffer": Method(
        lambda **kw: _file_written("add_global_buffer", **kw), {"data": Value(b"b")}, {"data": b"a"}
    ),
}

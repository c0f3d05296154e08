"""Make `releases`: small datasets by releases that do not install everywhere.

Run it from the top of the repository, with the releases set up (`make releases`):
``python -m tests.data.make_releases``.  Each dataset, packed, has the columns of a table beside
it that its release writes, and reads back as they were.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.file.nested import assert_same_nested
from tests.support.release_columns import KINDS, column, field_of
from tests.support.releases import Release, ReleaseError

HERE = Path(__file__).parent / "releases"

#: release -> the storage version of its files
KEPT = {
    "0.16.0": "2.0",
    "0.30.0": "2.0",
    "0.38.1": "2.1",
    "1.0.4": "2.1",
    "3.0.0": "2.2",
    "6.0.0": "2.1",
    "9.0.1": "2.2",
    "12.0.0": "2.2",
}

_SMALL = [("none", "random"), ("inside", "sorted"), ("blocks", "few"), ("all", "constant")]
_LONG = [("none", "short runs"), ("few", "runs"), ("some", "few"), ("none", "constant")]
_LONG_KINDS = ("int64", "double", "int32", "string short", "decimal128(9, 2)", "list int32")


def tables() -> dict[str, pa.Table]:
    """Return every type in few rows, and some in more: what is only chosen for many values."""
    small = [kind for kind, (_, weight) in KINDS.items() if weight < 4]
    return {"small": _table(small, _SMALL, 40), "long": _table(_LONG_KINDS, _LONG, 1200)}


def _table(kinds: Sequence[str], patterns: Sequence[tuple[str, str]], rows: int) -> pa.Table:
    rng = np.random.default_rng(16)
    fields, arrays = [pa.field("id", pa.int64())], [pa.array(np.arange(rows))]
    for place, kind in enumerate(kinds):
        for nulls, pattern in (patterns[place % 2], patterns[2 + place // 2 % 2]):
            array = column(kind, nulls, pattern, rows, rng)
            fields.append(field_of(kind, f"{kind}; {nulls}; {pattern}", array))
            arrays.append(array)
    return pa.table(arrays, schema=pa.schema(fields))


def _store(table: pa.Table, path: Path, compression: str | None = None) -> pa.Table:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table)
    return pa.ipc.open_file(path).read_all()


def _keeps(release: Release, table: pa.Table, version: str) -> bool:
    """Return whether a release reads a table back as it wrote it; blobs come back as places."""
    with tempfile.TemporaryDirectory() as folder:
        given, back = Path(folder, "in.arrow"), Path(folder, "out.arrow")
        expected = _store(table, given)
        uri = str(Path(folder, "d"))
        try:
            release("write", tables=[str(given)], uri=uri, version=version, rows_per_file=10**6)
            release("read", uri=uri, out=str(back))
            if any(name.startswith("blob") for name in table.column_names):
                return True
            found = pa.ipc.open_stream(back.read_bytes()).read_all()
            for name in table.column_names:
                assert_same_nested(found[name], expected[name].combine_chunks(), name)
        except (ReleaseError, AssertionError):
            return False
    return True


def main() -> None:
    """Write all of it anew."""
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    for size, table in tables().items():
        _store(table, HERE / f"{size}.arrow", "zstd")
        for name, version in KEPT.items():
            with Release(name) as release:
                columns = [
                    column
                    for column in table.column_names[1:]
                    if _keeps(release, table.select(["id", column]), version)
                ]
                with tempfile.TemporaryDirectory() as folder:
                    given = Path(folder, "in.arrow")
                    _store(table.select(["id", *columns]), given)
                    uri = str(Path(folder, "d"))
                    options = {"version": version, "rows_per_file": 10**6}
                    release("write", tables=[str(given)], uri=uri, **options)
                    shutil.make_archive(str(HERE / f"{size}-{name}"), "xztar", uri)
            print(size, name, len(columns), "of", table.num_columns - 1)


if __name__ == "__main__":
    main()

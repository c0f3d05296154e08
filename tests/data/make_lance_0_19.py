"""Make `lance_0_19`: tables as pylance 0.19.2 wrote them, and what it read back from them.

Run it in a virtual environment that has pylance 0.19.2: ``python tests/data/make_lance_0_19.py``.
"""

import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
from lance.dataset import LanceOperation
from lance.fragment import LanceFragment

HERE = Path(__file__).parent / "lance_0_19"


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]})


def operations(path):
    """One version for each kind of operation that this release commits."""
    ds = lance.write_dataset(rows(1, 2, 3), path)
    ds = lance.write_dataset(rows(4, 5), path, mode="append")
    ds.delete("id = 2")
    ds.update({"name": "'changed'"}, where="id = 3")
    source = rows(4, 6)
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
    ds.create_scalar_index("id", "BTREE")
    ds.add_columns({"double": "id * 2"})
    ds.alter_columns({"path": "name", "name": "label"})
    ds.optimize.compact_files()
    ds.drop_columns(["double"])
    lance.dataset(path, version=ds.version - 1).restore()
    lance.write_dataset(rows(9), path, mode="overwrite")
    fragment = LanceFragment.create(path, rows(10))
    lance.LanceDataset.commit(
        path, LanceOperation.Append([fragment]), read_version=lance.dataset(path).version
    )


def blobs(path):
    """A column of blobs, which lie in a second dataset."""
    blob = pa.field("data", pa.large_binary(), metadata={"lance-schema:storage-class": "blob"})
    schema = pa.schema([pa.field("id", pa.int64()), blob])
    table = pa.table([pa.array([1, 2]), pa.array([b"a", b"b"], pa.large_binary())], schema)
    lance.write_dataset(table, path)
    lance.write_dataset(table, path, mode="append")


if __name__ == "__main__":
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    found = {}
    for make in (operations, blobs):
        place = str(HERE / make.__name__)
        make(place)
        latest = lance.dataset(place)
        found[make.__name__] = {
            str(v["version"]): lance.dataset(place, version=v["version"])
            .to_table(columns=["id"] if make is blobs else None)
            .to_pydict()
            for v in latest.versions()
        }
    (HERE / "rows.json").write_text(json.dumps(found, indent=1) + "\n")

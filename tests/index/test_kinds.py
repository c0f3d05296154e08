"""What is said of each kind of index, against what pylance writes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._index.kinds import INVERTED, KINDS, VECTORS, kind_of
from lancekit.file import LanceFileReader

COLUMNS = {
    "BTREE": pa.array([1, None]),
    "BITMAP": pa.array(["a", None]),
    "LABEL_LIST": pa.array([["a"], None]),
    "NGRAM": pa.array(["abcd", None]),
    "ZONEMAP": pa.array([1.0, None]),
    "BLOOMFILTER": pa.array([1, None]),
}


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
@pytest.mark.parametrize("name", KINDS)
def test_kinds_are_as_pylance_writes_them(name: str, stable: bool, tmp_path: Path) -> None:
    kind = KINDS[name]
    rows = pa.table({"x": COLUMNS[name]})
    theirs = lance.write_dataset(rows, tmp_path / "d.lance", enable_stable_row_ids=stable)
    theirs.create_scalar_index("x", name)
    ds = lk.dataset(str(tmp_path / "d.lance"))
    (index,) = ds._snapshot.indices
    assert kind_of(index) is kind
    assert index.type_url == kind.type_url
    assert theirs.describe_indices()[0].index_type == kind.label
    assert kind.fits(rows["x"].type)
    # pylance writes B-trees of tables with row ids in a version that 4.0.0 does not read
    addresses = name == "BTREE" and stable
    assert index.index_version == (1 if addresses else kind.written)
    assert kind.has_addresses(index.index_version, stable) == (
        not stable or kind.zones or addresses
    )
    found = {}
    folder = tmp_path / "d.lance" / "_indices" / str(index.uuid)
    for path in folder.iterdir():
        reader = LanceFileReader(str(path))
        schema = reader.read_all().to_table().schema
        found[path.name] = tuple(schema.names)
    assert found == dict(kind.files)


def test_kinds_fit_types_or_do_not() -> None:
    fits = {name: kind.fits for name, kind in KINDS.items()}
    for name in ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"):
        assert all(map(fits[name], (pa.int8(), pa.float64(), pa.string(), pa.date32())))
        assert not any(map(fits[name], (pa.list_(pa.int8()), pa.struct([("a", pa.int8())]))))
    for kind in (pa.bool_(), pa.float16(), pa.decimal128(5, 2), pa.duration("s"), pa.binary(4)):
        assert fits["BTREE"](kind)
        assert not fits["BLOOMFILTER"](kind)
    assert fits["LABEL_LIST"](pa.large_list(pa.string()))
    assert not fits["LABEL_LIST"](pa.list_(pa.list_(pa.string())))
    assert fits["NGRAM"](pa.large_string())
    assert not fits["NGRAM"](pa.binary())


def test_a_kind_stays_itself_when_it_is_sent() -> None:
    for kind in (*KINDS.values(), INVERTED, VECTORS):
        assert pickle.loads(pickle.dumps(kind)) is kind
        assert copy.deepcopy(kind) is kind

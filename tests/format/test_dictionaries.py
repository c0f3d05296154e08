"""Values of dictionaries in manifests of 0.1 tables, which every commit has to write anew."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.dictionaries import StoredValues, put_dictionaries, read_dictionaries
from lancekit._format.pb import schema_pb2 as pb
from lancekit.errors import CorruptFileError, UnsupportedFeatureError


def _field(logical: str, id_: int = 3) -> pb.Field:
    return pb.Field(name="d", id=id_, logical_type=logical, dictionary=pb.Dictionary())


def _strings(values: list[bytes]) -> StoredValues:
    offsets = np.cumsum([0, *map(len, values)]).astype("<i8").tobytes()
    return StoredValues(len(values), b"".join(values), offsets)


@pytest.mark.parametrize(
    ("logical", "stored"),
    [
        ("dict:string:int8:false", _strings([b"aa", b"", b"bbb"])),
        ("dict:large_binary:uint32:false", _strings([])),
        ("dict:int16:int8:false", StoredValues(3, b"\1\0\2\0\3\0")),
    ],
)
def test_what_is_put_is_read(logical: str, stored: StoredValues) -> None:
    fields, out = [_field("int8", 0), _field(logical)], bytearray(b"before")
    put_dictionaries(out, fields, {3: stored, 9: stored})
    assert read_dictionaries(fields, lambda: memoryview(bytes(out)), "here") == {3: stored}


def test_bytes_as_in_the_format() -> None:
    out, field = bytearray(), _field("dict:string:int8:false")
    put_dictionaries(out, [field], {3: _strings([b"aa", b"bbb", b"c"])})
    assert out[:6] == b"aabbbc"
    assert np.frombuffer(out[6:], "<i8").tolist() == [0, 2, 5, 6]
    assert (field.dictionary.offset, field.dictionary.length) == (6, 3)


@pytest.mark.parametrize("place", [(-1, 1), (0, 1 << 40), (4, 3), (0, -2)])
def test_damage(place: tuple[int, int]) -> None:
    field = _field("dict:string:int8:false")
    field.dictionary.offset, field.dictionary.length = place
    with pytest.raises(
        CorruptFileError, match="values of dictionary 'd' are outside of manifest x"
    ):
        read_dictionaries([field], lambda: memoryview(b"\xff" * 30), "x")


def test_values_that_nobody_knows() -> None:
    with pytest.raises(UnsupportedFeatureError, match="values of dictionary 'd'"):
        put_dictionaries(bytearray(), [_field("dict:string:int8:false")], {})


def test_commits_carry_them_on(tmp_path: Path) -> None:
    path = tmp_path / "d.lance"
    words = pa.array(["x", "yy", "zzz"]).dictionary_encode()
    many = pa.DictionaryArray.from_arrays(
        pa.array([0, 40_000, 9]), pa.array([f"value {k}" for k in range(50_000)])
    )
    numbers = pa.DictionaryArray.from_arrays([2, 0, 1], pa.array([10, 20, 30], pa.uint8()))
    inner = pa.StructArray.from_arrays([words], ["w"])
    table = pa.table({"id": range(3), "many": many, "n": numbers, "s": inner, "w": words})
    lance.write_dataset(table, path, data_storage_version="legacy")
    ds = lk.dataset(path)
    ds.delete("id = 1")
    ds.alter_columns({"path": "w", "name": "word"})
    ds.drop_columns(["n"])
    ds.create_scalar_index("id", "BTREE")
    ds.update_config({"a": "b"})
    expected = [
        {"id": k, "many": f"value {m}", "s": {"w": w}, "word": w}
        for k, m, w in ((0, 0, "x"), (2, 9, "zzz"))
    ]
    for newest in (lk.dataset(path), lance.dataset(path)):
        assert newest.to_table().to_pylist() == expected
    lk.dataset(path, version=1).restore()
    lance.dataset(path).delete("id = 0")
    ds = lk.dataset(path)
    branch = ds.create_branch("b")
    branch.delete("id = 1")
    assert branch.to_table().to_pylist() == table.slice(2).to_pylist()
    for newest in (lk.dataset(path), lance.dataset(path)):
        assert newest.to_table().to_pylist() == table.slice(1).to_pylist()
    assert lance.dataset(path).checkout_version(("b", None)).to_table().to_pylist() == (
        table.slice(2).to_pylist()
    )

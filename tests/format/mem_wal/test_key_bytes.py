"""Keys of several columns as one value."""

from __future__ import annotations

from pathlib import Path

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lancekit._format.mem_wal.sharding import is_key_type, key_tuples, one_key
from lancekit.errors import UnsupportedTypeError
from tests.support.shards import SHARD, keyed, newest, opened


def random_keys(rows: int = 200) -> dict[str, pa.Array]:
    rng = np.random.default_rng(3)
    words = rng.integers(-(2**63), 2**63, rows, np.int64)
    words[:3] = [0, -1, 2**63 - 1]
    texts = ["".join(rng.choice(np.array(list("a\0é")), n)) for n in rng.integers(0, 6, rows)]
    made = {
        f"{sign}int{bits}": pa.array(words.astype(f"{sign}int{bits}"))
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    }
    made["bool"] = pa.array(words % 2 == 0)
    for kind in (pa.string(), pa.large_string()):
        made[str(kind)] = pa.array(texts, kind)
    for kind in (pa.binary(), pa.large_binary()):
        made[str(kind)] = pa.array([text.encode() for text in texts], kind)
    return made


def test_tuples_are_those_of_the_reference(tmp_path: Path) -> None:
    made = random_keys()
    order = ["large_string", *[name for name in made if name != "large_string"]]
    table = pa.table(made, schema=keyed(pa.schema({n: c.type for n, c in made.items()}), *order))
    ds = lance.write_dataset(table.slice(0, 0), str(tmp_path))
    ds.initialize_mem_wal()
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(table)
    folder = f"{opened(tmp_path).store.uri}/{newest(tmp_path).sstables[0].path}/_pk_index"
    found = lance.file.LanceFileReader(f"{folder}/page_data.lance").read_all().to_table()
    mine = key_tuples([made[name] for name in order])
    assert mine.take(found["ids"].combine_chunks()).to_pylist() == found["values"].to_pylist()
    assert sorted(mine.to_pylist()) == found["values"].to_pylist()


def test_nulls_come_first_and_zero_bytes_do_not_end_a_text() -> None:
    columns = [pa.array([None, "", "a", "a\0", "ab", None]), pa.array([2, 1, 1, 0, 0, None])]
    tuples = key_tuples(columns).to_pylist()
    assert tuples[0][:2] == b"\x00\x01"
    assert tuples[5] == b"\x00\x00"
    assert sorted(tuples) == [tuples[at] for at in (5, 0, 1, 2, 3, 4)]
    flags = key_tuples([pa.array([True, None]), pa.array([None, 1], pa.uint8())]).to_pylist()
    assert flags == [b"\x01\x01\x00", b"\x00\x01" + bytes(7) + b"\x01"]


def test_one_column_is_the_key_itself() -> None:
    column = pa.array([1, 2])
    assert one_key([column]) is column
    assert one_key([column, column]).type == pa.binary()


def test_types_that_keys_do_not_have() -> None:
    assert not any(map(is_key_type, [pa.float64(), pa.date32(), pa.binary(2), pa.string_view()]))
    with pytest.raises(UnsupportedTypeError, match="double"):
        key_tuples([pa.array([1.0]), pa.array([1])])

"""Partitions of indices that pylance wrote, token by token."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._index.inverted.analyzer import Analyzer
from lancekit._index.inverted.partition import FreshPartition, Partition
from lancekit._index.inverted.segment import OpenSegment, open_segment
from lancekit._index.inverted.settings import AnalyzerSettings
from lancekit._index.kinds import INVERTED
from lancekit._index.segment import Segment
from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from lancekit.file import LanceFileReader, LanceFileWriter

BUILD = """
ds = lance.dataset(arguments["uri"])
ds.create_scalar_index("t", "INVERTED", with_position=True)
result = None
"""


def texts() -> list[str | None]:
    """One word is in 300 texts, which makes two blocks and a rest; others are rare."""
    source = random.Random(4)
    words = [f"w{number}" for number in range(60)]
    weights = [100 / (number + 1) for number in range(60)]
    found: list[str | None] = [
        " ".join(["each1", *source.choices(words, weights, k=source.randint(0, 40))])
        for _ in range(300)
    ]
    return [*found, None, "", " ".join(["often"] * 300), " ".join(["two"] * 127)]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    place = str(tmp_path / "d.lance")
    lance.write_dataset(pa.table({"t": texts()}), place)
    return place


def opened(uri: str) -> OpenSegment:
    snapshot = lk.dataset(uri)._snapshot
    (index,) = snapshot.indices
    return open_segment(Segment(index, INVERTED, snapshot.base_store(index.base_id)))


def fresh(rows: list[str | None]) -> FreshPartition:
    table = Analyzer(AnalyzerSettings()).table(pa.array(rows))
    return FreshPartition([(np.arange(len(rows)), table)], None)


def told(partition: Partition, rows: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return all that is known of each token."""
    found = {}
    for token in partition.words().to_pylist():
        postings = partition.postings(token)
        assert postings is not None
        assert partition.frequency(token) == len(postings.docs)
        ends = np.cumsum(postings.counts)
        places = [part.tolist() for part in np.split(partition.positions(token), ends[:-1])]
        docs = rows[postings.docs].tolist()
        assert list(map(len, places)) == postings.counts.tolist()
        found[token] = dict(zip(docs, places, strict=True))
    return found


def test_every_token_is_where_pylance_found_it(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("t", "INVERTED", with_position=True)
    segment = opened(uri)
    (stored,) = segment.partitions
    assert segment.settings == AnalyzerSettings()
    assert segment.has_positions
    read = fresh(texts())
    assert told(stored, stored.row_ids) == told(read, read.rows)
    lengths = dict(zip(stored.row_ids.tolist(), stored.lengths.tolist(), strict=True))
    assert lengths == dict(zip(read.rows.tolist(), read.lengths.tolist(), strict=True))
    assert stored.postings("missing") is None
    assert read.postings("missing") is None
    assert stored.frequency("missing") == len(stored.positions("missing")) == 0


def test_indices_of_4_0_0(uri: str, pylance4: Callable[..., Any]) -> None:
    pylance4(BUILD, uri=uri)
    (stored,) = opened(uri).partitions
    read = fresh(texts())
    wanted = told(read, read.rows)
    del wanted["often"]  # in one text more often than its positions are looked into
    stored_tokens = set(stored.words().to_pylist())
    assert stored_tokens == {*wanted, "often"}
    with pytest.raises(UnsupportedFeatureError, match="stores token positions in blocks"):
        stored.positions("often")
    for token, places in wanted.items():
        postings = stored.postings(token)
        assert postings is not None
        ends = np.cumsum(postings.counts)
        found = [part.tolist() for part in np.split(stored.positions(token), ends[:-1])]
        assert dict(zip(stored.row_ids[postings.docs].tolist(), found, strict=True)) == places


def rewritten(uri: str, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write a file of the index anew; its size in the manifest is of no use then."""
    (path,) = Path(uri).glob(f"_indices/*/{name}")
    table = change(LanceFileReader(str(path)).read_all().to_table())
    path.unlink()
    with LanceFileWriter(str(path), table.schema, version="2.1") as writer:
        writer.write_batch(table)


def reopened(uri: str) -> OpenSegment:
    snapshot = lk.dataset(uri)._snapshot
    (index,) = snapshot.indices
    bare = type(index)(index.uuid, index.name, index.fields)
    return open_segment(Segment(bare, INVERTED, snapshot.base_store(None)))


def test_tokens_as_a_table(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("t", "INVERTED", with_position=True)
    (before,) = opened(uri).partitions
    wanted = told(before, before.row_ids)
    numbers = {token: before.token_set.get(token) for token in wanted}

    def as_table(_: pa.Table) -> pa.Table:
        columns = [pa.array(numbers, pa.string()), pa.array(numbers.values(), pa.uint32())]
        return pa.table(columns, names=["_token", "_token_id"])

    rewritten(uri, "part_0_tokens.lance", as_table)
    said = {b"token_set_format": b"arrow"}
    rewritten(
        uri, "metadata.lance", lambda t: t.replace_schema_metadata({**t.schema.metadata, **said})
    )
    (after,) = reopened(uri).partitions
    assert told(after, after.row_ids) == wanted
    assert after.postings("missing") is None


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({b"token_set_format": b"trie"}, "in an unknown form 'trie'"),
        ({b"posting_tail_codec": b"other"}, "has unknown posting lists: 'other'"),
        ({b"posting_block_size": b"512"}, "in blocks of '512'"),
        ({b"partitions": b"{"}, "has an invalid partition list"),
        ({b"params": b"{"}, "has unknown token settings"),
    ],
    ids=str,
)
def test_what_is_not_known_is_named(uri: str, said: dict[bytes, bytes], error: str) -> None:
    lance.dataset(uri).create_scalar_index("t", "INVERTED")
    rewritten(
        uri, "metadata.lance", lambda t: t.replace_schema_metadata({**t.schema.metadata, **said})
    )
    with pytest.raises((CorruptFileError, UnsupportedFeatureError), match=error):
        reopened(uri)


def test_damaged_postings_are_named(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("t", "INVERTED", with_position=True)
    source = random.Random(5)
    rewritten(uri, "part_0_invert.lance", lambda table: _damaged(table, source))
    (stored,) = reopened(uri).partitions
    told_of = 0
    for token in stored.words().to_pylist():
        try:
            stored.postings(token)
            stored.positions(token)
        except CorruptFileError as error:
            told_of += "part_0_invert.lance has" in str(error)
    assert told_of > 10


def _damaged(table: pa.Table, source: random.Random) -> pa.Table:
    def cut(data: bytes) -> bytes:
        return data[: source.randrange(len(data))]

    blocks = [[cut(block) for block in row] for row in table["_posting"].to_pylist()]
    at = table.schema.get_field_index("_posting")
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array(blocks, field.type))

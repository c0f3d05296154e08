"""Sessions, which stand for one cache, and what else a reader may pass that changes nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api.pylance_session import Session
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotOfferedError


def test_every_session_is_the_same(tmp_path) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "d")
    other = lk.dataset(tmp_path / "d", session=ds.session())
    assert other.session() == ds.session() == Session()
    assert hash(other.session()) == hash(Session())
    assert other.session().is_same_as(ds.session())
    assert ds.session().size_bytes() == lk.cache_info().bytes
    assert ds.session().index_cache_size_bytes() == lk.cache_info().bytes
    assert lk.write_dataset({"x": [3]}, ds, mode="append", session=Session()).count_rows() == 3
    assert len(lk.fragment.write_fragments({"x": [4]}, tmp_path / "d", session=Session())) == 1
    with pytest.raises(NotOfferedError, match=r"Set lancekit\.options\.cache_bytes"):
        Session(index_cache_backend="moka://")
    assert Session(5, metadata_cache_size_bytes=None) == Session()
    with pytest.raises(InvalidTypeError, match=r"index_cache_size_bytes must be .* got 'much'"):
        Session("much")  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"session must be .* got 3"):
        lk.dataset(tmp_path / "d", session=3)


def test_settings_of_reads_are_looked_at(tmp_path) -> None:
    lk.write_dataset({"x": [1, 2]}, tmp_path / "d")
    given = {"cache_repetition_index": False, "validate_on_decode": True}
    assert lk.dataset(tmp_path / "d", read_params=given).count_rows() == 2
    with pytest.raises(
        InvalidArgumentError, match=r"a key of read_params must be .* got 'nonsense'"
    ):
        lk.dataset(tmp_path / "d", read_params={"nonsense": True})
    with pytest.raises(InvalidTypeError, match="validate_on_decode"):
        lk.dataset(tmp_path / "d", read_params={"validate_on_decode": "no"})


def test_a_fragments_session_takes_its_columns(tmp_path) -> None:
    ds = lk.write_dataset({"x": range(9), "y": range(9)}, tmp_path / "d", max_rows_per_file=5)
    fragment = ds.get_fragments()[1]
    assert fragment.open_session(["y"]).take([3, 0]) == fragment.take([3, 0], ["y"])
    assert fragment.open_session().take([1]) == fragment.take([1])
    found = fragment.open_session(with_row_address=True).take([1])
    assert found.to_pylist() == [{"x": 6, "y": 6, "_rowaddr": (1 << 32) + 1}]
    named = fragment.open_session({"z": "x + 1"}, with_row_address=True).take([0])
    assert named.to_pylist() == [{"z": 6, "_rowaddr": 1 << 32}]


def test_a_handle_is_a_stream_of_arrow(tmp_path) -> None:
    import duckdb

    ds = lk.write_dataset({"x": [1, 2, 3]}, tmp_path / "d", max_rows_per_file=2)
    assert pa.table(ds) == ds.to_table()
    assert duckdb.sql("SELECT sum(x) FROM ds WHERE x > 1").fetchall() == [(5,)]
    assert ds._ds.base_paths() == {}


def test_bytes_are_gone_through_as_files() -> None:
    for kind in (pa.binary(), pa.large_binary()):
        column = pa.chunked_array([[b"ab", None], [b""]], kind)
        assert [file and file.read() for file in lk.BlobColumn(column)] == [b"ab", None, b""]
    for wrong in (pa.array([1]), [b"x"], None):
        with pytest.raises(InvalidArgumentError, match="Expected a binary array"):
            lk.BlobColumn(wrong)

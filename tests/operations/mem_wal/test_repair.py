"""Damage of a shard's files: every acknowledged row is read, or an error names the file."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lancekit as lk
from lancekit._format.deletions import encode_deletions
from lancekit._format.fragment import DeletionKind
from lancekit._format.mem_wal.names import LOGS, MANIFESTS, position
from lancekit._operations.mem_wal.reader import sources
from lancekit._shards.entry import read_entry
from lancekit._shards.manifests import change
from lancekit._shards.schema import shard_of
from lancekit.errors import (
    CorruptFileError,
    FencedError,
    LancekitError,
    UnsupportedFeatureError,
)
from tests.support.shards import SHARD, opened

FOLDER = Path(LOGS) / SHARD


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read again at once what cannot be read: nobody merges it meanwhile."""
    monkeypatch.setattr(sources, "_PAUSE_SECONDS", 0)


@pytest.fixture
def writer(tmp_path: Path) -> lk.ShardWriter:
    """Put ids 1 to 3 into the log of a shard that has id 100 in a generation."""
    ds = lk.write_dataset({"id": [0], "v": [0]}, tmp_path, primary_key="id")
    ds.initialize_mem_wal()
    with ds.mem_wal_writer(SHARD) as first:
        first.put({"id": [100], "v": [100]})
    made = ds.mem_wal_writer(SHARD)
    for number in (1, 2, 3):
        made.put({"id": [number], "v": [number]})
    return made


def read(path: Path) -> list[int]:
    found = lk.dataset(path).to_table(columns=["id"], include_mem_wal=True)
    return sorted(found.column(0).to_pylist())


def entries(path: Path) -> list[Path]:
    """Return the files of the log's entries, in their order."""
    return sorted((path / FOLDER / "wal").iterdir(), key=lambda file: position(file.name))


def newest_manifest(path: Path) -> Path:
    return max((path / FOLDER / MANIFESTS).glob("*.binpb"), key=lambda file: position(file.name))


def flips(file: Path, whole: bool, most: int) -> Iterator[str]:
    """Flip single bits of a file, all or some; yield which, and restore the file at the end."""
    data = file.read_bytes()
    bits = range(8 * len(data))
    for bit in bits if whole else random.Random(len(data)).sample(bits, most):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(changed)
        yield f"bit {bit} of {file.name}"
    file.write_bytes(data)


def outcome(path: Path) -> Any:
    """Return the ids that are read, or the error if it is one of ours and names a file."""
    try:
        return read(path)
    except LancekitError as error:
        return type(error) if LOGS in f"{error} {error.context}" else error


ALL = [0, 1, 2, 3, 100]


@pytest.mark.torture
@pytest.mark.usefixtures("writer")
def test_no_bit_of_an_entry_loses_its_rows(tmp_path: Path, whole: bool) -> None:
    last = entries(tmp_path)[-1]
    for bit in flips(last, whole, 40):
        assert outcome(tmp_path) is CorruptFileError, bit


@pytest.mark.torture
@pytest.mark.usefixtures("writer")
def test_no_bit_of_the_columns_of_an_entry_of_the_reference_changes_rows(
    tmp_path: Path, whole: bool
) -> None:
    last = entries(tmp_path)[-1]
    data = last.read_bytes()[:-12]  # as the reference writes it
    columns = range(8 * (8 + int.from_bytes(data[4:8], "little")))
    expected = lk.dataset(tmp_path).to_table(include_mem_wal=True).sort_by("id")
    some = random.Random(4).sample(columns, 150)
    for bit in columns if whole else [*some, *_bits_of_ids(data)]:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        last.write_bytes(changed)
        try:
            found = lk.dataset(tmp_path).to_table(include_mem_wal=True).sort_by("id")
            is_right = found.equals(expected)
        except LancekitError as error:
            is_right = LOGS in str(error) and "repair_mem_wal" in str(error)
        assert is_right or _is_unknown_id(changed), bit
    # one that nobody but the reader of the key sees
    changed = bytearray(data)
    changed[_bits_of_ids(data)[-1] // 8] ^= 8
    last.write_bytes(changed)
    ds = lk.dataset(tmp_path)
    (part,) = ds.repair_mem_wal()
    assert part.position
    assert read(tmp_path) == [0, 1, 2, 100]
    ds.mem_wal_writer(SHARD).close()


def _bits_of_ids(data: bytes) -> list[int]:
    """Return the bits in which the ids of two fields differ; the last one is of the key's id."""
    texts = (b"\1\0\0\0" + id_ for id_ in (b"1\0", b"0\0"))  # length, value, end
    return [8 * (data.index(text) + 4) for text in texts]


def _is_unknown_id(data: bytes) -> bool:
    """Tell whether a column that is not of the key has an id that the table does not know.

    Such a column may have been dropped.
    """
    with suppress(pa.ArrowException, OSError, ValueError):
        schema = pa.ipc.open_stream(bytes(data)).schema
        ids = [(field.metadata or {}).get(b"lance:field_id") for field in schema]
        return ids[:1] == [b"0"] and ids[1:2] not in ([], [b"1"], [None])
    return False


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize("which", [1, -1])
def test_an_entry_with_its_end_marker_is_never_torn(tmp_path: Path, which: int) -> None:
    damaged = entries(tmp_path)[which + 1 if which > 0 else which]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=r"Entry \d+ .*damaged.*repair_mem_wal"):
            read(tmp_path)
        with pytest.raises(CorruptFileError, match=r"Entry \d+ .*damaged.*repair_mem_wal"):
            lk.dataset(tmp_path).mem_wal_writer(SHARD)
        assert damaged.read_bytes() == data


@pytest.mark.usefixtures("writer")
def test_an_entry_without_an_epoch_is_not_written_over(tmp_path: Path) -> None:
    last = entries(tmp_path)[-1]
    data = last.read_bytes()[:-12].replace(b"writer_epoch", b"writer_epoxx")
    last.write_bytes(data)
    with pytest.raises(CorruptFileError, match="has no epoch"):
        lk.dataset(tmp_path).mem_wal_writer(SHARD)
    assert last.read_bytes() == data


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize("left", [0, 1, 200, -1, -13])
def test_a_torn_entry_is_left_out_with_a_warning_and_kept(tmp_path: Path, left: int) -> None:
    last = entries(tmp_path)[-1]
    data = last.read_bytes()[:-12]  # as the reference writes it
    data = data[:left] if left >= 0 else data[: len(data) + left]
    last.write_bytes(data)
    with pytest.warns(UserWarning, match=r"Entry \d+ .*is torn"):
        assert read(tmp_path) == [0, 1, 2, 100]
    assert last.read_bytes() == data
    ds = lk.dataset(tmp_path)
    with pytest.warns(UserWarning, match=r"was moved to .*set_aside"), ds.mem_wal_writer(SHARD):
        pass
    (aside,) = (tmp_path / FOLDER / "set_aside").iterdir()
    assert aside.read_bytes() == data
    assert read(tmp_path) == [0, 1, 2, 100]
    reference = lance.dataset(str(tmp_path)).mem_wal_writer(SHARD)
    assert reference.lsm_scanner().count_rows() == 4


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize("damage", ["damaged", "missing", "two cut off"])
def test_a_repair_moves_damaged_entries_aside(tmp_path: Path, damage: str) -> None:
    damaged = entries(tmp_path)[-2:] if damage == "two cut off" else entries(tmp_path)[-2:-1]
    kept = {}
    for file in damaged:
        data = file.read_bytes()
        changed = data[:99] if damage == "two cut off" else data[:99] + b"x" + data[100:]
        kept[position(file.name)] = changed
        file.write_bytes(changed)
        if damage == "missing":
            file.unlink()
    with pytest.raises(CorruptFileError):
        read(tmp_path)
    ds = lk.dataset(tmp_path)
    done = ds.repair_mem_wal()
    assert [one.position for one in done] == sorted(kept)
    for one in done:
        if damage == "missing":
            assert one.file is None
        else:
            assert one.file is not None
            assert Path(one.file).read_bytes() == kept[one.position]
        assert read_entry(opened(tmp_path), one.position).sentinel
    left = [number for number in ALL if number != 2 and (number != 3 or len(done) == 1)]
    assert read(tmp_path) == left
    assert ds.repair_mem_wal() == []
    with ds.mem_wal_writer(SHARD) as again:
        again.put({"id": [7], "v": [7]})
    ds.merge_mem_wal()
    assert sorted(ds.to_table()["id"].to_pylist()) == sorted([*left, 7])


def test_a_repair_fences_the_writer_of_a_damaged_log_alone(
    tmp_path: Path, writer: lk.ShardWriter
) -> None:
    ds = lk.dataset(tmp_path)
    assert ds.repair_mem_wal() == []
    writer.put({"id": [4], "v": [4]})
    last = entries(tmp_path)[-1]
    last.write_bytes(last.read_bytes()[:-1] + b"!")
    assert len(ds.repair_mem_wal()) == 1
    with pytest.raises(FencedError):
        writer.put({"id": [5], "v": [5]})
    assert read(tmp_path) == ALL


@pytest.mark.usefixtures("writer")
def test_an_entry_that_is_gone_behind_the_last_one_that_was_seen(tmp_path: Path) -> None:
    _again = lk.dataset(tmp_path).mem_wal_writer(SHARD)  # notes what it has seen
    for file in entries(tmp_path)[1:]:
        file.unlink()
    with pytest.raises(CorruptFileError, match=r"the log had an entry at position \d+"):
        read(tmp_path)


@pytest.mark.torture
@pytest.mark.usefixtures("writer")
def test_no_bit_of_a_manifest_loses_rows(tmp_path: Path, whole: bool) -> None:
    for bit in flips(newest_manifest(tmp_path), whole, 100):
        assert outcome(tmp_path) in (ALL, CorruptFileError), bit


def by_the_reference(path: Path) -> Any:
    """Make the same table by pylance, whose manifests have no checksums."""
    made = lk.write_dataset({"id": [0], "v": [0]}, path, primary_key="id")
    made.initialize_mem_wal()
    ds = lance.dataset(str(path))
    for numbers in ([100], [101]):
        with ds.mem_wal_writer(SHARD) as first:
            first.put(pa.table({"id": numbers, "v": numbers}, schema=ds.schema))
    left = ds.mem_wal_writer(SHARD)
    for number in (1, 2, 3):
        left.put(pa.table({"id": [number], "v": [number]}, schema=ds.schema))
    return left


def test_replay_positions_of_the_reference_that_contradict_its_log(tmp_path: Path) -> None:
    _left = by_the_reference(tmp_path)
    assert read(tmp_path) == [*ALL, 101]
    file = newest_manifest(tmp_path)
    data = file.read_bytes()
    # fields 3 (replay after) and 6 (next generation), as varints of one byte
    for field in (3, 6):
        at = next(i for i in range(0, 30) if data[i] == field << 3 and data[i - 2] >> 3 < field)
        for bit in range(6):
            changed = bytearray(data)
            changed[at + 1] ^= 1 << bit
            file.write_bytes(changed)
            assert outcome(tmp_path) in ([*ALL, 101], CorruptFileError), (field, bit)
    file.write_bytes(data)


@pytest.mark.parametrize("merges", [False, True])
def test_a_cursor_of_the_reference_before_rows_of_its_generation(
    tmp_path: Path, merges: bool
) -> None:
    """The reference lists a generation with rows of an entry that it is still writing."""
    left = by_the_reference(tmp_path)
    left.close()  # a generation has entries 5, 6 and 7 then
    shard = shard_of(lk.dataset(tmp_path)._location.store, UUID(SHARD))
    change(shard, None, lambda found: replace(found, replay_after=found.replay_after - 2))
    ds = lk.dataset(tmp_path)
    assert read(tmp_path) == [*ALL, 101]
    if merges:
        assert ds.merge_mem_wal().num_inserted_rows == 5
    ds.mem_wal_writer(SHARD).put({"id": [3, 4], "v": [5, 5]})
    assert read(tmp_path) == sorted([*ALL, 101, 4])
    ds.merge_mem_wal(flush=True)
    found = ds.to_table(order_by=["id"])
    assert found["id"].to_pylist() == sorted([*ALL, 101, 4])
    assert found["v"].to_pylist()[3:5] == [5, 5]
    change(shard, None, lambda found: replace(found, replay_after=0))
    assert outcome(tmp_path) is CorruptFileError  # no generation tells that it has them


@pytest.mark.torture
@pytest.mark.parametrize("ours", [True, False])
def test_no_bit_of_a_generation_loses_rows(tmp_path: Path, ours: bool, whole: bool) -> None:
    if ours:
        ds = lk.write_dataset({"id": [0, 1], "v": [0, 0]}, tmp_path, primary_key="id")
        ds.initialize_mem_wal()
        with ds.mem_wal_writer(SHARD) as writer:
            writer.put({"id": [1, 2], "v": [7, 7]})
    else:
        _left = by_the_reference(tmp_path)
    expected = read(tmp_path)
    (manifest, *_) = (tmp_path / FOLDER).glob("*_gen_1/_versions/*.manifest")
    for bit in flips(manifest, whole, 60):
        found = outcome(tmp_path)
        assert found in (expected, CorruptFileError) or not ours, (bit, found)
        assert isinstance(found, type) or found == expected, (bit, found)


def test_two_fields_of_a_generation_in_one_column(tmp_path: Path) -> None:
    _left = by_the_reference(tmp_path)
    (manifest, *_) = (tmp_path / FOLDER).glob("*_gen_1/_versions/*.manifest")
    # fields and their columns; the transaction, which comes first, has them, too
    before, fields, after = manifest.read_bytes().rpartition(b"\x12\x03\0\1\2\x1a\x03\0\1\2")
    manifest.write_bytes(b"".join([before, fields[:-3], b"\1\1\2", after]))
    with pytest.raises(CorruptFileError, match=r"_gen_1.* is damaged: two fields share one column"):
        read(tmp_path)


def test_fields_of_a_generation_without_columns(tmp_path: Path) -> None:
    _left = by_the_reference(tmp_path)
    (manifest, *_) = (tmp_path / FOLDER).glob("*_gen_1/_versions/*.manifest")
    # one bit in the number of the field that lists the columns makes it one that nobody knows
    before, fields, after = manifest.read_bytes().rpartition(b"\x12\x03\0\1\2\x1a\x03\0\1\2")
    manifest.write_bytes(b"".join([before, fields[:5], b"\x3a", fields[6:], after]))
    with pytest.raises(CorruptFileError, match=r"_gen_1.* lists 3 fields .* but 0 column indices"):
        read(tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("files", ["data/*.lance", "_pk_index/*.lance", "_deletions/*"])
def test_no_bit_of_a_generations_files_comes_into_the_table(
    tmp_path: Path, files: str, whole: bool
) -> None:
    """Checksums tell of rows that are merged or read with shards, and of keys."""
    table, copy = tmp_path / "t", tmp_path / "copy"
    ds = lk.write_dataset({"id": [0, 1], "v": [0, 0]}, table, primary_key="id")
    ds.initialize_mem_wal()
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put({"id": [1, 2, 3], "v": [7, 7, 7]})
        writer.put({"id": [2], "v": [8]})
    merged = {"id": [0, 1, 2, 3], "v": [0, 7, 8, 7]}
    for damaged in (table / FOLDER).glob(f"*_gen_1/{files}"):
        for bit in flips(damaged, whole, 25):
            shutil.copytree(table, copy)
            with suppress(CorruptFileError, UnsupportedFeatureError):
                found = lk.dataset(copy).to_table(["id"], filter="id = 3", include_mem_wal=True)
                assert found.num_rows == 1, bit
                shown = lk.dataset(copy).to_table(include_mem_wal=True)
                assert shown.sort_by("id").to_pydict() == merged, bit
                lk.dataset(copy).merge_mem_wal()
                assert lk.dataset(copy).to_table().sort_by("id").to_pydict() == merged, bit
            shutil.rmtree(copy)


def test_a_generation_that_would_hide_another_row(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [0], "v": [0]}, tmp_path, primary_key="id")
    ds.mem_wal_upsert({"id": [1, 2], "v": [7, 7]})
    ds.mem_wal_upsert({"id": [2], "v": [8]}, flush=True)
    (file,) = (tmp_path / "_mem_wal").glob("*/*_gen_1/_deletions/*.arrow")
    file.write_bytes(encode_deletions(BitMap([0]), DeletionKind.ARROW))
    for call in (lambda ds: ds.to_table(include_mem_wal=True), lk.LanceDataset.merge_mem_wal):
        with pytest.raises(CorruptFileError, match=f"the checksum of _deletions/{file.name} does"):
            call(lk.dataset(tmp_path))
    file.unlink()
    with pytest.raises(CorruptFileError):
        lk.dataset(tmp_path).to_table(include_mem_wal=True)


def test_values_of_a_generation_that_was_written_a_moment_ago(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [0], "v": [0]}, tmp_path, primary_key="id")
    ds.mem_wal_upsert({"id": [1], "v": [0x0102030405060708]}, flush=True)
    (file,) = (tmp_path / "_mem_wal").glob("*/*_gen_1/data/*.lance")
    file.write_bytes(file.read_bytes().replace(bytes(range(8, 0, -1)), bytes(range(9, 1, -1))))
    with pytest.raises(CorruptFileError):
        lk.dataset(tmp_path).to_table(include_mem_wal=True)


@pytest.mark.torture
def test_no_bit_of_a_quarantine_comes_into_a_read(tmp_path: Path, whole: bool) -> None:
    ds = lk.write_dataset({"id": [0], "v": [0]}, tmp_path, primary_key="id")
    ds.mem_wal_upsert({"id": [1, 2], "v": [-7, -8]}, flush=True)
    ds.constraints.add("positive", "v >= 0")
    ds.merge_mem_wal(on_error="quarantine")
    (damaged,) = (tmp_path / LOGS / "quarantine").glob("*/data/*.lance")
    for bit in flips(damaged, whole, 30):
        with suppress(CorruptFileError, UnsupportedFeatureError):
            found = lk.dataset(tmp_path).mem_wal_quarantine().to_table()
            assert found.select(["id", "v"]).to_pydict() == {"id": [1, 2], "v": [-7, -8]}, bit

"""Manifests, transactions, deletion files and references, against what the reference writes."""

from __future__ import annotations

import dataclasses
import struct
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lancekit._format import flags, names
from lancekit._format.deletions import choose_kind, decode_deletions, encode_deletions
from lancekit._format.fragment import DeletionKind
from lancekit._format.manifest import (
    Manifest,
    encode_manifest_file,
    manifest_position,
    parse_manifest,
    read_section,
)
from lancekit._format.pb import rowids_pb2, table_pb2
from lancekit._format.pb.transaction_pb2 import Transaction as TransactionMessage
from lancekit._format.refs import Branch, Tag, check_branch_name, check_tag_name
from lancekit._format.row_ids import parse_row_ids, read_row_versions
from lancekit._format.transaction import encode_transaction, parse_transaction
from lancekit.errors import (
    CorruptFileError,
    InvalidArgumentError,
    LancekitError,
    UnsupportedFeatureError,
)


@pytest.fixture(scope="module")
def varied(tmp_path_factory) -> Path:
    """A dataset on which pylance ran one operation of every kind it offers."""
    root = tmp_path_factory.mktemp("varied") / "d"
    key = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("k", pa.int64(), False, key), ("s", pa.string())])
    rows = pa.table({"k": [1, 2, 3], "s": ["a", "b", "c"]}, schema=schema)
    ds = lance.write_dataset(rows, root)
    more = pa.table({"k": [1, 9], "s": ["z", "q"]}, schema=schema)
    ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(more)
    ds.delete("k = 2")
    ds.update({"s": "'u'"}, where="k = 3")
    ds.add_columns({"y": "k * 2"})
    ds.alter_columns({"path": "y", "name": "z"})
    ds.drop_columns(["z"])
    ds.optimize.compact_files()
    ds.update_config({"a": "b"})
    ds.update_metadata({"t": "m"})
    ds.update_schema_metadata({"sm": "1"})
    ds.update_field_metadata({"s": {"f": "1"}})
    ds.create_scalar_index("k", "BTREE")
    ds.add_bases([lance.DatasetBasePath(str(root.parent / "base"), "extra")])
    ds.restore()
    ds.create_branch("b/one", 2)
    ds.shallow_clone(root.parent / "clone", 3)
    return root.parent


def _manifests(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.manifest"))


def _parse(data: bytes, where: str) -> tuple[Manifest, memoryview]:
    body = read_section(memoryview(data), manifest_position(data, where), where)
    return parse_manifest(body, where, lambda: memoryview(data)), body


def test_manifests_and_transactions_survive_a_rewrite(varied: Path) -> None:
    operations = set()
    for path in _manifests(varied):
        data = path.read_bytes()
        manifest, body = _parse(data, str(path))
        again, encoded = _parse(encode_manifest_file(manifest), str(path))
        plain = {"index_section": None, "inline_transaction": None}
        assert dataclasses.replace(manifest, **plain) == again
        theirs, ours = (table_pb2.Manifest.FromString(bytes(part)) for part in (body, encoded))
        for message in (theirs, ours):
            for name in ("index_section", "transaction_section", "transaction_section_new"):
                message.ClearField(name)
        assert ours == theirs
        section = read_section(memoryview(data), manifest.inline_transaction, str(path))
        transaction = parse_transaction(section, str(path))
        operations.add(type(transaction.operation).__name__)
        written = TransactionMessage.FromString(encode_transaction(transaction))
        assert written == TransactionMessage.FromString(bytes(section))
    assert operations == {
        "Overwrite", "Update", "Delete", "Merge", "Project", "ReserveFragments", "Rewrite",
        "UpdateConfig", "CreateIndex", "Restore", "Clone", "UpdateBases",
    }  # fmt: skip


def test_unknown_fields_survive(varied: Path) -> None:
    body = bytes(_parse(_manifests(varied)[0].read_bytes(), "m")[1])
    unknown = b"\xfa\x3f\x05hello"  # field 1023, of no release
    manifest = parse_manifest(memoryview(body + unknown), "m", lambda: memoryview(b""))
    _, encoded = _parse(encode_manifest_file(manifest), "m")
    assert unknown in bytes(encoded)


def test_damaged_manifests_are_named(varied: Path) -> None:
    data = _manifests(varied)[0].read_bytes()
    rng = np.random.default_rng(7)
    for _ in range(400):
        broken = bytearray(data)
        if rng.random() < 0.3:
            del broken[rng.integers(0, len(broken)) :]
        else:
            broken[rng.integers(0, len(broken))] ^= 1 << rng.integers(0, 8)
        try:
            manifest, _ = _parse(bytes(broken), "m.manifest")
        except LancekitError as error:
            assert "m.manifest" in str(error) or error.context  # noqa: PT017
        else:
            assert isinstance(manifest, Manifest)


@pytest.mark.parametrize("bit", [64, 512, 4096, 8192, 1 << 17, 1 << 40])
def test_unknown_flags_refuse(bit: int) -> None:
    named = rf"flag {bit} \(bit {bit.bit_length() - 1}\)\."  # the bit, and no guess what it means
    with pytest.raises(UnsupportedFeatureError, match=named):
        flags.check_readable(1 | bit, "d")
    with pytest.raises(UnsupportedFeatureError, match=named):
        flags.check_writable(1 | bit, "d")
    flags.check_readable(63 | 2048, "d")
    flags.check_writable(63 | 256 | 2048, "d")
    flags.check_readable(128, "d")
    with pytest.raises(UnsupportedFeatureError, match=r"flag 128 \(bit 7\), 512 \(bit 9\)\."):
        flags.check_writable(1 | 128 | 512, "d")


@given(st.integers(1, 2**63 - 1), st.sampled_from(names.ManifestNaming))
def test_manifest_names(version: int, naming: names.ManifestNaming) -> None:
    name = names.manifest_name(version, naming)
    if naming is names.ManifestNaming.V1 and len(str(version)) == 20:
        return
    assert names.parse_manifest_name(name) == (version, naming)


def test_other_files_are_not_versions() -> None:
    others = ["d9223372036854775809.manifest", "1.manifest-abc", "1.manifest#1", ".tmp12.manifest",
              "latest_version_hint.json", "x.manifest", "", ".manifest"]  # fmt: skip
    assert [names.parse_manifest_name(other) for other in others] == [None] * len(others)


@given(st.sets(st.integers(0, 20_000)), st.sampled_from(DeletionKind))
def test_deletions_round_trip(rows: set[int], kind: DeletionKind) -> None:
    data = encode_deletions(BitMap(rows), kind)
    assert decode_deletions(data, kind, "f", 20_001) == BitMap(rows)


def test_deletions_of_the_reference(tmp_path) -> None:
    ds = lance.write_dataset(pa.table({"x": range(20_000)}), tmp_path / "d")
    for predicate, kind in [("x < 10", DeletionKind.ARROW), ("x < 9000", DeletionKind.BITMAP)]:
        before = set((tmp_path / "d" / "_deletions").glob("*"))
        ds.delete(predicate)
        (new,) = set((tmp_path / "d" / "_deletions").glob("*")) - before
        assert new.suffix == kind.suffix
        found = decode_deletions(new.read_bytes(), kind, "f", 20_000)
        assert found == BitMap(range(10 if kind is DeletionKind.ARROW else 9000))
        assert choose_kind(found) is kind


def test_damaged_deletions_are_named() -> None:
    with pytest.raises(CorruptFileError, match=r"f\.arrow"):
        decode_deletions(b"ARROW1 nonsense", DeletionKind.ARROW, "f.arrow", 10)
    with pytest.raises(CorruptFileError, match=r"f\.bin"):
        decode_deletions(b"\x3a\x30\x00\x00\xff\xff", DeletionKind.BITMAP, "f.bin", 10)
    data = encode_deletions(BitMap([12]), DeletionKind.BITMAP)
    with pytest.raises(CorruptFileError, match="marks row 12"):
        decode_deletions(data, DeletionKind.BITMAP, "f.bin", 10)


def test_deletions_claim_no_more_than_the_rows_there_are() -> None:
    """A gigabyte of offsets in a few kilobytes, honest and not."""
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch([pa.array(np.zeros(1 << 22, np.uint32))], schema))
    data = bytes(sink.getvalue())
    assert len(data) < 4096
    with pytest.raises(
        CorruptFileError, match=r"f\.arrow.*claims 16777216 bytes, but needs at most 104"
    ):
        decode_deletions(data, DeletionKind.ARROW, "f.arrow", 10)
    frame = b"\x28\xb5\x2f\xfd"
    assert struct.pack("<q", 1 << 24) + frame in data
    lying = data.replace(struct.pack("<q", 1 << 24) + frame, struct.pack("<q", 1 << 40) + frame)
    with pytest.raises(CorruptFileError, match=r"f\.arrow.*claims 1099511627776 bytes"):
        decode_deletions(lying, DeletionKind.ARROW, "f.arrow", 1 << 32)


def test_references_of_the_reference(tmp_path) -> None:
    ds = lance.write_dataset(pa.table({"x": [1]}), tmp_path / "d")
    ds.tags.create("t-1", 1)
    ds.create_branch("a/b", 1)
    (tag,) = (tmp_path / "d" / "_refs" / "tags").iterdir()
    (branch,) = (tmp_path / "d" / "_refs" / "branches").iterdir()
    parsed = Tag.from_json(tag.read_bytes(), "t")
    assert (parsed.version, parsed.branch) == (1, None)
    assert parsed.created_at is not None
    assert abs((datetime.now(UTC) - parsed.created_at).total_seconds()) < 60
    assert Tag.from_json(parsed.to_json(), "t") == parsed
    assert branch.name == "a%2Fb.json"
    fork = Branch.from_json(branch.read_bytes(), "b")
    assert (fork.parent_version, len(fork.identifier)) == (1, 1)
    assert Branch.from_json(fork.to_json(), "b") == fork


@pytest.mark.parametrize("name", ["", ".a", "a.", "a..b", "a/b", "a b", "ä", "x.lock"])
def test_bad_tag_names(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        check_tag_name(name)


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "a\\b", "a..b", "main", "x.lock", "a b"])
def test_bad_branch_names(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        check_branch_name(name)


def test_good_names() -> None:
    for name in ["main", "v1.0", "a-b_c"]:
        check_tag_name(name)
    for name in ["a/b", ".x", "x.", "a/main"]:
        check_branch_name(name)


def test_damaged_references_are_named() -> None:
    with pytest.raises(CorruptFileError, match=r"t\.json is damaged"):
        Tag.from_json(b"{", "t.json")
    with pytest.raises(CorruptFileError, match="lacks manifestSize"):
        Tag.from_json(b'{"version": 1}', "t.json")


def test_row_ids_of_the_reference(tmp_path) -> None:
    ds = lance.write_dataset(
        pa.table({"x": range(300)}),
        tmp_path / "d",
        enable_stable_row_ids=True,
        max_rows_per_file=100,
    )
    ds.update({"x": "x + 1000"}, where="x % 7 = 0")
    ds.delete("x % 5 = 0")
    ds.optimize.compact_files()
    expected = ds.to_table(with_row_id=True)["_rowid"].to_pylist()
    from lancekit._versions.branch_location import open_location
    from lancekit._versions.listing import latest_snapshot

    found = []
    for fragment in latest_snapshot(open_location(tmp_path / "d")).manifest.fragments:
        found += parse_row_ids(fragment.row_ids, fragment.physical_rows, "f").tolist()
        versions = read_row_versions(fragment.last_updated_at, fragment.physical_rows, "f").values()
        assert set(versions.tolist()) <= {1, 2}
    assert found == expected


def test_every_segment_kind() -> None:
    array = rowids_pb2.EncodedU64Array
    u16 = array(u16_array={"base": 5, "offsets": np.array([0, 2], "<u2").tobytes()})
    u64 = array(u64_array={"values": np.array([9, 1], "<u8").tobytes()})
    segment = rowids_pb2.U64Segment
    sequence = rowids_pb2.RowIdSequence(
        segments=[
            segment(range={"start": 1, "end": 3}),
            segment(range_with_holes={"start": 4, "end": 9, "holes": u16}),
            segment(range_with_bitmap={"start": 10, "end": 19, "bitmap": b"\x01\x01"}),
            segment(array=u64),
        ]
    ).SerializeToString()
    assert parse_row_ids(sequence, 9, "f").tolist() == [1, 2, 4, 6, 8, 10, 18, 9, 1]
    with pytest.raises(CorruptFileError, match="end after 9 of 10"):
        parse_row_ids(sequence, 10, "f")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="its generator has no wheel there")
def test_generated_code_is_up_to_date(tmp_path) -> None:
    root = Path(__file__).parents[2]
    sources = sorted((root / "proto").rglob("*.proto"))
    output = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root / 'proto'}", *output]
    subprocess.run([*command, *map(str, sources)], check=True)
    made = sorted(path for path in tmp_path.rglob("*_pb2.py*"))
    assert made
    assert len(made) == 2 * len(sources)
    for path in made:
        generated = path.read_text().replace("_Mapping]", "_Mapping[str, object]]")
        assert (root / path.relative_to(tmp_path)).read_text() == generated, path.name

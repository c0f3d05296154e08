"""What is no regular file is never read, and nothing more than a file of its kind can have."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lancekit as lk
from lancekit._format.fragment import DeletionKind, Fragment, FragmentList
from lancekit._format.manifest import encode_manifest_file
from lancekit._format.refs import REFERENCE_BYTES
from lancekit._storage.base import METADATA_BYTES, Store
from lancekit._storage.local import LocalStore
from lancekit._storage.places import open_store
from lancekit.errors import CorruptFileError, InvalidArgumentError
from tests.support.hostile_files import FILES, ROWS, copied, make_received
from tests.support.plants import SPECIALS

ROOT = Path(__file__).parents[2]

#: what is said of each special, where it is read
SAID = {
    "a FIFO": "is a FIFO, not a regular file",
    "a link to a FIFO": "is a FIFO, not a regular file",
    "a socket": "is a socket, not a regular file",
    "zeros without end": "is a device, not a regular file",
    "a terminal": "is a device, not a regular file",
    "a folder": "is a folder, not a regular file",
    "a link to itself": "symbolic links",
}
#: an operation that reads the file first
READERS = {
    "tag": "look",
    "branch": "look at branches",
    "manifest": "look",
    "old manifest": "read the first version",
    "transaction": "look at transactions",
    "data file": "read",
    "deletion file": "read a tag",
    "other tag": "look",
}
#: operations that need no file that is there
UNHARMED = {"hint": "append", "left over": "clean up"}


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_received(tmp_path_factory.mktemp("received") / "d")


@pytest.mark.torture
def test_nothing_hangs_or_fills_memory(received: Path, tmp_path: Path, whole: bool) -> None:
    """Each special in the place of each file, in a process of 512 MB, with 30 s of work each."""
    program = [sys.executable, "-m", "tests.support.hostile_files", str(received)]
    done = subprocess.run(
        [*program, str(tmp_path / "work"), *(["--whole"] if whole else [])],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    met = json.loads(done.stdout)
    assert not {case: error for case, error in met.items() if "Traceback" in error}
    for file in FILES:
        for special, said in SAID.items():
            if file in READERS:
                assert said in met[f"{file}: {special}: {READERS[file]}"]
            else:
                assert met[f"{file}: {special}: {UNHARMED[file]}"] == ""
    for file in READERS.keys() - {"manifest", "old manifest"}:  # whose end is looked at first
        assert met[f"{file}: a terabyte of holes: {READERS[file]}"]


def test_a_manifest_of_holes(received: Path, tmp_path: Path) -> None:
    """Its end is that of a manifest, whose start it says to be far away."""
    place = copied(received, tmp_path / "d")
    file = FILES["manifest"](place)
    footer = bytes(8) + file.read_bytes()[-8:]
    for size in (METADATA_BYTES + 1, 1 << 40):
        with file.open("wb") as holes:
            holes.truncate(size - len(footer))
            holes.seek(0, os.SEEK_END)
            holes.write(footer)
        with pytest.raises(CorruptFileError, match=f"has {size:,} bytes; .* at most 1,073,741,824"):
            lk.dataset(place)


def test_a_deletion_file_is_as_large_as_its_rows_allow(received: Path, tmp_path: Path) -> None:
    place = copied(received, tmp_path / "d")
    with FILES["deletion file"](place).open("ab") as file:
        file.truncate(1 << 20)
    with pytest.raises(CorruptFileError, match=r"has 1,048,576 bytes; .* at most 65,548"):
        lk.dataset(place, version=2).to_table()


def test_rows_far_apart_fit_into_a_deletion_file(tmp_path: Path) -> None:
    """The largest bitmap for its rows: one of every 65,536."""
    ds = lk.write_dataset({"k": range(300_000)}, tmp_path / "d")
    ds.delete("k % 50 = 0")
    assert lk.dataset(tmp_path / "d").count_rows("k >= 0") == 294_000


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    place = f"memory://{tmp_path}" if request.param == "memory" else str(tmp_path)
    return open_store(place)


def test_a_store_reads_no_more_than_it_is_told(store: Store) -> None:
    store.put("f", bytes(100))
    assert store.read("f", 100).size == 100
    with pytest.raises(CorruptFileError, match=r"has 100 bytes; .* at most 99") as caught:
        store.read("f", 99)
    assert caught.value.context["path"] == f"{store.uri}/f"


def test_a_file_of_the_kernel_is_read_to_the_size_that_it_says(tmp_path: Path) -> None:
    """Which is 0 for those that are made while they are read, however long they turn out."""
    (tmp_path / "f").symlink_to("/proc/kallsyms")
    assert LocalStore(tmp_path).read("f").size == 0


@pytest.mark.parametrize("special", SPECIALS)
def test_a_special_file_can_be_removed(tmp_path: Path, special: str) -> None:
    (tmp_path / "d").mkdir()
    SPECIALS[special](tmp_path / "d/f")
    store = LocalStore(tmp_path)
    if special == "a folder":
        store.delete_tree("d/f")
    else:
        store.delete("d/f")
    assert not os.path.lexists(tmp_path / "d/f")


def test_a_reference_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    ds.tags.create("t", 1)
    with pytest.raises(InvalidArgumentError, match="at most 1,048,576 bytes"):
        ds.tags.replace_metadata("t", {"text": "x" * REFERENCE_BYTES})
    assert ds.tags.list()["t"]["metadata"] == {}
    ds.tags.replace_metadata("t", {"text": "x" * (REFERENCE_BYTES // 2)})
    assert len(ds.tags.list()["t"]["metadata"]["text"]) == REFERENCE_BYTES // 2


# ---- what a few bytes claim


def deletions_of(path: Path, change: Callable[[Fragment], Fragment], data: bytes) -> None:
    """Give a dataset's fragment other deletions, in its manifest and in the file of them."""
    snapshot = lk.dataset(path)._snapshot
    (fragment,) = snapshot.manifest.fragments
    changed = change(fragment)
    manifest = replace(snapshot.manifest, fragments=FragmentList.of([changed]))
    (path / "_versions" / snapshot.manifest_name).write_bytes(encode_manifest_file(manifest))
    assert changed.deletion_file is not None
    (path / changed.deletion_file.name(fragment.id)).write_bytes(data)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    lk.write_dataset({"k": range(1000)}, tmp_path / "small").delete("k = 1")
    return tmp_path / "small"


def arrow_file(offsets: list[Any]) -> bytes:
    sink = pa.BufferOutputStream()
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    zstd = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, schema, options=zstd) as writer:
        for batch in offsets:
            writer.write_batch(pa.record_batch([pa.array(batch, pa.uint32())], schema=schema))
    return bytes(sink.getvalue())


@pytest.mark.parametrize("batches", [1, 40])
def test_deletions_that_grow_when_they_are_decompressed(small: Path, batches: int) -> None:
    """A few kilobytes of zeros; the same offset again and again is but one deleted row."""
    each = np.zeros(4_000_000 // batches, np.uint32)
    deletions_of(small, lambda fragment: fragment, arrow_file([each] * batches))
    with pytest.raises(CorruptFileError, match="Deletion file"):
        lk.dataset(small).to_table()


def test_a_row_count_is_looked_up_before_it_costs_memory(small: Path) -> None:
    """Two thousand million rows, nearly all deleted: runs of them take a few bytes each."""
    runs = BitMap()
    runs.add_range(0, 2**31 - 1)
    runs.run_optimize()

    def claim(fragment: Fragment) -> Fragment:
        deletion = fragment.deletion_file
        assert deletion is not None
        deletion = replace(deletion, file_type=DeletionKind.BITMAP, num_deleted_rows=2**31 - 1)
        return replace(fragment, physical_rows=2**31, deletion_file=deletion)

    deletions_of(small, claim, runs.serialize())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for work in (
        lambda ds: ds.to_table(),
        lambda ds: ds.count_rows("k > 5"),
        lambda ds: ds.take([0]),
        lambda ds: ds.delete("k = 3"),
        lambda ds: ds.optimize.compact_files(),
        lambda ds: ds.validate(deep=True),
    ):
        with pytest.raises(CorruptFileError, match="records 2147483648"):
            work(lk.dataset(small))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (1 << 20)  # kilobytes

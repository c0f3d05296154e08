"""Writers that die anywhere, disks that fill up, files that are damaged."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors

ROWS = pa.table({"k": pa.array([1, 2, 3, 4], pa.int64()), "s": ["a", "b", None, "d"]})

# For each line, a number, a change and a place, a process that dies without a word at the n-th call
# that changes the disk; what it ended with is printed.
DYING = """
import os, sys
import lancekit as lk, pyarrow as pa
lk.LanceDataset  # loaded once for all of them, as is pandas with the rows
rows = pa.table({"k": pa.array([4, 5], pa.int64()), "s": ["D", "E"]})
for line in sys.stdin:
    left, change, path = line.rstrip("\\n").split(" ", 2)
    left = int(left)
    if not (child := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()

def dying(name):
    real = getattr(os, name)
    def call(*arguments, **keywords):
        global left
        left -= 1
        if left == 0:
            os._exit(7)
        return real(*arguments, **keywords)
    return call

ds = lk.dataset(path) if change != "create" else None
for name in ("link", "fsync", "unlink", "mkdir", "makedirs", "replace", "open"):
    setattr(os, name, dying(name))
if change == "create":
    lk.write_dataset(rows, path)
elif change == "append":
    ds.insert(rows)
elif change == "delete":
    ds.delete("k = 2")
elif change == "merge":
    merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows)
elif change == "branch":
    ds.create_branch("b")
elif change == "tag":
    ds.tags.create("t")
elif change == "overwrite":
    ds.insert(rows, mode="overwrite")
os._exit(0)
"""

AFTER = {
    "create": [4, 5],
    "append": [1, 2, 3, 4, 4, 5],
    "delete": [1, 3, 4],
    "merge": [1, 2, 3, 4, 5],
    "branch": [1, 2, 3, 4],
    "tag": [1, 2, 3, 4],
    "overwrite": [4, 5],
}


@pytest.fixture(scope="module")
def dying() -> Iterator[subprocess.Popen[str]]:
    """What starts the processes that die: it has loaded all that they need."""
    with subprocess.Popen(
        [sys.executable, "-c", DYING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


@pytest.mark.torture
@pytest.mark.parametrize("change", AFTER)
def test_a_writer_may_die_anywhere(tmp_path, dying, change: str, whole: bool) -> None:
    """Whatever step it dies at, the dataset is as before or as after, in both libraries."""
    # each change begins elsewhere, so that all kinds of steps are among the few
    step, first = (1, 1) if whole else (17, 1 + 3 * list(AFTER).index(change) % 17)
    for left in range(first, 200, step):
        path = tmp_path / str(left)
        if change != "create":
            lk.write_dataset(ROWS, path)
        print(left, change, path, file=dying.stdin, flush=True)
        code = int(dying.stdout.readline())
        assert code in {0, 7}
        check_after_death(path, change, left)
        if code == 0:
            return
    raise AssertionError("the change never came to its end")


def check_after_death(path: Path, change: str, left: int) -> None:
    """Compare what both libraries find with what was there; and write on."""
    before = [] if change == "create" else [1, 2, 3, 4]
    if change == "create" and not list(path.glob("_versions/*.manifest")):
        with pytest.raises(errors.DatasetNotFoundError):
            lk.dataset(path)
    else:
        for side in (lk, lance):
            found = sorted(side.dataset(str(path)).to_table()["k"].to_pylist())
            assert found in (sorted(before), AFTER[change]), (left, side.__name__)
            side.dataset(str(path)).tags.list()
            side.dataset(str(path)).branches.list()
    # the next writer is not disturbed by what was left behind
    again = lk.write_dataset(ROWS, path, mode="append")
    assert lance.dataset(str(path)).count_rows() == again.count_rows()


@pytest.mark.parametrize("call", ["create", "put", "put_if_absent"])
def test_a_full_disk_leaves_the_dataset_as_it_was(tmp_path, monkeypatch, call: str) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    before = {p: p.read_bytes() for p in (tmp_path / "d").rglob("*") if p.is_file()}

    def full(self: Any, name: str, *_: Any) -> Any:
        raise errors.StorageError(f"{name} cannot be written: {os.strerror(errno.ENOSPC)}.")

    with monkeypatch.context() as patch:
        patch.setattr(type(ds._location.store), call, full)
        for change in (
            lambda: ds.insert(ROWS),
            lambda: ds.merge_insert("k").when_matched_update_all().execute(ROWS),
        ):
            with pytest.raises(errors.StorageError, match="No space left"):
                change()
    assert ds.version == 1
    left = {p: p.read_bytes() for p in (tmp_path / "d").rglob("*") if p.is_file()}
    extra = [p for p in left if p not in before and p.parent.name == "data"]
    assert extra == [], "a data file that nothing refers to"
    assert lk.dataset(tmp_path / "d").to_table().equals(ROWS)


def _damage(data: bytes, rng: np.random.Generator) -> bytes:
    broken = bytearray(data)
    if rng.random() < 0.25:
        return bytes(broken[: rng.integers(0, len(broken))])
    for _ in range(rng.integers(1, 4)):
        broken[rng.integers(0, len(broken))] = rng.integers(0, 256)
    return bytes(broken)


@pytest.mark.torture
def test_damaged_files_open_or_say_so(tmp_path, whole: bool) -> None:
    """Any byte of any file: the rows, or an error of lancekit; never another exception."""
    path = tmp_path / "d"
    ds = lk.write_dataset(ROWS, path)
    ds.delete("k = 2")
    ds.tags.create("t")
    ds.create_branch("b")
    files = [p for p in path.rglob("*") if p.is_file() and "_transactions" not in str(p)]
    rng = np.random.default_rng(3)
    outcomes = set()
    for _ in range(2000 if whole else 80):
        file = files[rng.integers(0, len(files))]
        data = file.read_bytes()
        file.write_bytes(_damage(data, rng))
        try:
            opened = lk.dataset(path)
            opened.to_table()
            opened.checkout_version("t")
            opened.checkout_version(("b", None)).to_table(filter="k > 1")
            opened.take([0])
            repr(opened)
            outcomes.add("fine")
        except errors.LancekitError as error:
            outcomes.add(error.kind)
        finally:
            file.write_bytes(data)
    assert {"fine", "corrupt_file"} <= outcomes
    assert lk.dataset(path).count_rows() == 3


@pytest.mark.parametrize("folder", ["data", "_deletions"])
def test_a_missing_file_is_named(tmp_path, folder: str) -> None:
    lk.write_dataset(ROWS, tmp_path / "d").delete("k = 2")
    (file,) = (tmp_path / "d" / folder).iterdir()
    file.unlink()
    with pytest.raises(errors.CorruptFileError, match=file.name):
        lk.dataset(tmp_path / "d").to_table()


def test_a_manifest_cannot_reach_outside(tmp_path) -> None:
    """File names in a manifest are bare names."""
    from dataclasses import replace

    from lancekit._format.manifest import encode_manifest_file

    ds = lk.write_dataset(ROWS, tmp_path / "d")
    manifest = ds._snapshot.manifest
    (fragment,) = manifest.fragments
    (manifest_file,) = (tmp_path / "d" / "_versions").glob("*.manifest")
    for name in ("../../secret.lance", "/etc/passwd", "..", "a\\b"):
        file = replace(fragment.files[0], path=name)
        evil = replace(manifest, fragments=(replace(fragment, files=(file,)),))
        manifest_file.write_bytes(encode_manifest_file(evil))
        with pytest.raises(errors.CorruptFileError, match="bare file names"):
            lk.dataset(tmp_path / "d").to_table()


def test_a_base_in_another_store_must_be_trusted(tmp_path) -> None:
    from dataclasses import replace

    from lancekit._format.manifest import BasePath, encode_manifest_file

    clone = lk.write_dataset(ROWS, tmp_path / "d").shallow_clone(tmp_path / "c", 1)
    manifest = clone._snapshot.manifest
    base = BasePath(id=0, path="memory://elsewhere", is_dataset_root=True)
    (manifest_file,) = Path(tmp_path / "c" / "_versions").glob("*.manifest")
    manifest_file.write_bytes(encode_manifest_file(replace(manifest, base_paths=(base,))))
    with pytest.raises(errors.UntrustedBaseError, match="memory://elsewhere"):
        lk.dataset(tmp_path / "c").to_table()
    with lk.options(trusted_bases=["memory://elsewhere"]), pytest.raises(errors.CorruptFileError):
        lk.dataset(tmp_path / "c").to_table()

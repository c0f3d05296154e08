"""Datasets with links and special files in the places of their own, and what is done with them.

`PLANTS` makes links in every component; the `SPECIALS` of `plants` go to each of the places in
`FILES`; `OPERATIONS` is what somebody does with a dataset that he was given.

Run as a program it puts specials into copies of a dataset, in a process whose memory is limited and
which ends when an operation works for too long, and prints what each operation met.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import stat
import struct
import sys
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import lancekit as lk
from lancekit._format.pb import table_pb2
from tests.support.patience import at_most
from tests.support.plants import SPECIALS, link, move, replace_by

__all__ = [
    "FILES",
    "OPERATIONS",
    "PLANTS",
    "contents",
    "copied",
    "make_neighbours",
    "make_received",
    "run",
    "without_inline",
]

NOW = timedelta(0)
SECONDS = 30
"""Of the processor's time; a call takes some hundredths."""
EXTRA_BYTES = 1 << 29
ROWS = pa.table({"k": pa.array(range(4), pa.int64()), "s": ["a", "b", None, "d"]})


def make_received(path: Path) -> Path:
    """Make a dataset with four versions, deletions, a tag and a branch with versions of its own."""
    ds = lk.write_dataset(ROWS, path)
    ds.delete("k = 1")
    ds.tags.create("t", 2)
    side = ds.create_branch("side", 2)
    side.insert(ROWS)
    ds.insert(ROWS)
    ds.insert(ROWS, mode="overwrite")
    for folder in ("_indices", "_deletions"):
        (path / folder).mkdir(exist_ok=True)
    return path


def make_neighbours(folder: Path) -> None:
    """Fill a folder with what lies beside a received dataset: other datasets, files of any name."""
    ds = lk.write_dataset(ROWS, folder / "victim")
    ds.delete("k = 2")
    ds.insert(ROWS)
    ds.tags.create("kept", 1)
    ds.create_branch("side", 1)
    for name in ("a.lance", "b.txt", ".tmp-c.json", "latest_version_hint.json", "d/e.blob"):
        place = folder / "docs" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"not yours")
        os.utime(place, (1, 1))
    for name in ("_deletions/0-1-2.bin", "_transactions/1-a.txn", "_indices/0b7e/page.lance"):
        place = folder / "victim" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"not yours")
        os.utime(place, (1, 1))


def without_inline(path: Path) -> None:
    """Take the transaction out of the newest manifest, so that its own file is read."""
    file = min((path / "_versions").glob("*.manifest"))
    data = file.read_bytes()
    (start,) = struct.unpack_from("<q", data, len(data) - 16)
    message = table_pb2.Manifest.FromString(data[start + 4 : -16])
    message.ClearField("transaction_section")
    body = message.SerializeToString()
    file.write_bytes(data[:start] + struct.pack("<I", len(body)) + body + data[-16:])


def contents(folder: Path) -> dict[str, bytes | str]:
    """Return what is in a folder: the bytes of files, where links lead, kinds of all else."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        name = str(path.relative_to(folder))
        if stat.S_ISLNK(status.st_mode):
            found[name] = f"-> {path.readlink()}"
        elif stat.S_ISREG(status.st_mode):
            found[name] = path.read_bytes()
        else:
            found[name] = oct(stat.S_IFMT(status.st_mode))
    return found


def copied(path: Path, to: Path) -> Path:
    """Return a copy of a dataset, its links as links."""
    return Path(shutil.copytree(path, to, symlinks=True))


# ---- links

Plant = Callable[[Path, Path], None]


def _linked(name: str, target: str, planted: str = "") -> Plant:
    """Replace a folder of a dataset by a link; what was in it goes, or stays beside it."""

    def plant(dataset: Path, neighbours: Path) -> None:
        place = dataset / name
        text = target.format(neighbours=neighbours)
        link(place, os.path.relpath(text, place.parent))
        if planted:
            reference = dataset / "_refs/branches" / f"{planted.replace('/', '%2F')}.json"
            side = (dataset / "_refs/branches/side.json").read_text()
            reference.write_text(side)

    return plant


def _link_files(dataset: Path, neighbours: Path) -> None:
    """Replace files by links to others: the hint, a tag, a temporary file, an old transaction."""
    places = {
        min((dataset / "_transactions").iterdir()): "docs/a.lance",
        dataset / "_versions/latest_version_hint.json": "docs/latest_version_hint.json",
        dataset / "_versions/.tmp-x.manifest": "docs/a.lance",
        dataset / "_refs/tags/t.json": "victim/_refs/tags/kept.json",
        dataset / "_refs/tags/.tmp-x": "docs/.tmp-c.json",
        dataset / "data/left-over.lance": "docs/a.lance",
    }
    for place, other in places.items():
        replace_by(place, lambda path, to=neighbours / other: path.symlink_to(to))


#: by name: links in place of one folder each; `neighbours` must not notice whatever is done
PLANTS: dict[str, Plant] = {
    "tree is the folder above": _linked("tree", "{neighbours}"),
    "tree is the folder above, a branch is planted": _linked("tree", "{neighbours}", "victim"),
    "tree is the folder above, folders are planted": _linked("tree", "{neighbours}", "docs/d"),
    "a branch is elsewhere": _linked("tree/side", "{neighbours}/victim"),
    "another branch is elsewhere": _linked("tree/other", "{neighbours}/victim", "other"),
    "deep in a branch": _linked("tree/side/data", "{neighbours}/docs"),
    "the versions of a branch": _linked("tree/side/_versions", "{neighbours}/victim/_versions"),
    "data": _linked("data", "{neighbours}/victim/data"),
    "data, moved": lambda dataset, neighbours: move(dataset / "data", neighbours / "moved"),
    "data of no dataset": _linked("data", "{neighbours}/docs"),
    "versions": _linked("_versions", "{neighbours}/victim/_versions"),
    "transactions": _linked("_transactions", "{neighbours}/victim/_transactions"),
    "deletions": _linked("_deletions", "{neighbours}/victim/_deletions"),
    "indices": _linked("_indices", "{neighbours}/victim/_indices"),
    "an index": _linked("_indices/0b7e", "{neighbours}/victim/_indices/0b7e"),
    "references": _linked("_refs", "{neighbours}/victim/_refs"),
    "tags": _linked("_refs/tags", "{neighbours}/docs"),
    "branches": _linked("_refs/branches", "{neighbours}/docs"),
    "blobs": _linked("data/x", "{neighbours}/docs/d"),
    "a file": _link_files,
}


# ---- what is no regular file

#: by name: which operations of those below read which file first
READ_BY: dict[str, tuple[str, ...]] = {
    "tag": ("look", "read a tag", "remove a tag"),
    "branch": ("look at branches", "clean up", "remove a branch"),
    "manifest": ("look", "append"),
    "old manifest": ("look", "read the first version", "clean up"),
    "hint": ("look", "append"),
    "transaction": ("look at transactions", "clean up"),
    "data file": ("look", "read", "clone all"),
    "deletion file": ("read a tag", "validate"),
    "other tag": ("look", "clean up"),
    "left over": ("look at files", "clean up"),
}

#: by name: which file of a received dataset
FILES: dict[str, Callable[[Path], Path]] = {
    "tag": lambda path: path / "_refs/tags/t.json",
    "branch": lambda path: path / "_refs/branches/side.json",
    "manifest": lambda path: min((path / "_versions").glob("*.manifest")),
    "old manifest": lambda path: max((path / "_versions").glob("*.manifest")),
    "hint": lambda path: path / "_versions/latest_version_hint.json",
    "transaction": lambda path: max((path / "_transactions").iterdir(), key=os.path.getmtime),
    "data file": lambda path: max((path / "data").iterdir(), key=os.path.getmtime),
    "deletion file": lambda path: next((path / "_deletions").iterdir()),
    "other tag": lambda path: path / "_refs/tags/other.json",
    "left over": lambda path: path / "data/left-over.lance",
}


# ---- what is done

#: by name: what somebody does with a dataset; anything new goes to the second path
OPERATIONS: dict[str, Callable[[Any, Path], object]] = {
    "look": lambda ds, _: (repr(ds), ds._repr_html_(), ds.versions(), ds.tags.list()),
    "look at branches": lambda ds, _: (ds.branches.list(), repr(ds.tags), repr(ds.branches)),
    "look at transactions": lambda ds, _: (ds.get_transactions(), repr(ds.versions())),
    "look at files": lambda ds, _: (list(ds.all_files()), list(ds.tracked_files())),
    "read": lambda ds, _: (ds.to_table(), ds.count_rows("k > 0"), ds.take([0])),
    "read an older version": lambda ds, _: ds.checkout_version(3).to_table(),
    "read the first version": lambda ds, _: ds.checkout_version(1).to_table(),
    "read a tag": lambda ds, _: ds.checkout_version("t").to_table(),
    "read a branch": lambda ds, _: ds.checkout_version(("side", None)).to_table(),
    "validate": lambda ds, _: ds.validate(deep=True),
    "append": lambda ds, _: ds.insert(ROWS),
    "append to a branch": lambda ds, _: ds.checkout_version(("side", None)).insert(ROWS),
    "append to a planted branch": lambda ds, _: ds.checkout_version(("other", None)).insert(ROWS),
    "overwrite": lambda ds, _: ds.insert(ROWS, mode="overwrite"),
    "delete": lambda ds, _: ds.delete("k = 0"),
    "update": lambda ds, _: ds.update({"s": "'x'"}),
    "add a column": lambda ds, _: ds.add_columns({"n": "k + 1"}),
    "compact": lambda ds, _: ds.optimize.compact_files(),
    "restore": lambda ds, _: ds.checkout_version(3).restore(),
    "tag": lambda ds, _: ds.tags.create("new", ds.version),
    "move a tag": lambda ds, _: ds.tags.update("t", ds.version),
    "remove a tag": lambda ds, _: ds.tags.delete("t"),
    "branch": lambda ds, _: ds.create_branch("new", ds.version),
    "branch within": lambda ds, _: ds.create_branch("side/new", ds.version),
    "remove a branch": lambda ds, _: ds.branches.delete("side"),
    "remove a planted branch": lambda ds, _: ds.branches.delete("victim"),
    "remove planted folders": lambda ds, _: ds.branches.delete("docs/d"),
    "remove another branch": lambda ds, _: ds.branches.delete("other"),
    "plan a cleanup": lambda ds, _: repr(ds.explain_cleanup_old_versions(NOW)),
    "clean up": lambda ds, _: repr(
        ds.cleanup_old_versions(NOW, delete_unverified=True, error_if_tagged_old_versions=False)
    ),
    "clean up a branch": lambda ds, _: ds.checkout_version(("side", None)).cleanup_old_versions(
        NOW, delete_unverified=True, error_if_tagged_old_versions=False
    ),
    "clean up by itself": lambda ds, _: ds.optimize.enable_auto_cleanup(
        {"interval": 1, "older_than_seconds": 0}
    ),
    "clone": lambda ds, out: ds.shallow_clone(out / "shallow", ds.version),
    "clone all": lambda ds, out: ds.deep_clone(out / "deep", ds.version),
    "drop": lambda ds, _: lk.LanceDataset.drop(ds.uri),
}


def run(path: Path, name: str, out: Path) -> str:
    """Do one thing with a dataset: returns the error or the warnings that it met, empty for none.

    Any other error than lancekit's passes.
    """
    with warnings.catch_warnings(record=True) as told, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            OPERATIONS[name](lk.dataset(path), out)
        except lk.errors.LancekitError as error:
            return f"{type(error).__name__}: {error}"
    return " ".join(str(one.message) for one in told)


def run_specials(received: Path, work: Path, *, whole: bool) -> dict[str, str]:
    """Return, by file, special and operation, the error that was met, or what must not happen."""
    found = {}
    for file, special in ((file, special) for file in FILES for special in SPECIALS):
        for name in OPERATIONS if whole else READ_BY[file]:
            shutil.rmtree(work, ignore_errors=True)
            place = copied(received, work / "d")
            without_inline(place)
            replace_by(FILES[file](place), SPECIALS[special])
            case = f"{file}: {special}: {name}"
            print(case, file=sys.stderr)  # to be seen if it is the last
            try:
                with at_most(SECONDS):
                    found[case] = run(place, name, work / "out")
            except BaseException:
                found[case] = traceback.format_exc()
    return found


if __name__ == "__main__":
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_BYTES, used + EXTRA_BYTES))
    with lk.options(fsync=False):
        done = run_specials(Path(sys.argv[1]), Path(sys.argv[2]), whole="--whole" in sys.argv)
    print(json.dumps(done))

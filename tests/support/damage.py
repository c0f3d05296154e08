"""Small files of datasets, damaged one bit or one length at a time, opened in a bounded process.

Run as a program (``python -m tests.support.damage``) it prints what came of every damage: memory
and time are limited, and a crash of the process is seen by the one that started it.
"""

from __future__ import annotations

import json
import pickle
import random
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from lancekit import errors
from lancekit._format.deletions import decode_deletions
from lancekit._format.fragment import DeletionKind
from lancekit._format.names import VERSIONS, ManifestNaming, manifest_name, parse_manifest_name
from lancekit._format.refs import Branch, Tag
from lancekit._format.row_ids import read_row_ids, read_row_versions
from lancekit._format.transaction import parse_transaction
from lancekit._versions.branch_location import BranchLocation, open_location
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.options import options
from tests.support.patience import at_most

__all__ = ["OPENERS", "collect", "damages", "kind_of", "open_manifest"]

EXTRA_BYTES = 1 << 29
SECONDS = 20
#: No file of a corpus is opened twice; by default the cache may hold more than EXTRA_BYTES.
CACHE_BYTES = 1 << 26


def kind_of(path: Path) -> str | None:
    """Return which opener a file of a dataset needs."""
    by_folder = {"_versions": ".manifest", "_transactions": ".txn", "tags": ".json"}
    by_folder |= {"branches": ".json"}
    if path.parent.name == "_deletions":
        return path.suffix
    return path.parent.name if path.suffix == by_folder.get(path.parent.name) else None


@cache
def _line() -> BranchLocation:
    """Return a line in memory: a disk would take a third of the time."""
    return open_location("memory://damage")


def open_manifest(data: bytes, version: int) -> Snapshot:
    """Open a manifest and look at all that it holds."""
    with options(trusted_bases=["/"]):  # the manifests come from a disk
        return _open_manifest(data, version)


def _open_manifest(data: bytes, version: int) -> Snapshot:
    line = _line()
    name = manifest_name(version, ManifestNaming.V2)
    line.store.put(f"{VERSIONS}/{name}", data)
    snapshot = load_snapshot(line, version, ManifestNaming.V2)
    manifest = snapshot.manifest
    manifest.schema.to_arrow()
    manifest.totals()
    str((manifest.timestamp, manifest.writer, snapshot.indices, snapshot.transaction))
    for fragment in manifest.fragments:
        for file in fragment.files:
            snapshot.data_file(file)
        snapshot.deletion_file(fragment)
        _look_at_rows(
            fragment.row_ids, fragment.created_at, fragment.last_updated_at, fragment.physical_rows
        )
    return snapshot


@lru_cache(1 << 10)  # one bit is another, and all fragments but one are as they were
def _look_at_rows(
    row_ids: bytes | None, created_at: bytes | None, updated_at: bytes | None, count: int
) -> None:
    if row_ids is not None:
        ids = read_row_ids(row_ids, count, "fragment")
        if len(ids) <= 1 << 20:
            ids.values()
    for runs in (created_at, updated_at):
        if count <= 1 << 20:
            read_row_versions(runs, count, "fragment").values()


def _open_deletions(data: bytes, kind: DeletionKind) -> Any:
    return decode_deletions(data, kind, "deletions", 20_000)


def _open_version(data: bytes, name: str) -> Any:
    version, _ = parse_manifest_name(name) or (0, None)
    snapshot = open_manifest(data, version)
    return snapshot.manifest, snapshot.indices, snapshot.transaction


#: by kind of file: bytes and name to what they mean
OPENERS: dict[str, Callable[[bytes, str], Any]] = {
    "_versions": _open_version,
    "_transactions": parse_transaction,
    ".arrow": lambda data, name: _open_deletions(data, DeletionKind.ARROW),
    ".bin": lambda data, name: _open_deletions(data, DeletionKind.BITMAP),
    "tags": Tag.from_json,
    "branches": Branch.from_json,
}


def _open(kind: str, name: str, data: bytes) -> Any:
    return OPENERS[kind](data, name)


def collect(folder: Path) -> list[tuple[str, str, bytes]]:
    """Return kind, name and bytes of every small file of the datasets in a folder."""
    files = [(kind_of(path), path) for path in sorted(folder.rglob("*")) if path.is_file()]
    return [(kind, path.name, path.read_bytes()) for kind, path in files if kind]


def damages(data: bytes, most: int | None, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield each truncation and each flipped bit, or a sample of ``most`` of them."""
    total = len(data) * 9
    chosen = range(total) if most is None or most >= total else rng.sample(range(total), most)
    for number in chosen:
        place, what = divmod(number, 9)
        if what == 8:
            yield f"cut to {place} bytes", data[:place]
        else:
            broken = bytearray(data)
            broken[place] ^= 1 << what
            yield f"bit {what} of byte {place} flipped", bytes(broken)


def _outcome(opener: Callable[[bytes], Any], whole: Any, data: bytes) -> str:
    try:
        return "same" if opener(data) == whole else "changed"
    except (errors.FormatError, errors.UntrustedBaseError) as error:
        return error.kind


def main(corpus: str, kinds: str, share: str, most: str, seed: str) -> None:
    """Damage files of a pickled corpus, those of a share of some kinds; print the outcomes as JSON.

    A share such as ``1/3`` is every third file, from the second on.
    """
    warnings.simplefilter("error")
    options.cache_bytes = CACHE_BYTES
    rng = random.Random(int(seed))
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (limit + EXTRA_BYTES, limit + EXTRA_BYTES))
    outcomes: dict[str, Counter[str]] = {}
    failures: list[str] = []
    slowest = 0.0
    files = [file for file in pickle.loads(Path(corpus).read_bytes()) if file[0] in kinds.split()]
    first, each = map(int, share.split("/"))
    for kind, name, data in files[first::each]:
        opener = partial(_open, kind, name)
        whole = opener(data)
        for what, broken in damages(data, int(most) or None, rng):
            started = time.process_time()
            try:
                with at_most(SECONDS):
                    outcome = _outcome(opener, whole, broken)
            except BaseException:
                outcome = "FAILED"
                failures.append(f"{kind} {name}, {what}:\n{traceback.format_exc()}")
            slowest = max(slowest, time.process_time() - started)
            outcomes.setdefault(kind, Counter())[outcome] += 1
    peak = _peak_kib() >> 10
    report = {"outcomes": outcomes, "slowest": slowest, "peak_mib": peak}
    print(json.dumps(report | {"failed": len(failures), "failures": failures[:40]}))


def _peak_kib() -> int:
    """Return the most memory of this program; getrusage() counts the one that started it, too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def make_datasets(folder: Path) -> None:
    """Make datasets with both libraries that hold every kind of small file."""
    import lance
    import numpy as np
    import pyarrow as pa

    import lancekit as lk

    rows = pa.table({"k": [1, 2, 3, 4], "s": ["a", "b", None, "d"]})
    ds = lk.write_dataset(rows, folder / "ours", primary_key="k")
    ds.insert(rows)
    ds.delete("k = 2")
    ds.merge_insert("k").when_not_matched_insert_all().execute(rows.slice(1, 1))
    ds.tags.create("t", 1)
    branch = ds.create_branch("b/c", 2)
    branch.insert(rows)
    ds.tags.create("on-b", ("b/c", None))
    ds.shallow_clone(folder / "clone", 2).delete("s = 'a'")
    ds.restore()
    ds.add_bases([lk.DatasetBasePath(str(folder / "nowhere"), "spare")])
    ds.drop_columns(["s"])

    path = str(folder / "theirs")
    nested = pa.array([{"x": [1.5], "y": None}] * 10_000)
    maps = pa.array([[("a", 1)]] * 10_000, pa.map_(pa.string(), pa.int32()))
    table = pa.table({"k": np.arange(10_000), "n": nested, "m": maps})
    options: dict[str, Any] = {"enable_stable_row_ids": True, "max_rows_per_file": 6000}
    lance.write_dataset(table, path, **options)
    theirs = lance.write_dataset(table.slice(0, 40), path, mode="append")
    theirs.create_scalar_index("k", "BTREE")
    theirs.delete("k % 7 = 1 and k < 9000")
    theirs.delete("k % 16 > 0 and k < 6000")
    theirs.update({"k": "k + 1"}, where="k < 9")
    theirs.update_config({"a": "b"})
    theirs.update_metadata({"c": "d"})
    theirs.add_columns({"z": "k * 2"})
    theirs.drop_columns(["z"])
    theirs.optimize.compact_files(target_rows_per_fragment=100)
    theirs.cleanup_old_versions(older_than=timedelta(days=1))


if __name__ == "__main__":
    main(*sys.argv[1:])

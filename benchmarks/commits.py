"""What commits, openings and listings cost as versions and fragments grow, against pylance."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lancekit as lk
from benchmarks.timing import Comparison, compare
from lancekit._format import names
from lancekit._format.fragment import FragmentList
from lancekit._format.manifest import encode_manifest_file
from lancekit._format.names import ManifestNaming
from lancekit._format.transaction import encode_transaction
from lancekit._versions.branch_location import open_location
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot

__all__ = ["VERSIONS", "commit_measurements", "with_fragments", "with_versions"]

VERSIONS = (1, 100, 1_000, 10_000)
FRAGMENTS = (1, 1_000, 100_000)

_ROWS = pa.table({"id": pa.array(range(100)), "name": [f"customer-{i}" for i in range(100)]})


def _one_version(folder: Path) -> Snapshot:
    lance.write_dataset(_ROWS, folder, data_storage_version="2.1")
    return latest_snapshot(open_location(folder))


def with_versions(folder: Path, count: int) -> Path:
    """Make a dataset of so many versions; all hold the same hundred rows."""
    first = _one_version(folder)
    transaction = encode_transaction(first.transaction)
    for version in range(2, count + 1):
        manifest = replace(first.manifest, version=version)
        name = names.manifest_name(version, ManifestNaming.V2)
        data = encode_manifest_file(manifest, transaction=transaction)
        (folder / "_versions" / name).write_bytes(data)
    return folder


def with_fragments(folder: Path, count: int) -> Path:
    """Make a dataset of so many fragments, all of them the same hundred rows."""
    first = _one_version(folder)
    (fragment,) = first.manifest.fragments
    manifest = replace(
        first.manifest,
        fragments=FragmentList.of(replace(fragment, id=id_) for id_ in range(count)),
        max_fragment_id=count - 1,
    )
    data = encode_manifest_file(manifest, transaction=encode_transaction(first.transaction))
    (folder / "_versions" / first.manifest_name).write_bytes(data)
    return folder


class _Tables:
    """The datasets, each made once, and a copy of each for either side."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.versions = cache(lambda n: with_versions(folder / f"versions-{n}", n))
        self.fragments = cache(lambda n: with_fragments(folder / f"fragments-{n}", n))

    def copies(self, source: Path, what: str) -> dict[str, Path]:
        """Return a copy for either side; each run adds a version to it."""
        made = {side: self._folder / f"{source.name}-{what}-{side}" for side in ("ours", "theirs")}
        for target in made.values():
            shutil.copytree(source, target)
        return made


def _rested(path: Path) -> Path:
    """Make a dataset look as if nobody had written to it for a minute."""
    old = time.time() - 60
    os.utime(path / "_versions", (old, old))
    return path


@cache
def _prepared(module: Any, at: Path) -> Any:
    return module.LanceOperation.Append([module.dataset(at).get_fragment(0).metadata])


def _append(module: Any, at: Path) -> None:
    ds = module.dataset(at)
    # prepared in the run that is not timed
    module.LanceDataset.commit(ds, _prepared(module, at), read_version=ds.version)


def _delete(module: Any, at: Path) -> None:
    module.dataset(at).delete("id = 7")


def _first_page(module: Any, at: Path) -> None:
    module.dataset(at).versions()[-25:]


def commit_measurements(folder: Path) -> Iterator[tuple[str, Callable[[], Comparison]]]:
    """Yield each measurement's name and how to run it.

    Without fsync, which pylance does not do; a commit with it is measured on its own.
    """
    tables = _Tables(folder)

    def pair(
        name: str, run: Callable[[Any, Any], Any], source: Callable[[], Path], **kinds: bool
    ) -> tuple[str, Callable[[], Comparison]]:
        def measure() -> Comparison:
            path = source()
            sides = dict.fromkeys(("ours", "theirs"), path)
            if kinds.get("commits"):
                sides = tables.copies(path, name.partition(":")[2].partition(",")[0].strip())
            with lk.options(fsync=kinds.get("fsync", False)):
                return compare(
                    f"commits: {name}",
                    lambda at: run(lk, at),
                    lambda at: run(lance, at),
                    setup=lambda side: _rested(sides[side]),
                    runs=9,
                )

        return f"commits: {name}", measure

    one = partial(tables.versions, 1)
    for n in VERSIONS:
        source = partial(tables.versions, n)
        middle = (n + 1) // 2
        yield pair(f"{n:,} versions: append", _append, source, commits=True)
        yield pair(f"{n:,} versions: delete", _delete, source, commits=True)
        yield pair(f"{n:,} versions: open latest", lambda m, at: m.dataset(at), source)
        yield pair(
            f"{n:,} versions: open version {middle:,}",
            lambda m, at, v=middle: m.dataset(at, version=v),
            source,
        )
        yield pair(f"{n:,} versions: list, first page", _first_page, source)
    for n in FRAGMENTS:
        source = partial(tables.fragments, n)
        yield pair(f"{n:,} fragments: append", _append, source, commits=True)
        yield pair(f"{n:,} fragments: open", lambda m, at: m.dataset(at), source)
    yield pair("1 version: append durably, fsync on", _append, one, commits=True, fsync=True)

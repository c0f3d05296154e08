"""``python -m benchmarks.explorer``: what a step of `ds.explore()` takes, and its first display.

The dataset has 10,000 versions of 1,000 fragments; the newest ones differ in rows, deletions and
fragments.  The reference has nothing of the kind, so these are plain milliseconds.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import lancekit as lk
from benchmarks.display import VERSIONS, milliseconds
from lancekit.format.manifest import encode_manifest_file
from lancekit.notebook.explorer.shell import Shell
from lancekit.notebook.explorer.state import (
    ExplorerState,
    Filter,
    Look,
    Move,
    Sort,
    Summarize,
    step,
)
from lancekit.notebook.explorer.visit import Visit
from lancekit.notebook.render.controls import drawn

__all__ = ["main", "measurements"]

FRAGMENTS = 1_000
CHANGES = 40


def tall(folder: Path) -> lk.LanceDataset:
    """Return a dataset of many versions, of which the newest were really made."""
    rows = 100 * FRAGMENTS
    columns = {"id": range(rows), "x": [i * 7 % 1000 for i in range(rows)]}
    ds = lk.write_dataset(columns, folder, max_rows_per_file=100, primary_key="id")
    versions = folder / "_versions"
    (first,) = versions.glob("*.manifest")
    last = VERSIONS - CHANGES
    for number in range(2, last):
        os.link(first, versions / f"{2**64 - 1 - number:020}.manifest")
    manifest = replace(ds._snapshot.manifest, version=last)
    (versions / f"{2**64 - 1 - last:020}.manifest").write_bytes(encode_manifest_file(manifest))
    ds = lk.dataset(folder)
    for i in range(CHANGES):
        match i % 3:
            case 0:
                ds.insert({"id": [rows + i], "x": [1]})
            case 1:
                ds.delete(f"id = {i * 311}")
            case 2:
                ds.update({"x": "x + 1"}, where=f"id < {i * 10}")
    return ds


def _look(visit: Visit, state: ExplorerState) -> None:
    drawn(visit.view(state, visit.stops(state)))


def measurements(folder: Path) -> Iterator[tuple[str, float]]:
    """Yield each measurement's name and its milliseconds."""
    with lk.options(fsync=False):
        ds = tall(folder / "tall.lance")
    now = ds.get_version().timestamp
    visit = Visit(ds)

    def stepped() -> None:
        visit.send(Move(-1))
        found = visit.stops(visit.state)
        drawn(visit.head(visit.state, found, now))

    def shown() -> None:
        shell = Shell(Visit(ds))
        shell.wait()

    yield "a step: stop, change and card", milliseconds(stepped, CHANGES - 5)
    yield "begin: list versions, tags and branches", milliseconds(ds.explore)
    yield "the card", milliseconds(lambda: ds.explore()._repr_mimebundle_())
    yield "the widget, with a page of rows", milliseconds(shown)
    for name, event in (
        ("a page of rows", Look("rows")),
        ("a page of what a filter selects", Filter("x > 990")),
        ("a page of all rows in order", Sort("x", ascending=False)),
        ("the summary of a column", Summarize("x")),
        ("two stops side by side", Look("compare")),
    ):
        wanted = step(visit.state, event)
        yield name, milliseconds(partial(_look, visit, wanted))


def main() -> None:
    """Print all measurements."""
    with tempfile.TemporaryDirectory() as folder:
        for name, taken in measurements(Path(folder)):
            print(f"{name:<44} {taken:>9.2f} ms")


if __name__ == "__main__":
    main()

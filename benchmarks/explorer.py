"""``python -m benchmarks.explorer``: what a step of `ds.explore()` takes, and its first display.

The dataset has 10,000 versions of 1,000 fragments; the newest ones differ in rows, deletions and
fragments.  The reference has nothing of the kind, so these are plain milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import lancekit as lk
from benchmarks.display import VERSIONS, as_version, milliseconds, print_all
from lancekit._notebook.explorer.shell import Shell
from lancekit._notebook.explorer.state import ExplorerState
from lancekit._notebook.explorer.visit import Visit
from lancekit._notebook.render.controls import as_html

__all__ = ["measurements"]

FRAGMENTS = 1_000
CHANGES = 40


def tall(folder: Path) -> lk.LanceDataset:
    """Return a dataset of many versions, of which the newest were really made."""
    rows = 100 * FRAGMENTS
    columns = {"id": range(rows), "x": [i * 7 % 1000 for i in range(rows)]}
    ds = lk.write_dataset(columns, folder, max_rows_per_file=100, primary_key="id")
    ds = as_version(VERSIONS - CHANGES, ds, folder)
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
    as_html(visit.view(state, visit.stops(state)))


def measurements(folder: Path) -> Iterator[tuple[str, float]]:
    """Yield each measurement's name and its milliseconds."""
    with lk.options(fsync=False):
        ds = tall(folder / "tall.lance")
    now = ds.get_version().timestamp
    visit = Visit(ds)

    def stepped() -> None:
        visit.send(lambda state: state.move(-1))
        found = visit.stops(visit.state)
        as_html(visit.head(visit.state, found, now))

    def shown() -> None:
        shell = Shell(Visit(ds))
        shell.wait()

    yield "a step: stop, change and card", milliseconds(stepped, CHANGES - 5)
    yield "begin: list versions, tags and branches", milliseconds(ds.explore)
    yield "the card", milliseconds(lambda: ds.explore()._repr_mimebundle_())
    yield "the widget, with a page of rows", milliseconds(shown)
    for name, wanted in (
        ("a page of rows", visit.state.show("rows")),
        ("a page of what a filter selects", visit.state.where("x > 990")),
        ("a page of all rows in order", visit.state.sort("x", ascending=False)),
        ("the summary of a column", visit.state.summarize("x")),
        ("two stops side by side", visit.state.show("compare")),
    ):
        yield name, milliseconds(partial(_look, visit, wanted))


if __name__ == "__main__":
    print_all(measurements)

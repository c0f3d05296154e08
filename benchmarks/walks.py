"""``python -m benchmarks.walks``: how far a call walks through lancekit's modules.

Calls of functions, distinct modules, and hops: calls into another module than the call before.
Each walk is taken in a process in which everything is loaded, on a table that nothing is
remembered of: 200,000 rows in four fragments.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

import lancekit as lk
from benchmarks.markdown import table

__all__ = ["WALKS", "Walk", "document", "measure"]

ROWS = 200_000


@dataclass(frozen=True)
class Walk:
    """What a call walked through in lancekit."""

    calls: int
    modules: int
    hops: int


def walked(call: Callable[[], Any]) -> Walk:
    """Make a call, and count."""
    entered: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            module = frame.f_globals.get("__name__", "")
            if module.partition(".")[0] == "lancekit":
                entered.append(module)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    hops = sum(here != before for here, before in zip(entered, ["", *entered], strict=False))
    return Walk(len(entered), len(set(entered)), hops)


def _forget() -> None:
    """Forget what is remembered of files, and of expressions that were parsed."""
    lk.clear_cache()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "lancekit":
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _rows(count: int, first: int = 0) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "x": ids * 0.5, "name": [f"n{i % 1000}" for i in ids]})


def _merge(ds: lk.LanceDataset) -> Any:
    builder = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return builder.execute(_rows(20, ROWS - 10))


def _scanner(ds: lk.LanceDataset) -> Any:
    return ds.scanner(columns=["id", "name"], filter="x > 5 AND name = 'n7'")


#: what is done with a handle that was just opened, and with what was prepared
WALKS: dict[str, Callable[[lk.LanceDataset], Callable[[], Any]]] = {
    "open and count": lambda ds: lambda: lk.dataset(ds.uri).count_rows(),
    "plan a scan": lambda ds: lambda: _scanner(ds),
    "run it": lambda ds: _scanner(ds).to_table,
    "write 20 rows": lambda ds: lambda: lk.write_dataset(_rows(20), f"{ds.uri}-new"),
    "merge 20 rows": lambda ds: lambda: _merge(ds),
    "`lk.sql`: filter, group": lambda ds: (
        lambda: lk.sql(
            "SELECT name, count(*) AS n FROM t WHERE x > 5 GROUP BY name", t=ds
        ).to_table()
    ),
    "card of a dataset": lambda ds: ds._repr_html_,
    "delete a row": lambda ds: lambda: ds.delete("id = 5"),
}


def measure(rows: int = ROWS) -> dict[str, Walk]:
    """Take each walk twice, each time on a table of its own, and return the second ones."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder, "original")
        lk.write_dataset(_rows(rows), original, max_rows_per_file=rows // 4)
        for number, (name, prepare) in enumerate(WALKS.items()):
            for turn in ("warm", "counted"):
                at = Path(folder, f"{turn}-{number}")
                shutil.copytree(original, at)
                _forget()
                found[name] = walked(prepare(lk.dataset(at)))
    return found


def document(found: dict[str, Walk]) -> str:
    """Return a table of all walks."""
    lines = [[name, f"{w.calls:,}", str(w.modules), f"{w.hops:,}"] for name, w in found.items()]
    return table(["", "calls", "modules", "hops"], lines)


if __name__ == "__main__":
    print(document(measure()))

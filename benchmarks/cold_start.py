"""``python -m benchmarks.cold_start [FOLDER ...]``: processor time of the first calls of a process.

Each run is a process of its own, which works outside of the checkout.  Compared with pylance are
the first count and the first filter, with bytecode that is cached and without.  The first call of
each of 20 verbs after a first count is measured alone and with all of its process.  FOLDER are
other checkouts of lancekit, whose numbers stand beside.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

import lancekit as lk
from benchmarks.markdown import table
from benchmarks.tables import make

__all__ = ["FIRST", "VERBS", "Side", "Taken", "document", "measure"]

HERE = Path(__file__).parents[1]
PAIRS = 20

#: the first calls: what lancekit and pylance are asked
FIRST = {
    "count": "LIBRARY.dataset(uri).count_rows()",
    "filter": "LIBRARY.dataset(uri).to_table(filter='dep_delay > 60')",
}
#: what is called once after a first count
VERBS = {
    "append": "lk.write_dataset(rows(), ds, mode='append')",
    "delete": "ds.delete('id = 5')",
    "update": "ds.update({'dep_delay': '0'}, where='id = 5')",
    "merge": "ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all()"
    ".execute(rows())",
    "filter": "ds.to_table(filter='id = 5')",
    "head": "ds.head(5)",
    "take": "ds.take([1, 5, 7])",
    "scan": "ds.to_table(columns=['id'])",
    "tag": "ds.tags.create('first', 1)",
    "branch": "ds.create_branch('trial')",
    "checkout": "ds.checkout_version(1)",
    "history": "ds.versions()._repr_html_()",
    "card": "ds._repr_html_()",
    "diff": "ds.diff(1).counts",
    "lk.sql": "lk.sql('SELECT count(*) AS n FROM t WHERE dep_delay > 60', t=ds).to_table()",
    "add column": "ds.add_columns({'twice': 'dep_delay * 2'})",
    "compact": "ds.optimize.compact_files()",
    "cleanup": "ds.cleanup_old_versions()",
    "create index": "ds.create_scalar_index('dep_delay', 'BTREE')",
    "index search": "ds.to_table(filter=\"origin = 'JFK' AND id < 100\")",
    "explain": "ds.explain.delete('id = 5')",
}

_PROGRAM = """
import sys, time
uri = sys.argv[1]
{imported}
def rows():
    import pyarrow as pa
    kinds = [pa.int64(), pa.string(), pa.int64()]
    values = [[5, 700], ["JFK", None], [1, 2]]
    return pa.table([*map(pa.array, values, kinds)], ["id", "origin", "dep_delay"])
{before}
started = time.process_time()
{call}
print(time.process_time() - started)
"""


@dataclass(frozen=True)
class Side:
    """A library, and the folder that it comes from; pylance is installed."""

    name: str
    folder: Path | None
    statement: str = "import lancekit as lk"


@dataclass(frozen=True)
class Taken:
    """Processor seconds of a call, and of its whole process."""

    call: float
    whole: float


def _run(side: Side, call: str, uri: str, *, counted: bool, bytecode: bool, at: Path) -> Taken:
    """Make a call in a process of its own."""
    program = _PROGRAM.format(
        imported=side.statement,
        before="ds = lk.dataset(uri); ds.count_rows()" if counted else "",
        call=call,
    )
    hidden = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    if side.folder is not None:
        environment["PYTHONPATH"] = str(side.folder)
    if not bytecode:
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(at / "none")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", program, uri],
        env=environment,
        cwd=at,
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(float(done.stdout.split()[-1]), whole)


def _make(at: Path) -> Path:
    """Write what is asked: three columns of 336,776 flights, with an index and three versions."""
    flights = make("flights").select(["origin", "dep_delay"])
    flights = flights.add_column(0, "id", pa.array(range(flights.num_rows), pa.int64()))
    ds = lk.write_dataset(flights.slice(0, 250_000), at, primary_key="id")
    ds = lk.write_dataset(flights.slice(250_000), ds, mode="append")
    ds.create_scalar_index("origin", "BITMAP")
    return at


def _runs(
    sides: list[Side], calls: Mapping[str, str], pairs: int, *, counted: bool, bytecode: bool = True
) -> Iterator[tuple[str, str, Taken]]:
    """Yield the side, the call and what it took; the first run of each warms caches only."""
    with tempfile.TemporaryDirectory() as folder:
        original = _make(Path(folder, "flights"))
        copy = Path(folder, "copy")
        for call, text in calls.items():
            for number in range(pairs + 1):
                for side in sides:
                    if counted:
                        shutil.copytree(original, copy)
                    uri = str(copy if counted else original)
                    library = "lance" if side.folder is None else "lk"
                    asked = text.replace("LIBRARY", library)
                    taken = _run(
                        side, asked, uri, counted=counted, bytecode=bytecode, at=Path(folder)
                    )
                    if counted:
                        shutil.rmtree(copy)
                    if number:
                        yield side.name, call, taken


Found = dict[str, dict[str, dict[str, list[Taken]]]]


def measure(others: list[Path] = (), pairs: int = PAIRS) -> Found:  # type: ignore[assignment]
    """Return what each call took, by the part, the call and the side."""
    sides = [Side(str(folder), folder) for folder in others] + [Side("lancekit", HERE)]
    with_pylance = sides + ([Side("pylance", None, "import lance")] if find_spec("lance") else [])
    parts = {
        "first calls": _runs(with_pylance, FIRST, pairs, counted=False),
        "first calls, no bytecode": _runs(
            with_pylance, FIRST, max(1, pairs // 4), counted=False, bytecode=False
        ),
        "after a count": _runs(sides, VERBS, max(1, pairs // 2), counted=True),
    }
    found: Found = {}
    for part, runs in parts.items():
        for side, call, taken in runs:
            of = found.setdefault(part, {}).setdefault(call, {})
            of.setdefault(side, []).append(taken)
    return found


def _median(runs: list[Taken], of: str) -> str:
    return f"{statistics.median(getattr(each, of) for each in runs):.3f}"


def document(found: Found) -> str:
    """Return a table for each part: median seconds, and the median ratio to pylance of pairs."""
    parts = []
    for part, calls in found.items():
        sides = list(next(iter(calls.values())))
        alone = part == "after a count"
        heading = [""]
        heading += [f"{side}: call, process" if alone else side for side in sides]
        lines = []
        for call, by_side in calls.items():
            line = [call]
            for side in sides:
                cells = [_median(by_side[side], "whole")]
                if alone:
                    cells.insert(0, _median(by_side[side], "call"))
                line.append(", ".join(cells))
            if "pylance" in by_side:
                for side in sides[:-1]:
                    pairs = zip(by_side[side], by_side["pylance"], strict=True)
                    ratio = statistics.median(ours.whole / theirs.whole for ours, theirs in pairs)
                    line.append(f"{ratio:.2f}")
            lines.append(line)
        if "pylance" in sides:
            heading += [f"{side} / pylance" for side in sides[:-1]]
        parts.append(f"{part}, seconds of the processor\n\n{table(heading, lines)}")
    return "\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="other checkouts of lancekit")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    given = parser.parse_args()
    print(document(measure([folder.absolute() for folder in given.folders], given.pairs)))

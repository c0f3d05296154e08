"""What users feel: each case for the first time in a process, then again on a new handle.

Both are taken from a process of its own for each library (`benchmarks.children`), whose imports are
done; the files are in the cache of the operating system.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.children import Child, Job, Medians, Taken, children, medians
from benchmarks.commits import with_versions
from benchmarks.markdown import filled, ms, ratios, table
from benchmarks.others import OTHERS
from benchmarks.plan import Plan
from benchmarks.rows import MILLION, nested, rows

__all__ = ["FELT", "RESTED", "Disk", "document", "measure"]

VERSIONS = 1000
ROUNDS = 5
#: of DuckDB and delta-rs, which only stand beside
OTHER_ROUNDS = 3
#: lancekit's cache remembers no file that is younger
RESTED = 2.1

#: by case and variant
Found = dict[str, dict[str, Medians]]


@dataclass(frozen=True)
class Felt:
    """A case, on which dataset, with which rows to write, and what it may take of pylance's time.

    `goals` are for the first call and for the second, `durable` is for both with fsync.
    """

    name: str
    case: str
    dataset: str = "million"
    source: str = ""
    goals: tuple[float, float] = (1.0, 1.0)
    durable: float = 1.5
    writes: bool = False
    #: a dataset for each call
    anew: bool = False


FELT = (
    Felt("create, 1M rows", "create", "", "million", writes=True, anew=True),
    Felt("open", "open"),
    Felt("open in a history of 1,000 versions", "open", "versions"),
    Felt("open version 500 of 1,000", "open by number", "versions"),
    Felt("list 1,000 versions by number", "list by number", "versions"),
    Felt("list 1,000 versions with times", "list with times", "versions"),
    Felt("scan all", "scan", goals=(0.5, 0.5)),
    Felt("scan two columns", "two columns", goals=(0.5, 0.5)),
    Felt("filter, 0.1 % of rows", "filter", goals=(0.7, 0.1)),
    Felt("filter, 1,000 neighbours by id", "neighbours", goals=(0.7, 0.1)),
    Felt("count with a filter", "count", goals=(0.7, 0.1)),
    Felt("take 1,000 rows", "take", goals=(0.3, 0.3)),
    Felt("merge 10 rows", "merge", source="merge 10", goals=(0.9, 0.9), writes=True),
    Felt("merge 1,000 rows", "merge", source="merge 1000", goals=(0.9, 0.9), writes=True),
    Felt("merge 100,000 rows", "merge", source="merge 100000", writes=True),
    Felt("nested merge, 1,000 rows", "merge", "nested", "nested 1000", writes=True),
    Felt("update 1 %", "update", writes=True),
    Felt("delete 1 %", "delete", writes=True),
    Felt("add a column", "add column", writes=True),
    Felt("append 10,000 rows", "append", "million", "append", (0.9, 0.9), 1.3, writes=True),
    Felt("compact 100 fragments", "compact", "hundred", writes=True, anew=True),
)


@dataclass(frozen=True)
class Variant:
    """A library with some options; `files` names the library that wrote what it reads."""

    module: str
    files: str
    options: dict[str, Any]
    wants: Callable[[Felt], bool] = lambda _: True
    rounds: int = ROUNDS
    profiled: bool = False

    def calls(self, felt: Felt) -> int:
        """How often a case is called in a row: what is read is remembered at its second use."""
        return 2 if felt.writes or self.module in OTHERS else 3


def _beside(module: str) -> Variant:
    def has(felt: Felt) -> bool:
        return felt.case in OTHERS[module] and felt.dataset not in {"nested", "versions"}

    return Variant(module, module, {}, has, OTHER_ROUNDS)


_SCANS = {"scan", "two columns", "filter", "neighbours", "count", "take"}
_QUICK = {"fsync": False}
VARIANTS = {
    "pylance": Variant("lance", "lance", {}),
    "lancekit": Variant("lancekit", "lancekit", _QUICK),
    "NumPy": Variant("lancekit", "lancekit", {**_QUICK, "kernels": False}),
    "its files": Variant("lancekit", "lance", _QUICK, lambda felt: felt.case in _SCANS),
    "its files, NumPy": Variant(
        "lancekit", "lance", {**_QUICK, "kernels": False}, lambda felt: felt.case in _SCANS
    ),
    "fsync": Variant("lancekit", "lancekit", {"fsync": True}, lambda felt: felt.writes),
    "no cache": Variant(
        "lancekit",
        "lancekit",
        {**_QUICK, "cache_bytes": 0},
        lambda felt: felt.case in {"scan", "merge"},
    ),
    "profile": Variant("lancekit", "lancekit", _QUICK, profiled=True),
    "DuckDB": _beside("duckdb"),
    "delta-rs": _beside("deltalake"),
}


class Disk:
    """The datasets of each library, made once, rows to write, and copies that may be changed."""

    def __init__(self, folder: Path, child: Callable[[str], Child], scale: float) -> None:
        self._folder = folder
        self._child = child
        self._scale = scale
        self._numbers = itertools.count()
        self.dataset = cache(self._dataset)
        self.source = cache(self._source)

    def rows(self, dataset: str) -> int:
        """Return how many rows a dataset has, or versions if it is of these."""
        if dataset == "versions":
            return max(int(VERSIONS * self._scale), 20)
        return max(int(MILLION * self._scale), 2000)

    def _dataset(self, library: str, name: str) -> Path:
        if name == "versions":
            shared = self._folder / name
            return shared if shared.exists() else with_versions(shared, self.rows(name))
        path = self._folder / f"{library}-{name}"
        source = self.source("nested" if name == "nested" else "million", 0)
        options = _QUICK if library == "lancekit" else {}
        case = "create 100" if name == "hundred" else "create"
        self._child(library).run(Job(case, self.rows(name), [str(path)], [source], options))
        return path

    def _source(self, name: str, turn: int) -> str:
        kind, _, number = name.partition(" ")
        total = self.rows("million")
        make = nested if kind == "nested" else rows
        ids: Any = np.arange(total)
        if kind == "append" or number:
            count = int(min(float(number or 10_000), total // 10))
            new = np.arange(count if kind == "append" else count // 2) + total + turn * count
            old = np.linspace(0, total - 1, 0 if kind == "append" else count - len(new))
            ids = np.concatenate([old.astype(np.int64), new])
        made = make(ids, turn + bool(number))
        path = self._folder / f"{name}-{turn}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, made.schema) as out:
            out.write_table(made)
        return str(path)

    def places(self, felt: Felt, variant: Variant) -> list[str]:
        """Return the dataset of each call: the same for all, but for some that change it."""
        calls = variant.calls(felt)
        if not felt.writes:
            return [str(self.dataset(variant.files, felt.dataset))] * calls
        made = [self._copy(felt, variant) for _ in range(calls if felt.anew else 1)]
        return made if felt.anew else made * calls

    def _copy(self, felt: Felt, variant: Variant) -> str:
        target = self._folder / f"copy-{next(self._numbers)}"
        if felt.dataset:
            # files are shared where none is written twice
            copy = shutil.copy2 if variant.files == "duckdb" else os.link
            source = self.dataset(variant.files, felt.dataset)
            shutil.copytree(source, target, copy_function=copy)
        return str(target)

    def tidy(self, places: list[str]) -> None:
        """Remove what was written to copies, and not what they share: its times would change."""
        for place in map(Path, set(places)):
            for path in place.rglob("*") if place.name.startswith("copy-") else ():
                if path.is_file() and path.stat().st_nlink == 1:
                    path.unlink()


def measure(plan: Plan) -> Found:
    """Measure the cases that the plan wants."""
    import lancekit

    lancekit.warm_up(spark=False)
    variants = {name: v for name, v in VARIANTS.items() if find_spec(v.module)}
    felts = [felt for felt in FELT if plan.wants(felt.name)]
    found: Found = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        child = children(stack)
        for variant in variants.values():
            child(variant.module)  # all of them import while rows are made
        disk = Disk(Path(folder), child, 0.005 if plan.quick else 1.0)

        def job(felt: Felt, variant: Variant) -> Job:
            calls = range(variant.calls(felt) if felt.source else 0)
            sources = [disk.source(felt.source, 0 if felt.anew else turn) for turn in calls]
            places = disk.places(felt, variant)
            rows = disk.rows(felt.dataset)
            return Job(felt.case, rows, places, sources, variant.options, variant.profiled)

        def jobs_of(felt: Felt, variant: Variant) -> list[Job | None]:
            rounds = 1 if plan.quick else variant.rounds
            # DuckDB's one file is copied for each, when it is needed
            late = variant.module == "duckdb"
            return [None if late else job(felt, variant) for _ in range(rounds)]

        # copies of one case share files, so that all of them are made before any is read
        jobs = {
            (felt, name): jobs_of(felt, v)
            for felt in felts
            for name, v in variants.items()
            if v.wants(felt)
        }
        time.sleep(0 if plan.quick else RESTED)
        for felt in felts:
            taken: dict[str, list[list[Taken]]] = {}
            for number in range(ROUNDS):
                for name, variant in variants.items():
                    if number < len(of := jobs.get((felt, name), [])):
                        one = of[number] or job(felt, variant)
                        taken.setdefault(name, []).append(child(variant.module).run(one))
                        disk.tidy(one.places)
            found[felt.name] = {name: medians(runs) for name, runs in taken.items()}
    return found


# ---- tables


def _tables(found: Found) -> Iterator[tuple[Felt, dict[str, Medians]]]:
    """Yield the cases that were measured, in the order of `FELT`."""
    for felt in FELT:
        if felt.name in found:
            yield felt, found[felt.name]


def _felt_table(found: Found) -> str:
    lines = []
    for felt, variants in _tables(found):
        ours, theirs = variants["lancekit"], variants["pylance"]
        goals = (*felt.goals, felt.goals[1])
        walls = ratios(ours["wall"], theirs["wall"], goals)
        cpus = ratios(ours["cpu"], theirs["cpu"])
        goal = " / ".join(f"{goal:g}" for goal in dict.fromkeys(felt.goals))
        lines.append(
            [felt.name, goal, *filled(walls, 3), *cpus[:2], ms(ours["wall"]), ms(theirs["wall"])]
        )
    heading = ["", "goal", "first", "second", "third", "CPU, first", "CPU, second"]
    return table([*heading, "lancekit, ms", "pylance, ms"], lines)


def _durable_table(found: Found) -> str:
    lines = []
    for felt, variants in _tables(found):
        if "fsync" in variants:
            ours, theirs = variants["fsync"]["wall"], variants["pylance"]["wall"]
            goals = (felt.durable, felt.durable)
            lines.append(
                [felt.name, f"{felt.durable:g}", *ratios(ours, theirs, goals), ms(ours), ms(theirs)]
            )
    return table(["", "goal", "first", "second", "lancekit, ms", "pylance, ms"], lines)


#: variant -> what it may take of pylance's time
_PLAIN = {"NumPy": 1.5, "its files": 1.0, "its files, NumPy": 3.0}


def _plain_table(found: Found) -> str:
    lines = []
    for felt, variants in _tables(found):
        line = [felt.name]
        for name, goal in _PLAIN.items():
            ours, theirs = variants.get(name, {}).get("wall", []), variants["pylance"]["wall"]
            line += filled(ratios(ours, theirs, (goal, goal))[:2], 2)
        lines.append(line)
    heading = [f"{name}, {call}" for name in _PLAIN for call in ("first", "second")]
    goals = [f"{goal:g}" for goal in _PLAIN.values() for _ in range(2)]
    return table(["", *heading], [["goal", *goals], *lines])


def _others_table(found: Found) -> str:
    names = [name for name in ("DuckDB", "delta-rs") if any(name in v for v in found.values())]
    lines = []
    for felt, variants in _tables(found):
        line = [felt.name]
        for name in names:
            theirs = variants.get(name, {}).get("wall", [])
            line += filled(ratios(variants["lancekit"]["wall"], theirs)[:2], 2)
            line.append(ms(theirs[:2]))
        if any(line[1:]):
            lines.append(line)
    heading = [f"{name}, {what}" for name in names for what in ("first", "second", "ms")]
    return table(["", *heading], lines)


def _memory_table(found: Found) -> str:
    lines = []
    for felt, variants in _tables(found):
        if "no cache" in variants:
            ours, theirs = (variants[name]["memory"][:1] for name in ("no cache", "pylance"))
            shown = [f"{kib[0] / 1024:,.0f}" for kib in (ours, theirs)]
            lines.append([felt.name, "1", *ratios(ours, theirs, (1.0,)), *shown])
    return table(["", "goal", "ratio", "lancekit, MiB", "pylance, MiB"], lines)


def _where_table(found: Found) -> str:
    """Return where the time goes in the calls that miss their goals."""
    lines = []
    for felt, variants in _tables(found):
        ours, theirs = variants["lancekit"]["wall"], variants["pylance"]["wall"]
        goals = (*felt.goals, felt.goals[1])
        for call, shown, where in zip(
            ("first", "second", "third"),
            ratios(ours, theirs, goals),
            variants.get("profile", {}).get("where", []),
            strict=False,
        ):
            if shown.startswith("**"):
                most = ", ".join(f"`{name}` {share:.0%}" for name, share in where.items())
                lines.append([f"{felt.name}, {call}", most])
    return table(["", "functions with the most own time"], lines).replace("---:", "---")


def document(found: Found) -> dict[str, str]:
    """Return tables of ratios to pylance's time; what misses its goal is bold."""
    made = {
        "felt": _felt_table(found),
        "durable": _durable_table(found),
        "plain": _plain_table(found),
        "others": _others_table(found),
        "memory": _memory_table(found),
        "where": _where_table(found),
    }
    return {name: text for name, text in made.items() if text.count("\n") > 2}

"""How cases grow with versions, fragments, columns and rows, beside pylance."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from benchmarks.children import Job, Medians, children, medians
from benchmarks.commits import with_versions
from benchmarks.felt import RESTED
from benchmarks.markdown import ms, ratios, table
from benchmarks.plan import Plan

__all__ = ["CURVES", "document", "draw", "measure"]

ROUNDS = 3
#: what may take at most so many times what pylance takes
GOAL = 2.0
#: a power of the size; what is above 1 is noise
LINEAR = 1.15

_MODULES = {"lancekit": "lancekit", "pylance": "lance"}
_OPTIONS: dict[str, dict[str, bool]] = {"lancekit": {"fsync": False}, "pylance": {}}

#: by curve, size, case and library
Found = dict[str, dict[str, dict[str, dict[str, Medians]]]]


def _numbers(count: int) -> pa.Table:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 1000, count, np.int32)
    return pa.table({"id": np.arange(count), "code": codes, "amount": rng.random(count)})


def _wide(columns: int) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table({f"column {number}": rng.random(1000) for number in range(columns)})


def _fragments(path: Path, count: int) -> None:
    lance.write_dataset(_numbers(100 * count), path, max_rows_per_file=100)


def _versions(path: Path, count: int) -> None:
    with_versions(path, count)


@dataclass(frozen=True)
class Curve:
    """The sizes, how a dataset of a size is made, the cases, and those that write."""

    sizes: tuple[int, ...]
    make: Callable[[Path, int], object]
    cases: tuple[str, ...]
    #: how many rows a dataset of a size has
    rows: Callable[[int], int]
    few: tuple[int, ...]
    large: tuple[int, ...] = ()


CURVES = {
    "versions": Curve(
        (1, 10, 100, 1_000, 10_000),
        _versions,
        ("open", "append", "list by number"),
        lambda _: 100,
        few=(1, 20),
    ),
    "fragments": Curve(
        (1, 10, 100, 500, 1_000, 10_000),
        _fragments,
        ("open", "one column", "filter", "take"),
        lambda size: 100 * size,
        few=(1, 20),
    ),
    "columns": Curve(
        (10, 100, 500, 2_000),
        lambda path, size: lance.write_dataset(_wide(size), path),
        ("open", "scan", "take", "create"),
        lambda _: 1000,
        few=(10, 50),
    ),
    "rows": Curve(
        (1_000_000, 3_000_000, 10_000_000),
        lambda path, size: lance.write_dataset(_numbers(size), path),
        ("open", "count", "take"),
        lambda size: size,
        few=(10_000, 30_000),
        large=(30_000_000, 100_000_000),
    ),
}


class _Sized:
    """A dataset of one size, the rows to write, and copies of it."""

    def __init__(self, folder: Path, curve: Curve, size: int) -> None:
        self.path = folder / "dataset"
        curve.make(self.path, size)
        self.source = folder / "source.arrow"
        ds = lance.dataset(self.path)
        rows = ds.to_table() if "create" in curve.cases else ds.head(10)
        with pa.OSFile(str(self.source), "wb") as file, pa.ipc.new_file(file, rows.schema) as out:
            out.write_table(rows)
        self._folder = folder
        self._numbers = itertools.count()

    def places(self, case: str) -> list[str]:
        """Return where each of two calls works."""
        if case == "create":
            return [str(self._new()) for _ in range(2)]
        if case != "append":
            return [str(self.path)] * 2
        copy = shutil.copytree(self.path, self._new(), copy_function=os.link)
        return [str(copy)] * 2

    def _new(self) -> Path:
        return self._folder / f"new-{next(self._numbers)}"


def measure(plan: Plan) -> Found:
    """Measure the curves that the plan wants."""
    found: Found = {}
    with ExitStack() as stack:
        child = children(stack)
        for name, curve in CURVES.items():
            if not plan.wants(name):
                continue
            for size in curve.few if plan.quick else curve.sizes + curve.large * plan.large:
                cases = _of_size(curve, size, child, plan.quick)
                found.setdefault(name, {})[str(size)] = cases
    return found


def _of_size(
    curve: Curve, size: int, child: Callable[..., Any], quick: bool
) -> dict[str, dict[str, Medians]]:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        sized = _Sized(Path(folder), curve, size)
        jobs = {
            case: [
                {
                    side: Job(
                        case,
                        curve.rows(size),
                        sized.places(case),
                        [str(sized.source)] * 2 if case in {"append", "create"} else [],
                        options,
                    )
                    for side, options in _OPTIONS.items()
                }
                for _ in range(1 if quick else ROUNDS)
            ]
            for case in curve.cases
        }
        time.sleep(0 if quick else RESTED)
        for case, each in jobs.items():
            taken = [
                {side: child(_MODULES[side]).run(job) for side, job in one.items()} for one in each
            ]
            found[case] = {side: medians([one[side] for one in taken]) for side in _MODULES}
    return found


# ---- tables


def _power(sizes: Sequence[int], taken: Sequence[float]) -> float:
    """Return the power of the size that time grows with, from the last but one to the last."""
    return math.log(taken[-1] / taken[-2]) / math.log(sizes[-1] / sizes[-2])


def _curve_table(name: str, sizes: dict[str, dict[str, dict[str, Medians]]]) -> str:
    cases = CURVES[name].cases
    lines = []
    for size, found in sizes.items():
        line = [f"{int(size):,}"]
        for case in cases:
            ours, theirs = (found[case][side]["wall"] for side in _MODULES)
            line += ratios(ours, theirs, (GOAL, GOAL))
            line.append(f"{ms(ours)}")
        lines.append(line)
    last = ["power"]
    for case in cases:
        for call in range(2):
            power = _power(
                [int(size) for size in sizes],
                [found[case]["lancekit"]["wall"][call] for found in sizes.values()],
            )
            last.append(f"**{power:.2f}**" if power > LINEAR else f"{power:.2f}")
        last.append("")
    heading = [f"{case}, {call}" for case in cases for call in ("first", "second", "ms")]
    return table([name, *heading], [*lines, last])


def document(found: Found) -> dict[str, str]:
    """Return a table for each curve, by its name."""
    return {f"of_{name}": _curve_table(name, sizes) for name, sizes in found.items()}


_GREY = "#7d8590"  # can be read on white and on black, as can the others
_COLOURS = ("#3a7ca5", "#d1603d", "#4c9f70", "#a5668b")


def _short(size: int) -> str:
    return (
        f"{size // 10**6}M" if size >= 10**6 else f"{size // 1000}k" if size >= 1000 else str(size)
    )


def draw(found: Found, path: Path) -> None:
    """Draw the first calls: lancekit's times as lines, pylance's as dashes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 2.2 * math.ceil(len(found) / 2) + 0.6), layout="constrained")
    figure.patch.set_alpha(0)
    for number, (name, sizes) in enumerate(found.items()):
        axes = figure.add_subplot(math.ceil(len(found) / 2), 2, number + 1)
        axes.patch.set_alpha(0)
        for case, colour in zip(CURVES[name].cases, _COLOURS, strict=False):
            for side, style in zip(_MODULES, ("-", "--"), strict=True):
                taken = [of[case][side]["wall"][0] for of in sizes.values()]
                label = case if side == "lancekit" else None
                axes.plot([int(size) for size in sizes], taken, style, color=colour, label=label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.set_xticks([int(size) for size in sizes], [_short(int(size)) for size in sizes])
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(name, color=_GREY)
        axes.set_ylabel("ms", color=_GREY)
        axes.tick_params(which="both", colors=_GREY)
        for spine in axes.spines.values():
            spine.set_color(_GREY)
        axes.legend(frameon=False, labelcolor=_GREY, fontsize="small")
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "growth"}):
        figure.savefig(path, transparent=True, metadata={"Date": None})

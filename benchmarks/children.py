"""Libraries in processes of their own, so that a first call can be told from a second one.

``python -m benchmarks.children MODULE`` imports one library, all of it, and then forks a process
for each line that it is given, in which one case is called some times in a row.
"""

from __future__ import annotations

import cProfile
import gc
import importlib
import json
import os
import pkgutil
import pstats
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass, field
from functools import cache, partial
from typing import Any

import pyarrow as pa

from benchmarks.cases import CASES, Given, scattered
from benchmarks.memory import own_memory, rise
from benchmarks.others import OTHERS

__all__ = ["Child", "Job", "Medians", "Taken", "children", "medians"]


Medians = dict[str, list[Any]]
#: how many functions are named that took the most
_NAMED = 6


@dataclass(frozen=True)
class Job:
    """One process: the case, and of each of its calls the dataset and the rows to write."""

    case: str
    rows: int
    places: list[str]
    sources: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    #: say where the time of the main thread went, too, which takes some itself
    profiled: bool = False


@dataclass(frozen=True)
class Taken:
    """Wall and CPU seconds of one call, and by how many KiB it raised the peak of memory.

    If the call was profiled, there are the seconds that each function took itself, too.
    """

    wall: float
    cpu: float
    memory: float
    profile: dict[str, float] = field(default_factory=dict)


class Child:
    """A process that has imported a library and done nothing yet."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.children", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, job: Job) -> list[Taken]:
        """Return what each call of a job took, in a new process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line.strip():
            raise RuntimeError(f"{self._process.args}: {job} failed; its error is above.")
        return [Taken(*taken) for taken in json.loads(line)]

    def close(self) -> None:
        """Let the process end."""
        self._process.communicate()


def children(stack: ExitStack) -> Callable[[str], Child]:
    """Return what gives the process of a library, which ends with the stack."""

    @cache
    def child(module: str) -> Child:
        made = Child(module)
        stack.callback(made.close)
        return made

    return child


def medians(rounds: Sequence[Sequence[Taken]]) -> Medians:
    """Return the medians of the rounds, call by call: wall and CPU milliseconds, and KiB.

    Of calls that were profiled there is `where`, too.
    """
    calls = list(zip(*rounds, strict=True))
    where = [_where([taken.profile for taken in call]) for call in calls if call[0].profile]
    return {
        **({"where": where} if where else {}),
        "wall": [round(statistics.median(t.wall for t in call) * 1e3, 3) for call in calls],
        "cpu": [round(statistics.median(t.cpu for t in call) * 1e3, 3) for call in calls],
        "memory": [statistics.median(t.memory for t in call) for call in calls],
    }


def _where(profiles: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the functions that took the most time themselves, and their shares of all."""
    seconds = Counter[str]()
    for profile in profiles:
        seconds.update(profile)
    total = seconds.total()
    return {name: round(own / total, 3) for name, own in seconds.most_common(_NAMED)}


def _imported(name: str) -> Any:
    """Import a library and what it would import when that is first needed."""
    module = importlib.import_module(name)
    importlib.import_module("pandas")
    if name == "lancekit":
        for found in pkgutil.walk_packages(module.__path__, "lancekit."):
            importlib.import_module(found.name)
    return module


def _source(path: str) -> pa.Table:
    with pa.OSFile(path) as file:  # into memory, where what users write is, too
        return pa.ipc.open_file(file).read_all()


def _name(function: tuple[str, int, str]) -> str:
    """Return how a function is called: with its module, as far as that can be told."""
    file, _, name = function
    if file == "~":  # <built-in method posix.open>, <method 'join' of 'str' objects>
        method = re.match(r"<method '(.+)' of '(.+)' objects>", name)
        return f"{method[2]}.{method[1]}" if method else name.strip("<>").split()[-1]
    parts = re.split(r"[/\\]", file.removesuffix(".py"))
    roots = [n for n, part in enumerate(parts) if part in {"lancekit", "site-packages"}]
    return ".".join([*parts[roots[-1] if roots else -1 :], name]).removeprefix("site-packages.")


def _seconds(profile: cProfile.Profile) -> dict[str, float]:
    profile.create_stats()
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    seconds: dict[str, float] = {}
    for function, (_, _, own, _, _) in stats.items():
        seconds[_name(function)] = seconds.get(_name(function), 0.0) + own
    return seconds


def _timed(run: Callable[[], object], profile: cProfile.Profile | None) -> Taken:
    times: list[float] = []

    def timed() -> object:
        started, busy = time.perf_counter(), time.process_time()
        made = profile.runcall(run) if profile else run()
        times.extend((time.perf_counter() - started, time.process_time() - busy))
        return made

    memory = rise(timed)
    return Taken(*times, memory, _seconds(profile) if profile else {})


def _done(module: Any, job: Job) -> list[Taken]:
    for option, value in job.options.items():
        setattr(module.options, option, value)
    run = OTHERS.get(module.__name__, CASES)[job.case]
    sources = [_source(path) for path in job.sources] or [None] * len(job.places)
    positions = scattered(job.rows)
    given = [
        Given(at, job.rows, turn, source, positions)
        for turn, (at, source) in enumerate(zip(job.places, sources, strict=True))
    ]
    return [
        _timed(partial(run, module, one), cProfile.Profile() if job.profiled else None)
        for one in given
    ]


def _serve(name: str) -> None:
    """Fork for each job; what it took is one line, which is empty if it failed."""
    module = _imported(name)
    warnings.simplefilter("ignore")  # pylance's, about forks: it has started no thread yet
    gc.freeze()
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                own_memory()
                taken = _done(module, Job(**json.loads(line)))
                answer = json.dumps([astuple(one) for one in taken])
                os.write(write, answer.encode())
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as answers:
            print(answers.read(), flush=True)
        os.waitpid(child, 0)
    gc.unfreeze()


if __name__ == "__main__":
    _serve(sys.argv[1])

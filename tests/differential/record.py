"""Make calls that a seed draws, and write down what each of them gave.

    python -m tests.differential.record --seed 7 --scenes 0:40 --out a.jsonl.gz
    python -m tests.differential.record --seed 7 --scenes 12:13 --show

A scene is a table of its own with `CALLS` calls.  It gives the same in whichever part it is run, so
that a number of a scene reproduces what is in it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import pandas  # noqa: F401  # what is large is imported before the clock stands still
import pyarrow as pa

from tests.differential.former import know_former_names
from tests.differential.still import hold_still, start_call

if __name__ == "__main__":
    hold_still()
    know_former_names()

import lancekit as lk
from tests.differential import changes, outcome, reads, statements, watch
from tests.differential.scene import Maker, Scene, Step
from tests.differential.tables import SCENES
from tests.differential.wrong import spoil
from tests.support.faults import Faults, injected

__all__ = ["CALLS", "Record"]

CALLS = 25
_WRONG = 0.15
#: kinds of scenes by how many of a hundred are such, and families of calls by their weights
_KINDS = {
    "mixed": 49,
    "old": 3,
    "corpus": 14,
    "statements": 17,
    "searched": 9,
    "sharded": 6,
    "large": 2,
}
_FAMILIES: Mapping[str, tuple[tuple[dict[Maker, int], int], ...]] = {
    "mixed": ((reads.READS, 60), (changes.CHANGES, 22), (changes.UPKEEP, 13), (reads.HISTORIES, 5)),
    "old": ((reads.READS, 85), (changes.CHANGES, 10), (changes.UPKEEP, 5)),
    "corpus": ((reads.OF_CORPUS, 1),),
    "statements": ((statements.STATEMENTS, 1),),
    "searched": ((reads.SEARCHES, 75), (changes.CHANGES, 15), (changes.UPKEEP, 10)),
    "sharded": ((reads.SHARD_READS, 60), (changes.SHARD_CHANGES, 40)),
    "large": ((reads.READS, 70), (changes.CHANGES, 20), (changes.UPKEEP, 10)),
}


@dataclass(frozen=True)
class Record:
    """What one call gave: facets that two checkouts are compared by."""

    scene: int
    kind: str
    call: int
    what: str
    facets: dict[str, str]
    peak: float


def _drawn(draw: Random, scene: Scene, kind: str) -> Step:
    families, weights = zip(*_FAMILIES[kind], strict=True)
    family = draw.choices(families, weights)[0]
    step = draw.choices(list(family), list(family.values()))[0](draw, scene)
    return spoil(draw, step) if draw.random() < _WRONG else step


class _Recorder:
    def __init__(self, scene: Scene, opened: watch.Opened, *, weighed: bool) -> None:
        self._scene, self._opened, self._weighed = scene, opened, weighed
        self._files = watch.tree(scene.folder)

    def record(self, step: Step) -> tuple[dict[str, str], float]:
        found: dict[str, str] = {}
        with injected(Faults()) as faults, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            self._opened.start()
            run = lambda: found.update(self._outcome(step))  # noqa: E731
            peak = watch.peak_of(run) if self._weighed else run() or 0.0
            opened, requests = self._opened.stop(), watch.requests_text(faults.calls)
            found |= {"opened": opened, "requests": requests} if step.counted else {}
        found["warnings"] = "\n".join(f"{w.category.__name__}: {w.message}" for w in warned)
        found["files"], found["manifest"] = self._changes()
        place = str(self._scene.folder)
        texts = {name: outcome.without_ids(text, place) for name, text in found.items() if text}
        return texts, peak

    def _outcome(self, step: Step) -> dict[str, str]:
        try:
            result = outcome.shown(step.run(self._scene, dict(step.arguments)))
        except Exception as error:
            if not isinstance(error, lk.errors.LancekitError):
                last = traceback.extract_tb(error.__traceback__)[-1]
                return {"error": f"{outcome.error_text(error)}\n  in {last.name}"}
            return {"error": outcome.error_text(error)}
        return {"result": result}

    def _changes(self) -> tuple[str, str]:
        before, self._files = self._files, watch.tree(self._scene.folder)
        new, gone = watch.changed(before, self._files)
        texts = [watch.file_text(self._scene.folder, name) for name in new]
        manifests = sorted(text for text in texts if ".manifest:" in text)
        files = sorted(text for text in texts if ".manifest:" not in text)
        files += sorted(f"gone: {watch.kind_of(name)}" for name in gone)
        return "\n".join(files), "\n".join(manifests)


def _records(seed: int, number: int, folder: Path, opened: watch.Opened) -> Iterator[Record]:
    draw = Random(f"{seed}/{number}")
    kind = draw.choices(list(_KINDS), list(_KINDS.values()))[0]
    lk.clear_cache()
    start_call(f"{seed}/{number}", 0)
    scene = SCENES[kind](folder, draw)
    recorder = _Recorder(scene, opened, weighed=kind == "large")
    for call in range(CALLS):
        of = f"{seed}/{number}/{call}"
        step = _drawn(Random(of), scene, kind)
        start_call(of, call + 1)
        facets, peak = recorder.record(step)
        yield Record(number, kind, call, str(step), facets, peak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenes", default="0:1", help="FIRST:LAST, the last is left out")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", action="store_true", help="print records whole")
    given = parser.parse_args()
    lk.options.fsync, lk.options.kernels, lk.options.progress = False, False, False
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    opened = watch.Opened()
    first, last = map(int, given.scenes.split(":"))
    with gzip.open(given.out, "wt", 3) if given.out else sys.stdout as out:
        for number in range(first, last):
            folder = Path(tempfile.mkdtemp(prefix="differential-"))
            try:
                for record in _records(given.seed, number, folder, opened):
                    if given.show:
                        out.write(f"\n---- {record.scene}/{record.call} {record.what}\n")
                        out.writelines(f"{k}: {v}\n" for k, v in record.facets.items() if v)
                    else:
                        out.write(json.dumps(asdict(record)) + "\n")
            finally:
                shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # as Python ends, pools would go before the buffers that caches keep of them

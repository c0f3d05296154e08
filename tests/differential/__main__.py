"""Run the same calls on two checkouts, and compare all that they give.

    python -m tests.differential OLD [NEW] [--calls 20000] [--seed 0] [--python PATH]

OLD and NEW are revisions of this repository, or folders with a package ``lancekit``; NEW is this
folder as it is, changes that are not committed included.  Parts of 40 scenes run in processes of
their own, the old side and the new one beside each other.  The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.differential.compare import Difference, differences, report
from tests.differential.record import CALLS

__all__ = ["ROOT", "recording", "side"]

ROOT = Path(__file__).parents[2]
_SCENES = 40


def side(of: str, folder: Path) -> Path:
    """Make a folder with the package of a revision, and the tests of this checkout."""
    folder.mkdir()
    source = Path(of)
    if (source / "lancekit").is_dir():
        (folder / "lancekit").symlink_to(source.absolute() / "lancekit")
    else:
        command = ["git", "-C", ROOT, "archive", of, "lancekit"]
        archive = subprocess.run(command, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    (folder / "tests").symlink_to(ROOT / "tests")
    return folder


def recording(
    place: Path, seed: int, scenes: range, out: Path, python: str = sys.executable
) -> subprocess.Popen[bytes]:
    """Start to record a part on one side."""
    command = [python, "-P", "-m", "tests.differential.record", "--seed", str(seed)]
    command += ["--scenes", f"{scenes.start}:{scenes.stop}", "--out", str(out)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(place),
        "PYTHONHASHSEED": "0",
        "RUST_LOG": "error",
    }
    return subprocess.Popen(command, env=environment, cwd=place)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default=str(ROOT))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the scene to begin with")
    parser.add_argument("--keep", type=Path, help="a folder in which the records stay")
    parser.add_argument("--python", default=sys.executable, help="of the new side")
    parser.add_argument("--old-python", default=sys.executable, help="of the old side")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="two-checkouts-"))
    last = given.first - (-given.calls // CALLS)
    found: list[Difference] = []
    try:
        sides = [
            (side(given.old, folder / "old"), given.old_python),
            (side(given.new, folder / "new"), given.python),
        ]
        for first in range(given.first, last, _SCENES):
            part = range(first, min(first + _SCENES, last))
            kept = given.keep / str(first) if given.keep else folder
            kept.mkdir(parents=True, exist_ok=True)
            records = [kept / "old.jsonl.gz", kept / "new.jsonl.gz"]
            running = [
                recording(place, given.seed, part, out, python)
                for (place, python), out in zip(sides, records, strict=True)
            ]
            if sum(process.wait() != 0 for process in running):
                raise SystemExit(f"A recording of scenes {part.start}:{part.stop} failed.")
            found += differences(*records)
            calls = (part.stop - given.first) * CALLS
            print(f"{calls:,} calls: {len(found)} differences", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(report(found, given.seed))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

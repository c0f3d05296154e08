"""``python -m benchmarks.page [part ...]``: measure, and write `docs/performance.md`.

The parts that are named are measured, or all; what is measured goes to the saved numbers, and the
page is written of all that are saved.  ``--only`` measures those cases of a part whose names hold
a word, ``--write`` measures nothing.  ``--quick`` is a trial with next to no rows: it prints the
page and keeps nothing, unless told where.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template
from types import ModuleType
from typing import Any

from benchmarks import (
    felt,
    files,
    growth,
    imports,
    operations,
    requests,
    shards,
    spark_jobs,
    writers,
)
from benchmarks.markdown import table
from benchmarks.plan import Plan

__all__ = ["PAGE", "PARTS", "SAVED", "document", "main"]

#: Each has `measure(plan)`, which returns results by the names of cases, and
#: `document(results)`, which returns the tables that the template names.
PARTS: dict[str, ModuleType] = {
    "imports": imports,
    "felt": felt,
    "writers": writers,
    "growth": growth,
    "operations": operations,
    "files": files,
    "shards": shards,
    "requests": requests,
    "spark": spark_jobs,
}

_HERE = Path(__file__).parent
_TEMPLATE = _HERE / "performance_page.md"
SAVED = _HERE / "performance.json"
PAGE = _HERE.parent / "docs/performance.md"
_PICTURE = "images/growth.svg"

_LIBRARIES = ("pylance", "duckdb", "deltalake", "pyarrow", "numpy", "numba", "pyspark")

Saved = dict[str, Any]


def _found(path: str, pattern: str) -> str:
    try:
        found = re.search(pattern, Path(path).read_text())
    except OSError:
        return "unknown"
    return found[1].strip() if found else "unknown"


def _version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"


def machine() -> dict[str, str]:
    """Return what the numbers depend on, in words: nothing that names this one machine."""
    memory = _found("/proc/meminfo", r"MemTotal:\s+(\d+) kB")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _found("/proc/cpuinfo", r"model name\s*:(.+)"),
        "cores": str(os.cpu_count()),
        "memory": f"{int(memory) / 2**20:.0f} GiB" if memory.isdigit() else memory,
        "system": platform.system(),
        "Python": platform.python_version(),
        "libraries": ", ".join(_version(name) for name in ("lancekit", *_LIBRARIES)),
    }


def _machines(parts: list[tuple[str, dict[str, str]]]) -> str:
    """Return a table with a column for all parts that were measured with the same."""
    distinct = [
        of for number, (_, of) in enumerate(parts) if of not in [p[1] for p in parts[:number]]
    ]
    names = [", ".join(part for part, its in parts if its == of) for of in distinct]
    facts = dict.fromkeys(fact for of in distinct for fact in of)
    return table(["", *names], [[fact, *(of.get(fact, "") for of in distinct)] for fact in facts])


def document(saved: Mapping[str, Saved]) -> str:
    """Return the page: the template's sections whose numbers are saved."""
    parts = [part for part in PARTS if part in saved]
    filled: dict[str, str] = {}
    for part in parts:
        filled |= PARTS[part].document(saved[part]["found"])
    filled["machine"] = _machines([(part, saved[part]["machine"]) for part in parts])
    head, *sections = re.split(r"(?m)^(?=## )", _TEMPLATE.read_text())
    kept = [s for s in sections if all(name in filled for name in Template(s).get_identifiers())]
    return "".join(Template(section).substitute(filled) for section in (head, *kept))


def main(arguments: list[str]) -> None:
    """Measure what the command line asks for, save it, and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--only", action="append", default=[], help="cases with this word")
    parser.add_argument("--quick", action="store_true", help="next to no rows, kept nowhere")
    parser.add_argument("--large", action="store_true", help="growth up to 100M rows")
    parser.add_argument("--write", action="store_true", help="write the page, measure nothing")
    parser.add_argument("--json", type=Path, help="where the numbers are saved")
    parser.add_argument("--page", type=Path, help="where the page goes")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.parts) - PARTS.keys():
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    numbers = chosen.json or (None if chosen.quick else SAVED)
    page = chosen.page or (None if chosen.quick else PAGE)
    saved: dict[str, Saved] = {}
    if numbers and numbers.exists():
        saved = json.loads(numbers.read_text())
    plan = Plan(chosen.quick, chosen.large, tuple(chosen.only))
    for part in [] if chosen.write else chosen.parts or PARTS:
        print(f"measuring {part}", end="", file=sys.stderr, flush=True)
        started = time.monotonic()
        found = PARTS[part].measure(plan)
        print(f", {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        before = saved.get(part, {}).get("found", {}) if chosen.only else {}
        saved[part] = {"machine": machine(), "found": {**before, **found}}
        if numbers:
            numbers.write_text(json.dumps(saved, indent=1) + "\n")
    text = document(saved)
    if page:
        page.write_text(text)
        if "growth" in saved:
            picture = page.parent / _PICTURE
            picture.parent.mkdir(exist_ok=True)
            growth.draw(saved["growth"]["found"], picture)
    else:
        print(text, end="")


if __name__ == "__main__":
    main(sys.argv[1:])

"""What a fresh process loads for its first call: modules, dataclasses, bytecode, other packages.

``python -m tests.support.cold_start`` prints the figures and writes the modules to the list that
`tests/project/test_cold_start.py` compares.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import lancekit as lk

__all__ = ["CALLS", "LISTED", "Loaded", "listed", "loaded", "make_table", "written"]

LISTED = Path(__file__).parents[1] / "project" / "cold_start.txt"

#: the first calls of a process, each with what it is given
CALLS = {
    "import": "import lancekit",
    "count": "import lancekit as lk; lk.dataset(uri).count_rows()",
    "filter": "import lancekit as lk; lk.dataset(uri).to_table(filter='id = 5')",
    "card": "import lancekit as lk; lk.dataset(uri)._repr_mimebundle_()",
}

_PROGRAM = """
import sys
before, uri = set(sys.modules), sys.argv[1]
exec(sys.argv[2])
loaded = sorted(set(sys.modules) - before)
import json, marshal, sysconfig
from pathlib import Path
ours = [name for name in loaded if name.partition(".")[0] == "lancekit"]
made = {
    value
    for name in ours
    for value in vars(sys.modules[name]).values()
    if isinstance(value, type) and "__dataclass_fields__" in vars(value)
    if value.__module__.partition(".")[0] == "lancekit"
}
codes = [sys.modules[name].__spec__.loader.get_code(name) for name in ours]
site = [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")]
files = {name: getattr(sys.modules.get(name), "__file__", None) for name in loaded}
others = {
    name.partition(".")[0]
    for name, file in files.items()
    if file and any(folder in Path(file).parents for folder in site)
}
print(json.dumps({
    "modules": ours,
    "dataclasses": len(made),
    "bytecode": sum(len(marshal.dumps(code)) + 16 for code in codes),
    "packages": sorted(others - {"lancekit"}),
    "parts": [name for name in ("pandas", "pyarrow.compute", "pyarrow.dataset") if name in loaded],
}))
"""


@dataclass(frozen=True)
class Loaded:
    """What a process has loaded.

    `bytecode` is in bytes, `parts` are the slow packages and modules of Arrow among the loaded.
    """

    modules: frozenset[str]
    dataclasses: int
    bytecode: int
    packages: frozenset[str]
    parts: frozenset[str]


def make_table(folder: Path) -> str:
    """Write 1,000 rows in four fragments, and return where they are."""
    uri = str(folder / "cold.lance")
    rows = pa.table(
        {"id": pa.array(range(1000), pa.int64()), "name": [f"n{i}" for i in range(1000)]}
    )
    lk.write_dataset(rows, uri, max_rows_per_file=250)
    return uri


def loaded(call: str, uri: str) -> Loaded:
    """Make one of the `CALLS` in a fresh process."""
    command = [sys.executable, "-c", _PROGRAM, uri, CALLS[call]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return Loaded(
        frozenset(found["modules"]),
        found["dataclasses"],
        found["bytecode"],
        frozenset(found["packages"]),
        frozenset(found["parts"]),
    )


def listed() -> dict[str, set[str]]:
    """Return the modules that the list has for each call; those of the import are listed once."""
    found: dict[str, set[str]] = {}
    for line in LISTED.read_text().splitlines():
        if line.startswith("["):
            name = line.strip("[]")
            found[name] = set(found.get("import", ()))
        elif line and not line.startswith("#"):
            found[name].add(line)
    return found


def written(found: dict[str, Loaded]) -> str:
    """Return the list."""
    lines = ["# modules that `import lancekit` loads, and those that a first call loads besides"]
    for call, each in found.items():
        before = found["import"].modules if call != "import" else frozenset()
        lines += ["", f"[{call}]", *sorted(each.modules - before)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print what each call loads, and write the list."""
    with tempfile.TemporaryDirectory() as folder:
        uri = make_table(Path(folder))
        found = {call: loaded(call, uri) for call in CALLS}
    for call, each in found.items():
        print(
            f"{call:<8}{len(each.modules):>5} modules{each.dataclasses:>5} dataclasses"
            f"{each.bytecode / 1e6:>8.2f} MB  {' '.join(sorted(each.packages | each.parts))}"
        )
    LISTED.write_text(written(found))


if __name__ == "__main__":
    main()

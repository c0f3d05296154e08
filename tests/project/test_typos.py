"""Type checkers report typos: names of attributes, options and values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LINES = {
    'lk.options.engine = "sprak"': "assignment",
    'lk.options.engin = "spark"': "attr-defined",
    'lk.write_dataset({}, "x", mode="apend")': "arg-type",
    'ds.create_scalar_index("a", "BTRE")': "arg-type",
    "ds.histry()": "attr-defined",
    'lk.datset("x")': "attr-defined",
    'ds.merge_insert(dedupe="newest")': "arg-type",
    'ds.branches.merge("x", conflicts="our")': "call-overload",
    "ds.tags.crate('x')": "attr-defined",
}


def test_a_typo_is_reported(tmp_path: Path) -> None:
    program = ["import lancekit as lk", 'ds = lk.dataset("x")', *LINES]
    (tmp_path / "typos.py").write_text("\n".join(program))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-color-output", str(tmp_path / "typos.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    for number, (line, code) in enumerate(LINES.items(), 3):
        found = [one for one in done.stdout.splitlines() if f"typos.py:{number}: error" in one]
        assert any(code in one for one in found), (line, done.stdout, done.stderr)

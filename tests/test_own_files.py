"""What killed processes left in the temporary folder is swept, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lancekit import _own_files as own_files

LEAVE = """
import os
from lancekit._own_files import new_file, new_folder
print(new_folder("source")); print(new_file("spark", ".log"), flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_files_of_killed_processes_go(temporary: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", LEAVE], capture_output=True, text=True, check=False
    )
    folder, file = map(Path, killed.stdout.split())
    (folder / "0.arrow").write_bytes(b"x")
    assert folder.is_dir()
    assert file.is_file()
    own_files.sweep()
    assert list(temporary.iterdir()) == []


def test_files_of_others_stay(temporary: Path) -> None:
    mine = own_files.new_folder("source")
    parent = temporary / f"lancekit-source-{os.getppid()}-{own_files._namespace()}-abc"
    elsewhere = temporary / f"lancekit-source-4194999-{own_files._namespace() + 1}-abc"
    others = [temporary / name for name in ("lancekit-source-abc", "lancekit-spark-1-x.log", "x")]
    for path in (parent, elsewhere, *others):
        path.mkdir()
    own_files.sweep()
    assert {*temporary.iterdir()} == {mine, parent, elsewhere, *others}


def test_what_links_lead_to_stays(
    temporary: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "kept").write_text("x")
    link = temporary / f"lancekit-source-4194999-{own_files._namespace()}-abc"
    link.symlink_to(outside)
    own_files.sweep()
    assert not link.is_symlink()
    assert (outside / "kept").is_file()

"""Many writers of both libraries on one table, and writers that are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._storage.places import open_store
from tests.support import pylance4 as pylance4_process
from tests.support.patience import WHOLE_SECONDS
from tests.support.s3 import S3Server
from tests.support.torture import OPERATIONS, check_history, read_logs, rows_of
from tests.support.torture_worker import rows

WORKER = Path(__file__).parents[1] / "support" / "torture_worker.py"
KILLER = "tests.support.torture_kills"


def start(side: str, job: dict[str, Any]) -> subprocess.Popen:
    python = str(pylance4_process.interpreter()) if side == "pylance 4" else sys.executable
    module = "lancekit" if side == "lancekit" else "lance"
    return subprocess.Popen(
        [python, str(WORKER), json.dumps(job | {"module": module})], stderr=subprocess.PIPE
    )


@pytest.fixture(params=["local", "s3"])
def place(request, tmp_path, s3: S3Server) -> tuple[str, dict[str, str] | None]:
    if request.param == "local":
        return str(tmp_path / "table"), None
    return f"s3://{s3.bucket}/{tmp_path.name}/table", s3.storage_options


def local_copy(folder: Path, uri: str, options: dict[str, str] | None) -> str:
    """Return a path to the table's files: 1,600 versions are read faster from a disk."""
    if options is None:
        return uri
    store = open_store(uri, options)
    for info in store.list_tree():
        path = folder / "copy" / info.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.read(info.name))
    return str(folder / "copy")


SIDES = ["lancekit", "pylance", "lancekit", "pylance 4"]


@pytest.mark.torture
def test_writers_leave_one_line_of_whole_changes(tmp_path, place, pylance4, whole: bool) -> None:
    uri, options = place
    lk.write_dataset(rows([], ""), uri, storage_options=options)
    started = []
    # in an object store two writers of both libraries, where a short run is asked for
    for who in range(1, 9 if whole else 5 if options is None else 3):
        job = {"uri": uri, "options": options, "operations": OPERATIONS}
        job |= {"who": who, "seed": who, "log": str(tmp_path / f"{who}.log")}
        job |= {"count": 200 if whole else 8}
        started.append(start(SIDES[who % 4], job))
    for process in started:
        _, said = process.communicate(timeout=WHOLE_SECONDS)
        assert process.returncode == 0, said.decode()
    logs = read_logs(tmp_path)
    print(check_history(local_copy(tmp_path, uri, options), logs), dict(logs.failures))
    ours = rows_of(lk.dataset(uri, storage_options=options))
    assert rows_of(lance.dataset(uri, storage_options=options)) == ours


@pytest.mark.torture
def test_killed_writers_lose_nothing(tmp_path, whole: bool) -> None:
    """Never a table that does not open, never a committed row that is gone."""
    uri = str(tmp_path / "table")
    lk.write_dataset(rows([], ""), uri)
    operations = {name: OPERATIONS[name] for name in OPERATIONS if name != "tag"}
    job = {"uri": uri, "options": None, "log": str(tmp_path), "operations": operations}
    several, each = (5, 100) if whole else (2, 8)
    started = [
        subprocess.Popen(
            [sys.executable, "-m", KILLER, json.dumps(job), str(1 + n * each), str(each)],
            cwd=Path(__file__).parents[2],
            stderr=subprocess.PIPE,
        )
        for n in range(several)
    ]
    theirs = {"who": 9000, "seed": 1, "count": 20 * each // 14, "log": str(tmp_path / "theirs.log")}
    started.append(start("pylance", job | theirs))
    for process in started:
        _, said = process.communicate(timeout=WHOLE_SECONDS)
        assert process.returncode == 0, said.decode()
    logs = read_logs(tmp_path)
    print(check_history(uri, logs), dict(logs.failures))
    assert len(list(tmp_path.glob("*.log"))) == several * each + 1
    # the next writers of both libraries are not disturbed by what was left behind
    before = rows_of(lk.dataset(uri))
    lance.write_dataset(rows([-1], "theirs"), uri, mode="append")
    lk.write_dataset(rows([-2], "ours"), uri, mode="append")
    after = rows_of(lance.dataset(uri))
    assert after == before | {-1: "theirs", -2: "ours"}

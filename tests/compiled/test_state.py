"""When kernels are loaded and compiled: counted in work, not in time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import lancekit as lk
from lancekit._compiled import state, store
from lancekit._hooks import hooks
from lancekit.options import options


@pytest.fixture
def process(kernels: object, monkeypatch: pytest.MonkeyPatch) -> state.Process:
    """A process that has done no work yet."""
    fresh = state.Process()
    monkeypatch.setattr(state, "process", fresh)
    return fresh


def test_kernels_are_loaded_when_that_has_been_lost_without_them(process: state.Process) -> None:
    with options(kernels=False):
        assert state.wanted(10 * state.LOAD) is None
    assert state.wanted(0.6 * state.LOAD) is None
    assert state.wanted(0.6 * state.LOAD) is process.code is not None
    assert state.wanted(0) is process.code
    with options(kernels=False):
        assert state.wanted(0) is None


def test_who_warms_up_has_them_at_once(process: state.Process) -> None:
    lk.warm_up(spark=False)
    assert process.lost == 0
    assert state.wanted(0) is process.code is not None


def test_work_compiles_in_the_background_once(
    process: state.Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hooks, "kernels", ("lancekit._file.kernels.fsst_decode",))
    assert state.wanted(2 * state.LOAD) is None
    assert not store.file_of_kernels().parent.exists()
    assert state.wanted(state.BUILD) is None
    (thread,) = [one for one in threading.enumerate() if one.name == "lancekit-kernels"]
    assert not process.may_build
    assert state.wanted(state.BUILD) is None
    thread.join()
    assert state.wanted(0) is not None


def test_where_nothing_can_be_written_nothing_is_said(
    process: state.Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert state.wanted(state.BUILD) is None
    for thread in threading.enumerate():
        if thread.name == "lancekit-kernels":
            thread.join()
    assert state.wanted(10 * state.BUILD) is None
    assert not process.may_build


def test_without_numba_nothing_is_looked_for_again(
    process: state.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.sys.modules, "numba", None)  # type: ignore[attr-defined]
    assert state.wanted(state.BUILD) is None
    assert process.next_attempt == float("inf")


def test_others_compile_for_workers(process: state.Process, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    state.compile_nothing()
    assert state.wanted(state.BUILD) is None
    assert not (tmp_path / "cache").exists()


def test_a_fork_uses_what_is_loaded_and_compiles_nothing(process: state.Process) -> None:
    process.lock.acquire()  # another thread may hold it when the process forks
    child = os.fork()
    if child == 0:
        loaded = state.wanted(state.BUILD) is not None
        os._exit(0 if loaded and not process.may_build else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert process.code is None
    assert process.may_build

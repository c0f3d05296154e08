"""The file of compiled kernels: made once, by one process, and loaded only if it is this user's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lancekit as lk
from lancekit._compiled import store
from lancekit._hooks import hooks
from lancekit._machine import links_quickly
from lancekit._own_files import cache_folder
from lancekit.errors import NotOfferedError

#: decodes a page of codes, and says what was loaded for it
PROGRAM = """
import sys
import numpy as np
import lancekit
assert not {"numba", "llvmlite"} & sys.modules.keys()
from lancekit._compiled import state
from lancekit._file.kernels.fsst_decode import symbol_table
from lancekit._file.kernels.fsst_encode import train
from lancekit._file.kernels.values import Variable
state.process = state.Process(next_attempt=0, lost=float(sys.argv[1]))
offsets = np.arange(0, 4001, 4)
data = np.tile(np.frombuffer(b"spam", np.uint8), 1000)
encoder = train(data, offsets)
codes, borders = encoder.encode(data, offsets)
decoded = symbol_table(encoder.table()).decode(Variable(borders, codes))
assert decoded.data.tobytes() == data.tobytes()
print(state.process.code is not None, sorted({"numba", "llvmlite"} & sys.modules.keys()))
"""


@pytest.fixture
def made(kernels: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the file of kernels, in a cache folder of its own."""
    there = store.file_of_kernels()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mine = store.file_of_kernels()
    assert mine.is_relative_to(cache_folder())
    mine.parent.parent.mkdir(parents=True)
    mine.parent.mkdir(mode=0o700)
    shutil.copy(there, mine)
    return mine


def _decode(*, lost: float = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(lost)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_the_process_that_works_loads_what_another_compiled(made: Path) -> None:
    before = made.stat()
    assert _decode(lost=1e12) == f"True {[] if links_quickly() else ['llvmlite']}"
    assert [path.name for path in made.parent.iterdir()] == [made.name]
    assert made.stat() == before or made.stat().st_mtime_ns == before.st_mtime_ns


def _others_may_read_the_folder(made: Path) -> None:
    made.parent.chmod(0o750)


def _others_may_write_to_the_folder(made: Path) -> None:
    made.parent.chmod(0o770)


def _the_folder_is_a_link(made: Path) -> None:
    made.parent.rename(made.parent.with_name("elsewhere"))
    made.parent.symlink_to("elsewhere")


def _others_may_write_to_the_file(made: Path) -> None:
    made.chmod(0o620)


def _the_file_is_a_link(made: Path) -> None:
    made.rename(made.with_name("elsewhere"))
    made.symlink_to("elsewhere")


def _the_file_is_a_pipe(made: Path) -> None:
    made.unlink()
    os.mkfifo(made, 0o600)


def _the_file_is_cut(made: Path) -> None:
    os.truncate(made, made.stat().st_size // 2)


def _a_byte_is_another(made: Path) -> None:
    content = bytearray(made.read_bytes())
    content[len(content) // 2] ^= 1
    made.write_bytes(content)


@pytest.mark.parametrize(
    "spoil",
    [
        _others_may_read_the_folder,
        _others_may_write_to_the_folder,
        _the_folder_is_a_link,
        _others_may_write_to_the_file,
        _the_file_is_a_link,
        _the_file_is_a_pipe,
        _the_file_is_cut,
        _a_byte_is_another,
    ],
)
def test_what_others_may_have_changed_is_not_loaded(made: Path, spoil) -> None:
    assert store.load() is not None
    spoil(made)
    assert store.load() is None


def test_a_process_works_without_what_others_may_have_changed(made: Path) -> None:
    _the_file_is_cut(made)
    assert _decode().startswith("False")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("whose", ["folder", "file"])
def test_what_belongs_to_another_is_not_loaded(made: Path, whose: str) -> None:
    os.chown(made.parent if whose == "folder" else made, 65534, -1)
    assert store.load() is None


@pytest.fixture
def few(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where few kernels would be, which take less time to compile than all."""
    monkeypatch.setattr(hooks, "kernels", ("lancekit._file.kernels.fsst_decode",))
    there = store.file_of_kernels()
    there.unlink(missing_ok=True)
    return there


def test_kernels_are_compiled_once(few: Path) -> None:
    """Again only if that is asked for; without Java, and whatever Numba's variables say."""
    assert lk.warm_up(spark=False) == (few, None)
    before = few.stat().st_ino
    assert lk.warm_up(kernels=True, spark=False).kernels == few
    assert few.stat().st_ino == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "1")
        assert lk.warm_up(spark=False, again=True).kernels == few
    assert few.stat().st_ino != before
    assert store.load() is not None
    assert lk.warm_up(kernels=False, spark=False) == (None, None)


def test_a_folder_of_another_kind_is_said_to_who_asked(few: Path) -> None:
    few.parent.chmod(0o777)
    with pytest.warns(UserWarning, match="can be changed by others; remove it"):
        assert lk.warm_up(spark=False) == (None, None)
    assert not store.build()


def test_one_process_compiles(few: Path) -> None:
    """Who does it in the background leaves it to another; who was asked to waits."""
    with store.locked(few, wait=True):
        assert not store.build()
        waiting = threading.Thread(target=store.build, kwargs={"wait": True})
        waiting.start()
        assert waiting.is_alive()
        assert not few.exists()
    waiting.join()
    assert few.exists()


def test_without_numba_it_is_an_error_only_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # as if it were not there
    assert lk.warm_up(spark=False) == (None, None)
    with pytest.raises(NotOfferedError, match="Numba, which is not installed") as caught:
        lk.warm_up(kernels=True, spark=False)
    assert 'pip install "numba>=0.61"' in str(caught.value)

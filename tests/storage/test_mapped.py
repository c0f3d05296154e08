"""Files that are mapped into memory: their bytes, and what of them a process holds."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from lancekit._storage.mapped import MappedFile, release_memory

MIB = 1 << 20
MAPS = Path("/proc/self/smaps")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(np.arange(8 * MIB, dtype=np.int64).tobytes())
    return path


def held(path: Path) -> int:
    """Return how many bytes of a file this process holds."""
    # of each mapping its line, and lines of numbers below
    found = re.findall(rf" {re.escape(str(path))}\n(?:\w+: .*\n)*?Rss: +(\d+) kB", MAPS.read_text())
    assert found
    return sum(map(int, found)) * 1024


def test_what_was_let_go_of_is_there_again(large: Path) -> None:
    file = MappedFile(str(large))
    whole = file.read(0, file.size())
    expected = large.read_bytes()
    assert whole == expected
    for start, length in ((0, file.size()), (5, 3 * MIB), (4096, 4096), (7, 100), (4095, 4097)):
        release_memory(file.read(start, length))
    assert whole == expected


@pytest.mark.skipif(not MAPS.exists(), reason="asks Linux")
def test_a_file_that_is_read_piece_by_piece_is_not_held_as_a_whole(large: Path) -> None:
    file = MappedFile(str(large))
    before, most, total = held(large), 0, 0
    for start in range(0, file.size(), 2 * MIB):
        total += int(np.frombuffer(file.read(start, 2 * MIB), np.int64).sum())
        most = max(most, held(large) - before)
    assert total == sum(range(8 * MIB))
    assert most < 16 * MIB


@pytest.mark.skipif(not MAPS.exists(), reason="asks Linux")
def test_ranges_that_are_looked_at_here_and_there_stay(large: Path) -> None:
    file = MappedFile(str(large))
    before = held(large)
    for start in range(0, file.size(), 8 * MIB):
        (part,) = file.read_many([(start, 8 * MIB)])
        assert np.frombuffer(part, np.int64).sum() > 0
    assert held(large) - before > 48 * MIB


def test_threads_read_what_the_others_let_go_of(large: Path) -> None:
    file = MappedFile(str(large))

    def check(first: int) -> None:
        for start in range(first, file.size(), 3 * MIB):
            length = min(3 * MIB, file.size() - start) // 8 * 8
            numbers = np.frombuffer(file.read(start, length), np.int64)
            assert (numbers == np.arange(start // 8, (start + length) // 8)).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, [0, 8, 8 * MIB, 0, 16, 24 * MIB]))

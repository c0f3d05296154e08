"""Each file of write-ahead logs is damaged in turn: an error names it, and one call helps."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import LOGS, position
from lancekit._operations.mem_wal.reader import sources
from lancekit.errors import LancekitError

#: so many tests try the damages, and so many each of its fifty; all of them with ``--whole``
_PARTS, _TRIED = 8, 3
SEED = int(os.environ.get("LANCEKIT_TEST_SEED", "7"))


def _flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "deleted": lambda _data, _rng: None,
    "cut": lambda data, rng: data[: rng.randrange(len(data))],
    "flipped": _flipped,
    "zeroed": lambda data, _rng: bytes(len(data)),
    "zeroed to the end": lambda data, _rng: data[: len(data) // 2].ljust(len(data), b"\0"),
}


def rows(*ids: int, sign: int = 1) -> dict[str, list[int]]:
    return {"id": list(ids), "v": [sign * number for number in ids]}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a table with two shards, merged and waiting generations, logs and a quarantine."""
    path = tmp_path_factory.mktemp("sweep") / "t"
    ds = lk.write_dataset(rows(0), path, primary_key="id")
    ds.initialize_mem_wal(bucket_column="id", num_buckets=2)
    ds.mem_wal_upsert(rows(1, 2, 3, 4), flush=True)
    ds.merge_mem_wal()
    ds.mem_wal_upsert(rows(10, 11, 12, sign=-1), flush=True)
    ds.constraints.add("positive", "v >= 0 or id = 12")
    ds.merge_mem_wal(on_error="quarantine")
    ds.mem_wal_upsert(rows(20, 21, 22, 23, 20), flush=True)
    ds.mem_wal_upsert(rows(30, 31, 32, 33))
    return path


def read(path: Path) -> Any:
    return sorted(lk.dataset(path).to_table(include_mem_wal=True)["id"].to_pylist())


def kept(path: Path) -> Any:
    return sorted(lk.dataset(path).mem_wal_quarantine().to_table()["id"].to_pylist())


def _or_error(call: Callable[[Path], Any], path: Path) -> Any:
    try:
        return call(path)
    except LancekitError as error:
        return error


def _is_newest_entry(file: Path) -> bool:
    """Tell whether nothing tells of an entry but the entry: it is the last one of its log."""
    if file.suffix != ".arrow":
        return False
    return max(file.parent.iterdir(), key=lambda one: position(one.name)) == file


@pytest.mark.torture
@pytest.mark.parametrize("part", range(_PARTS))
def test_every_damage_has_a_way_out_that_is_one_call(
    saved: Path, tmp_path: Path, part: int, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_PAUSE_SECONDS", 0)
    warnings.simplefilter("ignore")  # about torn entries
    rng = random.Random(f"{SEED} {part}")
    files = sorted(file.relative_to(saved) for file in (saved / LOGS).rglob("*") if file.is_file())
    cases = [(file, name) for file in files for name in DAMAGES][part::_PARTS]
    expected, in_quarantine = read(saved), kept(saved)
    for file, name in cases if whole else rng.sample(cases, _TRIED):
        case, path = f"{file} {name}", tmp_path / "t"
        shutil.copytree(saved, path)
        data = DAMAGES[name]((saved / file).read_bytes(), rng)
        (path / file).unlink() if data is None else (path / file).write_bytes(data)
        for call, right in ((read, expected), (kept, in_quarantine)):
            found = _or_error(call, path)
            if isinstance(found, LancekitError):
                assert LOGS in str(found), (case, found)
                assert "ds.repair_mem_wal()" in found.hint, (case, found)
            else:
                assert found == right or _is_newest_entry(saved / file), case
        ds = lk.dataset(path)
        done = ds.repair_mem_wal()
        lost = {*expected, *in_quarantine} - {*read(path), *kept(path)}
        is_told = any(one.rows != 0 for one in done)
        assert not lost or is_told or _is_newest_entry(saved / file), case
        ds.mem_wal_upsert(rows(77, 78))
        ds.merge_mem_wal(flush=True)
        assert {77, 78, *expected} - lost <= set(ds.to_table()["id"].to_pylist()), case
        assert ds.repair_mem_wal() == [], case
        ds.cleanup_mem_wal()
        shutil.rmtree(path)

"""What tells kinds of processors apart."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lancekit._compiled import store

TOLD = """processor : {number}
vendor_id : Some
flags : fpu {flag}
cpu MHz : {speed}

processor : 1
flags : fpu others
"""


def _told(tmp_path: Path, **facts: object) -> list[str]:
    (tmp_path / "cpuinfo").write_text(TOLD.format(**facts))
    return store._processor()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_it_is_its_features_and_not_its_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setattr(store, "_CPUINFO", tmp_path / "cpuinfo")
    first = _told(tmp_path, number=0, flag="avx2", speed=2300)
    assert first == _told(tmp_path, number=3, flag="avx2", speed=1200)
    assert first != _told(tmp_path, number=0, flag="avx512f", speed=2300)
    assert not any("others" in line for line in first)


def test_where_nothing_is_told_llvmlite_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(store, "_CPUINFO", Path("/nowhere/cpuinfo"))
    triple, name, features = store._processor()
    assert name
    assert "-" in triple
    assert all(part[:1] in "+-" for part in features.split(","))

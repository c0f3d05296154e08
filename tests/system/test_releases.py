"""Files of many releases of the reference, of every type in every pattern, and ours for them."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from tests.data.make_releases import HERE, KEPT
from tests.support.release_sweep import (
    Found,
    cases,
    differences,
    sweep_reading,
    sweep_writing,
    ways,
)
from tests.support.releases import NEWEST, OLDEST_KEPT, RELEASES, Release, interpreter

#: of all cases, in a short run
SHARE = 0.003

VERSIONS = ("2.0", "2.1", "2.2")


def _seed(whole: bool) -> int:
    return secrets.randbelow(2**31) if whole else 1


def _share(whole: bool) -> float:
    return 1.0 if whole else SHARE


def _judge(found: Found, version: str, note: str) -> None:
    print(f"{note}: {found}")
    assert not found.wrong, f"{note}: {found.wrong[:5]}"
    # 2.0 has no place for null structs, which releases up to 9 write as others without a word
    lost = [what for what in found.lost if "it reads the same" in what]
    known = ("struct", "packed") if version == "2.0" else ()
    assert all(any(name in what for name in known) for what in lost), f"{note}: {lost[:5]}"
    assert found.equal > 0


@pytest.mark.torture
@pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name, known in RELEASES.items() for version in known]
)
def test_reads_what_a_release_wrote(
    release: Callable[[str], Release], tmp_path: Path, whole: bool, name: str, version: str
) -> None:
    if not whole and name not in {NEWEST, OLDEST_KEPT}:
        pytest.skip("only in a whole run; small files of it are in tests/data")
    if interpreter(name) is None:
        pytest.skip(f"pylance {name} is not set up: run `make releases`")
    seed = _seed(whole)
    found = sweep_reading(release(name), version, tmp_path, cases(seed, share=_share(whole)))
    _judge(found, version, f"{name} {version}, seed {seed}")


@pytest.mark.torture
@pytest.mark.parametrize("version", VERSIONS)
def test_releases_read_what_we_wrote(
    release: Callable[[str], Release], tmp_path: Path, whole: bool, version: str
) -> None:
    names = [
        name
        for name, known in RELEASES.items()
        if version in known and interpreter(name) and (whole or name in {NEWEST, OLDEST_KEPT})
    ]
    seed = _seed(whole)
    readers = [release(name) for name in names]
    found = sweep_writing(readers, version, tmp_path, cases(seed, share=_share(whole)))
    for name, one in found.items():
        _judge(one, version, f"{name} reads {version}, seed {seed}")
        assert not one.unread or name not in {NEWEST, OLDEST_KEPT}, one.unread


@pytest.mark.parametrize("size", ["small", "long"])
@pytest.mark.parametrize("name", KEPT)
def test_reads_what_was_kept_of_a_release(tmp_path: Path, name: str, size: str) -> None:
    shutil.unpack_archive(HERE / f"{size}-{name}.tar.xz", tmp_path / "d")
    names = lk.dataset(tmp_path / "d").schema.names
    table = pa.ipc.open_file(HERE / f"{size}.arrow").read_all().select(names)
    for note, found, expected in ways(tmp_path / "d", table, 3):
        assert not differences(found, expected, f"{name}, {note}")

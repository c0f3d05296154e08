"""Files below one place: as the reference's session has it."""

from __future__ import annotations

import threading
from pathlib import Path

import lance.file
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._file.file_session import LanceFileSession, ListResult
from lancekit._storage.mapped import MappedFile
from lancekit.errors import InvalidArgumentError, NotFoundError, StorageError

ROWS = pa.table({"n": [1, 2, None]})


@pytest.fixture
def session(tmp_path: Path) -> LanceFileSession:
    session = LanceFileSession(tmp_path / "files")
    for name in ("top.lance", "a/b/one.lance", "a/two.lance"):
        with session.open_writer(name, version="2.1") as writer:
            writer.write_batch(ROWS)
    return session


def test_answers_are_the_references(session: LanceFileSession, tmp_path: Path) -> None:
    theirs = lance.file.LanceFileSession(str(tmp_path / "files"))
    for folder in (None, "a", "a/", "a/b", "none", "none/"):
        assert session.list(folder) == sorted(theirs.list(folder))
        ours, other = session.list_with_delimiter(folder), theirs.list_with_delimiter(folder)
        assert ours == ListResult(sorted(other.common_prefixes), sorted(other.objects))
    for name in ("a", "top.lance", "none"):
        assert session.contains(name) == theirs.contains(name)
    assert session.read_range("top.lance", 2, 5) == theirs.read_range("top.lance", 2, 5)
    assert theirs.open_reader("a/two.lance").read_all().to_table() == ROWS
    assert session.open_reader("a/two.lance", ["n"]).read_all().to_table() == ROWS
    assert repr(session) == f"LanceFileSession('{tmp_path}/files')"


def test_files_are_copied_and_removed(session: LanceFileSession, tmp_path: Path) -> None:
    session.download_file("top.lance", tmp_path / "here.lance")
    session.upload_file(tmp_path / "here.lance", "up/again.lance")
    assert session.open_reader("up/again.lance").num_rows() == 3
    session.delete_file("up/again.lance")
    assert not session.contains("up/again.lance")
    with pytest.raises(NotFoundError, match=r"'up/again.lance' was not found"):
        session.delete_file("up/again.lance")
    with pytest.raises(NotFoundError, match="'none' was not found"):
        session.download_file("none", tmp_path / "none")
    with pytest.raises(NotFoundError, match="'none' was not found"):
        session.read_range("none", 0, 1)
    with pytest.raises(StorageError, match="cannot be written"):
        session.download_file("top.lance", tmp_path / "no" / "folder")
    with pytest.raises(StorageError, match="cannot be read"):
        session.upload_file(tmp_path / "none", "x")
    for start, length in ((-1, 4), (0, 1 << 30), (0, -1)):
        with pytest.raises(InvalidArgumentError, match="outside of the file's"):
            session.read_range("top.lance", start, length)
    with pytest.raises(InvalidArgumentError, match="not a valid name in a store"):
        session.open_writer("../x.lance")


def test_which_of_two_files_failed_is_said(
    session: LanceFileSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise StorageError("the network is gone.")

    monkeypatch.setattr(MappedFile, "read", fails)
    with pytest.raises(StorageError, match=r"^the network is gone"):
        session.download_file("top.lance", tmp_path / "here.lance")


def test_a_dataset_gives_one_for_its_folder(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    (data,) = ds.new_file_session().list("data")
    assert ds.new_file_session().open_reader(data).num_rows() == 3


def test_threads_share_a_writer(tmp_path: Path) -> None:
    tables = [pa.table({"thread": [n] * 50, "value": range(50)}) for n in range(8)]
    with lk.file.LanceFileWriter(tmp_path / "t.lance", tables[0].schema) as writer:
        threads = [
            threading.Thread(target=lambda table=table: [*map(writer.write_batch, [table] * 5)])
            for table in tables
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = lk.file.LanceFileReader(tmp_path / "t.lance").read_all().to_table()
    blocks = [rows.slice(start, 50).combine_chunks() for start in range(0, 2000, 50)]
    assert all(block.equals(tables[block["thread"][0].as_py()]) for block in blocks)

"""Where a merge-insert writes new rows, and in which format: as in pylance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError, InvalidTypeError, RetriesExhaustedError

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]})
SOURCE = pa.table({"id": pa.array([3, 4], pa.int64()), "v": ["C", "D"]})

Set = Callable[[Any, str], Any]


def table(module: Any, path: Path, **options: Any) -> Any:
    for name in ("p", "q"):
        (path / name).mkdir(parents=True)
    kind = module.DatasetBasePath
    bases = [kind(str(path / "p"), "p"), kind(str(path / "q"), "q", is_dataset_root=True)]
    options = {"initial_bases": bases, **options}
    return module.write_dataset(ROWS, str(path / "t"), **options)


def merge(ds: Any) -> Any:
    return ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()


def files(ds: Any) -> list[tuple[int | None, int, int]]:
    found = [file for fragment in ds.get_fragments() for file in fragment.metadata.files]
    return [(f.base_id, f.file_major_version, f.file_minor_version) for f in found]


CHOICES: dict[str, Set] = {
    "none": lambda m, uri: m,
    "a name": lambda m, uri: m.target_bases(["p"]),
    "a root": lambda m, uri: m.target_bases(["q", "p"]),
    "a path": lambda m, uri: m.target_bases([uri.removesuffix("/t") + "/q"]),
    "its own first": lambda m, uri: m.target_bases([uri, "p"]),
    "its own second": lambda m, uri: m.target_bases(["p", uri]),
    "the last call counts": lambda m, uri: m.target_bases(["q"]).target_bases(["p"]),
    "all": lambda m, uri: m.target_all_bases(),
    "all others": lambda m, uri: m.target_all_bases(False),
    "its format": lambda m, uri: m.data_storage_version("2.2").target_bases(["p"]),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_new_rows_are_where_pylance_puts_them(tmp_path: Path, choice: str) -> None:
    seen = []
    for module in (lance, lk):
        ds = table(module, tmp_path / module.__name__)
        CHOICES[choice](merge(ds), ds.uri).execute(SOURCE)
        seen.append((files(ds), ds.to_table().sort_by("id")))
    assert seen[0] == seen[1]
    theirs = lance.dataset(str(tmp_path / "lancekit" / "t"))
    assert theirs.to_table().sort_by("id") == seen[1][1]
    theirs.validate()


REFUSED: dict[str, Set] = {
    "no such base": lambda m, uri: m.target_bases(["zz"]),
    "no names": lambda m, uri: m.target_bases([]),
    "all and some": lambda m, uri: m.target_all_bases().target_bases(["p"]),
    "some and all": lambda m, uri: m.target_bases(["p"]).target_all_bases(),
    "a text": lambda m, uri: m.target_bases("p"),
    "no such format": lambda m, uri: m.data_storage_version("9.9"),
    "an old format": lambda m, uri: m.data_storage_version("0.1"),
}


@pytest.mark.parametrize("choice", REFUSED)
def test_both_libraries_refuse(tmp_path: Path, choice: str) -> None:
    for module, error in ((lance, Exception), (lk, (InvalidArgumentError, InvalidTypeError))):
        ds = table(module, tmp_path / module.__name__)
        with pytest.raises(error):
            REFUSED[choice](merge(ds), ds.uri).execute(SOURCE)
        assert ds.version == 1


def test_without_bases_there_is_the_folder_alone(tmp_path: Path) -> None:
    for module in (lance, lk):
        ds = table(module, tmp_path / module.__name__, initial_bases=None)
        merge(ds).target_all_bases().execute(SOURCE)
        assert [base for base, _, _ in files(ds)] == [None, None]
        with pytest.raises((OSError, InvalidArgumentError), match="base"):
            merge(ds).target_all_bases(include_primary=False).execute(SOURCE)


def test_bases_that_came_later_count(tmp_path: Path) -> None:
    ds = table(lk, tmp_path)
    builder = merge(ds).target_all_bases(False)
    (tmp_path / "r").mkdir()
    ds.add_bases([lk.DatasetBasePath(str(tmp_path / "r"), "r")])
    builder.target_all_bases(True)._with_files(every=False, bases=("r",)).execute(SOURCE)
    assert files(ds)[-1][0] == 3


@pytest.mark.parametrize("step", ["preview", "uncommitted"])
def test_every_way_of_merging_uses_them(tmp_path: Path, step: str) -> None:
    ds = table(lk, tmp_path)
    builder = merge(ds).target_bases(["q"])
    if step == "preview":
        builder.preview(SOURCE).apply()
    else:
        transaction, _ = builder.execute_uncommitted(SOURCE)
        ds = lk.LanceDataset.commit(ds, transaction)
    assert [base for base, _, _ in files(ds)] == [None, 2]
    assert lance.dataset(ds.uri).count_rows() == 4


def test_columns_that_are_written_anew_stay_at_home(tmp_path: Path) -> None:
    seen = []
    for module in (lance, lk):
        ds = table(module, tmp_path / module.__name__)
        ds.add_columns({"w": "id + 1"})
        update = ds.merge_insert("id").when_matched_update_all().target_bases(["p"])
        update.write_mode("rewrite_columns").execute(SOURCE)
        seen.append([base for base, _, _ in files(ds)])
    assert set(seen[0]) == set(seen[1]) == {None}


def test_nothing_stays_in_a_base_of_a_merge_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = table(lk, tmp_path)
    written: list[list[Path]] = []

    def lost(*_: Any) -> Any:
        written.append(list((tmp_path / "p").rglob("*.lance")))
        raise RetriesExhaustedError("lost", attempts=1)

    monkeypatch.setattr("lancekit._operations.merge_insert.commit", lost)
    with pytest.raises(RetriesExhaustedError):
        merge(ds).target_bases(["p"]).execute(SOURCE)
    assert [len(files) for files in written] == [1]
    assert list((tmp_path / "p").rglob("*.lance")) == []


# ---- the format


def test_another_format_is_refused_before_any_work(tmp_path: Path) -> None:
    ds = table(lk, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidArgumentError, match=r"Files of format 2\.0 cannot be added"):
        merge(ds).data_storage_version("2.0").execute(SOURCE)
    with pytest.raises(InvalidArgumentError, match=r"Files of format 2\.0 cannot be added"):
        ds.update({"v": "'x'"}, data_storage_version="2.0")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_table_of_mixed_formats_takes_another(tmp_path: Path) -> None:
    uri = str(tmp_path / "mixed")
    lance.write_dataset(ROWS, uri, data_storage_version="2.1")
    fragment = lance.fragment.LanceFragment.create(
        uri, pa.table({"id": pa.array([9], pa.int64()), "v": ["z"]}), data_storage_version="2.2"
    )
    lance.LanceDataset.commit(uri, lance.LanceOperation.Append([fragment]), read_version=1)
    ds = lk.dataset(uri)
    merge(ds).data_storage_version("2.2").execute(SOURCE)
    assert [minor for _, _, minor in files(ds)] == [1, 2, 2]
    theirs = lance.dataset(uri)
    merge(theirs).data_storage_version("2.0").execute(SOURCE)
    assert theirs.to_table().sort_by("id") == lk.dataset(uri).to_table().sort_by("id")

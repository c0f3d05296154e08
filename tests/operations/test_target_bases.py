"""New data files in other base paths: where pylance puts them, and gone if they do not land."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api.fragment import write_fragments
from lancekit.errors import DatasetExistsError, InvalidArgumentError, SchemaMismatchError

ROWS = pa.table({"x": pa.array(range(12), pa.int64())})


def bases(module: Any, path: Path) -> list[Any]:
    for name in ("p", "q"):
        (path / name).mkdir(parents=True, exist_ok=True)
    kind = module.DatasetBasePath
    return [kind(str(path / "p"), "p"), kind(str(path / "q"), "q", is_dataset_root=True)]


def places(ds: Any) -> list[tuple[int | None, int]]:
    return [(f.data_files()[0].base_id, f.count_rows()) for f in ds.get_fragments()]


def files(path: Path) -> list[str]:
    return sorted(str(f.parent.relative_to(path)) for f in path.rglob("*.lance"))


def written(module: Any, path: Path) -> list[Any]:
    uri = str(path / "t")
    write = module.write_dataset
    ds = write(
        ROWS,
        uri,
        max_rows_per_file=3,
        initial_bases=bases(module, path),
        target_bases=["p", "q"],
    )
    seen: list[Any] = [places(ds)]
    steps: list[dict[str, Any]] = [
        {"mode": "append", "target_bases": ["q"], "max_rows_per_file": 6},
        {"mode": "append", "target_bases": [str(path / "p")]},
        {"mode": "append", "target_all_bases": True, "max_rows_per_file": 3},
        {"mode": "append"},
        {"mode": "overwrite", "target_bases": ["p"], "max_rows_per_file": 6},
    ]
    for step in steps:
        ds = write(ROWS, uri, **step)
        seen.append([places(ds), files(path), ds.count_rows(), ds.to_table()["x"].to_pylist()])
    return seen


def test_files_are_where_pylance_puts_them(tmp_path: Path) -> None:
    theirs, ours = written(lance, tmp_path / "theirs"), written(lk, tmp_path / "ours")
    assert ours == theirs
    read = cast(Any, lance).dataset(str(tmp_path / "ours" / "t"))
    assert read.to_table() == lk.dataset(tmp_path / "ours" / "t").to_table()
    read.validate()


def test_rows_elsewhere_can_be_changed(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    options: Any = {"initial_bases": bases(lk, tmp_path), "target_bases": ["p", "q"]}
    ds = lk.write_dataset(ROWS, uri, max_rows_per_file=3, **options)
    ds.delete("x % 5 = 0")
    ds.update({"x": "x + 100"}, where="x = 4")
    ds.add_columns({"y": "x * 2"})
    ds.optimize.compact_files()
    ds.validate(deep=True)
    expected = [1, 2, 3, 6, 7, 8, 9, 11, 104]
    assert sorted(ds.to_table()["x"].to_pylist()) == expected
    assert sorted(cast(Any, lance).dataset(uri).to_table()["x"].to_pylist()) == expected


def test_bases_of_a_new_dataset_without_a_target(tmp_path: Path) -> None:
    for module in (lance, lk):
        path = tmp_path / module.__name__
        ds = cast(Any, module).write_dataset(ROWS, str(path / "t"), target_all_bases=True)
        assert places(ds) == [(None, 12)]
        ds = cast(Any, module).write_dataset(
            ROWS,
            str(path / "u"),
            initial_bases=bases(module, path),
            target_all_bases=True,
            max_rows_per_file=4,
        )
        assert places(ds) == [(None, 4), (1, 4), (2, 4)]
        assert lk.dataset(path / "u").to_table() == ROWS


def test_fragments_for_a_later_commit(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    options: Any = {"initial_bases": bases(lk, tmp_path), "target_bases": ["p"]}
    change = write_fragments(ROWS, uri, mode="create", return_transaction=True, **options)
    ds = lk.LanceDataset.commit(uri, cast(Any, change))
    assert places(ds) == [(1, 12)]
    more = write_fragments(ROWS, ds, target_bases=["q"])
    ds = lk.LanceDataset.commit(ds, lk.LanceOperation.Append(cast(Any, more)), read_version=1)
    assert places(ds) == [(1, 12), (2, 12)]
    assert cast(Any, lance).dataset(uri).count_rows() == 24


def test_what_does_not_land_is_removed(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    options: Any = {"initial_bases": bases(lk, tmp_path), "target_bases": ["p", "q"]}
    lk.write_dataset(ROWS, uri, **options)
    before = files(tmp_path)

    def bad() -> Any:
        yield pa.record_batch({"x": [1, 2, 3]})
        raise SchemaMismatchError("no more")

    reader = pa.RecordBatchReader.from_batches(ROWS.schema, bad())
    with pytest.raises((SchemaMismatchError, pa.ArrowException, OSError, RuntimeError)):
        lk.write_dataset(reader, uri, mode="append", target_bases=["p", "q"], max_rows_per_file=1)
    with pytest.raises(DatasetExistsError):
        lk.write_dataset(ROWS, uri, **options)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"target_bases": ["zz"]}, "Base path 'zz' was not found"),
        ({"target_bases": ["p"], "target_all_bases": True}, "one of the two"),
        ({"initial_bases": [lk.DatasetBasePath("/s", "s")]}, "new dataset"),
        ({"target_bases": "p"}, "target_bases must be .* got 'p'"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    uri = str(tmp_path / "t")
    lk.write_dataset(ROWS, uri, initial_bases=bases(lk, tmp_path))
    for mode in ("append", "overwrite"):
        with pytest.raises((InvalidArgumentError, TypeError), match=named):
            lk.write_dataset(ROWS, uri, mode=mode, **options)
    assert len(files(tmp_path)) == 1

"""Tables whose row ids and row versions pylance 14 keeps in columns of data files (flag 2048).

Each story is told twice, of a table with such columns and of one without: rows keep the same ids
and versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.fragment import Fragment, FragmentList
from lancekit._format.manifest import encode_manifest_file
from lancekit.errors import CorruptFileError, InvalidArgumentError
from tests.support.interplay import IDS, NOW

COUNT = 240
HALF = sorted(np.random.default_rng(1).choice(COUNT, COUNT // 2, replace=False).tolist())
LINEAGE = {-3, -4, -5}


def table(path: Path, *, spill: bool = True) -> str:
    """Write a table, half of whose rows pylance has moved; return where it is."""
    rows = pa.table({"id": range(COUNT), "v": [f"v{i}" for i in range(COUNT)]})
    ds = lance.write_dataset(rows, str(path), enable_stable_row_ids=True, max_rows_per_file=80)
    spilled = {"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1"}
    ds.update_config(spilled if spill else {"some": "thing"})
    ds.update({"v": "'u'"}, where=f"id IN ({', '.join(map(str, HALF))})")
    assert bool(flag(str(path))) == spill
    return str(path)


def flag(uri: str) -> int:
    """Return the flag of lineage columns, which is in both words or in none."""
    manifest = lk.dataset(uri)._snapshot.manifest
    reader, writer = (word & 2048 for word in (manifest.reader_flags, manifest.writer_flags))
    assert reader == writer
    return reader


def stored(uri: str) -> set[int]:
    """Return the lineage columns that data files list."""
    fragments = lk.dataset(uri)._snapshot.manifest.fragments
    return {id_ for f in fragments for file in f.files for id_ in file.fields} & LINEAGE


def read(uri: str, at: Any = None) -> list[dict[str, Any]]:
    """Read rows with their ids and versions by both libraries."""
    found = []
    for module in (lance, lk):
        ds: Any = module.dataset(uri)
        ds = ds if at is None else ds.checkout_version(at)
        rows: pa.Table = ds.to_table(columns=[*ds.schema.names, *IDS])
        assert not LINEAGE & {field.name for field in ds.schema}
        found.append(rows.sort_by("_rowid").to_pylist())
    lk.dataset(uri).validate(deep=True)
    assert found[1] == found[0]
    return found[1]


@pytest.fixture(params=["as updated", "compacted"])
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Make a table with lineage columns, and the same without."""
    uris = table(tmp_path / "spilled"), table(tmp_path / "plain", spill=False)
    if request.param == "compacted":
        for uri in uris:
            lance.dataset(uri).optimize.compact_files()
        (fragment,) = lk.dataset(uris[0]).get_fragments()
        assert fragment.metadata.files[0].fields == [0, 1, -3, -4, -5]
    return uris


def same(pair: Sequence[str]) -> list[dict[str, Any]]:
    first, second = map(read, pair)
    assert first == second
    return first


def test_every_way_to_read(pair: tuple[str, str]) -> None:
    same(pair)
    uri = pair[0]
    ds, theirs = lk.dataset(uri), lance.dataset(uri)
    assert ds.schema.names == ["id", "v"]
    wanted = [0, HALF[3], HALF[0], COUNT - 1]
    assert ds._take_rows(wanted).to_pylist() == theirs._take_rows(wanted).to_pylist()
    for condition in (
        f"_rowid IN ({HALF[0]}, 3)",
        "_row_last_updated_at_version > 1",
        "_row_created_at_version = 1 AND id > 100",
    ):
        want = theirs.to_table(["id", "_rowid"], filter=condition)
        assert ds.to_table(["id", "_rowid"], filter=condition).equals(want)
    ours, other = ([f.metadata for f in side.get_fragments()] for side in (ds, theirs))
    assert [f.to_json() for f in ours] == [f.to_json() for f in other]
    assert [lk.FragmentMetadata.from_json(json.dumps(f.to_json())) for f in ours] == ours
    history = [change.version for change in ds.row_history(HALF[0])]
    assert history == [change.version for change in lk.dataset(pair[1]).row_history(HALF[0])]
    counts = ds.diff(1).counts
    assert (counts.inserted, counts.updated, counts.deleted) == (0, len(HALF), 0)


def test_each_library_changes_what_the_other_wrote(pair: tuple[str, str]) -> None:
    def each(change: Any) -> None:
        for uri in pair:
            change(uri)
        same(pair)

    rows = pa.table({"id": [HALF[1], HALF[2], 1, 5000], "v": ["m"] * 4})
    each(lambda uri: lk.dataset(uri).delete("id % 9 = 2"))
    each(lambda uri: lk.dataset(uri).update({"v": "'w'"}, where="id % 5 = 0"))
    each(
        lambda uri: (
            lk.dataset(uri)
            .merge_insert("id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(rows)
        )
    )
    assert flag(pair[0])
    each(lambda uri: lance.dataset(uri).update({"v": "'p'"}, where="id % 7 = 1"))
    each(lambda uri: lk.dataset(uri).add_columns({"c": "id * 2"}))
    each(
        lambda uri: (
            lk.dataset(uri)
            .merge_insert("id")
            .when_matched_update_all()
            .write_mode("rewrite_columns")
            .execute(pa.table({"id": [HALF[3], 3], "c": [-1, -2]}))
        )
    )
    each(lambda uri: lk.dataset(uri).alter_columns({"path": "c", "data_type": pa.int32()}))
    each(lambda uri: lk.dataset(uri).drop_columns(["v"]))
    each(lambda uri: lk.dataset(uri).drop_columns(["c"]))
    assert {-3, -4} <= stored(pair[0])  # ids of rows outlive the columns beside them
    each(lambda uri: lance.dataset(uri).delete("id % 11 = 3"))
    each(lambda uri: lk.dataset(uri).optimize.compact_files())
    assert not flag(pair[0])
    assert not stored(pair[0])
    each(lambda uri: lk.dataset(uri).checkout_version(3).restore())
    assert flag(pair[0])
    each(lambda uri: lance.dataset(uri).optimize.compact_files())
    each(lambda uri: lk.dataset(uri).update({"v": "'w'"}, where="id % 5 = 0"))
    each(lambda uri: lk.dataset(uri).cleanup_old_versions(older_than=NOW, delete_unverified=True))
    each(lambda uri: lk.write_dataset(rows, uri, mode="overwrite"))
    assert not flag(pair[0])


def test_a_column_cast_keeps_the_ids(pair: tuple[str, str]) -> None:
    for uri in pair:
        ds = lk.dataset(uri)
        ds.alter_columns({"path": "id", "data_type": pa.int32()})
        ds.alter_columns({"path": "v", "data_type": pa.large_string()})
    same(pair)


def test_clones_and_branches(pair: tuple[str, str], tmp_path: Path) -> None:
    clones = []
    for name, uri in zip(("a", "b"), pair, strict=True):
        ds = lk.dataset(uri)
        ds.shallow_clone(str(tmp_path / f"{name}1"), ds.version)
        ds.deep_clone(str(tmp_path / f"{name}2"), ds.version)
        lance.dataset(uri).shallow_clone(str(tmp_path / f"{name}3"), ds.version)
        clones.append([str(tmp_path / f"{name}{number}") for number in (1, 2, 3)])
    for made in zip(*clones, strict=True):
        same(made)
        assert flag(made[0])
        for uri in made:
            lk.dataset(uri).update({"v": "'c'"}, where="id % 4 = 0")
        same(made)
        for uri in made:
            lk.dataset(uri).optimize.compact_files()
        same(made)
    for uri in pair:
        ds = lk.dataset(uri)
        branch = ds.create_branch("x")
        branch.delete("id % 7 = 1")
        branch.update({"v": "'b'"}, where="id % 5 = 0")
        ds.update({"v": "'main'"}, where="id % 7 = 2 AND id % 5 > 0")
    for at in (None, ("x", None)):
        assert read(pair[0], at) == read(pair[1], at)
    for uri in pair:
        lk.dataset(uri).branches.merge("x")
    same(pair)


def test_an_older_release_reads_what_lancekit_compacted(
    tmp_path: Path, pylance4: Callable[..., Any]
) -> None:
    uri = table(tmp_path / "t")
    program = 'result = lance.dataset(arguments["uri"]).to_table(with_row_id=True).to_pydict()'
    with pytest.raises(AssertionError, match="row ids"):
        pylance4(program, uri=uri)
    lk.dataset(uri).optimize.compact_files()
    assert pylance4(program, uri=uri) == lk.dataset(uri).to_table(with_row_id=True).to_pydict()


@pytest.mark.spark
def test_on_spark(pair: tuple[str, str]) -> None:
    lk.spark_session()
    with lk.options(engine="spark"):
        for uri in pair:
            ds = lk.dataset(uri)
            ds.update({"v": "'w'"}, where="id % 5 = 0")
            ds.optimize.compact_files()
    same(pair)


def _put(uri: str, damage: Any) -> None:
    """Write the newest manifest once more, with other fragments."""
    snapshot = lk.dataset(uri)._snapshot
    manifest = snapshot.manifest
    changed = replace(manifest, fragments=FragmentList.of(map(damage, manifest.fragments)))
    path = Path(uri) / "_versions" / snapshot.manifest_name
    path.write_bytes(encode_manifest_file(changed))


def _without_files(fragment: Fragment) -> Fragment:
    kept = [
        replace(f, fields=[-2 if id_ == -3 else id_ for id_ in f.fields]) for f in fragment.files
    ]
    return replace(fragment, files=kept)


def _twice(fragment: Fragment) -> Fragment:
    more = [file for file in fragment.files if -3 in file.fields]
    return replace(fragment, files=[*fragment.files, *more])


def _other_column(fragment: Fragment) -> Fragment:
    kept = [
        replace(f, column_indices=[9] * len(f.fields)) if -3 in f.fields else f
        for f in fragment.files
    ]
    return replace(fragment, files=kept)


@pytest.mark.parametrize(
    ("damage", "text"),
    [(_without_files, "0 of its"), (_twice, "2 of its"), (_other_column, r"columns? \[?9")],
)
def test_damage_is_named(tmp_path: Path, damage: Any, text: str) -> None:
    uri = table(tmp_path / "t")
    _put(uri, damage)
    with pytest.raises(CorruptFileError, match=text):
        lk.dataset(uri).to_table(["_rowid"])
    with pytest.raises(CorruptFileError, match=text):
        lk.dataset(uri).validate(deep=True)
    assert lk.dataset(uri).count_rows() == COUNT


def test_new_fragments_bring_their_ids_inline(tmp_path: Path) -> None:
    uri = table(tmp_path / "t")
    fragment = lk.dataset(uri).get_fragments()[-1].metadata
    with pytest.raises(InvalidArgumentError, match="row_ids in a data file"):
        lk.LanceDataset.commit(
            uri,
            lk.LanceOperation.Overwrite(lk.dataset(uri).lance_schema, [fragment]),
            read_version=lk.dataset(uri).version,
        )

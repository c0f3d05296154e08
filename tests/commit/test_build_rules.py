"""Rules of building the next version, one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyroaring import BitMap

from lancekit._commit.manifest.build import Built, first_manifest
from lancekit._format import flags
from lancekit._format import operations as ops
from lancekit._format.fragment import DeletionFile, DeletionKind, Fragment
from lancekit._format.manifest import BasePath
from lancekit._format.row_ids_encode import encode_row_ids
from lancekit._format.schema import PRIMARY_KEY
from lancekit.errors import CorruptFileError, InvalidArgumentError
from tests.support.small_versions import (
    SCHEMA,
    K,
    S,
    T,
    U,
    build,
    covers,
    data_file,
    fragment,
    index,
    manifest,
    sequences,
    with_ids,
)


def test_ids_are_given_out_once() -> None:
    latest = manifest(fragment(0), fragment(3), max_fragment_id=9)
    built = build(latest, ops.Append((fragment(), fragment(), fragment(40)))).manifest
    assert built.fragments.ids.tolist() == [0, 3, 10, 11, 40]
    assert built.max_fragment_id == 40
    empty = build(built, ops.Delete(deleted_fragment_ids=tuple(built.fragments.ids))).manifest
    assert (len(empty.fragments), empty.max_fragment_id) == (0, 40)
    overwritten = build(empty, ops.Overwrite(SCHEMA, (fragment(3), fragment(3)))).manifest
    assert overwritten.fragments.ids.tolist() == [41, 42]
    with pytest.raises(CorruptFileError, match="two fragments with id 3"):
        build(latest, ops.Append((fragment(3),)))
    first = first_manifest(ops.Overwrite(SCHEMA), "2.1")
    assert build(first, ops.Overwrite(SCHEMA)).manifest.max_fragment_id is None
    reserved = build(latest, ops.ReserveFragments(5)).manifest
    assert (reserved.max_fragment_id, reserved.fragments) == (14, latest.fragments)


def test_a_restore_takes_no_counter_back() -> None:
    old = replace(manifest(with_ids(0, 0), stable=True, next_row_id=4), version=2)
    latest = manifest(with_ids(7, 4), stable=True, next_row_id=8, config={"a": "b"})
    kept = index("i", S)
    built = build(latest, ops.Restore(2), restored=Built(old, (kept,)))
    assert (built.manifest.next_row_id, built.manifest.max_fragment_id) == (8, 7)
    assert (built.manifest.version, built.manifest.fragments) == (6, old.fragments)
    assert (built.manifest.config, built.indices) == ({}, (kept,))
    with pytest.raises(InvalidArgumentError, match="having stable row ids"):
        build(manifest(), ops.Restore(2), restored=Built(old, ()))
    with pytest.raises(InvalidArgumentError, match="was not given"):
        build(latest, ops.Restore(2))


def test_rows_keep_ids_and_get_versions() -> None:
    latest = manifest(with_ids(0, 0), with_ids(1, 4), stable=True, next_row_id=8)
    moved = fragment(rows=3, row_ids=encode_row_ids(np.array([6, 1], np.uint64)))
    operation = ops.Update((0,), (latest.fragments[1],), (moved, fragment(rows=2)))
    built = build(latest, operation).manifest
    assert built.next_row_id == 11
    assert [sequences(f) for f in built.fragments][1:] == [
        ([6, 1, 8], [2, 2, 6], [6, 6, 6]),
        ([9, 10], [6, 6], [6, 6]),
    ]
    too_many = fragment(rows=1, row_ids=encode_row_ids(range(2)))
    with pytest.raises(InvalidArgumentError, match="2 row ids"):
        build(latest, ops.Append((too_many,)))
    in_place = ops.Update(
        updated_fragments=(latest.fragments[0],),
        update_mode="rewrite_columns",
        updated_fragment_offsets={0: BitMap([1, 2]).serialize()},
    )
    assert sequences(build(latest, in_place).manifest.fragments[0])[2] == [2, 6, 6, 2]


def test_changed_fragments_have_to_be_there() -> None:
    latest = manifest(fragment(0))
    for operation in (
        ops.Delete((fragment(4),)),
        ops.Update(updated_fragments=(fragment(4),)),
        ops.DataReplacement((ops.DataReplacementGroup(4, data_file("n", S)),)),
        ops.Rewrite((ops.RewriteGroup((fragment(4),), (fragment(),)),)),
    ):
        with pytest.raises(InvalidArgumentError, match="Fragment 4 cannot be changed"):
            build(latest, operation)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (fragment(files=()), "no data file"),
        (fragment(files=(data_file("n"),)), "no data file"),
        (fragment(files=(data_file("n", K, version=(2, 0)),)), "has format 2.0"),
    ],
)
def test_files_have_to_fit(bad: Fragment, words: str) -> None:
    for operation in (ops.Append((bad,)), ops.Update(new_fragments=(bad,))):
        with pytest.raises(InvalidArgumentError, match=words):
            build(manifest(), operation)


def test_an_overwrite_brings_no_deletions_and_no_bases() -> None:
    deleted = DeletionFile(1, 1, DeletionKind.ARROW, 1)
    with pytest.raises(InvalidArgumentError, match="deletion files"):
        build(manifest(), ops.Overwrite(SCHEMA, (fragment(deletion_file=deleted),)))
    base = BasePath(id=0, path="/b")
    with pytest.raises(InvalidArgumentError, match="new dataset"):
        build(manifest(), ops.Overwrite(SCHEMA, initial_bases=(base,)))
    created = ops.Overwrite(SCHEMA, initial_bases=(base,), config_upsert_values={"a": "1"})
    built = build(first_manifest(created, "2.1"), created).manifest
    assert [b.id for b in built.base_paths] == [1]
    assert built.writer_flags == flags.BASE_PATHS | flags.TABLE_CONFIG
    later = build(built, ops.Overwrite(SCHEMA, config_upsert_values={"b": "2"}))
    assert later.manifest.config == {"a": "1", "b": "2"}
    assert later.manifest.base_paths == built.base_paths


def test_a_merge_changes_no_rows() -> None:
    latest = manifest(fragment(0), fragment(1))
    both = tuple(latest.fragments)
    for fragments, words in (
        (both[:1], "without fragment 1"),
        ((both[0], fragment(1, rows=3)), "from 4 to 3"),
        ((*both, both[1]), "fragment 1 twice"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            build(latest, ops.Merge(fragments, SCHEMA))
    built = build(latest, ops.Merge((*both, fragment()), SCHEMA)).manifest
    assert built.fragments.ids.tolist() == [0, 1, 2]


def test_a_merge_marks_what_it_rewrites() -> None:
    """Rows of an added column are as old as before; those of a column cast are new."""
    latest = manifest(with_ids(0, 0), stable=True, next_row_id=4)
    (old,) = latest.fragments
    more = replace(old, files=(*old.files, data_file("more", 9)))
    added = replace(SCHEMA, fields=(*SCHEMA.fields, replace(SCHEMA.fields[1], id=9, name="new")))
    cast = replace(
        SCHEMA, fields=(SCHEMA.fields[0], replace(SCHEMA.fields[1], id=9), SCHEMA.fields[2])
    )
    buried = replace(old, files=(data_file("0.lance", K, -2, U), data_file("more", S)))
    for schema, changed, expected in (
        (added, more, 2), (cast, more, 6), (SCHEMA, buried, 6), (SCHEMA, old, 2),
    ):  # fmt: skip
        built = build(latest, ops.Merge((changed,), schema), index("i", S), index("k", K))
        assert set(sequences(built.manifest.fragments[0])[2]) == {expected}
        stale = changed is buried
        assert covers(built).get("i", []) == ([1] if stale else [] if schema is cast else [0, 1])
        assert covers(built)["k"] == [0, 1]


def test_data_is_replaced_in_three_ways() -> None:
    files = (data_file("a", K, S), data_file("b", U))
    latest = manifest(fragment(0, files=files))

    def replaced(*fields: int) -> list[tuple[str, tuple[int, ...]]]:
        group = ops.DataReplacementGroup(0, data_file("new", *fields))
        built = build(latest, ops.DataReplacement((group,)))
        return [(f.path, f.fields) for f in built.manifest.fragments[0].files]

    assert replaced(U) == [("a", (K, S)), ("new", (U,))]
    assert replaced(T) == [("a", (K, S)), ("b", (U,)), ("new", (T,))]
    assert replaced(9) == [("a", (K, S)), ("b", (U,))]
    assert replaced(S) == [("a", (K, -2)), ("b", (U,)), ("new", (S,))]
    assert replaced(K, S, U) == [("new", (K, S, U))]
    groups = tuple(ops.DataReplacementGroup(0, data_file("n", f)) for f in (K, S))
    with pytest.raises(InvalidArgumentError, match="different fields"):
        build(latest, ops.DataReplacement(groups))


def test_a_projection_drops_files_without_fields() -> None:
    files = (data_file("a", K, S), data_file("b", U))
    latest = manifest(fragment(0, files=files), schema=replace(SCHEMA, metadata={"a": "b"}))
    kept = replace(SCHEMA, fields=SCHEMA.fields[:2])
    built = build(latest, ops.Project(kept), index("s", S), index("u", U), index("t", T))
    assert [f.path for f in built.manifest.fragments[0].files] == ["a"]
    assert built.manifest.schema == replace(kept, metadata={"a": "b"})
    assert covers(built) == {"s": [0, 1]}


def test_metadata_of_the_primary_key_stays() -> None:
    latest = manifest(config={"a": "1"})
    update = ops.UpdateConfig(field_metadata_updates={K: ops.UpdateMap({"unit": "m"})})
    assert build(latest, update).manifest.schema.fields[0].metadata["unit"] == "m"
    for entries in ({PRIMARY_KEY: None}, {PRIMARY_KEY: "no"}, {f"{PRIMARY_KEY}:position": "3"}):
        changed = ops.UpdateConfig(field_metadata_updates={K: ops.UpdateMap(entries)})
        with pytest.raises(InvalidArgumentError, match="cannot be changed once set"):
            build(latest, changed)
    placed = manifest(schema=SCHEMA.with_primary_key([SCHEMA.fields[0].name]))
    for text in (None, "false"):
        changed = ops.UpdateConfig(field_metadata_updates={K: ops.UpdateMap({PRIMARY_KEY: text})})
        with pytest.raises(InvalidArgumentError, match="cannot be changed once set"):
            build(placed, changed)
    nullable = ops.UpdateConfig(field_metadata_updates={S: ops.UpdateMap({PRIMARY_KEY: "true"})})
    with pytest.raises(InvalidArgumentError, match="nullable"):
        build(latest, nullable)
    unknown = ops.UpdateConfig(field_metadata_updates={77: ops.UpdateMap({"a": "b"})})
    with pytest.raises(InvalidArgumentError, match="id 77 does not exist"):
        build(latest, unknown)
    older = ops.UpdateConfig(upsert_values={"b": "2"}, delete_keys=("a",))
    assert build(latest, older).manifest.config == {"b": "2"}


def test_base_paths_are_distinct() -> None:
    latest = manifest(base_paths=(BasePath(id=1, path="/a", name="a"),))
    added = ops.UpdateBases((BasePath(id=0, path="/b"), BasePath(id=0, path="/c")))
    assert [b.id for b in build(latest, added).manifest.base_paths] == [1, 2, 3]
    for bad in (
        BasePath(id=1, path="/d"),
        BasePath(id=5, path="/a"),
        BasePath(id=6, path="/e", name="a"),
    ):
        with pytest.raises(InvalidArgumentError, match="base path with the"):
            build(latest, ops.UpdateBases((bad,)))


def test_a_clone_takes_a_version_over() -> None:
    deleted = DeletionFile(1, 1, DeletionKind.ARROW, 1)
    elsewhere = replace(data_file("e", U), base_id=0)
    files = (data_file("own", K, S), elsewhere)
    source = manifest(
        fragment(3, files=files, deletion_file=deleted),
        base_paths=(BasePath(id=0, path="/zero"),), config={"a": "b"}, branch="from",
    )  # fmt: skip
    shallow = build(source, ops.Clone(True, "from", 5, "/src", "b"), index("i", S))
    (cloned,) = shallow.manifest.fragments
    assert [f.base_id for f in cloned.files] == [1, 0]
    assert cloned.deletion_file is not None
    assert (cloned.deletion_file.base_id, shallow.indices[0].base_id) == (1, 1)
    assert shallow.manifest.base_paths[1] == BasePath(
        id=1, path="/src", is_dataset_root=True, name="from"
    )
    assert (shallow.manifest.version, shallow.manifest.branch) == (5, "b")
    deep = build(shallow.manifest, ops.Clone(False, None, 5, "/src"), *shallow.indices)
    assert [f.base_id for f in deep.manifest.fragments[0].files] == [None, None]
    assert (deep.manifest.base_paths, deep.indices[0].base_id) == ((), None)
    assert (deep.manifest.config, deep.manifest.max_fragment_id) == ({"a": "b"}, 3)

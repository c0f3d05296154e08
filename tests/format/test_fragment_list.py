"""Fragments stay encoded: what is asked of all of them, and how a list is edited."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._format.fragment import (
    DataFile,
    DeletionFile,
    DeletionKind,
    Fragment,
    FragmentList,
)
from lancekit.errors import CorruptFileError

NUMBERS = st.integers(0, 2**64 - 1)
SMALL = st.integers(0, 2**40)
# as many as a row address can name, and never more deleted than there are
IDS = st.integers(0, 2**32 - 1)
ROWS = st.integers(2**31, 2**32)
DELETED = st.integers(0, 2**31)
# a field of a newer release of each kind of encoding: a number, eight bytes, text, four bytes
UNKNOWN = st.lists(
    st.sampled_from([b"\x98\x06\x2a", b"\xa1\x06" + bytes(8), b"\xaa\x06\x02hi", b"\xb5\x06abcd"])
).map(b"".join)
FILES = st.builds(
    DataFile,
    path=st.text(max_size=200),
    fields=st.lists(st.integers(-2, 300)).map(tuple),
    column_indices=st.lists(st.integers(-1, 300)).map(tuple),
    file_major_version=st.just(2),
    file_minor_version=st.sampled_from([0, 1]),
    file_size_bytes=SMALL.map(lambda size: size or None),
    base_id=st.none() | st.integers(0, 2**32 - 1),
)
DELETIONS = st.builds(
    DeletionFile,
    file_type=st.sampled_from(DeletionKind),
    read_version=NUMBERS,
    id=NUMBERS,
    num_deleted_rows=DELETED,
    base_id=st.none() | st.integers(0, 10),
)
FRAGMENTS = st.builds(
    Fragment,
    id=IDS,
    files=st.lists(FILES, max_size=3).map(tuple),
    physical_rows=ROWS,
    deletion_file=st.none() | DELETIONS,
    row_ids=st.none() | st.binary(max_size=300),
    created_at=st.none() | st.binary(max_size=5),
)
LISTS = st.lists(FRAGMENTS, max_size=6, unique_by=lambda f: f.id)


def encoded(fragment: Fragment, unknown: bytes) -> bytes:
    return unknown + fragment.to_bytes() + unknown


@given(LISTS, st.lists(UNKNOWN, min_size=6, max_size=6))
def test_facts_are_those_of_the_decoded(fragments: list[Fragment], unknown: list[bytes]) -> None:
    found = FragmentList([encoded(f, u) for f, u in zip(fragments, unknown, strict=False)])
    assert found.ids.tolist() == [f.id for f in fragments]
    assert found.any_deletions == any(f.deletion_file for f in fragments)
    totals = found.totals()
    assert totals.rows == sum(f.num_rows for f in fragments)
    assert totals.deleted_rows == sum(f.num_deletions for f in fragments)
    assert totals.data_files == sum(len(f.files) for f in fragments)
    assert totals.bytes == sum(file.size_bytes for f in fragments for file in f.files)
    assert totals.deletion_files == sum(f.deletion_file is not None for f in fragments)
    assert [replace(f, unknown=b"") for f in found] == fragments
    assert [found.get(f.id) for f in fragments] == list(found)
    assert found.get(2**41) is None
    assert pickle.loads(pickle.dumps(found)) == found


@given(LISTS, LISTS, st.data())
def test_an_edit_is_that_of_a_dictionary(
    old: list[Fragment], new: list[Fragment], data: st.DataObject
) -> None:
    model = {f.id: f for f in old}
    added = [f for f in new if f.id not in model]
    ids = st.lists(st.sampled_from([*model, 7]), unique=True)
    removed, updated = data.draw(ids), data.draw(ids)
    changes = {i: Fragment(id=i, files=(), physical_rows=5) for i in updated}
    result = FragmentList.of(old).edit(updated=changes, removed=removed, added=added)
    expected = {i: changes.get(i, f) for i, f in model.items() if i not in removed}
    expected |= {f.id: f for f in added}
    assert list(result) == [expected[i] for i in sorted(expected)]
    assert result.ids.tolist() == sorted(expected)
    assert result.totals() == FragmentList(result.encoded).totals()


def test_what_is_not_touched_keeps_its_bytes() -> None:
    """Even those that no release of ours would write: defaults spelled out, unknown fields."""
    odd = b"\x20\x00\x08\x05\xb5\x06abcd\x20\x0a"
    whole = FragmentList([odd])
    new = Fragment(id=1, files=(), physical_rows=2)
    assert whole.edit(added=[new]).encoded == [new.to_bytes(), odd]
    assert whole.edit(added=[new]).edit(removed=[1]).encoded == [odd]
    (changed,) = whole.edit(updated={5: replace(whole[0], physical_rows=9)})
    assert changed.physical_rows == 9
    assert b"\xb5\x06abcd" in changed.to_bytes()


def test_indexing() -> None:
    made = [Fragment(id=i, files=(), physical_rows=i) for i in range(5)]
    found = FragmentList.of(made)
    assert found[-1] == made[-1]
    assert found[1:3] == tuple(made[1:3])
    assert found == made
    assert FragmentList() == ()
    assert FragmentList().totals().rows == 0
    with pytest.raises(IndexError):
        found[5]


@given(FRAGMENTS, st.data())
def test_damage_is_named(fragment: Fragment, data: st.DataObject) -> None:
    """Bytes cut or changed: numbers, or an error of ours."""
    whole = bytearray(fragment.to_bytes())
    if whole:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found = FragmentList([bytes(whole[: data.draw(st.integers(0, len(whole)))]), b"\x08\x01"])
    for ask in (found.totals, lambda: found.any_deletions, lambda: list(found)):
        try:
            ask()
        except CorruptFileError as error:
            assert "fragment" in str(error)  # noqa: PT017


def test_a_huge_length_is_no_huge_work() -> None:
    with pytest.raises(CorruptFileError):
        FragmentList([b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]).totals()
    with pytest.raises(CorruptFileError):
        FragmentList([b"\x08" + b"\xff" * 30]).totals()

"""What the next version makes of indices: kept, narrowed, swapped, advanced."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from lancekit._format import operations as ops
from lancekit._format.index import IndexDetails
from lancekit._format.mem_wal.details import merged_generations
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit._format.operation_parts import CompactedSsTable, RewriteGroup, RewrittenIndex
from lancekit._format.row_ids_encode import encode_row_ids
from lancekit.errors import IncompatibleConflictError, InvalidArgumentError
from tests.support.small_versions import (
    SCHEMA,
    K,
    S,
    T,
    U,
    build,
    covers,
    fragment,
    index,
    manifest,
    with_ids,
)


def test_a_rewrite_keeps_rows_and_indices() -> None:
    latest = manifest(fragment(0), fragment(1), fragment(2, rows=2), max_fragment_id=9)
    group = RewriteGroup((fragment(0), fragment(1)), (fragment(8, rows=8),))
    swapped, left = index("i", S), index("j", S)
    new = uuid.uuid4()
    built = build(
        latest, ops.Rewrite((group,), (RewrittenIndex(swapped.uuid, new),)), swapped, left
    )
    assert built.manifest.fragments.ids.tolist() == [2, 8]
    # an index that was not remapped covers what is left of its fragments: readers look at the new
    assert covers(built) == {"i": [8], "j": [0, 1]}
    assert [i.uuid for i in built.indices] == [new, left.uuid]
    unnumbered = ops.Rewrite((RewriteGroup((fragment(2, rows=2),), (fragment(rows=2),)),))
    assert build(latest, unnumbered).manifest.fragments.ids.tolist() == [0, 1, 10]


def test_a_rewrite_that_does_not_fit_is_refused() -> None:
    latest = manifest(fragment(0), fragment(1), fragment(2))
    pair = RewriteGroup((fragment(0), fragment(2)), (fragment(rows=8),))
    half, unknown = index("i", S, covers=(0, 1)), index("i", S, covers=None)
    for segment, words in ((half, "only some"), (unknown, "does not list")):
        remapped = RewrittenIndex(segment.uuid, uuid.uuid4())
        with pytest.raises(InvalidArgumentError, match=words):
            build(latest, ops.Rewrite((pair,), (remapped,)), segment)
        with pytest.raises(InvalidArgumentError, match="twice"):
            build(latest, ops.Rewrite((pair,), (remapped, remapped)), segment)
    gone = RewrittenIndex(uuid.uuid4(), uuid.uuid4())
    assert build(latest, ops.Rewrite((pair,), (gone,)), half).indices == (half,)
    fewer = RewriteGroup((fragment(0),), (fragment(rows=3),))
    with pytest.raises(InvalidArgumentError, match="have 4, the new fragments have 3"):
        build(latest, ops.Rewrite((fewer,)))
    stable = manifest(with_ids(0, 0), stable=True)
    with pytest.raises(InvalidArgumentError, match="lack row ids"):
        build(stable, ops.Rewrite((RewriteGroup((with_ids(0, 0),), (fragment(),)),)))


def test_segments_that_cover_nothing_leave() -> None:
    latest = manifest(fragment(0), fragment(1))
    one, other = index("i", S, covers=(0,)), index("i", S, covers=(1,), dataset_version=4)
    unknown, system = index("i", S, covers=None), index("__lance_mem_wal")
    built = build(latest, ops.Delete(deleted_fragment_ids=(0,)), one, other, unknown, system)
    assert [i.uuid for i in built.indices] == [other.uuid, unknown.uuid, system.uuid]
    # of several that cover nothing the oldest stays: there is to be an index
    built = build(latest, ops.Delete(deleted_fragment_ids=(0, 1)), other, one)
    assert built.indices == (one,)
    assert build(latest, ops.Overwrite(SCHEMA), one, system).indices == ()


@pytest.mark.parametrize(
    ("kind", "version", "follows"),
    [
        ("/lance.table.BitmapIndexDetails", 0, True),
        ("/lance.index.pb.VectorIndexDetails", 1, True),
        ("/lance.table.InvertedIndexDetails", 2, True),
        ("bitmap", 0, False),
        ("/lance.table.BTreeIndexDetails", 0, True),
        ("/lance.table.BTreeIndexDetails", 1, False),
        ("/lance.table.ZoneMapIndexDetails", 0, False),
        ("/lance.index.pb.BloomFilterIndexDetails", 0, False),
        ("/lance.table.OfTomorrowIndexDetails", 0, False),
    ],
)
def test_which_indices_follow_moved_rows(kind: str, version: int, follows: bool) -> None:
    """Those whose entries are row ids, if they covered every row that was moved."""
    latest = manifest(with_ids(0, 0), with_ids(1, 4), stable=True, next_row_id=8)
    moved = fragment(row_ids=encode_row_ids(range(4)))
    changed = ops.Update((0,), (), (moved,), fields_for_preserving_frag_bitmap=(K,))
    details = {"index_details": IndexDetails(kind), "index_version": version}
    given = [
        index("s", S, **details),
        index("k", K, **details),
        index("p", S, covers=(1,), **details),
    ]
    built = build(latest, changed, *given)
    expected = [0, 1, 2] if follows else [0, 1]
    assert covers(built) == {"s": expected, "k": [0, 1], "p": [1]}
    partly_new = replace(changed, new_fragments=(replace(moved, physical_rows=5),))
    assert covers(build(latest, partly_new, *given))["s"] == [0, 1]


def test_fields_changed_in_place_leave_the_indices_on_them() -> None:
    latest = manifest(fragment(0), fragment(1))
    changed = ops.Update(
        updated_fragments=(fragment(1),), fields_modified=(U,), update_mode="rewrite_columns"
    )
    given = (index("u", U), index("t", T), index("s", S), index("unknown", U, covers=None))
    built = build(latest, changed, *given)
    assert covers(built) == {"u": [0], "t": [0], "s": [0, 1], "unknown": []}
    # behind a fragment-reuse index, an old id may stand for a fragment that is there
    reuse = index("__lance_frag_reuse", covers=(1,))
    old = index("old", U, covers=(0, 5, 6))
    assert covers(build(latest, changed, old, reuse))["old"] == [0]


def test_generations_are_merged_once() -> None:
    shard, other = uuid.uuid4(), uuid.uuid4()
    state = ops.UpdateMemWalState((CompactedSsTable(shard, 3),))
    with pytest.raises(InvalidArgumentError, match="no entry '__lance_mem_wal'"):
        build(manifest(), state, index("i", S))
    old = index(MEM_WAL, covers=None)
    with pytest.raises(InvalidArgumentError, match=r"same shard .* twice"):
        build(manifest(), ops.UpdateMemWalState(state.compacted_sstables * 2), old)
    first = build(manifest(), state, old, index("i", S))
    entry = first.indices[-1]
    assert (entry.name, entry.dataset_version, entry.fragment_ids) == (MEM_WAL, 6, None)
    assert entry.uuid != old.uuid
    update = ops.Update(compacted_sstables=(CompactedSsTable(shard, 4), CompactedSsTable(other, 1)))
    second = build(first.manifest, update, *first.indices)
    assert merged_generations(second.indices[-1].index_details) == {shard: 4, other: 1}
    assert (second.indices[-1].dataset_version, len(second.indices)) == (7, 2)
    for stale in (3, 4):
        again = ops.UpdateMemWalState((CompactedSsTable(shard, stale),))
        with pytest.raises(IncompatibleConflictError, match=f"Generation {stale} .* up to .* 4"):
            build(second.manifest, again, *second.indices)


def test_every_operation_has_a_builder() -> None:
    with pytest.raises(InvalidArgumentError, match="Unknown operations"):
        build(manifest(), ops.UnknownOperation(number=115))
    segment = index("i", S)
    added = build(manifest(), ops.CreateIndex((segment,)))
    assert added.indices == (segment,)
    again = replace(segment, dataset_version=9)
    assert build(manifest(), ops.CreateIndex((again,)), segment).indices == (again,)
    assert build(manifest(), ops.CreateIndex((), (segment,)), segment).indices == ()

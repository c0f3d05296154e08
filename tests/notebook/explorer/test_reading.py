"""Stops are read from manifests alone, and little of them."""

import shutil
import sys
from pathlib import Path

import pytest

import lancekit as lk
from lancekit._notebook.explorer.pages import Reader, manifest_diff

_listening = []


def _hear(event, arguments):
    if event == "open" and _listening:
        _listening[-1].append(str(arguments[0]))


sys.addaudithook(_hear)  # one for good: hooks cannot be removed


def test_in_what_two_stops_differ(ds):
    reader = Reader(ds)
    seen = {}
    for old, new in [(1, 2), (2, 4), (4, 6), (6, 7), (7, 8)]:
        seen[new] = manifest_diff(reader.stop(("main", old)), reader.stop(("main", new)))
    assert (seen[2].rows, seen[2].fragments_added, seen[2].columns) == (1, 1, 0)
    assert (seen[4].rows, seen[4].columns, seen[4].schema.added) == (-3, 1, ("y",))
    assert seen[6].schema.renamed == (("s", "letter"),)
    assert (seen[6].fragments_changed, seen[6].fragments_added) == (1, 1)
    assert (seen[8].schema.dropped, seen[8].rows) == (("y",), 0)
    for new, found in seen.items():
        assert found.schema == ds.diff(found.old.handle, ("main", new)).schema
    other = manifest_diff(reader.stop(("main", 6)), reader.stop(("trial", 7)))
    assert (other.rows, other.fragments_changed, other.fragments_added) == (-1, 1, 0)


def test_states_know_tags_branches_and_gaps(ds):
    reader = Reader(ds)
    assert reader.branches == ("main", "trial")
    assert reader.tags == {"two": ("main", 2), "six": ("main", 6)}
    assert reader.start(10).versions == (1, 2, 4, 6, 7, 8)
    assert reader.stop(("main", 2)).tags == ("two",)
    assert reader.stop(("trial", 6)).tags == ()
    assert reader.selection_event("trial")(reader.start(10)).versions == (6, 7)
    with pytest.raises(lk.errors.VersionNotFoundError):
        reader.stop(("main", 3))


def test_what_a_handle_shows_of_its_rows_is_left_out(ds):
    part = lk.dataset(ds.uri, default_scan_options={"filter": "id < 10", "columns": ["id"]})
    assert Reader(part).stop(("main", 8)).handle.to_table(limit=1).column_names == [
        "id",
        "x",
        "letter",
    ]


def test_a_step_reads_one_manifest_and_no_rows(ds, tmp_path):
    reader = Reader(ds)
    state = reader.start(10)
    manifest_diff(reader.stop(state.against), reader.stop(state.place))
    for folder in tmp_path.rglob("data"):
        shutil.rmtree(folder)
    state = state.move(-1)
    _listening.append([])
    try:
        manifest_diff(reader.stop(state.against), reader.stop(state.place))
    finally:
        heard = [Path(one) for one in _listening.pop()]
    assert [one.parent.name for one in heard if str(tmp_path) in str(one.resolve())] == [
        "_versions"
    ]


def test_handles_of_ones_own_do_not_move_those_that_are_kept(ds):
    reader = Reader(ds)
    own = reader.fresh(("main", 2))
    own.restore()
    assert reader.handle(("main", 2)).version == 2
    assert (
        reader.newest("main"),
        reader.selection_event("main")(reader.start(10)).versions[-1],
    ) == (9, 9)
    assert ds.version == 8

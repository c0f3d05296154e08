"""What is shown of a stop, and that its code gives just that."""

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._notebook.explorer.pages import Reader, manifest_diff, read_page
from lancekit._notebook.explorer.state import ExplorerState
from lancekit._notebook.explorer.views import (
    code_of,
    compare_card,
    page_card,
    read_summary,
    schema_card,
    stop_card,
    strip,
    summary_card,
    view_of_page,
)
from lancekit._notebook.render.controls import as_html
from lancekit._notebook.render.html import MAX_BYTES, render_text

NOW = datetime(2040, 1, 1, tzinfo=UTC)


def never():
    return False


def told(reader, state):
    stop = reader.stop(state.place)
    return stop, None if state.against is None else manifest_diff(reader.stop(state.against), stop)


def test_a_stop_and_what_it_is_compared_with(ds):
    reader = Reader(ds)
    state = reader.start(10).go(6)
    text = render_text(stop_card("d", state, *told(reader, state), NOW))
    assert text.splitlines()[0].startswith("d main:6 · update · 98 rows (±0) × 4 columns · ")  # noqa: RUF001
    assert "versions   1 2 4 [6] 7 8" in " ".join(text.split(" ")).replace("         ", "   ")
    assert "six" in text
    assert "main:4 (previous version); fragments: 1 added, 1 changed" in text
    assert "renamed columns  s → letter" in text
    state = state.pin()
    text = render_text(stop_card("d", state, *told(reader, state), NOW))
    assert "main:6, pinned: fragments same fragments" not in text
    assert "main:6 (pinned); same fragments" in text
    first = state.pin(on=False)
    first = first.go(1)
    text = render_text(stop_card("d", first, *told(reader, first), NOW))
    assert "compared with  no previous version" in text


@pytest.mark.parametrize(
    ("numbers", "version", "line"),
    [
        (range(1, 4), 2, "1 [2] 3"),
        (range(1, 101), 1, "[1] 2 3 4 … 100"),
        (range(1, 101), 100, "1 … 97 98 99 [100]"),
        (range(1, 101), 5, "1 2 3 4 [5] 6 7 8 … 100"),
        (range(1, 101), 6, "1 2 3 4 5 [6] 7 8 9 … 100"),
        (range(1, 101), 7, "1 … 4 5 6 [7] 8 9 10 … 100"),
        (range(1, 101), 95, "1 … 92 93 94 [95] 96 97 98 99 100"),
        (range(1, 10), 5, "1 2 3 4 [5] 6 7 8 9"),
        ([3], 3, "[3]"),
    ],
)
def test_strips(numbers, version, line):
    state = ExplorerState(branch="main", versions=tuple(numbers), version=version)
    assert strip(state) == line


def test_rows_say_of_how_many_they_are(ds):
    state = Reader(ds).start(10)
    card = page_card(state, read_page(ds, state.turn(9), never))
    assert card.title == "91 to 99 of 99 rows"
    assert card.tables[0].caption == "In storage order"
    state = state.where("x > 4").sort("x", ascending=False)
    with lk.options(display_columns=2):
        (table,) = page_card(state, read_page(ds, state, never)).tables
    assert table.caption.startswith("Where x > 4, sorted by x, highest first, all 99 rows read")
    assert table.note == "2 of 3 columns"
    assert view_of_page(state, None) is None


def test_sorted_pages_say_where_they_end(ds):
    state = replace(Reader(ds).start(10), order=("x", True), page=999)
    page = read_page(ds, state, never)
    assert page_card(state, page).tables[0].note == ""
    assert "sorted rows end at" in page_card(state, replace(page, total=20_000)).tables[0].note


def test_a_schema_begins_with_what_changed(ds):
    reader = Reader(ds)
    state = reader.start(10).go(4)
    (table,) = schema_card(*told(reader, state)).tables
    assert table.rows[0].cells == ("y", "double", "yes", "+ added")
    (table,) = schema_card(*told(reader, state.go(6))).tables
    assert table.rows[0].cells == ("letter", "string", "yes", "~ was s")
    (table,) = schema_card(*told(reader, state.go(8))).tables
    assert table.rows[0].cells == ("y", "", "", "− dropped")  # noqa: RUF001
    assert table.note == "3 of 3 columns"


def test_a_thousand_columns_are_a_small_card(tmp_path):
    ds = lk.write_dataset({f"{'long' * 20} {i}": [i] for i in range(1000)}, tmp_path / "wide.lance")
    reader = Reader(ds)
    state = reader.start(10)
    card = schema_card(*told(reader, state))
    assert card.tables[0].note == "50 of 1,000 columns"
    page = view_of_page(state, read_page(ds, state, never))
    for one in (card, page, stop_card("wide", state, *told(reader, state), NOW)):
        assert len(as_html(one).encode()) <= MAX_BYTES


def test_a_summary_in_bars(ds):
    text = render_text(summary_card(read_summary(ds, "x", never)))
    assert "all 99 rows read" in text
    assert "1 row, 1.0%" in text
    assert "█" * 10 in text
    empty = ds.checkout_version(1).create_branch("empty")
    empty.delete("true")
    assert "0 rows\n" in render_text(summary_card(read_summary(empty, "x", never)))


def test_two_stops_side_by_side(ds):
    reader = Reader(ds)
    state = reader.start(10).pin().go(1)
    card = compare_card(*told(reader, state))
    cells = {row.cells[0]: row.cells[1:] for row in card.tables[0].rows}
    assert cells["rows"] == ("99", "100", "+1")
    assert cells["operation"] == ("change schema", "create", "")


def test_nothing_hostile_comes_through(tmp_path):
    name = "<script>alert(1)</script>\u202e"
    ds = lk.write_dataset({"a": [name], name: ["</style><b>"]}, tmp_path / "h.lance")
    ds.insert({"a": ["&"], name: ["'\"><img src=x>"]}, commit_message=name)
    reader = Reader(ds)
    state = reader.start(10).where(f"a = '{name}' OR true").sort(name)
    found = told(reader, state)
    cards = (
        stop_card("h", state, *found, NOW),
        view_of_page(state, read_page(ds, state, never)),
        schema_card(*found),
        compare_card(*found),
        summary_card(read_summary(ds, name, never)),
    )
    for card in cards:
        markup = as_html(card)
        for bad in ("<script", "<img", "\u202e", "</style><b>"):
            assert bad not in markup, bad


# ---- code


@pytest.mark.parametrize("home", ["main", "trial"])
def test_code_gives_what_is_shown(ds, home):
    mine = ds if home == "main" else ds.checkout_version(("trial", None))
    reader = Reader(mine)
    state = replace(reader.start(10), home=home).go(6)
    names = {"ds": mine, "lk": lk}
    filtered = state.where("x > 2 AND letter = 'a'")
    sorted_ = filtered.sort("x", ascending=False)
    for state in (filtered, sorted_, sorted_.turn(1), sorted_.turn(1).sort("x")):
        page = read_page(reader.stop(state.place).handle, state, never)
        assert eval(code_of(state), names).equals(page.rows)
    assert "offset=" in code_of(state.turn(2))
    schema = eval(code_of(state.show("schema")), names)
    assert schema == reader.stop(state.place).handle.schema
    column = eval(code_of(replace(state, view="column", column="letter")), names)
    assert column == pa.table({"letter": reader.stop(state.place).handle.to_table()["letter"]})
    pinned = state.pin().go(8).show("compare")
    diff = eval(code_of(pinned), names)
    assert (diff.old, diff.new) == (pinned.pinned, pinned.place)
    assert eval(code_of(state.show("change")), names).version == 6


def test_code_of_another_branch_names_it():
    there = ExplorerState(branch="trial", versions=(3,), version=3)
    assert code_of(there) == "ds.checkout_version(('trial', 3)).to_table(limit=10)"

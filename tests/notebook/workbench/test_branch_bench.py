"""A merge of branches by clicks: sides by row, by column, for all."""

from dataclasses import replace

import lance
import pytest

import lancekit as lk
from lancekit._notebook.workbench import open_branches
from lancekit._notebook.workbench.picks import Picks, code_of, picks_of, sides_of
from tests.notebook.render.test_html import HOSTILE, Reader
from tests.notebook.workbench.conftest import widgets
from tests.support.cards import show_html, show_text


@pytest.fixture
def sides(ds):
    """Both branches changed rows 1 to 7, and one deleted row 8."""
    trial = ds.create_branch("trial")
    trial.update({"price": "price + 10", "name": "'theirs'"}, where="id < 8")
    trial.delete("id = 8")
    ds.update({"price": "price + 20", "name": "'ours'"})
    return ds


def rows_of(ds):
    found = lance.dataset(ds.uri).to_table().to_pylist()
    return {row["id"]: (row["price"], row["name"]) for row in found}


def test_sides_by_row_and_by_column(sides):
    plan = sides.branches.merge("trial", dry_run=True)
    bench = open_branches(plan)
    made = widgets(bench.widget)
    made["merge trial into main:2"].click()
    assert "Pick a side" in bench.state.notice
    assert sides.latest_version == 2
    assert len(bench.shown()) == 5
    assert "updated in ours, deleted in theirs" in show_html(bench) + "".join(
        child.value for _, _, child in bench._draw.__self__._by_row
    )
    made["price (7 rows)"].value = "theirs"
    assert bench.wait(60)
    assert bench.state.plan.num_unsettled == 8
    made["side for all"].value = "ours"
    made["id 3"].value = "theirs"
    assert bench.wait(60)
    assert bench.can_apply
    assert bench.state.plan.num_unsettled == 0
    assert "result" in show_text(bench)
    code = bench.code
    bench.apply()
    assert bench.state.phase == "done"
    assert bench.state.result.num_conflicts == 8
    merged = rows_of(sides)
    assert merged[3] == (13.0, "theirs")
    assert merged[1] == (11.0, "ours")
    assert merged[8] == (28.0, "ours")
    # the code does the same
    widgets(bench.widget)["undo version 3"].click()
    assert bench.wait(60)
    assert (sides.version, bench.state.phase) == (4, "ready")
    assert rows_of(sides)[1] == (21.0, "ours")
    eval(code, {"ds": sides, "lk": lk})
    assert rows_of(sides) == merged


def test_a_side_for_a_column_that_each_side_renamed(ds):
    trial = ds.create_branch("trial")
    trial.alter_columns({"path": "price", "name": "cost"})
    ds.alter_columns({"path": "price", "name": "amount"})
    bench = ds.branches.merge("trial", dry_run=True).interactive()
    made = widgets(bench.widget)
    assert bench.state.plan.num_unsettled == 1
    assert "renamed to amount" in show_text(bench)
    made["price (the column)"].value = "theirs"
    assert bench.wait(60)
    assert bench.can_apply
    assert "as in theirs" in show_text(bench)
    assert "columns={'price': 'theirs'}" in bench.code
    bench.apply()
    assert "cost" in ds.schema.names


def test_pages_of_conflicts(sides):
    bench = sides.branches.merge("trial", dry_run=True).interactive()
    made = widgets(bench.widget)
    first = [row.key["id"] for row in bench.shown()]
    assert made["◀ previous"].disabled
    made["next ▶"].click()
    assert sorted(first + [row.key["id"] for row in bench.shown()]) == list(range(1, 9))
    assert made["next ▶"].disabled
    bench.turn(99)
    assert bench.start == 5
    picked = bench.shown()[0].key["id"]
    widgets(bench.widget)[f"id {picked}"].value = "theirs"
    assert bench.wait(60)
    assert bench.state.choices.rows == ((picked, "theirs"),)
    assert bench.start == 5
    widgets(bench.widget)[f"id {picked}"].value = ""
    assert bench.wait(60)
    assert bench.state.choices == Picks()


def test_branches_that_moved_are_shown_again(sides):
    bench = sides.branches.merge("trial", dry_run=True, conflicts="theirs").interactive()
    assert bench.state.choices == Picks(every="theirs")
    sides.checkout_version(("trial", None)).insert({"id": [50]}, mode="append")
    bench.apply()
    assert "trial:3 is now trial:4" in bench.state.notice
    assert sides.latest_version == 2
    bench.apply()
    assert (bench.state.phase, sides.version) == ("done", 3)
    lk.dataset(sides.uri).delete("id = 50")
    bench.undo()
    assert "4 (delete by" in str(bench.state.error)


def test_a_merge_into_another_branch_is_taken_back_there(sides):
    trial = sides.checkout_version(("trial", None))
    plan = sides.branches.merge("main", into="trial", dry_run=True, conflicts="theirs", by="row")
    bench = plan.interactive()
    assert bench.code == ("ds.branches.merge('main', into='trial', by='row', conflicts='theirs')")
    bench.apply()
    assert (sides.version, trial.latest_version) == (2, 4)
    bench.undo()
    assert bench.wait(60)
    assert (trial.latest_version, bench.state.phase) == (5, "ready")


def test_nothing_to_do_is_not_taken_back(sides):
    sides.branches.merge("trial", conflicts="ours")
    bench = sides.branches.merge("trial", dry_run=True).interactive()
    assert "no conflicts" in bench.widget.children[3].value
    bench.apply()
    assert bench.state.phase == "done"
    version = sides.latest_version
    bench.undo()
    assert "nothing" in str(bench.state.error)
    assert sides.latest_version == version


def test_columns_that_do_not_fit_are_shown(tmp_path):
    rows = {"id": [1, 2], "x": [1, 2], "y": [1, 2]}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id")
    ds.create_branch("exp").update({"x": "7", "y": "7"})
    ds.drop_columns(["x"])
    ds.update({"y": "8"})
    bench = ds.branches.merge("exp", dry_run=True).interactive()
    assert "? pick a side: ours or theirs" in show_text(bench)
    assert bench.state.plan.num_unsettled == 3
    assert not bench.can_apply
    bench.choose(Picks(every="theirs"))
    assert bench.wait(60)
    assert "as in theirs" in show_text(bench)
    assert bench.can_apply
    bench.choose(Picks(every="ours", columns=(("y", "theirs"),)))
    assert bench.wait(60)
    bench.apply()
    assert bench.state.phase == "done"
    assert ds.to_table().sort_by("id").to_pydict() == {"id": [1, 2], "y": [7, 7]}


@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_names(evil, tmp_path):
    ds = lk.write_dataset({evil: ["a", evil], "v": [evil, "b"]}, tmp_path / "t", primary_key=evil)
    ds.create_branch("exp").update({"v": "concat(v, '1')"})
    ds.update({"v": "concat(v, '2')"})
    bench = ds.branches.merge("exp", dry_run=True).interactive()
    shown = [show_html(bench)]
    shown += [child.value for child in bench.widget.children if hasattr(child, "value")]
    shown += [child.value for _, _, child in bench._draw.__self__._by_row]
    for html in shown:
        Reader(html.replace("<pre>", "<p>").replace("</pre>", "</p>"))
        assert not any(mark in html for mark in ("<script", "<img", "\u202e", "\x1b"))
    bench.choose(Picks(every="ours", rows=((evil, "theirs"),)))
    assert bench.wait(60)
    assert bench.can_apply
    bench.apply()
    found = lance.dataset(ds.uri).to_table().to_pylist()
    assert {row[evil]: row["v"] for row in found} == {"a": f"{evil}2", evil: "b1"}


def test_picks_are_what_sides_are(sides):
    given = lk.Sides("ours", columns={"price": "theirs"}, rows={3: "ours"})
    plan = sides.branches.merge("trial", dry_run=True, conflicts=given)
    picks = picks_of(plan)
    assert sides_of(picks) == given
    assert sides_of(replace(picks, columns=(), rows=())) == "ours"
    assert code_of(plan, picks).endswith(
        "conflicts=lk.Sides('ours', columns={'price': 'theirs'}, rows={3: 'ours'}))"
    )
    assert picks_of(sides.branches.merge("trial", dry_run=True)) == Picks()

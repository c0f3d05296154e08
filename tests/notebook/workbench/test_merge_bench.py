"""A merge by clicks: previewed, applied, taken back."""

import threading
from dataclasses import replace
from datetime import UTC, datetime

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._notebook.workbench import open_merge
from lancekit._notebook.workbench.bench import Bench
from lancekit.errors import CommitConflictError, RetryableConflictError
from tests.notebook.render.test_html import HOSTILE, Reader
from tests.notebook.workbench.conftest import widgets
from tests.support.cards import show_html, show_text

NARROW = pa.schema({"id": pa.int64()})
SOURCE = {"id": [2, 3, 3, 20], "price": [2.0, 3.5, 3.75, 20.0]}


def bench_of(ds, rows=None, **rules):
    bench = open_merge(ds.merge_insert("id"), SOURCE if rows is None else rows)
    if rules:
        bench.choose(replace(bench.state.choices, **rules))
        assert bench.wait(60)
    return bench


def test_the_method_opens_it(ds):
    bench = ds.merge_insert("id").when_matched_delete().interactive([{"id": 2}], schema=NARROW)
    assert bench.state.plan.num_deleted_rows == 1
    assert bench.code == "ds.merge_insert('id').when_matched_delete().execute(df, schema=schema)"


def test_clicks_change_what_is_previewed_and_the_code(ds):
    bench = bench_of(ds)
    made = widgets(bench.widget)
    assert bench.state.phase == "failed"
    assert "id = 3" in bench.widget.children[3].value
    assert 'role="alert">' in bench.widget.children[3].value
    made["apply"].click()
    assert "No preview to apply." in bench.state.notice
    bench.undo()
    assert "Nothing to undo." in bench.state.notice
    assert "refused: choose which row to keep" in show_text(bench)
    made["duplicate keys"].value = "last"
    assert bench.wait(60)
    assert dict(bench.state.plan) == {
        "num_inserted_rows": 1,
        "num_updated_rows": 2,
        "num_deleted_rows": 0,
    }
    made["matched rows"].value = "update if"
    assert bench.wait(60)
    assert "condition" in str(bench.state.error)
    assert made["update if"].layout.display is None
    assert made["delete if"].layout.display == "none"
    made["update if"].value = "source.price > target.price"
    assert bench.wait(60)
    assert bench.state.plan.num_updated_rows == 1
    made["missing rows"].value = "delete"
    assert bench.wait(60)
    assert bench.state.plan.num_deleted_rows == 6
    assert "old → new" in bench.widget.children[5].value
    code = bench.code
    assert "source.price > target.price" in bench.widget.children[1].value.replace("&gt;", ">")
    expected = eval(code, {"ds": ds.checkout_version(1), "df": SOURCE})
    assert lk.dataset(ds.uri).version == 2
    assert dict(expected) == dict(bench.state.plan)


def test_apply_and_undo(ds):
    bench = bench_of(ds, dedupe="last")
    made = widgets(bench.widget)
    made["apply to main:1"].click()
    assert bench.state.phase == "done"
    assert (ds.version, bench.state.result.num_updated_rows) == (2, 2)
    assert "merged into" in bench.widget.children[4].value
    found = lance.dataset(ds.uri).to_table(["id", "price", "name"]).sort_by("id").to_pylist()
    assert found[1:3] == [
        {"id": 2, "price": 2.0, "name": "item 2"},
        {"id": 3, "price": 3.75, "name": "item 3"},
    ]
    assert found[-1] == {"id": 20, "price": 20.0, "name": None}
    widgets(bench.widget)["undo version 2"].click()
    assert bench.wait(60)
    assert (ds.version, bench.state.phase, bench.state.result) == (3, "ready", None)
    assert "Undone: main:3 has the rows of main:1." in bench.widget.children[3].value
    assert lance.dataset(ds.uri).to_table().equals(lance.dataset(ds.uri, version=1).to_table())


def test_a_table_that_moved_is_shown_before_it_is_changed(ds):
    bench = bench_of(ds, dedupe="last")
    lk.dataset(ds.uri).delete("id = 2")
    bench.apply()
    assert (bench.state.phase, ds.latest_version) == ("ready", 2)
    assert "main:1 is now main:2" in bench.state.notice
    assert bench.state.plan.num_inserted_rows == 2
    bench.apply()
    assert (bench.state.phase, ds.version) == ("done", 3)


def test_who_writes_at_the_last_moment_is_told_of(ds, monkeypatch):
    bench = bench_of(ds, dedupe="last")
    lk.dataset(ds.uri).delete("id = 8")
    monkeypatch.setattr(bench, "_newer_commits", lambda plan: "")
    bench.apply()
    assert bench.state.notice == "Others committed first: applied to version 2."


def test_undo_is_refused_by_name_if_others_wrote_since(ds):
    bench = bench_of(ds, dedupe="last")
    bench.apply()
    lk.write_dataset({"id": [77]}, ds.uri, mode="append", commit_message="mine, too")
    bench.undo()
    assert (bench.state.phase, ds.latest_version) == ("done", 3)
    assert "3 (append by" in str(bench.state.error)
    assert "mine, too" in str(bench.state.error)
    assert bench.state.can_undo


def test_a_conflict_is_shown_as_its_card(ds, monkeypatch):
    bench = bench_of(ds, dedupe="last")
    error = RetryableConflictError("lost", reason="<b>they</b> were first", mine="Update")

    def apply(plan):
        raise error

    monkeypatch.setattr(type(bench.state.plan), "apply", apply)
    widget = bench.widget
    bench.apply()
    assert isinstance(bench.state.error, CommitConflictError)
    assert "Conflict" in widget.children[3].value
    assert "<b>they" not in widget.children[3].value
    monkeypatch.undo()
    bench.request_preview()
    assert bench.wait(60)
    assert bench.state.can_apply


def test_an_interrupt_is_shown_in_place(ds, monkeypatch):
    bench = bench_of(ds, dedupe="last")

    def apply(plan):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(bench.state.plan), "apply", apply)
    bench.apply()
    assert "Interrupted" in str(bench.state.error)
    assert ds.latest_version == 1


def test_a_pinned_handle_is_previewed_and_not_changed(ds):
    lk.dataset(ds.uri).delete("id < 4")
    pinned = ds.at(1)
    bench = bench_of(pinned, dedupe="last")
    assert bench.state.plan.version == 1
    bench.apply()
    assert "pinned" in str(bench.state.error)


def test_one_preview_at_a_time_and_the_last_one_counts(ds, monkeypatch):
    bench = bench_of(ds, dedupe="last")
    made, entered, go = bench._preview, threading.Event(), threading.Event()
    asked = []

    def slow(choices):
        asked.append(choices.dedupe)
        entered.set()
        assert go.wait(30)
        return made(choices)

    monkeypatch.setattr(bench, "_preview", slow)
    bench.choose(replace(bench.state.choices, dedupe="first"))
    assert entered.wait(30)
    for dedupe in ("refuse", "last", "first", "last"):
        bench.choose(replace(bench.state.choices, dedupe=dedupe))
    go.set()
    assert bench.wait(60)
    assert asked == ["first", "last"]
    assert bench.state.can_apply
    assert bench.state.plan.changes[0].new == 3.75


def test_odd_keys_and_columns_are_named(tmp_path):
    ds = lk.write_dataset({"id": [1, 2], "v": [1, 2], "w": [1, 2]}, tmp_path / "t")
    rows = pa.table({"id": pa.array([1, None, None], pa.int32()), "v": [5, 6, 7]})
    text = show_text(bench_of(ds, rows))
    assert "2 source rows with a null in the key: null matches no row" in text
    assert "is inserted as new" in text
    assert "keeps its values, null in new rows" in text
    assert "cast, if no value is lost" in text
    text = show_text(bench_of(ds, {"id": [1], "nosuch": [2]}))
    assert "refused: leave it out" in text
    assert "nosuch" in text


@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_names(evil, tmp_path):
    rows = {evil: [1, 2], "v": [evil, evil]}
    ds = lk.write_dataset(rows, tmp_path / "t")
    bench = ds.merge_insert([evil]).interactive({evil: [1, 3], "v": [f"{evil}!", "x"]})
    shown = [show_html(bench), *(c.value for c in bench.widget.children if hasattr(c, "value"))]
    for html in shown:
        Reader(html.replace("<pre>", "<p>").replace("</pre>", "</p>"))
        assert "<script" not in html
        assert "<img" not in html
        assert not any(mark in html for mark in "\u202e\x1b\x07")
    assert bench.state.can_apply
    bench.apply()
    assert bench.state.phase == "done"


def test_the_twin_is_what_a_saved_notebook_has(ds):
    bench = bench_of(ds, dedupe="last")
    bundle = bench._repr_mimebundle_()
    assert {"text/plain", "text/html"} <= bundle.keys()
    for text in bundle.values():
        assert "dedupe" in text
        assert "merge into main:1" in text
    assert len(bundle["text/html"].encode()) <= 50_000
    assert bench.view(datetime.now(UTC)).title == "merge into main:1"
    assert isinstance(bench, Bench)


def test_a_spark_source_is_previewed_on_demand(ds, monkeypatch):
    from lancekit._notebook.workbench import merge_bench

    choice = merge_bench.choose_source([], is_frame=False)
    monkeypatch.setattr(
        merge_bench, "choose_source", lambda *_, **__: replace(choice, engine="spark")
    )
    bench = bench_of(ds, {"id": [1], "price": [0.5]})
    assert bench.state.phase == "waiting"
    assert "not previewed yet" in show_text(bench)
    made = widgets(bench.widget)
    made["preview"].click()
    assert bench.wait(60)
    assert bench.state.plan.num_updated_rows == 1

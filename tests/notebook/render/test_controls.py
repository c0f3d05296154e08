"""What widgets share: requests one at a time, tables of a page, plans before changes."""

import sys
import threading
from datetime import timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._notebook.render import controls
from lancekit._notebook.render.controls import (
    VIEW,
    Confirmed,
    Interactive,
    Latest,
    as_html,
    error_text,
    page_table,
)
from lancekit._notebook.render.models import Card
from tests.notebook.conftest import rows

# ---- requests


def test_what_is_overtaken_is_never_done():
    entered, go, done = threading.Event(), threading.Event(), []

    def work(request, cancelled):
        done.append(request)
        entered.set()
        assert go.wait(10)
        done.append(cancelled())

    latest = Latest(work, done.append)
    latest.submit(0)
    assert entered.wait(10)
    for request in range(1, 100):
        latest.submit(request)
    go.set()
    assert latest.wait(10)
    assert done == [0, True, 99, False]
    latest.submit(100)
    assert latest.wait(10)
    assert done[-2:] == [100, False]


def test_stop_forgets_what_waits_and_tells_what_runs():
    entered, go, done = threading.Event(), threading.Event(), []

    def work(request, cancelled):
        entered.set()
        assert go.wait(10)
        done.append((request, cancelled()))

    latest = Latest(work, done.append)
    latest.submit("runs")
    assert entered.wait(10)
    latest.submit("waits")
    latest.stop()
    go.set()
    assert latest.wait(10)
    assert done == [("runs", True)]


def test_errors_are_told_and_the_next_request_is_done():
    told = []

    def work(request, _cancelled):
        if request == "bad":
            raise ValueError(request)
        told.append(request)

    latest = Latest(work, told.append)
    for request in ("bad", "good"):
        latest.submit(request)
        assert latest.wait(10)
    assert isinstance(told[0], ValueError)
    assert told[1:] == ["good"]


def test_without_threads_who_asks_does_it():
    def none(run):
        raise RuntimeError("can't start new thread")

    asked = []

    def work(request, _cancelled):
        asked.append((request, threading.current_thread()))
        if request < 3:
            latest.submit(request + 1)  # a widget that changes another one

    latest = Latest(work, asked.append, none)
    latest.submit(1)
    assert asked == [(n, threading.current_thread()) for n in (1, 2, 3)]


def test_the_options_of_who_asks_hold():
    seen = []
    latest = Latest(lambda *_: seen.append(lk.options.display_rows), seen.append)
    with lk.options(display_rows=3):
        latest.submit(None)
        assert latest.wait(10)
    assert seen == [3]


# ---- tables


def test_a_page_says_which_rows_of_how_many_it_has():
    table = pa.table({f"c{i}": [1, 2] for i in range(30)})
    page = page_table(table, "Rows", 10, 1000)
    assert page.note == "11 to 12 of 1,000 rows; 20 of 30 columns"
    assert len(page.columns) == 20
    assert page_table(table.select(["c0"]), "Rows", 0, None).note == (
        "1 to 2 of an unknown number of rows"
    )
    assert page_table(table.slice(0, 0).select(["c0"]), "Rows", 0, 7).note == "none of 7 rows"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (pa.array([None], pa.int8()), "null"),
        (pa.array(["a\u202eb"]), "a\\u202eb"),
        (pa.array(["x" * 1000]), "x" * 79 + "…"),
        (pa.array([b"\0" * 70_000]), "70,000 bytes"),
        (
            pa.array([list(range(768))], pa.list_(pa.int16(), 768)),
            "[0, 1, 2, 3, 4, 5, 6, 7, …] of 768",
        ),
        (pa.array([[1, None]]), "[1, null]"),
        (pa.array([[[1] * 9]]), "[[1, 1, 1, 1, 1, 1, 1, 1, 1]]"),
        (pa.array([{"a": 1, "b": "x"}]), "{a: 1, b: 'x'}"),
        (pa.array([timedelta(seconds=1)]), "0:00:01"),
        (pa.array(["a"]).dictionary_encode(), "a"),
        (pa.array([1], pa.timestamp("ns")), "1970-01-01 00:00:00.000000001"),
    ],
)
def test_a_value_is_bounded(value, shown):
    (row,) = page_table(pa.table({"c": value}), "Rows", 0, 1).rows
    assert row.cells == (shown,)


def test_an_error_is_a_few_lines_that_are_safe():
    assert error_text(ValueError("a\nb\x1b")) == "ValueError: a\nb\\x1b"
    assert error_text(ValueError("a\n" * 1000)).count("\n") < 12
    with pytest.raises(lk.errors.LancekitError) as caught:
        lk.dataset("memory://not-there-at-all")
    assert error_text(caught.value).startswith("Dataset at path")
    html = as_html(ValueError("<script>\x1b[2J"))
    assert 'role="alert">' in html
    assert "<script>" not in html
    assert "\x1b" not in html


# ---- plans before changes


@pytest.fixture
def confirmed(tmp_path):
    ds = lk.write_dataset(rows(1, 2), tmp_path / "d.lance")
    return ds, Confirmed(
        "delete", "delete all rows", lambda: ds.explain.delete("true"), lambda _: ds.delete("true")
    )


def press(confirmed, *buttons):
    for name in buttons:
        getattr(confirmed, name).click()
        assert confirmed.wait(10)


def test_nothing_is_done_before_it_is_confirmed(confirmed):
    ds, change = confirmed
    press(change, "confirm")
    assert (ds.version, change.shown.value) == (1, "")
    press(change, "preview")
    assert "Explanation" in change.shown.value
    assert change._choice.layout.display is None
    press(change, "leave", "confirm")
    assert (ds.version, change.shown.value) == (1, "")
    press(change, "preview", "confirm")
    assert "deleted 2 rows" in change.shown.value
    assert change._choice.layout.display == "none"
    press(change, "confirm")
    assert ds.version == 2


def test_a_plan_that_was_not_seen_is_not_applied():
    asked, go, applied = threading.Event(), threading.Event(), []

    def plan():
        asked.set()
        assert go.wait(10)
        return "plan"

    change = Confirmed("do", "do it", plan, applied.append)
    change.preview.click()
    assert asked.wait(10)
    change.confirm.click()  # before it is there
    go.set()
    assert change.wait(10)
    assert applied == []


def test_what_a_change_raises_is_shown(confirmed):
    ds, change = confirmed
    change._apply = lambda _: ds.delete("nothing = 1")
    press(change, "preview", "confirm")
    assert 'role="alert">' in change.shown.value
    assert "nothing" in change.shown.value
    press(change, "preview")
    assert "Explanation" in change.shown.value


# ---- twins


class Both(Interactive):
    def _card(self, now):
        return Card(kind="Both", title=f"in {now:%Y}", headline=())

    def _made(self):
        return controls.markup("<p>there</p>")


def test_a_widget_has_its_twin_beside_it(monkeypatch):
    both = Both()
    assert repr(both).startswith("in 20")
    for shown in both._repr_mimebundle_().values():
        assert "run the cell in Jupyter, with ipywidgets" in shown
    assert set(both._repr_mimebundle_()) == {"text/plain", "text/html"}
    monkeypatch.setattr(controls, "in_kernel", lambda: True)
    bundle = both._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", VIEW}
    assert bundle[VIEW]["model_id"] == both.widget.model_id
    assert both._repr_mimebundle_()[VIEW] == bundle[VIEW]
    monkeypatch.setattr(controls, "find_spec", lambda name: None)
    assert set(both._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_a_widget_that_cannot_be_made_leaves_its_twin(monkeypatch):
    class Broken(Both):
        def _made(self):
            raise OSError("no widgets here")

    monkeypatch.setattr(controls, "in_kernel", lambda: True)
    bundle = Broken()._repr_mimebundle_()
    assert "no widgets here" in bundle["text/html"]
    assert "in 20" in bundle["text/html"]
    assert VIEW not in bundle


@pytest.fixture
def kernel(monkeypatch):
    """A shell of a kernel, which keeps what is put out."""
    put = []
    shell = SimpleNamespace(user_ns={}, display_pub=SimpleNamespace(publish=put.append))
    monkeypatch.setattr(controls, "in_kernel", lambda: True)
    monkeypatch.setattr(controls, "active_shell", lambda: shell)
    monkeypatch.delitem(sys.modules, "google.colab", raising=False)
    return shell, put


def test_a_twin_is_put_out_before_its_widget(kernel):
    both, (_, put) = Both(), kernel
    both._ipython_display_()
    twin, widget = put
    assert set(twin) == {"text/plain", "text/html"}
    assert twin["text/html"].startswith('<div class="lancekit-twin">')
    assert both._repr_html_() in twin["text/html"]
    assert widget == {VIEW: both._repr_mimebundle_()[VIEW], "text/html": ""}


def test_they_are_one_output_where_pages_would_show_both(kernel, monkeypatch):
    shell, put = kernel
    shell.user_ns["__vsc_ipynb_file__"] = "cells.ipynb"
    with pytest.raises(NotImplementedError):
        Both()._ipython_display_()
    shell.user_ns.clear()
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    with pytest.raises(NotImplementedError):
        Both()._ipython_display_()
    monkeypatch.delitem(sys.modules, "google.colab")
    monkeypatch.setattr(Both, "_made", lambda _: 1 / 0)
    with pytest.raises(NotImplementedError):
        Both()._ipython_display_()
    monkeypatch.setattr(controls, "in_kernel", lambda: False)
    with pytest.raises(NotImplementedError):
        Both()._ipython_display_()
    assert put == []

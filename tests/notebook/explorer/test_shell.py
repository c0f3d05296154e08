"""The widgets of an explorer, pressed as a front end presses them."""

import re
import threading

import pytest

import lancekit as lk
from lancekit._notebook.explorer import shell as module
from lancekit._notebook.explorer.shell import Shell
from lancekit._notebook.explorer.visit import Visit


@pytest.fixture
def shell(ds, monkeypatch):
    monkeypatch.setattr(module, "_REST", 0)
    made = Shell(Visit(ds, 6))
    assert made.wait(20)
    return made


def text(widget):
    return re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", widget.value))


def after(shell, **values):
    for name, value in values.items():
        getattr(shell, name).value = value
        assert shell.wait(20)


def press(shell, *buttons):
    for one in buttons:
        (getattr(shell, one) if isinstance(one, str) else one).click()
        assert shell.wait(20)


def test_it_begins_with_the_stop_and_a_page(shell):
    assert "main:6" in text(shell.head)
    assert "1 to 10 of 98 rows" in text(shell.pane)
    assert "ds.checkout_version(6)" in text(shell.code)
    assert "version 6 is shown" in text(shell.status)
    assert (shell.slider.min, shell.slider.max, shell.slider.value) == (1, 8, 6)
    assert shell.tag.value == ("main", 6)
    assert "lancekit-panel" in shell.widget._dom_classes


def test_every_control_has_a_name(shell):
    def below(widget):
        yield widget
        for child in getattr(widget, "children", ()):
            yield from below(child)

    controls = [one for one in below(shell.widget) if hasattr(one, "disabled")]
    assert len(controls) > 20
    for one in controls:
        if one is shell.slider:
            continue  # no key leads to it, and no reader
        named = getattr(one, "description", "") or getattr(one, "tooltips", ())
        assert named, one
        assert getattr(one, "tooltip", None) or one.tooltips, one


def test_stepping_sliding_and_typing(shell):
    press(shell, shell._steps[1])
    assert (shell.slider.value, shell.version.value) == (4, 4)
    after(shell, slider=5)  # which is gone
    assert (shell.slider.value, shell.version.value) == (6, 6)
    after(shell, version=1)
    assert "main:1" in text(shell.head)
    assert shell._steps[0].disabled
    press(shell, shell._steps[3])
    assert "main:8" in text(shell.head)
    assert shell._steps[3].disabled


def test_branches_and_tags(shell):
    after(shell, branch="trial")
    assert (shell.slider.min, shell.slider.max, shell.slider.value) == (6, 7, 7)
    assert "trial:7" in text(shell.head)
    after(shell, tag=("main", 2))
    assert (shell.branch.value, shell.slider.value) == ("main", 2)
    assert "one &amp; more" in text(shell.head)


def test_pinned(shell):
    press(shell, "pin")
    after(shell, slider=8)
    assert "main:6 (pinned)" in text(shell.head)
    after(shell, views="compare")
    assert "main:6 → main:8" in text(shell.pane)
    press(shell, "compare")
    assert "1 inserted" in text(shell.pane)
    press(shell, "unpin")
    assert "main:7 (previous version)" in text(shell.head)


def test_rows(shell):
    after(shell, sort="id", way=False)
    assert re.search(r"\b100\b.*\b99\b.*\b98\b", text(shell.pane))
    press(shell, "on")
    assert "11 to 20 of 98 rows" in text(shell.pane)
    press(shell, "back")
    after(shell, filter="x > 4")
    assert "Where x &gt; 4, sorted by id, highest first, all 98 rows read" in text(shell.pane)
    after(shell, filter="nothing > 4")
    assert "there is no column" in text(shell.pane)
    assert 'role="alert">' in shell.pane.value
    assert "main:6" in text(shell.head)
    after(shell, filter="", sort="nothing")
    assert "no column" in text(shell.pane)
    after(shell, sort="")
    assert "1 to 10 of 98 rows" in text(shell.pane)


def test_columns(shell):
    after(shell, views="schema")
    assert "was s" in text(shell.pane)
    after(shell, views="column", column="x")
    press(shell, "summarize")
    assert "Histogram" in text(shell.pane)
    after(shell, slider=7)
    assert "press summarize" in text(shell.pane)


def test_what_takes_long_is_asked_for(shell, monkeypatch):
    monkeypatch.setattr("lancekit._notebook.explorer.pages.CONFIRM_ABOVE", 1)
    after(shell, filter="x > 4")
    assert "not read yet" in text(shell.pane)
    press(shell, "read")
    assert "rows read" in text(shell.pane)


def test_a_tag_is_confirmed(shell, ds):
    after(shell, views="change", kind="tag", name="good")
    assert shell.pane.layout.display == "none"
    press(shell, shell.change.preview)
    assert "tag good → main:6" in text(shell.change.shown)
    assert "good" not in ds.tags.names()
    press(shell, shell.change.confirm)
    assert ds.tags.get_version("good") == 6
    assert "good" in text(shell.head)
    press(shell, shell.change.preview)
    after(shell, slider=7)
    assert shell.change.shown.value == ""  # the plan was of another stop
    after(shell, name="not a name!")
    press(shell, shell.change.preview, shell.change.confirm)
    assert 'role="alert">' in shell.change.shown.value


def test_a_restore_is_refused_if_somebody_commits_meanwhile(shell, ds):
    after(shell, views="change", kind="restore")
    assert shell.name.layout.display == "none"
    press(shell, shell.change.preview)
    lk.dataset(ds.uri).delete("id = 99")
    press(shell, shell.change.confirm)
    assert "moved from version 8 to 9" in text(shell.change.shown)
    press(shell, shell.change.preview, shell.change.confirm)
    assert "main:10" in text(shell.change.shown)
    assert (shell.slider.max, shell.slider.value) == (10, 6)


def test_a_refresh_finds_what_others_did(shell, ds):
    lk.dataset(ds.uri).delete("id = 99")
    ds.create_branch("late")
    press(shell, "refresh")
    assert shell.slider.max == 9
    assert "late" in shell.branch.options


def test_a_branch_that_is_gone_is_told(shell, ds):
    after(shell, branch="trial")
    ds.branches.delete("trial")
    press(shell, "refresh")
    assert "trial" in text(shell.pane)
    assert 'role="alert">' in shell.pane.value
    press(shell, shell._steps[1], "pin")
    after(shell, branch="main")
    assert "main:8" in text(shell.head)
    assert "trial:6 (not found)" in text(shell.head)


def test_what_is_done_while_another_thread_looks_is_not_lost(shell):
    def go_everywhere():
        for n in range(1, 9):
            shell.send(lambda state, n=n: state.go(n))

    threads = [
        threading.Thread(target=lambda: [shell._go(("trial", None)), shell._go(("main", 4))]),
        threading.Thread(target=go_everywhere),
    ]
    for _ in range(5):
        shell.slider.value = shell.slider.min
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert shell.wait(20)
    shell.send(lambda state: state.go(7))
    assert shell.wait(20)
    assert (shell.slider.value, shell.version.value) == (7, 7)
    assert ":7" in text(shell.head)


def test_what_is_gone_is_told_and_nothing_is_raised(shell, ds, tmp_path):
    for file in tmp_path.rglob("*.manifest"):
        file.unlink()
    shell._visit.reader.handle.cache_clear()
    after(shell, slider=2)
    assert 'role="alert">' in shell.pane.value
    press(shell, "refresh")
    assert 'role="alert">' in shell.pane.value
    after(shell, branch="trial")
    press(shell, shell.change.preview)
    assert 'role="alert">' in shell.change.shown.value


def test_dragging_reads_no_rows_and_few_stops(ds, monkeypatch):
    entered, go, stops, pages = threading.Event(), threading.Event(), [], []
    find, view = Visit.stops, Visit.view

    def slow(self, state):
        stops.append(state.version)
        entered.set()
        assert go.wait(10)
        return find(self, state)

    def seen(self, state, found, cancelled):
        pages.append(state.version)
        return view(self, state, found, cancelled)

    monkeypatch.setattr(Visit, "stops", slow)
    monkeypatch.setattr(Visit, "view", seen)
    shell = Shell(Visit(ds))
    assert entered.wait(10)
    for version in [7, 6, 4, 2, 1, 2, 4, 6]:
        shell.slider.value = version
    go.set()
    assert shell.wait(20)
    assert stops == [8, 6]
    assert pages == [6]


def test_a_thousand_columns_and_versions(tmp_path):
    made = lk.write_dataset({f"c{i}": [i] for i in range(1000)}, tmp_path / "wide.lance")
    shell = Shell(Visit(made))
    assert shell.wait(20)
    assert len(shell.sort.options) == 1000
    assert len(shell.pane.value) < 50_000
    shell.send(lambda state: state.go(10**9))
    assert shell.wait(20)


def test_an_error_goes_when_something_else_is_to_be_done(shell):
    after(shell, views="change", kind="tag")
    press(shell, shell.change.preview)
    assert "Write a name first" in text(shell.change.shown)
    after(shell, kind="restore")
    assert text(shell.change.shown) == ""


def test_the_newest_version_is_not_restored(shell):
    after(shell, views="change")
    assert shell.kind.value == "restore"
    shell.send(lambda state: state.go(8))
    assert shell.wait(20)
    assert shell.kind.options == ("tag", "branch", "promote")
    assert shell.kind.value == "tag"
    assert shell.name.layout.display is None
    shell.send(lambda state: state.go(7))
    assert "restore" in shell.kind.options


def test_a_column_is_read_when_it_was_chosen(shell):
    after(shell, views="column", column="id")
    assert "all 98 rows read" in text(shell.pane)


def test_what_stands_in_an_empty_field_fits(shell):
    for field in (shell.filter, shell.sort, shell.column, shell.name):
        assert len(field.placeholder) <= 30

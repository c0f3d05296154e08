"""Explorer, pictures and ``%lance`` on object stores: what they ask for, and what fails midway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import lancekit as lk
from lancekit._display import HTML
from lancekit._notebook.explorer.visit import Visit
from lancekit._notebook.magics import lance
from lancekit._notebook.render.controls import as_html
from lancekit.errors import LancekitError, StorageError
from tests.notebook.conftest import NOW
from tests.support.faults import Call, Faults, injected
from tests.support.s3 import S3Server
from tests.support.shells import ipython

Asked = Callable[[Callable[[], object]], list[str]]


def filled(uri: str, options: dict[str, str] | None = None) -> lk.LanceDataset:
    rows, uri = {"x": range(50), "s": ["a"] * 50}, f"{uri}-{uuid4().hex[:8]}"
    ds = lk.write_dataset(rows, uri, storage_options=options, primary_key="x")
    for x in range(100, 104):
        ds.insert({"x": [x], "s": ["b"]})
    ds.tags.create("third", 3)
    ds.create_branch("trial", 4)
    return lk.dataset(uri, storage_options=options)


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[lk.LanceDataset, Asked]]:
    """A dataset, and what a call asks its store for: names of files and folders."""

    def asking(log: list[Any], name: Callable[[Any], str]) -> Asked:
        def asked(call: Callable[[], object]) -> list[str]:
            log.clear()
            call()
            return [name(one) for one in log]

        return asked

    if request.param == "memory":
        with injected(Faults()) as faults:
            yield filled("memory://notebook-stores"), asking(faults.calls, lambda call: call.name)
        return
    server: S3Server = request.getfixturevalue("s3")
    ds = filled(f"s3://{server.bucket}/notebook-stores", server.storage_options)
    yield ds, asking(server.log, lambda one: one[1])


def test_a_step_costs_two_manifests_at_most_and_no_rows(store: Any) -> None:
    ds, asked = store
    made: list[Visit] = []
    begun = asked(lambda: made.append(Visit(ds)))
    assert len(begun) == 4  # branches, tags and versions are listed, and a tag is read
    (visit,) = made

    def stepped(way: str, by: int) -> None:
        visit.send(lambda state: getattr(state, way)(by))
        visit.head(visit.state, visit.stops(visit.state), NOW)

    for event, most in (
        (("go", 5), 2),
        (("move", -1), 1),
        (("move", -1), 1),
        (("go", 1), 1),
        (("go", 5), 0),
    ):
        files = asked(lambda event=event: stepped(*event))
        assert len(files) <= most, event
        assert all(file.endswith(".manifest") for file in files)
    visit.send(lambda state: state.show("schema"))
    assert asked(lambda: as_html(visit.view(visit.state, visit.stops(visit.state)))) == []
    visit.send(lambda state: state.show("rows"))
    page = asked(lambda: as_html(visit.view(visit.state, visit.stops(visit.state))))
    assert any(".lance" in file.rpartition("/")[2] for file in page)


def test_pictures_and_words_ask_for_no_rows(store: Any) -> None:
    ds, asked = store
    for name in ("history", "graph", "fragments", "mem_wal", "key_filters"):
        files = asked(lambda name=name: getattr(ds.plot, name)())
        assert not any("/data/" in file or file.startswith("data/") for file in files), name
    with ipython() as shell:
        shell.user_ns["ds"] = ds
        budgets = {"history": 9, "diff": 1, "branches": 2, "tags": 2}
        for word, most in budgets.items():
            with lk.options(display_reads=False):
                files = asked(lambda word=word: as_html(lance(shell, f"{word} ds")))
            assert len(files) <= most, (word, files)
        rows = asked(lambda: as_html(lance(shell, "diff ds")))
        assert len({file.rpartition("/")[2] for file in rows}) <= 2
        # how much of the files each column takes is looked up in one of them, and no rows are read
        looked = asked(lambda: as_html(lance(shell, "explain ds x > 3")))
        assert len({file.rpartition("/")[2] for file in looked}) <= 1
        assert "b" in repr(lance(shell, "blame ds s = 'b'"))


def failing(armed: list[str]) -> Faults:
    def fail(call: Call) -> None:
        if any(part in call.name for part in armed):
            raise StorageError("the store is away", hint="Try it again.")

    return Faults(before=fail)


def test_a_store_that_fails_in_a_step_is_told_and_the_widget_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ipywidgets")
    from lancekit._notebook.explorer import shell as module

    monkeypatch.setattr(module, "_REST", 0)
    armed: list[str] = []
    with injected(failing(armed)):
        shell = module.Shell(Visit(filled("memory://notebook-failing")))
        assert shell.wait(20)
        for part, act in (
            ("_versions", lambda: setattr(shell.slider, "value", 2)),
            ("data/", lambda: setattr(shell.slider, "value", 3)),
            ("_refs", shell.refresh.click),
            ("_versions", lambda: setattr(shell.branch, "value", "trial")),
        ):
            armed[:] = [part]
            act()
            assert shell.wait(20)
            assert 'role="alert">' in shell.pane.value, part
            assert "the store is away" in shell.pane.value
            armed.clear()
            shell.refresh.click()
            assert shell.wait(20)
            assert 'role="alert">' not in shell.pane.value, part
            assert " is shown" in shell.status.value


def test_a_store_that_fails_is_an_error_of_calls_and_a_line_of_cards() -> None:
    armed: list[str] = []
    with injected(failing(armed)):
        ds = filled("memory://notebook-cards")
        explorer, history = ds.explore(), ds.versions()
        armed += ["_versions", "_refs"]
        for work in (ds.explore, ds.plot.history, ds.plot.graph, ds.plot.key_filters):
            with pytest.raises(LancekitError, match="the store is away"):
                work()
        for shown in (ds, explorer, history, ds.tags, ds.branches):
            bundle = shown._repr_mimebundle_()
            assert "the store is away" in bundle["text/plain"], type(shown)
            assert "Traceback" not in str(bundle.get(HTML))

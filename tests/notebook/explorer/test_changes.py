"""Changes from an explorer: none before they are applied, none if something came between."""

from html import unescape
from pathlib import Path

import pytest

import lancekit as lk
from lancekit._notebook.explorer.changes import NAMED, Change, apply_plan, plan_change
from lancekit._notebook.explorer.pages import Reader
from lancekit._notebook.render.controls import as_html


@pytest.fixture
def reader(ds):
    return Reader(ds)


def files(ds):
    found = (path for path in Path(ds.uri).rglob("*") if path.is_file())
    return sorted((str(path), path.stat().st_mtime_ns) for path in found)


CHANGES = [
    Change("restore", ("main", 2)),
    Change("tag", ("main", 7), "new"),
    Change("tag", ("trial", 7), "two"),
    Change("branch", ("main", 4), "other"),
    Change("promote", ("trial", 7), "main"),
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_plan_changes_nothing_and_its_code_does_the_same(ds, reader, change):
    before = files(ds)
    plan = plan_change(reader, change)
    assert files(ds) == before
    assert plan.code in unescape(as_html(plan))
    result = apply_plan(reader, plan)
    assert files(ds) != before
    assert "lancekit" in as_html(result)
    assert ds.version == 8


def test_what_comes_of_them(ds, reader):
    for change in CHANGES:
        apply_plan(reader, plan_change(reader, change))
    assert (ds.tags.get_version("new"), ds.tags.list()["two"]["branch"]) == (7, "trial")
    assert ds.checkout_version(("other", None)).count_rows() == 98
    newest = lk.dataset(ds.uri)
    assert newest.versions()[-2].operation == "Restore"
    assert newest.count_rows("id = 60") == 0
    assert reader.branches == ("main", "other", "trial")


@pytest.mark.parametrize("change", [CHANGES[0], CHANGES[4]], ids=str)
def test_a_plan_is_refused_if_the_branch_moved(ds, reader, change):
    plan = plan_change(reader, change)
    lk.dataset(ds.uri).delete("id = 99")
    with pytest.raises(lk.errors.RetryableConflictError, match="'main' moved from version 8 to 9"):
        apply_plan(reader, plan)
    assert lk.dataset(ds.uri).version == 9
    apply_plan(reader, plan_change(reader, change))
    assert lk.dataset(ds.uri).version == 10


@pytest.mark.parametrize("name", ["two", "new"])
def test_a_plan_is_refused_if_the_tag_moved(ds, reader, name):
    plan = plan_change(reader, Change("tag", ("main", 7), name))
    (ds.tags.update if name == "two" else ds.tags.create)(name, 8)
    with pytest.raises(lk.errors.RetryableConflictError, match=r"Tag .* was moved"):
        apply_plan(reader, plan)
    assert ds.tags.get_version(name) == 8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change("restore", ("main", 8)), "newest version already"),
        (Change("branch", ("main", 4), "trial"), "Branch 'trial' exists already"),
        (
            Change("promote", ("trial", 6), "main"),
            "version, 7, can be promoted, got version 6",
        ),
        *((Change(kind, ("main", 4)), f"a name first: {what}") for kind, what in NAMED.items()),
    ],
)
def test_what_cannot_be_done_is_said_before(reader, change, words):
    with pytest.raises(lk.errors.InvalidArgumentError, match=words):
        plan_change(reader, change)

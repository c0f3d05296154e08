import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.checks.constraints import condition_of, evaluate, holds
from lancekit.errors import PredicateError

ROWS = pa.table(
    {
        "id": range(40),
        "x": pa.array([None if i % 7 == 0 else i for i in range(40)]),
        "p": pa.array([{"q.r": i % 3, "t": "a"} for i in range(40)]),
        "b": lk.blob_array([bytes([i]) for i in range(40)]),
    }
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("conditions") / "d.lance"
    ds = lk.write_dataset(ROWS, str(path), max_rows_per_file=9)
    ds.delete("id IN (5, 39)")
    return ds


LIVE = [i for i in range(40) if i not in (5, 39)]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("x >= 0", []),
        ("x >= 5", [1, 2, 3, 4]),
        ("x < 20", [i for i in LIVE if i >= 20 and i % 7]),
        ("x < 0 -- of nulls it is null", [i for i in LIVE if i % 7]),
        ("p.`q.r` <= 1 OR x < 30", [i for i in LIVE if i % 3 == 2 and i >= 30 and i % 7]),
    ],
)
def test_rows(dataset, text, broken) -> None:
    outcome = evaluate(dataset._snapshot, text)
    assert (outcome.holds, outcome.violations) == (not broken, len(broken))
    if broken:
        assert outcome.sample.column_names == ["id", "x", "p"]
        assert outcome.sample.column("id").to_pylist() == broken[:5]
    assert holds(dataset._snapshot, condition_of(dataset._snapshot, text)) == (not broken)


@pytest.mark.parametrize(
    ("text", "met", "sample"),
    [
        ("count(*) = 38", True, {"count(*)": 38}),
        ("count(x) = count(*)", False, {"count(x)": 32, "count(*)": 38}),
        ("count(DISTINCT p.`q.r`) = 3", True, {"count(DISTINCT p.`q.r`)": 3}),
        ("count(1) = 38", True, {"count(1)": 38}),
        ("max(x) < min(id)", False, {"max(x)": 38, "min(id)": 0}),
        ("sum(x) FILTER (WHERE id > 100) > 0", True, {"sum(x) FILTER (WHERE id > 100)": None}),
        ("avg(id) BETWEEN 19 AND 20", True, {"avg(id)": 736 / 38}),
    ],
)
def test_tables(dataset, text, met, sample) -> None:
    outcome = evaluate(dataset._snapshot, text)
    assert (outcome.holds, outcome.violations) == (met, None)
    assert outcome.sample.to_pylist() == [sample]


def test_no_rows() -> None:
    ds = lk.write_dataset(ROWS[:0].select(["x"]), "memory://no-rows-for-conditions")
    assert evaluate(ds._snapshot, "x > 3").holds
    assert evaluate(ds._snapshot, "max(x) > 3").holds
    assert not evaluate(ds._snapshot, "count(x) > 3").holds


def test_what_cannot_be_computed(dataset) -> None:
    with pytest.raises(PredicateError, match="divide by zero"):
        holds(dataset._snapshot, "1 / (id - id) > 3")
    with pytest.raises(PredicateError, match="divide by zero"):
        holds(dataset._snapshot, "count(*) / (count(*) - count(*)) > 3")

"""Pages of rows: sorted and filtered ones are of all rows, never of a sample."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._notebook.explorer import pages
from lancekit._notebook.explorer.pages import Page, Reader, read_page


def never():
    return False


@pytest.fixture
def state(ds):
    return Reader(ds).start(10)


def test_a_plain_page_reads_no_more_than_itself(ds, state):
    page = read_page(ds, state.turn(2), never)
    assert page.rows.equals(ds.to_table(limit=10, offset=20))
    assert (page.start, page.total, page.rows_read, page.columns) == (20, 99, 10, 3)


@pytest.mark.cover
@pytest.mark.parametrize("condition", ["", "x > 4", "x IS NULL", "id < 0"])
@pytest.mark.parametrize("order", [None, ("x", True), ("x", False), ("letter", False)])
def test_a_page_is_that_of_all_rows(ds, state, condition, order, monkeypatch):
    monkeypatch.setattr(pages, "_SORT_BATCH", 7)  # so that the best are put together many times
    state = replace(state, filter=condition, order=order)
    if state.is_plain:
        return
    asked = [lk.ColumnOrdering(order[0], ascending=order[1])] if order else None
    whole = ds.to_table(filter=condition or None, order_by=asked)
    for number in (0, 1, 4, 50):
        page = read_page(ds, replace(state, page=number), never)
        assert page.rows.equals(whole.slice(number * 10, 10)), (number, order)
        assert (page.total, page.rows_read) == (len(whole), 99)


def test_pages_of_random_rows_with_stable_row_ids(tmp_path):
    chance = random.Random(3)
    values = [chance.choice([None, float("nan"), chance.randint(0, 9) * 1.0]) for _ in range(300)]
    ds = lk.write_dataset(
        pa.table({"v": values, "i": range(300)}), tmp_path / "r.lance",
        enable_stable_row_ids=True, max_rows_per_file=50,
    )  # fmt: skip
    ds.delete("i % 7 = 0")
    ds.update({"i": "i + 1000"}, where="i % 5 = 0")
    for ascending in (True, False):
        state = replace(Reader(ds).start(25), order=("v", ascending), page=chance.randrange(5))
        whole = ds.to_table(order_by=[lk.ColumnOrdering("v", ascending=ascending)])
        page = read_page(ds, state, never)
        assert page.rows["i"].equals(whole["i"].slice(state.start, 25))


def test_a_column_that_is_sorted_by_is_shown(ds, state):
    with lk.options(display_columns=2):
        assert read_page(ds, state, never).rows.column_names == ["id", "x"]
        page = read_page(ds, state.sort("letter"), never)
    assert page.rows.column_names == ["letter", "id"]
    assert page.columns == 3


def test_what_takes_long_is_told_and_read_when_it_is_asked_for(ds, state, monkeypatch):
    monkeypatch.setattr(pages, "CONFIRM_ABOVE", 10)
    wanted = state.where("x > 4")
    cost = read_page(ds, wanted, never)
    assert not isinstance(cost, Page)
    assert (cost.rows, cost.bytes > 10) == (99, True)
    assert read_page(ds, wanted.confirm(), never).total == ds.count_rows("x > 4")
    assert read_page(ds, state, never).total == 99


def test_what_is_overtaken_ends(ds, state):
    assert read_page(ds, state.sort("x"), lambda: True) is None


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (lambda state: state.where("nothing > 1"), lk.errors.LancekitError),
        (lambda state: state.where("x >"), lk.errors.PredicateError),
        (lambda state: state.sort("nothing"), lk.errors.ColumnNotFoundError),
    ],
)
def test_wrong_words_are_errors_that_name_them(ds, state, event, error):
    with pytest.raises(error):
        read_page(ds, event(state), never)


def test_values_without_an_order(tmp_path):
    ds = lk.write_dataset(pa.table({"v": [[1], [2]]}), tmp_path / "lists.lance")
    with pytest.raises(
        lk.errors.InvalidArgumentError, match=r"'v' cannot be sorted: .*list.* has no order"
    ):
        read_page(ds, Reader(ds).start(10).sort("v"), never)

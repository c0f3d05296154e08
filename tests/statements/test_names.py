"""Variables of the caller are tables: those of the function, also in its comprehensions."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import PredicateError

#: a variable of the module, which a function's own variable hides
numbers = pa.table({"x": [0]})
OWN = "SELECT x + $more AS x FROM numbers"


def _first(result: lk.SqlResult) -> int:
    return result.to_table()["x"][0].as_py()


def _drained(values: Iterator[int]) -> list[int]:
    numbers = pa.table({"x": [99]})  # a stranger's
    assert numbers.num_rows
    return list(values)


def test_comprehensions_read_the_function_around_them() -> None:
    numbers = pa.table({"x": [7]})
    assert numbers.num_rows
    assert [_first(lk.sql(OWN)) for more in (1, 2) if more] == [8, 9]
    assert {_first(lk.sql(OWN)) for more in (1, 2) if more} == {8, 9}
    assert {more: _first(lk.sql(OWN)) for more in (1, 2)} == {1: 8, 2: 9}
    assert list(_first(lk.sql(OWN)) for more in (1, 2) if more) == [8, 9]  # noqa: C400
    assert [[_first(lk.sql(OWN)) for more in (1, at)] for at in (2, 3)] == [[8, 9], [8, 10]]
    assert _drained(_first(lk.sql(OWN)) for more in (1, 2) if more) == [8, 9]


def test_a_variable_of_a_comprehension_comes_first() -> None:
    more, tables = 0, [pa.table({"x": [at]}) for at in (3, 4)]
    assert more == 0
    assert [_first(lk.sql(OWN)) for numbers in tables if numbers.num_rows] == [3, 4]


def _later() -> Iterator[int]:
    hidden = pa.table({"x": [7]})
    assert hidden.num_rows
    return (_first(lk.sql("SELECT x FROM hidden")) for _ in "a")


def test_a_generator_does_not_read_what_runs_it() -> None:
    hidden = pa.table({"x": [99]})
    assert hidden.num_rows
    with pytest.raises(PredicateError, match="no table 'hidden'"):
        list(_later())


def test_a_lambda_or_thread_needs_the_table_by_name() -> None:
    local = pa.table({"x": [7]})
    text = "SELECT x FROM local"
    with pytest.raises(PredicateError, match=r"lambda or a thread, pass the table by name"):
        list(map(lambda _: lk.sql(text), "a"))  # noqa: C417
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(PredicateError, match=r"pass the table by name"):
            pool.submit(lk.sql, text).result()
        assert _first(pool.submit(lk.sql, text, local=local).result()) == 7

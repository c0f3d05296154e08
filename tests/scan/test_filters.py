"""Each expression of `filters.txt` has the same answer here and in the reference.

An answer is the rows that are wanted, or a refusal.  Where the answers differ, the expression
stands in `filter_differences.txt`, below the reason, which `docs/filters.md` explains.
"""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path
from random import Random

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._scan.expressions.predicate import Predicate, compile_expression
from lancekit.errors import PredicateError
from tests.scan.filter_random import random_condition, random_rows
from tests.scan.filter_rows import ROWS
from tests.support.function_list import function_list

HERE = Path(__file__).parent
REFUSED = "refused"
_NO_SUCH_NUMBER = re.compile("overflow|precision|not in range|truncated")
# two lists beside each other, or a division in one: see filter_differences.txt
_ODD_LISTS = re.compile(r"\bIN \(.*(?:\bIN \(|/ 2)")


def _sections(name):
    sections: dict[str, list[str]] = {}
    for line in (HERE / name).read_text().splitlines():
        if line.startswith("# "):
            section = sections.setdefault(line[2:], [])
        elif line:
            section.append(line)
    return sections


SAME = _sections("filters.txt")
DIFFERENT = _sections("filter_differences.txt")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return lk.write_dataset(ROWS, tmp_path_factory.mktemp("filters") / "rows.lance")


@pytest.fixture(scope="module")
def reference(dataset):
    return lance.dataset(dataset.uri)


def _mine(dataset, sql):
    try:
        return dataset.to_table(columns=["n"], filter=sql)["n"].to_pylist()
    except PredicateError as error:
        message = str(error)
    assert "^" in message, message
    return REFUSED


def _theirs(reference, sql):
    try:
        return reference.to_table(columns=["n"], filter=sql)["n"].to_pylist()
    except (ValueError, OSError, NotImplementedError, RuntimeError):
        return REFUSED
    except (
        BaseException
    ) as error:  # a panic of the reference's, which derives from nothing narrower
        if type(error).__name__ != "PanicException":
            raise
        return REFUSED


@pytest.mark.parametrize("section", SAME)
def test_the_same_answer_as_the_reference(section, dataset, reference):
    answers = {sql: (_mine(dataset, sql), _theirs(reference, sql)) for sql in SAME[section]}
    assert {sql: found for sql, found in answers.items() if found[0] != found[1]} == {}


@pytest.mark.parametrize("section", DIFFERENT)
def test_another_answer_than_the_reference(section, dataset, reference):
    for line in DIFFERENT[section]:
        sql, _, told = line.rpartition(" => ")
        expected = told if told == REFUSED else ast.literal_eval(told)
        assert _mine(dataset, sql) == expected, sql
        assert _theirs(reference, sql) != expected, f"{sql} is no difference any more"


def test_there_are_hundreds_of_expressions():
    count = sum(map(len, (*SAME.values(), *DIFFERENT.values())))
    assert count > 1000
    everything = [
        *(s for v in SAME.values() for s in v),
        *(d for v in DIFFERENT.values() for d in v),
    ]
    assert len(set(everything)) == len(everything)


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("i > 1 AND nosuch = 2", "nosuch"),
        ("i > 1 AND nosuch(i) = 2", "nosuch"),
        ("b OR i = 1.5", "1.5"),
        ("b OR lower(i) = 'a'", "i) ="),
        ("b AND i in (1, 2.5)", "2.5"),
        ("b AND date_part('eon', ts) = 1", "date_part"),
        ("b AND ts > timestamp '2020-13-01'", "'2020-13-01'"),
        ("b AND i > 1 foo", "foo"),
        ("b AND s = 'open", "'open"),
        ("i > 1; i < 3", "i < 3"),
        ("b AND k / 0 = 1", "k / 0"),
        ("b AND cast(w as int) = 1 + k", "w as"),
        ("b AND i8 + i8 > 0", "i8 + i8"),
        ("b\n  AND größe = 1\n  AND nosuch = 2", "nosuch"),
        ("b AND st.nope = 1", "st.nope"),
        ("b AND k", "k"),
        ("'日本' = s AND nosuch = 1", "nosuch"),
        ("i = 1 OR " * 60 + "nosuch = 2", "nosuch"),
    ],
)
def test_a_mistake_is_pointed_at(sql, place, dataset):
    with pytest.raises(PredicateError) as caught:
        dataset.to_table(filter=sql)
    error = caught.value
    position = sql.rindex(place)
    assert (error.context["sql"], error.context["position"]) == (sql, position)
    line, caret = _pointed(str(error))
    assert line[caret:].startswith(place.split("\n")[0])


def _pointed(message):
    lines = message.split("\n")
    at = next(i for i, line in enumerate(lines) if line.strip() == "^")
    return lines[at - 1], lines[at].index("^")


def test_one_query_has_one_time():
    rows = pa.table({"x": [1, 2]})
    wanted = compile_expression("now()", rows.schema)
    again = compile_expression("now()", rows.schema)
    assert wanted.evaluate(rows) == wanted.evaluate(rows)
    assert wanted.evaluate(rows)[0].as_py() < again.evaluate(rows)[0].as_py()


@pytest.mark.torture
def test_random_conditions(whole):
    """Rows never differ; a refusal does where an answer would need a number that its type lacks."""
    for seed in range(1500 if whole else 6):
        random = Random(seed)
        rows = random_rows(random)
        reference = lance.write_dataset(rows, "memory://rows")
        batch = rows.combine_chunks()
        for _ in range(25):
            sql = random_condition(random)
            if _ODD_LISTS.search(sql):
                continue
            try:
                wanted = Predicate.parse(sql, rows.schema).mask(batch)
                allowed = [REFUSED, np.flatnonzero(wanted).tolist()]
            except PredicateError as error:
                allowed = [REFUSED]
                if _NO_SUCH_NUMBER.search(str(error)):
                    continue
            assert _theirs(reference, sql) in allowed, f"{seed}: {sql}"


# ---- values: new columns, and assignments


@pytest.mark.parametrize("sql", _sections("values.txt")["new columns"])
def test_a_new_column_is_the_references(sql, reference):
    theirs = reference.to_table(columns={"x": sql})["x"].combine_chunks()
    expression = compile_expression(sql, ROWS.schema)
    mine = expression.evaluate(ROWS.combine_chunks())
    if pa.types.is_string_view(theirs.type):  # what it computes, columns hold as plain text
        theirs = theirs.cast(pa.string())
    assert (mine.type, expression.type) == (theirs.type, theirs.type)
    assert _close(mine, theirs)


def _close(mine, theirs):
    if not pa.types.is_floating(mine.type):
        return str(mine.to_pylist()) == str(theirs.to_pylist())
    pairs = zip(mine.to_pylist(), theirs.to_pylist(), strict=True)
    # libraries of mathematics differ in the last bit
    return all(a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=1e-14) for a, b in pairs)


def _assigned(dataset, column, sql):
    try:
        dataset.update({column: sql})
    except (ValueError, OSError, NotImplementedError):
        return REFUSED
    return dataset.to_table(columns=[column])[column].combine_chunks()


@pytest.mark.filterwarnings("ignore:Column .* cannot hold")  # fractions of text are cut off
def test_assignments_are_the_references(tmp_path):
    assignments = _sections("values.txt")["assignments"]
    assert len(assignments) > 50
    for name in ("mine", "theirs"):
        lk.write_dataset(ROWS, tmp_path / name)
    original, differ = lk.dataset(tmp_path / "mine"), {}
    for assignment in assignments:
        column, _, sql = assignment.partition(" = ")
        theirs = lance.dataset(str(tmp_path / "theirs"), version=1)
        theirs.restore()
        mine = original.checkout_version(1)
        mine.restore()
        found = _assigned(mine, column, sql), _assigned(theirs, column, sql)
        same = found[0] == found[1] if REFUSED in found else found[0].equals(found[1])
        if not same and str(found[0]) != str(found[1]):
            differ[assignment] = found
    assert differ == {}


# ---- the page


def test_the_page_has_all_functions_and_all_differences():
    page = (HERE.parents[1] / "docs" / "filters.md").read_text()
    assert function_list() in page
    assert [name for name in DIFFERENT if f"- **{name}**" not in page] == []

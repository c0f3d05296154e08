"""Simple filters: the same tree, result, bounds and index questions as sqlglot's parser gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer

import lancekit as lk
from lancekit.errors import LancekitError, PredicateError
from lancekit.scan.expressions.bounds import _bound, _parts, bounds_of
from lancekit.scan.expressions.compiler import Compiled, _compiled, compile_sql
from lancekit.scan.expressions.parser import parse
from lancekit.scan.expressions.predicate import _evaluate, with_hidden
from lancekit.scan.expressions.row_points import _points, row_points
from lancekit.scan.expressions.simple import parse_simple
from lancekit.scan.expressions.syntax import LISTED, start_of
from lancekit.scan.indexed.questions import _asked
from tests.scan.filter_rows import ROWS

TABLE = ROWS.append_column("two words", ROWS["i32"])
SCHEMA = TABLE.schema


def form(tree: Any) -> Any:
    """Return all that rules see of a tree; an argument that is empty is one that is not there."""
    if isinstance(tree, list):
        return [form(one) for one in tree]
    if not hasattr(tree, "args"):
        return tree
    parts = {name: form(part) for name, part in tree.args.items() if part or part == ""}
    return tree.key, start_of(tree), parts, tree.meta.get(LISTED)


# ---- texts

_BLANK = st.sampled_from(["", " ", "  ", "\n", "\t "])
_SPACE = st.sampled_from([" ", "  ", "\r\n", "\t"])


def joined(*parts: Any) -> st.SearchStrategy[str]:
    made = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*made).map("".join)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


BARE = [name for name in SCHEMA.names if parse_simple(f"{name} = 5")]
NAMES = st.one_of(
    st.sampled_from(BARE),
    st.sampled_from(SCHEMA.names).map(lambda name: f"`{name}`"),
    st.sampled_from([name.upper() for name in BARE] + ["_rowid", "_rowaddr", "nothing"]),
)
WHOLE = st.integers(-300, 300) | st.integers(-(1 << 70), 1 << 70)
NUMBERS = st.one_of(
    WHOLE.map(str),
    st.decimals(-1000, 1000, places=3, allow_nan=False).map(str),
    st.sampled_from(["007", "-0", "0.0", "9" * 120, "1" * 40 + "." + "1" * 40]),
)
WORDS = st.one_of(
    st.sampled_from(["a", "2020-01-01", "2020-01-01 12:00:00", "12:00:01", "true", "12", "%"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"'), max_size=6),
)
LITERALS = st.one_of(
    NUMBERS, WORDS.map(quoted), st.sampled_from(["true", "FALSE", "'a\\'", "'\n'", "''", "''''"])
)
COMPARED = st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">="])
NOT = st.sampled_from(["", " NOT", " not"])


def listed(literals: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    items = st.lists(literals, min_size=1, max_size=40)
    return st.tuples(items, _BLANK).map(lambda made: f",{made[1]}".join(made[0]))


CONDITIONS = st.one_of(
    joined(NAMES, _BLANK, COMPARED, _BLANK, LITERALS),
    joined(NAMES, NOT, _SPACE, "IN", _BLANK, "(", _BLANK, listed(LITERALS), _BLANK, ")"),
    joined(NAMES, NOT, " between", _SPACE, LITERALS, " AND ", LITERALS),
    joined(NAMES, " IS", NOT, _SPACE, "Null"),
)
FILTERS = joined(
    _BLANK,
    st.recursive(
        CONDITIONS,
        lambda inner: st.one_of(
            joined("(", _BLANK, inner, _BLANK, ")"),
            joined(inner, st.sampled_from([" AND ", " and\n", " OR ", "  or "]), inner),
        ),
        max_leaves=6,
    ),
    _BLANK,
)
#: what is near to a simple filter, and mostly none
PIECES = [
    *(
        "id",
        "x",
        "`x`",
        "`a``b`",
        "``",
        "date",
        "x'ff'",
        "N'a'",
        "e'a'",
        "left",
        "case",
        "x.y",
        "é",
    ),
    *(
        "5",
        "-5",
        "- 5",
        "--5",
        "5.",
        ".5",
        "5e3",
        "5e",
        "0x1F",
        "5L",
        "1_000",
        "5.5.5",
        "+5",
        "5AND",
    ),
    *("'a'", "'a' 'b'", "'it''s'", "'\"'", '"a"', "'", "''", "\ud800", "'\udfff'", "\\", "\0"),
    *("=", "==", "<=>", "=<", "<-", "!", "<>", "> =", "||", "::", "~", "->", "=>", ":a", "?", "@a"),
    *("AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "NULL", "TRUE", "IS NOT", "ISNULL", "DIV"),
    *(
        "(",
        ")",
        ",",
        "()",
        "(1, 2)",
        "(NULL)",
        "[1]",
        "{a}",
        "{{",
        "/* a */",
        "-- b\n",
        ";",
        "#",
        "$a",
    ),
    *("DATE '2020-01-01'", "INTERVAL '1' DAY", "ESCAPE", "COLLATE", "AT TIME ZONE", "xor", "&&"),
]


# ---- trees


@given(FILTERS)
def test_a_simple_filter_has_the_tree_of_sqlglot(text: str) -> None:
    found = parse_simple(text)
    assert found is not None or _chained(text), text
    if found is not None:
        assert form(found) == form(parse(text))


def _chained(text: str) -> bool:
    """Tell whether a text may have so many conditions of one sort that they are gathered."""
    return text.lower().count(" or") + text.lower().count(" and") >= 15 or text.count(",") >= 15


@example(["x", "=", "5", "\ud800"])
@example(["(" * 40, "x", "=", "5", ")" * 40])
@given(st.lists(st.sampled_from(PIECES), max_size=7))
def test_what_is_nearly_simple_is_left_to_sqlglot_or_has_its_tree(pieces: list[str]) -> None:
    for text in (" ".join(pieces), "".join(pieces), " ".join(["x = 1 AND", *pieces])):
        found = parse_simple(text)
        if found is not None:
            assert form(found) == form(parse(text)), text


def words() -> Sequence[str]:
    """Return all words that sqlglot knows."""
    texts = set(Tokenizer.KEYWORDS)
    for name in dir(Parser):
        table = getattr(Parser, name)
        if isinstance(table, dict | set | frozenset):
            texts |= {text for text in table if isinstance(text, str)}
    return sorted({word.lower() for text in texts for word in text.split() if word.isidentifier()})


@pytest.mark.parametrize(
    "template",
    [
        "{} = 5",
        "{} = '2020-01-01'",
        "{} < -5",
        "{}>=2.5",
        "{} IN (1, 2)",
        "{} NOT IN ('a')",
        "{} IS NULL",
        "{} NOT BETWEEN 1 AND 2",
        "a = 1 AND {} = 5",
        "a IS NULL OR {} = 'a' AND b = 5",
        "({} = true)",
    ],
)
def test_every_word_of_sqlglot_as_a_name(template: str) -> None:
    for word in words():
        for name in (word, word.upper()):
            text = template.format(name)
            found = parse_simple(text)
            if found is not None:
                assert form(found) == form(parse(text)), text


def test_usual_names_are_simple() -> None:
    for name in ("id", "date", "time", "timestamp", "name", "text", "value", "key", "year", "end"):
        assert parse_simple(f"{name} = 5 AND {name.title()} IS NOT NULL") is not None


@pytest.mark.parametrize("joint", ["AND", "OR"])
def test_chains_are_as_deep_as_they_are_long(joint: str) -> None:
    text = f" {joint} ".join(f"n{number} <> {number}" for number in range(3000))
    found = parse_simple(text)
    assert found is not None
    assert len(list(found.flatten())) == 3000
    schema = pa.schema({f"n{number}": pa.int64() for number in range(3000)})
    assert len(compile_sql(text, schema, 0).node.columns) == 3000


# ---- what is made of them


def outcome(compiled: Callable[[], Compiled]) -> Any:
    """Return all that is known of a compiled text, and the rows; or the errors."""
    try:
        found = compiled()
    except PredicateError as error:
        return _error_form(error)
    batch = TABLE.combine_chunks().to_batches()[0]
    hidden = pa.array(range(batch.num_rows), pa.uint64())
    for name in ("_rowid", "_rowaddr"):
        batch = batch.append_column(name, hidden)
    try:
        rows: Any = _evaluate(found.node.run, batch).to_pylist()
    except PredicateError as error:
        rows = _error_form(error)
    try:
        asked: Any = _asked(found.tree, found.scope, negated=False)
    except LancekitError as error:
        asked = error
    return found.node.columns, found.node.type, rows, _asked_form(asked)


def _error_form(error: PredicateError) -> Any:
    return PredicateError, str(error), error.context


def _asked_form(asked: Any) -> Any:
    if asked is None or isinstance(asked, LancekitError):
        return type(asked)
    if hasattr(asked, "parts"):
        return asked.all_of, asked.whole, [_asked_form(part) for part in asked.parts]
    return asked.column, asked.type, asked.reach and asked.reach.intervals, asked.runs


@given(FILTERS)
def test_a_simple_filter_means_what_it_means_to_sqlglot(text: str) -> None:
    assume(parse_simple(text) is not None)
    schema = with_hidden(SCHEMA)
    tree = parse(text)
    expected = outcome(lambda: _compiled(text, tree, schema, 0))
    assert outcome(lambda: compile_sql(text, schema, 0)) == expected
    if expected[0] is PredicateError:
        return
    bounds = [_bound(part, SCHEMA) for part in _parts(tree)]
    whole = () if None in bounds else tuple(bounds)
    assert list(map(_ends, bounds_of(text, SCHEMA))) == list(map(_ends, whole))
    for column in ("_rowid", "_rowaddr"):
        assert row_points(text, column) == _points(tree, column)


def _ends(bound: Any) -> Any:
    return bound.column, *(side and side.source for side in (bound.least, bound.greatest))


# ---- what is loaded

PROGRAM = """
import sys
import lancekit as lk
ds = lk.dataset(sys.argv[1])
for text in sys.argv[2:]:
    ds.to_table(filter=text)
    ds.count_rows(text)
ds.delete("i = 3")
sys.exit("sqlglot" in sys.modules)
"""
SIMPLE = (
    "i = 2",
    "i >= 1 AND s <> 'b' AND f IS NOT NULL",
    "i IN (" + ", ".join(map(str, range(1000))) + ")",
    "`i` BETWEEN 1 AND 2 OR (s = 'it''s' AND b = true)",
    "_rowid = 1",
)


def test_simple_filters_do_not_load_sqlglot(tmp_path: Path) -> None:
    rows = {"i": [1, 2, 3], "f": [0.5, 1.5, 2.5], "s": ["a", "b", "ab"], "b": [True, False, True]}
    lk.write_dataset(rows, tmp_path / "ds").create_scalar_index("i", "BTREE")
    given = [sys.executable, "-c", PROGRAM, str(tmp_path / "ds"), *SIMPLE]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

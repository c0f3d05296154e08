"""Functions of JSON columns give what they give in the reference."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import PredicateError

WORDS = ["t", "True", "off", "y", "no", "YES", "No", " true", "", "abc", "1e2", "+5", "-0", "1_0"]
WORDS += ["inf", "NaN", "0x10", "2.5", "-2.5", ".5", "5.", "-", "1e400", " 5 ", str(2**63)]
NUMBERS = [0, 1, -1, 2.0, 1.5, -1.5, 0.5, -0.5, 9.3e18, 2**63, 2**64 - 1, -(2**63), 1e-7, 1e300]
OTHERS = [True, False, None, {}, [], {"a": 1}, [1]]
VALUES = [*WORDS, *NUMBERS, *OTHERS]
TREE = {
    "a": {"b": [1, [2, 3], {"c": [4, 5], "p": None}], "k y": 5, "e": [], "x.y": 1},
    "b": [[1, 2], [3, 4], 7, "x"],
    "0": "zero",
    "é": 3,
    "_u": 'q"\n',
    "null": None,
    "1a": 9,
    "last": 1,
    "o": {"b": 2, "a": 1.0, "to": True},
}
PATHS = [
    *("$", "$.a", "a", "a.b", "$.a.b", "$.a.b[0]", "$.a.b[*]", "$.a.b[*].c", "$.a.b[*].c[*]"),
    *("$.b[*][*]", "$.b[*][0]", "$.*", "$.o.*", "$.*.a", "$.b.*", "$.a[*].b", "$.a.e[*]", "$.a.e"),
    *("$.b[last]", "$.b[last-1]", "$.b[last-9]", "$.b[-1]", "$.b[0,2]", "$.b[0,0]", '$."x.y"'),
    *('$.a."x.y"', "$.é", "$._u", "$.1a", "$.last", "$.missing", "$.null", "$.0", "$.b[0][1]"),
    *('["o"].a', "b[1]", '$.o["a"]', "$:a:b", "a:b", "$.b[9]", "$.o[0]", "$[0]", "$[*]", "$.A"),
    *("$.b[2][*]", "$.b[3][0]", "$.b[00]", '$["a"]["k y"]', '$."a"."k y"', "", " $.b[ 0 ] "),
    *("$.b[0 to last]", "$.b[1 to 0]", "$.b[last - 9 to last]", "$.b[1 to 9, 0]", "$.b[-1 to 0]"),
    *("$ .a", "$.a .b", "$.b[last - 1][0]", "$.b[5 to 9]"),
    # refused
    *("$.", "$[", "$b", "$.a-b", "$.b[1", '"b"[1]', "@.a", "$.b[*,0]", '$["a","b"]', "$..a", "."),
    *(".a", "$.a.", "$$", "$.b[]", "$.b[a]", "$.b[1:2]", "$. a", "x y", '$."\\x"'),
]


def both(tmp_path: Path, documents: list[Any]) -> tuple[Any, Any]:
    texts = [None if one is ... else json.dumps(one) for one in documents]
    rows = pa.table({"id": range(len(texts)), "j": pa.array(texts, pa.json_())})
    theirs = lance.write_dataset(rows, tmp_path / "d")
    return theirs, lk.dataset(tmp_path / "d")


def answers(ds: Any, told: str) -> Any:
    """Return the type and the values of an expression, or that it is refused."""
    try:
        column = ds.to_table(columns={"x": told})["x"]
    except (pa.ArrowInvalid, PredicateError, ValueError):
        return "refused"
    return column.type, [repr(value) for value in column.to_pylist()]


@pytest.mark.parametrize("kind", ["string", "int", "float", "bool"])
def test_values_as_other_types(tmp_path: Path, kind: str) -> None:
    theirs, ours = both(tmp_path, [dict(enumerate(VALUES))])
    for at, value in enumerate(VALUES):
        told = f"json_get_{kind}(j, '{at}')"
        assert answers(ours, told) == answers(theirs, told), value


@pytest.mark.parametrize("path", PATHS)
def test_paths(tmp_path: Path, path: str) -> None:
    theirs, ours = both(tmp_path, [TREE, TREE["a"], TREE["b"], 5, None, ..., "a", {}, []])
    for name in ("json_extract", "json_exists", "json_array_length"):
        told = f"{name}(j, '{path}')"
        assert answers(ours, told) == answers(theirs, told), name


@pytest.mark.parametrize("key", ["a", "b", "0", "+1", "01", "-1", "9", "", "null", "é", "x y"])
def test_keys(tmp_path: Path, key: str) -> None:
    theirs, ours = both(tmp_path, [TREE, TREE["a"], TREE["b"], 5, None, ..., "a", {}, []])
    for told in (
        f"json_get(j, '{key}')",
        f"json_get(json_get(j, 'a'), '{key}')",
        f"json_extract(json_get(j, '{key}'), '$[0]')",
        f"json_get(j, '{key}') IS NULL",
    ):
        assert answers(ours, told) == answers(theirs, told), told


@pytest.mark.parametrize(
    "wanted",
    [
        "'1'",
        "1",
        "'x'",
        "'[1,2]'",
        "'\"x\"'",
        "'2.5'",
        "2.5",
        "true",
        "'null'",
        "NULL",
        "'{\"a\":1}'",
    ],
)
def test_items_of_arrays(tmp_path: Path, wanted: str) -> None:
    rows = [[1, 2.5, "x", [1, 2]], {"b": [[1], True, None]}, "x", ..., [{"a": 1}], [], ["1"]]
    theirs, ours = both(tmp_path, rows)
    for path in ("$", "$.b", "$[*]", "$.b[*]"):
        told = f"json_array_contains(j, '{path}', {wanted})"
        assert answers(ours, told) == answers(theirs, told), path


def test_random_documents(tmp_path: Path) -> None:
    draw = random.Random(7)

    def document(depth: int) -> Any:
        if depth == 0 or draw.random() < 0.2:
            return draw.choice(VALUES)
        if draw.random() < 0.5:
            return [document(depth - 1) for _ in range(draw.randrange(4))]
        return {draw.choice("abc01é"): document(depth - 1) for _ in range(4)}

    theirs, ours = both(tmp_path, [document(4) for _ in range(200)])
    # without what never ends in the reference: places from the end, and ranges, of no items
    steps = [".a", ".b", "[0]", "[*]", ".*", '["c"]', ".é"]
    for _ in range(40):
        told = f"json_extract(j, '${''.join(draw.choices(steps, k=draw.randrange(1, 4)))}')"
        assert answers(ours, told) == answers(theirs, told), told


def test_bytes_that_are_no_json(tmp_path: Path) -> None:
    ds = lk.write_dataset(pa.table({"b": pa.array([b"\x50\x00", b"{}"])}), tmp_path / "d")
    with pytest.raises(PredicateError, match="A JSON value of 2 bytes is damaged"):
        ds.count_rows("json_exists(b, '$.a')")


def test_a_filter_and_an_update(tmp_path: Path) -> None:
    _, ds = both(tmp_path, [{"user": {"age": age}} for age in (30, 40, 50)])
    told = "json_get_int(json_get(j, 'user'), 'age') > 35"
    assert ds.to_table(filter=told)["id"].to_pylist() == [1, 2]
    assert lance.dataset(ds.uri).to_table(filter=told)["id"].to_pylist() == [1, 2]
    ds.update({"id": "json_get_int(json_get(j, 'user'), 'age')"}, where=told)
    assert ds.to_table()["id"].to_pylist() == [0, 40, 50]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("json_get_int(j, 'a')", '"x" is no number'),
        ("json_get_string(j, 'b')", "[1] is no text"),
        ("json_extract(j, '$.a?(@ > 1)')", "because of '?(@ > 1)'"),
        ("json_extract(id, '$.a')", "json_extract takes a bytes, but id is int64"),
    ],
)
def test_what_is_refused(tmp_path: Path, told: str, message: str) -> None:
    _, ds = both(tmp_path, [{"a": "x", "b": [1]}])
    with pytest.raises(PredicateError) as caught:
        ds.to_table(columns={"x": told})
    assert message in str(caught.value)

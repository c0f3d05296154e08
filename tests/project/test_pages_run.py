"""The examples of the pages that teach run from top to bottom, and give what the page says."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import warnings
from pathlib import Path

import pytest

import lancekit as lk

ROOT = Path(__file__).parents[2]
PAGES = ("tutorial", "how-to", "safety")
#: code, and what it shows if the page says so
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n?```text\n(.*?)```\n)?", re.DOTALL)


def shown_by(code: str, names: dict[str, object]) -> str:
    """Run a block as a cell; return what it prints, and its last value as text."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "<page>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<page>", "eval"), names)
            if value is not None:
                print(repr(value))
    return out.getvalue()


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_give_what_it_says(page, tmp_path, monkeypatch):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```python")
    assert sum(bool(said) for _, said in blocks) >= 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__page__"}
    for code, said in blocks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # what pandas says of itself
            found = shown_by(code, names)
        if said:
            assert [line.rstrip() for line in found.splitlines()] == said.splitlines(), code


@pytest.mark.parametrize("page", ["migration", "cost", *PAGES])
def test_what_a_page_names_of_a_handle_is_there(page):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    held = {"ds": lk.write_dataset({"x": [1]}, f"memory://names-of-{page}"), "lk": lk}
    named = set(re.findall(r"\b(ds|lk)[.]((?:\w+[.])?[a-z]\w*)", text))
    assert named
    for root, path in named:
        thing = held[root]
        for part in path.split("."):
            assert hasattr(thing, part), (root, path)
            thing = getattr(thing, part)

"""The examples of a page: found, and run as the cells of a notebook."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lancekit as lk
from tests.support.shells import ipython

__all__ = ["PAGES", "ROOT", "Block", "blocks", "code_of", "run", "text_of"]

ROOT = Path(__file__).parents[2]
#: a mark that readers do not see, code, and what it shows if the page says so
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>on Spark|not run: [^>]+) -->\n)?"
    r"```(?P<kind>python|sql)\n(?P<code>.*?)```\n(?:\n?```text\n(?P<said>.*?)```\n)?",
    re.DOTALL,
)
PROMISED = re.compile(r"# (\w+(?:Error|Warning)(?:: .*)?)$")


@dataclass(frozen=True)
class Block:
    """Code on a page, the line it begins in, what it shows, and how it is run if not as others."""

    kind: str
    code: str
    said: str
    mark: str
    line: int


def _name_of(path: Path) -> str:
    """Return what a page is called: ``"format/table"``, ``"README"``."""
    return str(path.relative_to(ROOT).with_suffix("")).removeprefix("docs/")


PAGES = {
    _name_of(path): path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}


def text_of(page: str) -> str:
    return PAGES[page].read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """Return the blocks of Python and SQL of a page."""
    text = text_of(page)
    found = [
        Block(
            one["kind"],
            one["code"],
            one["said"] or "",
            one["mark"] or "",
            text[: one.start("code")].count("\n") + 1,
        )
        for one in BLOCK.finditer(text)
    ]
    assert len(found) == text.count("```python") + text.count("```sql"), page
    return found


def run(block: Block, names: dict[str, object]) -> None:
    """Run a block, and compare what it shows with what the page says.

    An error is expected where the page shows it, by a comment behind the statement or below the
    block; and of each ``try``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # what pandas says of itself
        found = _python(block, names) if block.kind == "python" else _sql(block.code, names)
    if block.said:
        assert _is_like(found, block.said), f"{block.code}shows\n{found}"


def _is_like(found: str, said: str) -> bool:
    """Whether a text is the other, in which three dots stand for anything."""
    lines = "\n".join(line.rstrip() for line in found.splitlines())
    wanted = "\n".join(line.rstrip() for line in said.splitlines())
    parts = (re.escape(part) for part in re.split(r"\.\.\.|…", wanted))
    return re.fullmatch(".*?".join(parts), lines, re.DOTALL) is not None


def _python(block: Block, names: dict[str, object]) -> str:
    statements = ast.parse(block.code).body
    promised = dict(_promises(block.code))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for statement in statements:
            last = statement is statements[-1]
            wanted = promised.get(statement.end_lineno or 0)
            if wanted is None and last and re.match(r"\w+Error: ", block.said):
                wanted = block.said
            if wanted is None:
                _execute(statement, names, shown=last)
            else:
                print(_error(statement, names, wanted))
    return out.getvalue()


def _promises(code: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        found = PROMISED.match(token.string) if token.type == tokenize.COMMENT else None
        if found:
            yield token.start[0], found[1]


def _execute(statement: ast.stmt, names: dict[str, object], *, shown: bool) -> None:
    if isinstance(statement, ast.Try) and not statement.orelse:
        statement.orelse = ast.parse("raise AssertionError('no error')").body
        ast.fix_missing_locations(statement)
    if isinstance(statement, ast.Expr) and shown:
        value = eval(compile(ast.Expression(statement.value), "<page>", "eval"), names)
        if value is not None:
            print(repr(value))
        return
    exec(compile(ast.Module([statement], []), "<page>", "exec"), names)


def _error(statement: ast.stmt, names: dict[str, object], wanted: str) -> str:
    """Return as much of the error of a statement as the page shows; it ends with what to do."""
    try:
        _execute(statement, names, shown=False)
    except Exception as error:  # which one it is, is compared
        lines = f"{type(error).__name__}: {error}".splitlines()
        shown = "\n".join(lines[: len(wanted.splitlines())])
        assert _is_like(shown, wanted), shown
        return shown
    raise AssertionError(f"no {wanted}")


def _sql(code: str, names: dict[str, Any]) -> str:
    """Run a cell with its magic, or statements; what is neither are conditions, one a line."""
    if re.match(r"(UPDATE|DELETE|MERGE|SELECT)\b", code):
        lk.sql(code, **{name: names[name] for name in re.findall(r"\w+", code) if name in names})
        return ""
    if not code.startswith("%%"):
        for condition in code.splitlines():
            names["ds"].constraints.add(condition, condition)
        return ""
    with ipython() as shell, contextlib.redirect_stdout(io.StringIO()) as out:
        shell.run_line_magic("load_ext", "lancekit")
        shell.user_ns.update(names)
        result = shell.run_cell(code)
        result.raise_error()
        shell.run_line_magic("unload_ext", "lancekit")
        if result.result is not None:
            print(repr(result.result))
    return out.getvalue()


def code_of(page: str) -> Iterator[str]:
    """Yield the code on a page, in its text and in its blocks."""
    text = text_of(page)
    yield from re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"(?s)^```.*?^```", "", text))
    yield from (one.code for one in blocks(page) if one.kind == "python")

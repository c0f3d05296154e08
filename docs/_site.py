"""Hooks of the site: links between names, the style of cards, and weights of the search."""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path
from typing import Any

from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

PACKAGE = "lancekit"
CARDS = Path(__file__).parents[1] / PACKAGE / "_notebook/render/style.css"
STYLE = "<!-- the style of cards -->"
HEADING = re.compile(rf'<h\d id="({PACKAGE}[.][\w.]+)"')
TO_TESTS = re.compile(r"\[(`tests/[^`]+`)\]\([^)]+\)")
TESTS = re.compile(r"<td>((?:<code>tests/[\w/.:]+</code>(?:, )?)+)</td>")
#: the modules before a class, which texts leave out
MODULES = re.compile(rf"(?<=^{PACKAGE}[.])([a-z_]+[.])+(?=[A-Z])")
#: a heading, which says whose text follows; what stays as it is; or a name in the text
PARTS = re.compile(
    rf"{HEADING.pattern}|<(?:pre|a|b)\b.*?</(?:pre|a|b)>|<code>([A-Za-z_][\w.]*)(?:\(\))?</code>",
    re.DOTALL,
)


def on_page_markdown(markdown: str, *, page: Page, config: Any, **_: Any) -> str:
    """Remove links to tests, which the site lacks, and weigh the page in the search.

    The weights are not in the pages: GitHub would show them, and some pages are generated.
    """
    weights = config.extra["search_boost"].items()
    boosts = [boost for start, boost in weights if page.file.src_uri.startswith(start)]
    if boosts:
        page.meta.setdefault("search", {})["boost"] = boosts[0]
    return TO_TESTS.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Give cards on a page the style that they have today, and fold away cells full of tests."""
    html = html.replace(STYLE, f"<style>{CARDS.read_text(encoding='utf-8')}</style>")
    return TESTS.sub(_folded, html)


def _folded(cell: re.Match[str]) -> str:
    number = cell[1].count("<code>")
    summary = f"{number} test{'s' if number > 1 else ''}"
    return f'<td><details class="tests"><summary>{summary}</summary>{cell[1]}</details></td>'


def on_post_build(*, config: Any, **_: Any) -> None:
    """Have the search leave out "a", "of" and "at", whose prefixes are in every page.

    Raises RuntimeError: the search's code is another one.
    """
    ends = "/(^[+-]|[~^]\\d+$)/.test(r)"
    for code in Path(config.site_dir, "assets/javascripts/workers").glob("search*.js"):
        text = code.read_text(encoding="utf-8")
        if text.count(f"{ends}?") != 1:
            raise RuntimeError(f"{code.name} adds wildcards to words in another way")
        stops = f"{ends}||lunr.stopWordFilter(r.toLowerCase())===undefined?"
        code.write_text(text.replace(f"{ends}?", stops), encoding="utf-8")


def on_env(env: Any, *, files: Files, **_: Any) -> Any:
    """Make a link of each name in the text that the reference describes."""
    pages = [file.page for file in files.documentation_pages() if file.page is not None]
    places = {
        MODULES.sub("", name): f"{page.url}#{name}"
        for page in pages
        for name in HEADING.findall(page.content or "")
    }
    for page in pages:
        page.content = _linked(page.content or "", page.url, places)
    return env


def _linked(html: str, url: str, places: dict[str, str]) -> str:
    scopes = [PACKAGE]

    def part(found: re.Match[str]) -> str:
        heading, name = found.groups()
        if heading:
            # the innermost first: what belongs to a method's class, then the package's names
            owners = accumulate(MODULES.sub("", heading).split("."), "{}.{}".format)
            scopes[:] = reversed(list(owners))
        names = (f"{scope}.{name}" for scope in scopes if name)
        target = next((full for full in names if full in places and full != scopes[0]), None)
        if target is None:
            return found[0]
        return f'<a href="{get_relative_url(places[target], url)}">{found[0]}</a>'

    return PARTS.sub(part, html)

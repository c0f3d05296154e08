"""What the site does beyond MkDocs: public names of the code, and links between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import Files
from mkdocs.utils import get_relative_url

PACKAGE = "lancekit"
FIELD = "dataclasses.field"
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


class PublicNames(griffe.Extension):
    """Show names as Python has them, where griffe reads the source otherwise."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Let a function win over the module of its name, and a class over ``Name = Class``."""
        for name in map(str, pkg.exports or ()):
            member = pkg[name]
            inner = member.members.get(name) if member.is_module else None
            if inner is not None and inner.is_function:
                function = _defined(inner)
                others = {str(other) for other in member.exports or ()} - {name}
                # what else the module has is still found
                function.members.update({o: _defined(member.members[o]) for o in others})
                pkg.members[name] = griffe.Alias(name, function, parent=pkg)
            elif member.is_class:
                owner = _defined(member)
                owner.members.update({part: _meant(own) for part, own in owner.members.items()})
            else:
                pkg.members[name] = _meant(member)
        for function in _functions(pkg):
            for parameter in function.parameters:
                parameter.default = _value(parameter.default, pkg)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Show the default of a field that a function of our own declares, not the call."""
        call = attr.value
        if not attr.parent.is_class or attr.annotation is None:
            return
        if not isinstance(call, griffe.ExprCall) or call.canonical_path == FIELD:
            return
        if attr.parent.name == "Options":
            attr.value, _check, text = call.arguments
            attr.docstring = griffe.Docstring(str(text).strip("\"'"), parent=attr)
            return
        told = [each for each in call.arguments if isinstance(each, griffe.ExprKeyword)]
        if not call.arguments:
            told = [griffe.ExprKeyword("default", "...")]
        required = [griffe.ExprKeyword("init", "True")]
        attr.value = griffe.ExprCall(griffe.ExprName(FIELD), told or required)


def _functions(owner: Any) -> Iterator[griffe.Function]:
    for member in owner.members.values():
        if member.is_alias:
            continue
        if member.is_function:
            yield member
        elif member.is_module or member.is_class:
            yield from _functions(member)


def _value(default: Any, pkg: griffe.Module) -> Any:
    """Return what a default is where it is a constant of our own, which users do not know."""
    if not isinstance(default, griffe.ExprName) or not default.name.isupper():
        return default
    path = default.canonical_path
    return pkg.modules_collection[path].value if path.startswith(f"{PACKAGE}.") else default


def _defined(member: Any) -> Any:
    return member.final_target if member.is_alias else member


def _meant(member: Any) -> Any:
    """Return the class that an assignment gives another name, else what was passed."""
    named = griffe.ExprName | griffe.ExprAttribute
    if not member.is_attribute or not isinstance(member.value, named):
        return member
    return griffe.Alias(member.name, member.value.canonical_path, parent=member.parent)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leave out links to tests, which are in the repository and not on the site."""
    return TO_TESTS.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Give cards on a page the style that they have today, and fold away cells full of tests."""
    html = html.replace(STYLE, f"<style>{CARDS.read_text(encoding='utf-8')}</style>")
    return TESTS.sub(_folded, html)


def _folded(cell: re.Match[str]) -> str:
    number = cell[1].count("<code>")
    summary = f"{number} test{'s' if number > 1 else ''}"
    return f'<td><details class="tests"><summary>{summary}</summary>{cell[1]}</details></td>'


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

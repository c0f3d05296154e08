"""Places where docstrings, messages, comments and pages are hard to read.

``python -m tests.support.plain_words [PATH ...] [--list KIND] [--since REV]`` counts the places by
kind, of the whole repository or of the paths that begin so, or prints the places of a kind.  With
``--since``, only lines that changed since a revision are read, and their hard places are printed.

A place is a candidate, not a verdict: what is exact and plain may stay.  The kinds:

- ``opening``: a docstring that opens with a bare pronoun or conjunction (What, Whether, Those, ...)
- ``empty``: a docstring whose first line has no noun of its own ("Return the rows.")
- ``pronoun``: a pronoun in place of a noun
- ``dialect``: a phrase that a plain word replaces
- ``long``: a sentence of more than 25 words
- ``chain``: a sentence with two semicolons, or with a semicolon and a colon
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["HARD", "Place", "Text", "hard_places", "places", "texts"]

ROOT = Path(__file__).parents[2]
PACKAGE = "lancekit/"
#: pages that a program writes
GENERATED = {"docs/gallery.md"}
#: the kinds that are hard to read at any length
HARD = {"opening", "empty", "pronoun", "dialect"}
_LONGEST = 25

_OPENING = re.compile(
    r"(What|Whether|Which|Who|Whose|That|Those|Such|Where|When|How|As|Of|For|In|To|By|With|Than|If)\b"
)
_EMPTY = re.compile(
    r"(Return|Yield|Give|Make|Get|Take|Read|Tell|Say|Ask|Do)\s+"
    r"(what|which|whether|that|those|it|them|the (rows|values|result|ones?))\b[^,(]{0,18}\.?$"
)
_PRONOUN = re.compile(
    r"\b(what (is|are|was|were|it|they|has|have|had|to|a|the|came|comes|goes|does|one|of|there"
    r"|others?)|that of|those (of|that|which|who)|that which|of (theirs|ours|its own|which)"
    r"|the one (who|that|of)|ones? that|such (as those|that)|of (it|them)\b(?! is)"
    r"|in place of (it|them)|who (is|are|has|reads|writes|asks))\b",
    re.IGNORECASE,
)
_DIALECT = re.compile(
    r"\b(anew|forerunner|told (by|of|from)|tells? (of|which|that|whether)"
    r"|(is|are|was|were|be|been) (asked|told|said|meant|looked at|wanted)"
    r"|asks? (for|of|it|them|whether)|goes? by|lies? (in|at|within|where)"
    r"|stands? (in|at|for itself|beside|below|above|alone)|(comes?|brings?) home|in the way"
    r"|be (had|heard)|has (it|them) that|is (one|none)|are none|no (such|longer) (one|ones)"
    r"|by (itself|themselves)|of old|as (it|they) (is|are|were|was|lie|stand|come)"
    r"|to (and fro)|thereof|therein|wherein|whereby|by which|of a kind|no place for|makes? of"
    r"|made of (it|them|what)|(is|are) there(?! (a|an|any|no)\b)|puts? together|what it says"
    r"|for which)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"``[^`]*``|`[^`]*`|https?://\S+|\{[^}]*\}")
#: lines of Markdown that end a paragraph: headings, items, quotes, tables
_BLOCK = ("|", "#", "-", "*", ">")


class Text(NamedTuple):
    """A docstring, message, comment or paragraph, and its lines."""

    path: str
    first: int
    last: int
    is_docstring: bool
    words: str


class Place(NamedTuple):
    """A place that may be hard to read."""

    path: str
    line: int
    kind: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {' '.join(self.excerpt.split())}"


def texts(root: Path = ROOT) -> Iterator[Text]:
    """Yield all texts of the package and of the pages that people write."""
    for path in sorted(root.glob(f"{PACKAGE}**/*.py")):
        if "_pb2" not in path.name:
            yield from python_texts(path, path.relative_to(root).as_posix())
    for path in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")]):
        name = path.relative_to(root).as_posix()
        if name not in GENERATED:
            yield from markdown_texts(path, name)


def python_texts(path: Path, name: str) -> Iterator[Text]:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    seen = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            found = node.body[0].value  # type: ignore[attr-defined]
            seen.add(id(found))
            yield Text(name, found.lineno, found.end_lineno, True, found.value)
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            seen.update(map(id, node.values))
            text = "".join(v.value if isinstance(v, ast.Constant) else "x" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = "" if id(node) in seen else node.value
        markup = text.lstrip().startswith(("SELECT", "<"))
        if len(text.split()) >= 5 and re.search("[a-z] [a-z]", text) and not markup:
            yield Text(name, node.lineno, node.end_lineno, False, text)  # type: ignore[attr-defined]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_comment = token.type == tokenize.COMMENT and "noqa" not in token.string
        if is_comment and len(token.string.split()) >= 5:
            line = token.start[0]
            yield Text(name, line, line, False, token.string.lstrip("#: "))


def markdown_texts(path: Path, name: str) -> Iterator[Text]:
    block, first, is_code = list[str](), 1, False
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        start = line.lstrip()
        fence = start.startswith("```")
        is_code ^= fence
        outside = fence or is_code or not start
        if (outside or start.startswith(_BLOCK)) and block:
            yield Text(name, first, number - 1, False, " ".join(block))
            block = []
        if outside or re.fullmatch(r"\s*\|?[-| :]+\|?\s*", line):
            continue
        text = re.sub(r"^\s*([-*>#]+|\d+\.)\s*", "", line)
        if start.startswith("|"):
            yield Text(name, number, number, False, text.replace("|", "\n\n"))
        else:
            first = first if block else number
            block.append(text)


def places(text: Text) -> Iterator[Place]:
    """Yield the places of a text that may be hard to read."""
    prose = text.words
    if text.is_docstring:
        opening = " ".join(prose.strip().split("\n\n")[0].split())
        for kind, pattern in (("opening", _OPENING), ("empty", _EMPTY)):
            if pattern.match(opening):
                yield Place(text.path, text.first, kind, opening)
                break
        prose = re.split(r"\n\s*Examples?\s*\n\s*-{3,}", prose)[0]
        lines = prose.splitlines()
        prose = "\n".join(line for line in lines if not re.match(r"\s*(-{3,}|>>>|\.\.\.)", line))
    for sentence in _sentences(prose):
        if len(sentence.split()) > _LONGEST:
            yield Place(text.path, text.first, "long", sentence)
        if sentence.count(";") > 1 or (";" in sentence and ":" in sentence):
            yield Place(text.path, text.first, "chain", sentence)
        for kind, pattern in (("pronoun", _PRONOUN), ("dialect", _DIALECT)):
            for match in pattern.finditer(sentence):
                around = sentence[max(0, match.start() - 40) : match.end() + 40]
                yield Place(text.path, text.first, kind, around)


def _sentences(prose: str) -> Iterator[str]:
    """Yield sentences; code counts as one word."""
    for block in re.split(r"\n\s*\n", _CODE.sub("x", prose)):
        yield from filter(None, re.split(r"(?<=[.!?])\s+(?=[A-Z(])", " ".join(block.split())))


def hard_places(rev: str) -> list[Place]:
    """Return the hard places of the lines that changed since a revision."""
    command = ["git", "-C", str(ROOT), "diff", "-U0", rev]
    diff = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    changed: dict[str, set[int]] = {}
    lines = set[int]()
    for line in diff.splitlines():
        if line.startswith("+++ "):
            lines = changed.setdefault(line[6:], set())
        elif match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            lines.update(range(int(match[1]), int(match[1]) + int(match[2] or 1)))
    mine = (t for t in texts() if changed.get(t.path, set()) & {*range(t.first, t.last + 1)})
    return [place for text in mine for place in places(text) if place.kind in HARD]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("paths", nargs="*", default=[""])
    parser.add_argument("--list", default="", help="print the places of this kind")
    parser.add_argument("--since", default="", help="only lines that changed since this revision")
    args = parser.parse_args()
    if args.since:
        print(*hard_places(args.since), sep="\n")
        return
    kinds, words = Counter[str](), 0
    for text in texts():
        if not text.path.startswith(tuple(args.paths)):
            continue
        words += len(text.words.split())
        for place in places(text):
            kinds[place.kind] += 1
            if place.kind == args.list:
                print(place)
    total = kinds.total()
    each = ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items()))
    print(
        f"{total} places in {words:,} words, {1000 * total / max(1, words):.1f} per 1,000: {each}"
    )


if __name__ == "__main__":
    main()

"""The graph of branches for terminals, as lanes, and as a mermaid diagram."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from lancekit.notebook.pictures.lanes import Lanes, Row
from lancekit.notebook.pictures.refs import Node

__all__ = ["label", "mermaid", "render_text", "said"]

#: what a mermaid label may hold as it is
_PLAIN = frozenset(" -_.,/()+·▸…")
_ARROWS = {"fork": "-->", "merge": "==>", "fast-forward": "==>", "clone": "-.->"}


def label(lanes: Lanes, node: Node) -> str:
    """Return what a version is called: versions of two branches may have the same number."""
    return f"{lanes.graph.tracks[node.track].name}:{node.last}"


def said(node: Node) -> str:
    """Return what is said of a version besides its name and its tags."""
    return " · ".join(node.words)


# ---- lanes


def render_text(lanes: Lanes, title: str) -> str:
    """Return the graph in lines."""
    lines = [f"{title}; heads first"]
    for at, row in enumerate(lanes.rows):
        lines += _forks(lanes, at)
        beside = "┊" if row.node.is_run else "●"
        lines.append(f"{_lane(lanes, at, row, beside)} {_beside(lanes, row.node)}".rstrip())
    return "\n".join([*lines, *lanes.graph.notes])


def _beside(lanes: Lanes, node: Node) -> str:
    if node.is_run:
        return said(node)
    tags = ", ".join(node.tags)
    words = [f"tag {tags}" if len(node.tags) == 1 else f"tags {tags}"] if tags else []
    return f"{label(lanes, node)}  {', '.join([*words, *node.words])}"


def _lane(lanes: Lanes, at: int, row: Row, mark: str) -> str:
    cells = ["│" if column in _open(lanes, at) else " " for column in range(lanes.width)]
    cells[row.column] = mark
    return " ".join(cells).rstrip()


def _open(lanes: Lanes, at: int, *, above: bool = False) -> set[int]:
    """Return the columns through which a track goes at a row, or between it and the one above."""
    return {
        column
        for column, (top, bottom) in zip(lanes.columns, lanes.spans, strict=True)
        if (top < at <= bottom if above else top <= at < bottom)
    }


def _forks(lanes: Lanes, at: int) -> Iterator[str]:
    """Yield the line in which tracks end that begin at the version of a row."""
    own = lanes.rows[at].column
    ends = {
        lanes.columns[link.upper[0]]: link.kind
        for link in lanes.graph.links
        if link.kind in {"fork", "clone"} and lanes.at[link.lower] == at
    }
    ends = {column: kind for column, kind in ends.items() if column != own}
    if not ends:
        return
    through = _open(lanes, at, above=True)
    first, last = min([own, *ends]), max([own, *ends])
    cells = []
    for column in range(lanes.width):
        dash = "╌" if "clone" in ends.values() else "─"
        if column == own:
            cell = "├" if own == first else "┤" if own == last else "┼"
        elif column in ends:
            cell = "╯" if column == last else "╰" if column == first else "┴"
        elif first < column < last:
            cell = "┼" if column in through else dash
        else:
            cell = "│" if column in through else " "
        cells.append(cell + (dash if first <= column < last else " "))
    yield "".join(cells).rstrip()


# ---- mermaid


def mermaid(lanes: Lanes) -> str:
    """Return the graph as the source of a mermaid flowchart."""
    lines = ["flowchart TB"]
    for at, row in enumerate(lanes.rows):
        node = row.node
        if node.is_run:
            lines.append(f'  n{at}(["{_escaped(said(node))}"])')
            continue
        words = [label(lanes, node), *(f"▸ {tag}" for tag in node.tags), *node.words]
        lines.append(f'  n{at}["{_escaped(" · ".join(words))}"]')
    for track in range(len(lanes.graph.tracks)):
        own = [at for at, row in enumerate(lanes.rows) if row.node.track == track]
        lines += [f"  n{upper} --- n{lower}" for upper, lower in pairwise(own)]
    for link in lanes.graph.links:
        upper, lower = lanes.ends(link)
        lines.append(f'  n{upper} {_ARROWS[link.kind]}|"{link.kind}"| n{lower}')
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return "".join(
        letter if letter in _PLAIN or letter.isalnum() else f"#{ord(letter)};" for letter in text
    )

"""The picture of a dataset's branches, tags, clones and merges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from lancekit._api.lance_dataset import LanceDataset
from lancekit._notebook.pictures.lanes import Lanes, Row, lanes_of
from lancekit._notebook.pictures.refs import Link, Node, graph_of
from lancekit._notebook.pictures.style import picture, width_of
from lancekit._notebook.render.html import Markup, element
from lancekit._notebook.render.words import listing, plural
from lancekit._picture import Picture

__all__ = ["graph_picture", "mermaid", "render_svg", "render_text"]


def graph_picture(ds: LanceDataset, *, clones: Sequence[LanceDataset] = ()) -> Picture:
    """Return the graph of a dataset; no data file is read, and few manifests."""
    lanes = lanes_of(graph_of(ds, clones))
    graph, alt = lanes.graph, _alt(lanes)
    return Picture(
        alt=f"{graph.title}. {alt}",
        text=render_text(lanes, graph.title),
        mermaid=mermaid(lanes),
        render=partial(render_svg, lanes, graph.title, alt),
    )


def _alt(lanes: Lanes) -> str:
    graph, sentences = lanes.graph, []
    starts = {k.upper[0]: k for k in graph.links if k.kind in {"fork", "clone"}}
    for track, one in enumerate(graph.tracks):
        if not one.versions:
            continue
        words = f"{one.name}: {plural(one.versions, 'version')}"
        if track in starts:
            kind, (lower, version) = starts[track].kind, starts[track].lower
            verb = "forked" if kind == "fork" else "cloned"
            words += f", {verb} from {graph.tracks[lower].name}:{version}"
        tags = [tag for node in graph.nodes if node.track == track for tag in node.tags]
        words += f"; {'tags' if len(tags) > 1 else 'tag'} {listing(tags, 5)}" if tags else ""
        sentences.append(f"{words}.")
    merges = [k for k in graph.links if k.kind in {"merge", "fast-forward"}]
    for link in merges[:5]:
        (target, into), (source, of) = link.ends
        names = graph.tracks[source].name, graph.tracks[target].name
        done = "merged" if link.kind == "merge" else "taken over"
        sentences.append(f"{names[0]}:{of} {done} by {names[1]}:{into}.")
    return " ".join([*sentences, *(f"{note}." for note in graph.notes)])


# ---- the graph of branches as SVG, made by hand: circles, lines, and words beside them

_ROW, _COLUMN, _MARGIN, _HEAD = 26, 20, 18, 44
_RADIUS, _BEND = 5.5, 10
_COLOURS = 6


def render_svg(lanes: Lanes, title: str, alt: str) -> str:
    """Return the drawing of a graph."""
    left = _MARGIN + (lanes.width - 1) * _COLUMN + 20
    words = [_words(lanes, row.node, left, _y(at)) for at, row in enumerate(lanes.rows)]
    right = max((end for end, _ in words), default=0)
    legend, legend_end = _legend(lanes, _HEAD + len(lanes.rows) * _ROW + 8)
    width = max(right, legend_end, width_of(title, 14) + _MARGIN) + 12
    height = _HEAD + len(lanes.rows) * _ROW + (26 if legend else 4)
    return picture(
        title,
        alt,
        (round(width), height),
        element("text", title, x=12, y=22, class_="strong", font_size=14),
        *_tracks(lanes),
        *(_link(lanes, link) for link in lanes.graph.links),
        *(_mark(row, _y(at)) for at, row in enumerate(lanes.rows) if not row.node.is_run),
        *(markup for _, markup in words),
        *legend,
    )


def _y(row: int) -> float:
    return _HEAD + row * _ROW + _ROW / 2


def _x(column: int) -> float:
    return _MARGIN + column * _COLUMN


def _colour(track: int) -> str:
    return f"var(--c{track % _COLOURS})"


def _tracks(lanes: Lanes) -> Iterator[Markup]:
    """Yield the lines between versions of the same track; a run is dotted."""
    for track, column in enumerate(lanes.columns):
        own = [(at, row.node) for at, row in enumerate(lanes.rows) if row.node.track == track]
        for (top, upper), (bottom, lower) in pairwise(own):
            run = upper.is_run or lower.is_run
            yield element(
                "path",
                d=f"M{_x(column):g} {_y(top):g}V{_y(bottom):g}",
                class_="edge run" if run else "edge",
                stroke=_colour(track),
            )


def _link(lanes: Lanes, link: Link) -> Markup:
    top, bottom = lanes.ends(link)
    upper, lower = (lanes.rows[at].column for at in (top, bottom))
    x0, y0, x1, y1 = _x(upper), _y(top), _x(lower), _y(bottom)
    if link.kind in {"fork", "clone"}:
        turn = _BEND if x1 > x0 else -_BEND
        path = f"M{x0:g} {y0:g}V{y1 - _BEND:g}Q{x0:g} {y1:g} {x0 + turn:g} {y1:g}H{x1:g}"
        if x0 == x1:
            path = f"M{x0:g} {y0:g}V{y1:g}"
        colour = _colour(link.upper[0])
    else:  # from the merge's version to that of the other track
        below = y0 + _ROW
        path = f"M{x0:g} {y0:g}C{x0:g} {below:g} {x1:g} {y0:g} {x1:g} {min(below, y1):g}V{y1:g}"
        colour = _colour(link.lower[0])
    kind = "edge dashed" if link.kind == "clone" else "edge"
    return element("path", d=path, class_=kind, stroke=colour)


def _mark(row: Row, y: float) -> Markup:
    x, colour = _x(row.column), _colour(row.node.track)
    filled = "head" in row.node.words or bool(row.node.tags)
    fill = colour if filled else "var(--ground)"
    return element("circle", cx=x, cy=y, r=_RADIUS, fill=fill, stroke=colour, stroke_width=2)


def _words(lanes: Lanes, node: Node, x: float, y: float) -> tuple[float, Markup]:
    """Return what stands beside a version, and about where it ends."""
    name = "" if node.is_run else _label(lanes, node)
    parts = [(name, "strong"), *((f"▸ {tag}", "tag") for tag in node.tags), (_said(node), "quiet")]
    shown = [(text, kind) for text, kind in parts if text]
    spans = (
        element("tspan", text, class_=kind, dx=8 if at else None)
        for at, (text, kind) in enumerate(shown)
    )
    return x + sum(width_of(text) + 8 for text, _ in shown), element("text", *spans, x=x, y=y + 4)


def _legend(lanes: Lanes, y: float) -> tuple[list[Markup], float]:
    """Return what the lines between tracks mean, of those that there are."""
    if all(link.kind != "clone" for link in lanes.graph.links):
        return [], 0
    path = element("path", d=f"M12 {y + 8:g}h26", class_="edge dashed", stroke="var(--quiet)")
    words = element("text", "clone", x=44, y=y + 12, class_="quiet", font_size=11)
    return [path, words], 44 + width_of("clone", 11)


# ---- the graph of branches for terminals, as lanes, and as a mermaid diagram

#: what a mermaid label may hold as it is
_PLAIN = frozenset(" -_.,/()+·▸…")
_ARROWS = {"fork": "-->", "merge": "==>", "fast-forward": "==>", "clone": "-.->"}


def _label(lanes: Lanes, node: Node) -> str:
    """Return what a version is called: versions of two branches may have the same number."""
    return f"{lanes.graph.tracks[node.track].name}:{node.last}"


def _said(node: Node) -> str:
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
        return _said(node)
    tags = ", ".join(node.tags)
    words = [f"tag {tags}" if len(node.tags) == 1 else f"tags {tags}"] if tags else []
    return f"{_label(lanes, node)}  {', '.join([*words, *node.words])}"


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
            lines.append(f'  n{at}(["{_escaped(_said(node))}"])')
            continue
        words = [_label(lanes, node), *(f"▸ {tag}" for tag in node.tags), *node.words]
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

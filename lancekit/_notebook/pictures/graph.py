"""The picture of a dataset's branches, tags, clones and merges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from lancekit._api.lance_dataset import LanceDataset
from lancekit._notebook.pictures.refs import Graph, Link, Node, graph_of
from lancekit._notebook.pictures.style import picture, width_of
from lancekit._notebook.render.html import Markup, element
from lancekit._notebook.render.words import listing, plural
from lancekit._picture import Picture


def graph_picture(ds: LanceDataset, *, clones: Sequence[LanceDataset] = ()) -> Picture:
    """Return the graph of a dataset's branches; it reads a few manifests and no data files."""
    lanes = lanes_of(graph_of(ds, clones))
    graph, alt = lanes.graph, _alt(lanes)
    return Picture(
        alt=f"{graph.title}. {alt}",
        text=render_text(lanes, graph.title),
        mermaid=mermaid(lanes),
        render=partial(render_svg, lanes, graph.title, alt),
    )


def _alt(lanes: _Lanes) -> str:
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
        done = "merged" if link.kind == "merge" else "fast-forwarded"
        sentences.append(f"{names[0]}:{of} {done} into {names[1]}:{into}.")
    return " ".join([*sentences, *(f"{note}." for note in graph.notes)])


# ---- the graph of branches as SVG: circles, lines and labels

_ROW, _COLUMN, _MARGIN, _HEAD = 26, 20, 18, 44
_RADIUS, _BEND = 5.5, 10
_COLOURS = 6


def render_svg(lanes: _Lanes, title: str, alt: str) -> str:
    """Return the SVG of a graph."""
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


def _tracks(lanes: _Lanes) -> Iterator[Markup]:
    """Yield the edges between adjacent versions of a track; edges of a run are dotted."""
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


def _link(lanes: _Lanes, link: Link) -> Markup:
    top, bottom = lanes.ends(link)
    upper, lower = (lanes.rows[at].column for at in (top, bottom))
    x0, y0, x1, y1 = _x(upper), _y(top), _x(lower), _y(bottom)
    if link.kind in {"fork", "clone"}:
        turn = _BEND if x1 > x0 else -_BEND
        path = f"M{x0:g} {y0:g}V{y1 - _BEND:g}Q{x0:g} {y1:g} {x0 + turn:g} {y1:g}H{x1:g}"
        if x0 == x1:
            path = f"M{x0:g} {y0:g}V{y1:g}"
        colour = _colour(link.upper[0])
    else:  # from the version of the merge to the merged version of the other track
        below = y0 + _ROW
        path = f"M{x0:g} {y0:g}C{x0:g} {below:g} {x1:g} {y0:g} {x1:g} {min(below, y1):g}V{y1:g}"
        colour = _colour(link.lower[0])
    kind = "edge dashed" if link.kind == "clone" else "edge"
    return element("path", d=path, class_=kind, stroke=colour)


def _mark(row: _Row, y: float) -> Markup:
    x, colour = _x(row.column), _colour(row.node.track)
    filled = "head" in row.node.words or bool(row.node.tags)
    fill = colour if filled else "var(--ground)"
    return element("circle", cx=x, cy=y, r=_RADIUS, fill=fill, stroke=colour, stroke_width=2)


def _words(lanes: _Lanes, node: Node, x: float, y: float) -> tuple[float, Markup]:
    """Return the label of a version, and the approximate x coordinate of its right end."""
    name = "" if node.is_run else _label(lanes, node)
    parts = [(name, "strong"), *((f"▸ {tag}", "tag") for tag in node.tags), (_text(node), "quiet")]
    shown = [(text, kind) for text, kind in parts if text]
    spans = (
        element("tspan", text, class_=kind, dx=8 if at else None)
        for at, (text, kind) in enumerate(shown)
    )
    return x + sum(width_of(text) + 8 for text, _ in shown), element("text", *spans, x=x, y=y + 4)


def _legend(lanes: _Lanes, y: float) -> tuple[list[Markup], float]:
    """Return the legend of the dashed edges of clones, if there are any, and its right end."""
    if all(link.kind != "clone" for link in lanes.graph.links):
        return [], 0
    path = element("path", d=f"M12 {y + 8:g}h26", class_="edge dashed", stroke="var(--quiet)")
    words = element("text", "clone", x=44, y=y + 12, class_="quiet", font_size=11)
    return [path, words], 44 + width_of("clone", 11)


# ---- the graph of branches as text lanes for terminals, and as a mermaid diagram

#: characters of a mermaid label that need no escape, besides letters and digits
_PLAIN = frozenset(" -_.,/()+·▸…")
_ARROWS = {"fork": "-->", "merge": "==>", "fast-forward": "==>", "clone": "-.->"}


def _label(lanes: _Lanes, node: Node) -> str:
    """Return a version's reference; the branch is necessary, since branches share numbers."""
    return f"{lanes.graph.tracks[node.track].name}:{node.last}"


def _text(node: Node) -> str:
    """Return the words of a version besides its name and tags."""
    return " · ".join(node.words)


# ---- lanes


def render_text(lanes: _Lanes, title: str) -> str:
    """Return the graph as lines of text."""
    lines = [f"{title}; newest first"]
    for at, row in enumerate(lanes.rows):
        lines += _forks(lanes, at)
        beside = "┊" if row.node.is_run else "●"
        lines.append(f"{_lane(lanes, at, row, beside)} {_beside(lanes, row.node)}".rstrip())
    return "\n".join([*lines, *lanes.graph.notes])


def _beside(lanes: _Lanes, node: Node) -> str:
    if node.is_run:
        return _text(node)
    tags = ", ".join(node.tags)
    words = [f"tag {tags}" if len(node.tags) == 1 else f"tags {tags}"] if tags else []
    return f"{_label(lanes, node)}  {', '.join([*words, *node.words])}"


def _lane(lanes: _Lanes, at: int, row: _Row, mark: str) -> str:
    cells = ["│" if column in _open(lanes, at) else " " for column in range(lanes.width)]
    cells[row.column] = mark
    return " ".join(cells).rstrip()


def _open(lanes: _Lanes, at: int, *, above: bool = False) -> set[int]:
    """Return the columns with a track between a row and the next one, or above the row."""
    return {
        column
        for column, (top, bottom) in zip(lanes.columns, lanes.spans, strict=True)
        if (top < at <= bottom if above else top <= at < bottom)
    }


def _forks(lanes: _Lanes, at: int) -> Iterator[str]:
    """Yield the line that joins the tracks forked from a row's version to it, if there are any."""
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


def mermaid(lanes: _Lanes) -> str:
    """Return the graph as the source of a mermaid flowchart."""
    lines = ["flowchart TB"]
    for at, row in enumerate(lanes.rows):
        node = row.node
        if node.is_run:
            lines.append(f'  n{at}(["{_escaped(_text(node))}"])')
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


# ---- layout of a graph: the row and the column of each version, heads first


@dataclass(frozen=True, slots=True)
class _Row:
    """A node with its column."""

    node: Node
    column: int


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The layout of a graph: its rows from the top, and the row of each version in ``at``.

    ``spans`` has the first and the last row of each track: from its head to the version of another
    track at which it starts.
    """

    graph: Graph
    rows: tuple[_Row, ...]
    at: dict[tuple[int, int], int]
    spans: tuple[tuple[int, int], ...]
    columns: tuple[int, ...]

    @property
    def width(self) -> int:
        """The number of columns."""
        return max(self.columns, default=0) + 1

    def ends(self, link: Link) -> tuple[int, int]:
        """Return the rows of both ends of a link."""
        return self.at[link.upper], self.at[link.lower]


def lanes_of(graph: Graph) -> _Lanes:
    """Return the layout of a graph.

    A version is above all its ancestors, and a branch directly above its fork.
    """
    nodes = _ordered(graph)
    at = {(node.track, node.last): row for row, node in enumerate(nodes)}
    spans = []
    for track in range(len(graph.tracks)):
        own = [row for row, node in enumerate(nodes) if node.track == track]
        starts = [
            at[link.lower]
            for link in graph.links
            if link.kind in {"fork", "clone"} and link.upper[0] == track
        ]
        spans.append((min(own, default=0), max([*own, *starts], default=0)))
    columns = _columns(spans)
    rows = tuple(_Row(node, columns[node.track]) for node in nodes)
    return _Lanes(graph, rows, at, tuple(spans), columns)


def _ordered(graph: Graph) -> list[Node]:
    """Return the nodes in drawing order: a node's descendants come directly before it."""
    nodes = {(node.track, node.last): node for node in graph.nodes}
    above = dict[tuple[int, int], list[tuple[int, int]]]()
    for upper, lower in [*(link.ends for link in graph.links), *_steps(list(nodes))]:
        above.setdefault(lower, []).append(upper)
    order = dict[tuple[int, int], Node]()
    for start in nodes:
        path = {start: None}  # hand-written reference files can form cycles
        while path:
            key = next(reversed(path))
            waits = (one for one in above.get(key, ()) if one not in order and one not in path)
            first = next(waits, None)
            if first is not None:
                path[first] = None
                continue
            order[key] = nodes[key]
            del path[key]
    return list(order.values())


def _steps(keys: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for upper, lower in pairwise(keys):
        if upper[0] == lower[0]:
            yield upper, lower


def _columns(spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return a column for each track: the first free one over its span."""
    taken: list[list[tuple[int, int]]] = []
    found = [0] * len(spans)
    for track in sorted(range(len(spans)), key=lambda track: (track > 0, spans[track])):
        top, bottom = spans[track]
        free = (
            column
            for column, others in enumerate(taken)
            if all(bottom < first or last < top for first, last in others)
        )
        column = next(free, len(taken))
        if column == len(taken):
            taken.append([])
        taken[column].append((top, bottom))
        found[track] = column
    return tuple(found)

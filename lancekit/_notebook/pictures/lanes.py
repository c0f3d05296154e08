"""In which order the versions of a graph stand, and in which column: heads first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lancekit._notebook.pictures.refs import Graph, Link, Node

__all__ = ["Lanes", "Row", "lanes_of"]


@dataclass(frozen=True, slots=True)
class Row:
    """A node, and the column it stands in."""

    node: Node
    column: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """The rows of a drawing from the top, and which row a version stands in.

    ``spans`` are the first and the last row of each column's tracks: from the head to where the
    track begins, in another one.
    """

    graph: Graph
    rows: tuple[Row, ...]
    at: dict[tuple[int, int], int]
    spans: tuple[tuple[int, int], ...]
    columns: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many columns there are."""
        return max(self.columns, default=0) + 1

    def ends(self, link: Link) -> tuple[int, int]:
        """Return the rows of a link's upper and lower end."""
        return self.at[link.upper], self.at[link.lower]


def lanes_of(graph: Graph) -> Lanes:
    """Return the rows and columns of a graph.

    A version stands above all that it comes from, and a branch right above where it forks.
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
    rows = tuple(Row(node, columns[node.track]) for node in nodes)
    return Lanes(graph, rows, at, tuple(spans), columns)


def _ordered(graph: Graph) -> list[Node]:
    """Return the nodes from main's head down; what comes from one stands right above it."""
    nodes = {(node.track, node.last): node for node in graph.nodes}
    above = dict[tuple[int, int], list[tuple[int, int]]]()
    for upper, lower in [*(link.ends for link in graph.links), *_steps(list(nodes))]:
        above.setdefault(lower, []).append(upper)
    order = dict[tuple[int, int], Node]()
    for start in nodes:
        path = {start: None}  # references that were made by hand may go round in circles
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
    """Return a column for each track: the first that is free from its head to its start."""
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

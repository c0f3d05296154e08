"""The picture of a dataset's branches, tags, clones and merges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lancekit.api.lance_dataset import LanceDataset
from lancekit.notebook.pictures.lanes import Lanes, lanes_of
from lancekit.notebook.pictures.refs import graph_of
from lancekit.notebook.pictures.refs_svg import render_svg
from lancekit.notebook.pictures.refs_text import mermaid, render_text
from lancekit.notebook.render.words import listing, plural
from lancekit.picture import Picture

__all__ = ["graph_picture"]


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

"""The graph of branches: what it shows, that it is small, and the same facts in all forms."""

import re
from dataclasses import replace

import pytest

import lancekit as lk
from lancekit._notebook.pictures.graph import graph_picture, lanes_of, mermaid, render_text
from lancekit._notebook.pictures.refs import Graph, Link, Node, Reader, Track, graph_of, merges_into
from tests.notebook.pictures.support import NAMES, merged, numbered, parsed, words


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    return merged(tmp_path_factory.mktemp("graph") / "lines.lance")


def test_lanes(ds):
    clone = lk.dataset(f"{ds.uri.removesuffix('lines.lance')}clone.lance")
    assert str(ds.plot.graph(clones=[clone])).splitlines() == [
        "4 branches, 15 versions of lines.lance; newest first",
        "  ● clone.lance main:10  head, clone",
        "├╌╯",
        "● main:10  head, open here, update, merge of trial:9",
        "● main:9  append",
        "● main:8  update, merge of trial:8",
        "│ ● trial:9  head, append",
        "│ ● trial:8  append",
        "│ ● trial:7  branched",
        "├─╯",
        "● main:7  append",
        "┊ 3 versions",
        "│ ● team/other:3  head, branched",
        "├─╯",
        "● main:3  tag jan, append",
        "● main:2  append",
        "● main:1  create, the first",
    ]


def test_links(ds):
    graph = graph_of(ds)
    kinds = {(link.kind, *link.ends) for link in graph.links}
    names = [track.name for track in graph.tracks]
    main, trial, other = (names.index(name) for name in ("main", "trial", "team/other"))
    assert kinds == {
        ("fork", (trial, 7), (main, 7)),
        ("fork", (other, 3), (main, 3)),
        ("fast-forward", (main, 8), (trial, 8)),
        ("merge", (main, 10), (trial, 9)),
    }


def test_merges_are_found_in_few_of_many_versions(tmp_path):
    ds = lk.write_dataset({"id": [0]}, tmp_path / "long.lance", primary_key="id")
    trial = ds.create_branch("trial")
    wanted = []
    for i in range(3):
        trial.insert({"id": [100 + i]})
        ds.insert({"id": [10 + i]})
        ds.branches.merge("trial")
        wanted.append((trial.version, ds.version))
        for j in range(5):
            ds.insert({"id": [1000 + 10 * i + j]})
    reader = Reader(200)
    found = list(merges_into(ds._location, ds.versions().numbers, reader))
    assert [(one.of, one.into) for one in found] == wanted[::-1]
    assert list(merges_into(ds._location, ds.versions().numbers, Reader(0))) == []


def test_a_clone_knows_its_source(ds):
    clone = lk.dataset(f"{ds.uri.removesuffix('lines.lance')}clone.lance")
    picture = clone.plot.graph()
    assert "lines.lance:10  source of the clone" in picture.text
    assert re.search(r"n0 -\.->\|\"clone\"\| n1", picture.mermaid)
    dashed = [e for e in parsed(picture).iter() if e.get("class") == "edge dashed"]
    assert len(dashed) == 2  # and one that says what it means


def test_all_forms_say_the_same(ds):
    picture = ds.plot.graph()
    said = words(parsed(picture))
    for part in ("main:10", "trial:9", "team/other:3", "▸ jan", "3 versions", "branched"):
        assert part in said
        assert part.replace("▸", "tag") in picture.text
        assert re.sub(r"[:@]", lambda c: f"#{ord(c[0])};", part) in picture.mermaid
    assert "main: 10 versions; tag jan." in picture.alt
    assert "trial:9 merged into main:10." in picture.alt
    assert picture.figure is None
    assert picture.svg == ds.plot.graph().svg


def test_long_histories_are_short_pictures(tmp_path):
    ds = numbered(tmp_path / "many.lance", 5000)
    for i in range(40):
        ds.tags.create(f"t{i}", 100 + 100 * i)
    ds.create_branch("b", 2500)
    picture = ds.plot.graph()
    assert len(picture.svg.encode()) < 30_000
    assert "999 versions" in picture.text
    assert "16 tags of older versions" in picture.text
    parsed(picture)


def test_more_branches_than_are_drawn(tmp_path):
    ds = lk.write_dataset({"x": [1]}, tmp_path / "wide.lance")
    for i in range(18):
        last = ds.create_branch(f"b{i}", 1)
    picture = last.plot.graph()
    assert "3 more branches: ds.branches.list()" in picture.text
    assert "b17:1  head, open here" in picture.text


def test_names_of_others():
    tracks = [Track("main", 3), *(Track(name[:40], 1) for name in NAMES)]
    nodes = [Node(0, 3, 3, tags=tuple(NAMES)), Node(0, 2, 2), Node(0, 1, 1)]
    nodes += [Node(at, 2, 2, words=(name,)) for at, name in enumerate(NAMES, 1)]
    links = [Link("fork", (at, 2), (0, 2)) for at in range(1, len(tracks))]
    lanes = lanes_of(Graph("x", tuple(tracks), tuple(nodes), tuple(links), ()))
    picture = replace(graph_picture(lk.write_dataset({"x": [1]}, "memory://graph-names")))
    from lancekit._notebook.pictures.graph import render_svg

    hostile = replace(picture, render=lambda: render_svg(lanes, NAMES[0], NAMES[1]))
    assert NAMES[0] in " ".join(words(parsed(hostile)))
    for line in mermaid(lanes).splitlines()[1:]:
        assert re.fullmatch(
            r'  n\d+(\["[^"<>]*"\]|\(\["[^"<>]*"\]\)| \S+ ?(\|"[^"]*"\|)? ?n\d+)', line
        )
    assert len(render_text(lanes, "x").splitlines()) == len(nodes) + 2


def test_references_in_a_circle_are_drawn():
    links = (Link("fork", (1, 1), (0, 1)), Link("fork", (0, 1), (1, 1)))
    nodes = (Node(0, 1, 1), Node(1, 1, 1))
    lanes = lanes_of(Graph("x", (Track("a", 1), Track("b", 1)), nodes, links, ()))
    assert len(lanes.rows) == 2


def test_every_version_stands_above_those_it_comes_from(ds):
    lanes = lanes_of(graph_of(ds))
    assert all(upper < lower for upper, lower in map(lanes.ends, lanes.graph.links))
    for track in range(len(lanes.graph.tracks)):
        own = [row.node.last for row in lanes.rows if row.node.track == track]
        assert own == sorted(own, reverse=True)
    # no two tracks are in one column at the same row
    for a, one in enumerate(lanes.spans):
        for b, other in enumerate(lanes.spans[:a]):
            apart = one[1] < other[0] or other[1] < one[0]
            assert apart or lanes.columns[a] != lanes.columns[b]

"""The graph of a dataset's branches: versions drawn as nodes, runs of other versions, and links.

Names and numbers come from listings, reference files and a few manifests.  These manifests are of
drawn versions, or show which version was a merge (`merges_into`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.names import MAIN
from lancekit._format.operations import Clone
from lancekit._format.refs import Branch
from lancekit._notebook.cards.common import REFS_READ, operation_word, place_of
from lancekit._notebook.render.words import clean, count, cut, place, plural
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import list_versions
from lancekit._versions.merge_edges import APPLIED, FAST_FORWARD, MERGE_KEYS
from lancekit._versions.reference_files import branch_files, get_branch, list_branches
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import LancekitError

#: branches that are drawn, and tagged versions that get a node of their own
_LINES, _TAGGED = 16, 24
#: up to this many versions between two nodes are drawn one by one, more are drawn as a run
_SHORT_RUN = 2
#: characters of a name, and tags named at a version
_NAME, _TAGS = 40, 3
#: the largest number of bytes of manifests that are read
_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Node:
    """A version of a track, or a run of versions, with its words and its tags."""

    track: int
    first: int
    last: int
    count: int = 1
    words: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def is_run(self) -> bool:
        """True if the node stands for several versions that are not drawn."""
        return self.count > 1


@dataclass(frozen=True, slots=True)
class Link:
    """A link from a version to an older one in its ancestry: a fork, a merge or a clone."""

    kind: str
    upper: tuple[int, int]
    lower: tuple[int, int]

    @property
    def ends(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Both versions, each with its track."""
        return self.upper, self.lower


@dataclass(frozen=True, slots=True)
class Track:
    """A track of the graph: main, a branch, a clone's main, or the source of a cloned dataset."""

    name: str
    versions: int
    marked: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph: tracks, the nodes of each from its head down, links, and notes on omissions."""

    name: str
    tracks: tuple[Track, ...]
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """The numbers of branches and versions, and the dataset's name."""
        versions = plural(sum(track.versions for track in self.tracks), "version")
        number = sum(track.versions > 0 for track in self.tracks)
        return f"{plural(number, 'branch', 'branches')}, {versions} of {self.name}"


def graph_of(ds: LanceDataset, clones: Sequence[LanceDataset] = ()) -> Graph:
    """Return the graph of a dataset's current branches and of its given clones."""
    root = ds._location.on(None)
    branches, left = _branches(ds)
    locations = [root, *(root.on(name) for name in branches)]
    versions = [list_versions(location).versions for location in locations]
    names = [MAIN, *(cut(clean(name), _NAME) for name in branches)]
    places = {name: at for at, name in enumerate((None, *branches))}
    links = [
        Link("fork", (places[name], min(versions[places[name]])), (at, branch.parent_version))
        for name, branch in branches.items()
        if (at := places.get(branch.parent_branch)) is not None
    ]
    reader = Reader(_BYTES // max(ds._snapshot.manifest_size, 1))
    for other in clones:
        start = _cloned(other._location.on(None), reader)
        if start is None or start[0] != place(root.uri):
            continue
        locations.append(other._location.on(None))
        versions.append(list_versions(locations[-1]).versions)
        names.append(f"{place_of(other).name} {MAIN}")
        links.append(Link("clone", (len(locations) - 1, min(versions[-1])), (0, start[1])))
    links += _merges(locations, versions, reader)
    source = _cloned(root, reader)
    if source is not None:
        locations.append(root)
        versions.append(())
        names.append(cut(clean(source[0].rstrip("/").rpartition("/")[2]), _NAME))
        links.append(Link("clone", (0, min(versions[0])), (len(locations) - 1, source[1])))
    tags, tag_notes = _tags(ds, locations)
    here = locations.index(ds._location) if ds._location in locations else 0, ds.version
    marked = _marked(versions, [here, *tags, *(end for link in links for end in link.ends)])
    tracks = tuple(
        Track(name, len(own), frozenset(some))
        for name, own, some in zip(names, versions, marked, strict=True)
    )
    nodes = [
        node
        for at, own in enumerate(versions)
        for node in _nodes(at, own, sorted(marked[at], reverse=True), tags)
    ]
    labelled = [_with_words(node, locations, versions, reader, here) for node in nodes]
    notes = [f"{plural(left, 'more branch', 'more branches')}: ds.branches.list()"] if left else []
    return Graph(place_of(ds).name, tracks, tuple(labelled), tuple(links), (*notes, *tag_notes))


# ---- branches


def _branches(ds: LanceDataset) -> tuple[dict[str, Branch], int]:
    """Return the branches to draw, each after its parent, and the number of the others."""
    root = ds._location.root
    files = branch_files(root)
    if len(files) <= REFS_READ:
        found = list_branches(root, files)
        wanted = sorted(found, key=lambda name: -found[name].create_at)
    else:
        wanted = list(files)[: _LINES - 1]
        found = {}
        for name in (ds._location.branch, *wanted):
            with suppress(LancekitError):
                if name is not None:
                    found[name] = get_branch(root, name)
    drawn = dict[str, Branch]()
    for name in [ds._location.branch, *wanted]:
        chain = list(_chain(name, found))
        if len({*drawn, *chain}) < _LINES:
            drawn |= {one: found[one] for one in reversed(chain) if one not in drawn}
    order = sorted(drawn, key=lambda name: len(drawn[name].identifier))
    return {name: drawn[name] for name in order}, len(files) - len(drawn)


def _chain(name: str | None, found: Mapping[str, Branch]) -> Iterator[str]:
    seen = set[str]()
    while name in found and name is not None and name not in seen:
        seen.add(name)
        yield name
        name = found[name].parent_branch


def _cloned(location: BranchLocation, reader: Reader) -> tuple[str, int] | None:
    """Return location and version of a clone's source, from the dataset's first commit."""
    with suppress(LancekitError):
        first = reader.read(location, min(list_versions(location).versions))
        made = first.transaction.operation if first and first.transaction else None
        if isinstance(made, Clone) and not made.branch_name:
            return place(made.ref_path), made.ref_version
    return None


def _merges(
    locations: Sequence[BranchLocation], versions: Sequence[Sequence[int]], reader: Reader
) -> Iterator[Link]:
    for target, location in enumerate(locations):
        at = {other.name: i for i, other in enumerate(locations) if other.root == location.root}
        for merge in merges_into(location, versions[target], reader):
            source = at.get(merge.source, target)
            if source != target:
                yield Link(merge.kind, (target, merge.into), (source, merge.of))


# ---- versions


def _tags(
    ds: LanceDataset, locations: Sequence[BranchLocation]
) -> tuple[dict[tuple[int, int], list[str]], list[str]]:
    """Return the tags by version, and notes on tags that are left out."""
    names, pairs = ds.tags._names_and_refs(REFS_READ)
    if pairs is None:
        return {}, [f"{plural(len(names), 'tag')}, not shown: ds.tags.list()"]
    at = {
        location.name: i
        for i, location in enumerate(locations[:_LINES])
        if location.root == locations[0].root
    }
    found: dict[tuple[int, int], list[str]] = {}
    for name, tag in pairs:
        track = at.get(tag["branch"] or MAIN)
        if track is not None:
            found.setdefault((track, tag["version"]), []).append(name)
    kept = sorted(found, key=lambda end: -end[1])[:_TAGGED]
    left = sum(len(found[end]) for end in found) - sum(len(found[end]) for end in kept)
    more = [f"{plural(left, 'tag')} of older versions: ds.tags.list()"] if left else []
    return {end: sorted(found[end]) for end in kept}, more


def _marked(versions: Sequence[Sequence[int]], ends: Iterable[tuple[int, int]]) -> list[set[int]]:
    """Return the versions of each track that get a node of their own."""
    marked = [{max(own), min(own)} if own else set[int]() for own in versions]
    for track, version in ends:
        marked[track].add(version)
    return marked


def _nodes(
    track: int,
    versions: Sequence[int],
    marked: Sequence[int],
    tags: Mapping[tuple[int, int], Sequence[str]],
) -> Iterator[Node]:
    """Yield the nodes of a track from its head down."""
    for version, below in zip(marked, [*marked[1:], marked[-1]], strict=True):
        yield Node(track, version, version, tags=_named(tags.get((track, version), ())))
        between = versions[bisect_right(versions, below) : bisect_left(versions, version)]
        if len(between) > _SHORT_RUN:
            yield Node(track, between[0], between[-1], len(between))
        else:
            yield from (Node(track, one, one) for one in reversed(between))


def _named(tags: Sequence[str]) -> tuple[str, ...]:
    more = len(tags) - _TAGS
    named = [cut(clean(tag), _NAME) for tag in tags[:_TAGS]]
    return (*named, *([f"{count(more)} more"] if more > 0 else []))


def _with_words(
    node: Node,
    locations: Sequence[BranchLocation],
    versions: Sequence[Sequence[int]],
    reader: Reader,
    here: tuple[int, int],
) -> Node:
    """Return a node with its words: head, current handle, operation and commit message."""
    own = versions[node.track]
    if node.is_run:
        return replace(node, words=(plural(node.count, "version"),))
    if not own:
        return replace(node, words=("source of the clone",))
    words = []
    if node.last == max(own):
        words.append("head")
    if (node.track, node.last) == here:
        words.append("open here")
    if node.last not in own:
        words.append("cleaned up")
    with suppress(LancekitError):
        found = reader.read(locations[node.track], node.last)
        summary = found.transaction_summary if found else None
        if summary is not None:
            branch = summary.operation == "Clone" and locations[node.track].branch is not None
            first = summary.read_version == 0
            words.append("branched" if branch else operation_word(summary.operation, first=first))
            if summary.message:
                words.append(cut(clean(summary.message), _NAME))
    return replace(node, words=tuple(words))


# ---- versions that merged another branch, found by few of very many manifests
#
# The config of a branch's head names the merged branches with the last merged version of each.
# These numbers only grow along a branch, so a binary search finds the version of a merge.

#: the newest merges of one branch into another that are searched
_MOST = 4


@dataclass(frozen=True, slots=True)
class _Merge:
    """Version `into` of a branch contains all changes of branch `source` up to version `of`."""

    kind: str
    source: str
    of: int
    into: int


class Reader:
    """Reads and caches snapshots; after ``most`` reads it returns ``None`` for further ones."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._known: dict[tuple[BranchLocation, int], Snapshot] = {}

    def read(self, location: BranchLocation, version: int) -> Snapshot | None:
        """Return the snapshot of a version; ``VersionNotFoundError`` if it was cleaned up."""
        known = self._known.get((location, version))
        if known is not None or self._left <= 0:
            return known
        self._left -= 1
        found = self._known[location, version] = load_snapshot(location, version)
        return found


def merges_into(
    location: BranchLocation, versions: Sequence[int], reader: Reader
) -> Iterator[_Merge]:
    """Yield the newest merges into a branch; none if manifests are too large or damaged."""
    if not versions:
        return
    with suppress(LancekitError):
        head = reader.read(location, versions[-1])
        keys = [key for key in head.manifest.config if key.startswith(MERGE_KEYS)] if head else []
        for key in keys:
            yield from _by(key, location, versions, reader)


def _by(
    key: str, location: BranchLocation, versions: Sequence[int], reader: Reader
) -> Iterator[_Merge]:
    """Yield the merges that one key of the config records, the newest first."""
    end = len(versions)
    for _ in range(_MOST):
        number, taken = _mark(reader.read(location, versions[end - 1]), key)
        if not number:
            return
        place = bisect_left(
            range(end), number, key=lambda at: _mark(reader.read(location, versions[at]), key)[0]
        )
        found = reader.read(location, versions[place])
        properties = found.transaction.transaction_properties if found and found.transaction else {}
        source, _, version = properties.get(f"{APPLIED}.theirs", "").rpartition("@")
        if source and version == str(number):  # else a merge of another branch brought it along
            kind = "fast-forward" if taken else "merge"
            yield _Merge(kind, source, number, versions[place])
        end = place
        if not end:
            return


def _mark(snapshot: Snapshot | None, key: str) -> tuple[int, bool]:
    """Return the last merged version that a key records, and if it was fast-forwarded."""
    number, *words = (snapshot.manifest.config.get(key, "") if snapshot else "").split() or [""]
    return int(number) if number.isdecimal() else 0, FAST_FORWARD in words

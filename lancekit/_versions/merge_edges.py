"""Records of merges in a version's config, and the versions that it therefore contains.

One key for each pair of a source and a target says up to which version the target contains the
source.  Forks inherit the config, and a merge copies the keys of its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lancekit._legible import literal
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import FormatError, UnsupportedFeatureError

#: prefix of the config keys of merges
MERGE_KEYS = "lancekit.merge."
#: prefix of the config keys of picks that inserted rows without a key
PICK_KEYS = "lancekit.pick."
#: prefix of the config keys of merges and picks that brought deleted rows back under new row ids
RETURN_KEYS = "lancekit.return."
#: prefix of the config keys of merges and picks that a restore undid
UNDONE_KEYS = "lancekit.undone."
#: word in a merge's config value, before the version of the target that the fast-forward made
FAST_FORWARD = "fast-forward"
#: word before the three numbers of `SharedIds`
SHARED_IDS = "ids"
#: word before the columns of the merge: see `lancekit._pipeline.diff.recorded_columns`
COLUMNS = "columns"
#: prefix of the transaction properties that name the versions or commits that were applied
APPLIED = "lancekit.apply"
#: the property that only merges have: the unique name of the merged branch
MERGED = f"{APPLIED}.branch"
#: the property of a merge into a version that the source contained: the number of the new version
REPEATS = f"{APPLIED}.repeats"


@dataclass(frozen=True, slots=True)
class SharedIds:
    """Row ids that identify the same rows on two branches since a fast-forward.

    source, target: the version of each branch that has these rows.
    next_row_id: all lower row ids are shared; from it on, both branches assign ids independently.
    """

    source: int
    target: int
    next_row_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeEdge:
    """An edge of the graph: branch `target` contains branch `source` up to a version.

    Branches are identified by their unique names.

    version: the newest version of the source that the target contains.
    uuid: the transaction of that version, if it is known.
    taken_by: the version of the target with the same rows at the same addresses: a fast-forward.
    ids: the row ids of both branches since the last fast-forward.
    columns: the record of the merge's columns, with their ids in the source.
    """

    source: str
    target: str
    version: int
    uuid: str = ""
    taken_by: int | None = None
    ids: SharedIds | None = None
    columns: str = ""

    @property
    def key(self) -> str:
        """The config key of the pair."""
        return f"{MERGE_KEYS}{self.source}.{self.target}"

    @property
    def origin(self) -> str:
        """The part of the config value after the version."""
        words: list[object] = [self.uuid]
        if self.taken_by is not None:
            words += [FAST_FORWARD, self.taken_by]
        if self.ids is not None:
            words += [SHARED_IDS, self.ids.source, self.ids.target, self.ids.next_row_id]
        if self.columns:
            words += [COLUMNS, self.columns]
        return " ".join(map(str, words)).strip()

    @classmethod
    def parse(cls, key: str, text: str, source: str, target: str) -> MergeEdge:
        """Parse the value of a config key; ``FormatError`` if it does not begin with a number."""
        number, *words = text.split() or [""]
        if not number.isdecimal():
            raise FormatError(
                f"{key!r} in the table's config must be a number, got {text!r}.",
                hint="Set it to the number of the last merged version, or delete it.",
            )
        columns = _words(words, COLUMNS, 1)
        taken, ids = _numbers(words, FAST_FORWARD, 1), _numbers(words, SHARED_IDS, 3)
        return cls(
            source=source,
            target=target,
            version=int(number),
            uuid=words[0] if words else "",
            taken_by=taken[0] if taken else None,
            ids=SharedIds(*ids) if ids else None,
            columns=columns[0] if columns else "",
        )


def _words(words: list[str], name: str, count: int) -> list[str]:
    """Remove a word, and the words after it, from a list; return the latter."""
    if name not in words:
        return []
    at = words.index(name)
    found = words[at + 1 : at + 1 + count]
    del words[at : at + 1 + count]
    return found if len(found) == count else []


def _numbers(words: list[str], name: str, count: int) -> list[int]:
    """Remove a word, and the numbers after it, from a list; return the numbers."""
    return [int(word) for word in _words(words, name, count) if word.isdecimal()]


def _keys_of(
    prefix: str, targets: Sequence[str], config: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the keys with a prefix for some target branches: the key, its source, and its target.

    Keys of other targets are ignored, because a clone has the config of its source, but its own
    main.  Early releases of lancekit wrote keys without a target.
    """
    for key in config:
        if not key.startswith(prefix):
            continue
        rest = key.removeprefix(prefix)
        target = next((name for name in targets if rest.endswith(f".{name}")), None)
        if target is not None:
            yield key, rest.removesuffix(f".{target}"), target
        elif "." not in rest:
            yield key, rest, ""


def pick_key(source: str, target: str) -> str:
    """Return the config key for rows of one branch that picks brought to another branch."""
    return f"{PICK_KEYS}{source}.{target}"


def return_key(source: str, target: str) -> str:
    """Return the config key for deleted rows that came back to one branch, and then to another."""
    return f"{RETURN_KEYS}{source}.{target}"


def undone_keys(newest: Mapping[str, str], restored: Mapping[str, str]) -> dict[str, str]:
    """Return the config keys that a restore adds, for rows of other branches that it removes.

    newest, restored: the config of the newest version, and of the restored version.
    """
    found = dict[str, str]()
    for prefix in (MERGE_KEYS, PICK_KEYS, UNDONE_KEYS):
        for key, text in newest.items():
            pair = key.removeprefix(prefix)
            if pair == key or "." not in pair:
                continue
            undone, version = f"{UNDONE_KEYS}{pair}", _number(text)
            known = _number(restored.get(key, ""))
            if version > max(known, _number(found.get(undone, restored.get(undone, "")))):
                found[undone] = str(version)
    return found


def _number(text: str) -> int:
    number = text.partition(" ")[0]
    return int(number) if number.isdecimal() else 0


def _versions(prefix: str, targets: Sequence[str], config: Mapping[str, str]) -> dict[str, int]:
    """Return the newest version of each source branch in the keys of some targets."""
    found = dict[str, int]()
    for key, name, target in _keys_of(prefix, targets, config):
        if target and config[key].isdecimal():
            found[name] = max(found.get(name, 0), int(config[key]))
    return found


@dataclass(frozen=True, slots=True)
class VersionVector:
    """The versions that a version contains: the newest version of each branch, by unique name.

    chain: the version itself and the versions that its branch was forked from, its own branch
        first.  The first version of a branch is the version that it was forked from, and is listed
        only under that name.
    edges: the newest merge of each source.
    picks: the newest version of each branch from which picks brought rows.
    returns: the newest version of each branch that brought deleted rows back under new row ids.
    undone: the newest version of each branch whose rows were merged, and removed by a restore.
    versions: the newest version of each branch, by its chain and its edges.
    """

    chain: Mapping[str, int]
    edges: Mapping[str, MergeEdge]
    picks: Mapping[str, int] = field(default_factory=dict)
    returns: Mapping[str, int] = field(default_factory=dict)
    undone: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        versions = dict(self.chain)
        for name, edge in self.edges.items():
            versions[name] = max(versions.get(name, 0), edge.version)
        object.__setattr__(self, "versions", versions)

    @classmethod
    def of(cls, chain: Sequence[tuple[str, int]], config: Mapping[str, str]) -> VersionVector:
        """Return the versions that a version contains.

        chain: the unique name and the version of its branch, then of its parent branches.
        config: the config of its manifest.
        """
        parents = [*chain[1:], ("", -1)]
        targets = [name for name, _ in chain]
        edges: dict[str, MergeEdge] = {}
        for key, source, target in _keys_of(MERGE_KEYS, targets, config):
            edge = MergeEdge.parse(key, config[key], source, target)
            known = edges.get(edge.source)
            if known is None or (known.version, known.uuid) < (edge.version, edge.uuid):
                edges[edge.source] = edge
        own = {
            name: version
            for (name, version), (_, forked) in zip(chain, parents, strict=True)
            if version != forked
        }
        others = (PICK_KEYS, RETURN_KEYS, UNDONE_KEYS)
        return cls(own, edges, *(_versions(one, targets, config) for one in others))

    @property
    def point(self) -> tuple[str, int]:
        """The unique name of the version's branch, and its number."""
        return next(iter(self.chain.items()))

    @property
    def rows_of(self) -> dict[str, int]:
        """The newest version of each branch whose rows this version may have, including picks."""
        names = dict.fromkeys([*self.versions, *self.picks])
        return {n: max(self.versions.get(n, 0), self.picks.get(n, 0)) for n in names}

    def ids_of(self, name: str) -> SharedIds | None:
        """Return which row ids of a branch identify the same rows in this version.

        For its own branch, and branches that it was forked from, `next_row_id` is 0: the manifest
        of `source` has the number.
        """
        own, edge = self.chain.get(name, 0), self.edges.get(name)
        if edge is not None and edge.ids is not None and edge.ids.source > own:
            return edge.ids
        return SharedIds(own, own, 0) if own else None

    def contains(self, name: str, version: int) -> bool:
        """Return True if a version of a branch is contained."""
        return self.versions.get(name, -1) >= version


def merge_edges(
    theirs: VersionVector, uuid: str, ours: VersionVector, target: str
) -> tuple[MergeEdge, ...]:
    """Return the edges that a merge adds to our config, the edge to their version first.

    theirs, ours: the versions that each side contains.
    uuid: the transaction of their version.
    target: the unique name of the branch that gets the merge.
    """
    source, version = theirs.point
    if source == target:
        return ()
    shared = {name: edge.ids for name, edge in ours.edges.items()}
    first = MergeEdge(
        source=source, target=target, version=version, uuid=uuid, ids=shared.get(source)
    )
    known = theirs.edges
    return first, *(
        MergeEdge(
            source=name,
            target=target,
            version=version,
            uuid=known[name].uuid if name in known and known[name].version == version else "",
            ids=shared.get(name),
        )
        for name, version in theirs.versions.items()
        if name not in (source, target) and not ours.contains(name, version)
    )


def newer_versions(found: Mapping[str, int], known: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the versions of branches that are newer than all known versions of the same branch."""
    older = [*known]
    return {
        name: version
        for name, version in found.items()
        if all(version > one.get(name, 0) for one in older)
    }


def not_contained(common: Mapping[str, int], vectors: Mapping[str, VersionVector]) -> Iterator[str]:
    """Yield the branches whose common version no other common version contains: the merge bases.

    common: the newest version of each branch that both sides contain.
    vectors: the versions that these versions contain, as far as they exist.
    """
    for name, version in common.items():
        if not any(of != name and has.contains(name, version) for of, has in vectors.items()):
            yield name


# ---- features that a release must have to merge a table's branches or to clean the table up

#: the config key: names of features, separated by spaces
_REQUIRES = "lancekit.requires"
#: the features of this release: config keys of merges, one for each pair of branches
_FEATURES = frozenset({"merge-keys"})


def check_requirements(snapshot: Snapshot, doing: str) -> None:
    """Raise ``UnsupportedFeatureError`` if a table requires a feature that this release lacks.

    ``doing`` names the operation, as the beginning of a sentence.
    """
    unknown = sorted(set(snapshot.manifest.config.get(_REQUIRES, "").split()) - _FEATURES)
    if unknown:
        raise UnsupportedFeatureError(
            f"{doing} needs {', '.join(map(literal, unknown))}, which this release of lancekit "
            f"does not support: {snapshot.called} of {snapshot.store.uri} requires it "
            f"({_REQUIRES}).",
            hint="Use a newer release of lancekit.",
            features=unknown,
        )

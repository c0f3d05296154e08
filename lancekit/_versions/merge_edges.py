"""Merges of lines as a version's config records them, and what the version contains by these.

One key for each pair of a source and a target says up to which version the target contains the
source.  Forks inherit the config, and a merge passes on the keys of its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lancekit._legible import literal
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import FormatError, UnsupportedFeatureError

#: how the config keys of merges begin
MERGE_KEYS = "lancekit.merge."
#: how the config keys of picks begin that inserted rows without a key
PICK_KEYS = "lancekit.pick."
#: how the config keys of merges and picks begin that brought deleted rows back under new row ids
RETURN_KEYS = "lancekit.return."
#: how the config keys of merges and picks begin that a restore took back
UNDONE_KEYS = "lancekit.undone."
#: the word before the version of the target that took the source over as it was
FAST_FORWARD = "fast-forward"
#: the word before what both sides share since a fast-forward: see `SharedIds`
SHARED_IDS = "ids"
#: the word before the columns of the merge: see `lancekit._pipeline.diff.recorded_columns`
COLUMNS = "columns"
#: how the properties of transactions begin that name what a commit brought in
APPLIED = "lancekit.apply"
#: the property that merges alone have: the unique name of the merged line
MERGED = f"{APPLIED}.branch"
#: the property of a merge into a version that the source contained: the number of the new version
REPEATS = f"{APPLIED}.repeats"


@dataclass(frozen=True, slots=True)
class SharedIds:
    """Row ids that mean the same rows on two lines, since one took the other over as it was.

    source, target: the version of each line that has these rows.
    next_row_id: the first row id that the version does not have: both lines give it out by
        themselves.
    """

    source: int
    target: int
    next_row_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeEdge:
    """An edge of the graph: line `target` contains line `source` up to a version.

    Lines are named by their unique names.

    version: the newest version of the source that the target contains.
    uuid: the transaction of that version, if it is known.
    taken_by: the version of the target with the same rows at the same addresses: a fast-forward.
    ids: the row ids of both lines since the last fast-forward.
    columns: which columns of the merge were which columns of the source.
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
        """Read the value of a config key; ``FormatError`` if it does not begin with a number."""
        number, *words = text.split() or [""]
        if not number.isdecimal():
            raise FormatError(
                f"The table's config has {text!r} under {key!r}, which is not a number.",
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
    """Take a word, and the words that follow it, out of others."""
    if name not in words:
        return []
    at = words.index(name)
    found = words[at + 1 : at + 1 + count]
    del words[at : at + 1 + count]
    return found if len(found) == count else []


def _numbers(words: list[str], name: str, count: int) -> list[int]:
    """Take a word, and the numbers that follow the word, out of others."""
    return [int(word) for word in _words(words, name, count) if word.isdecimal()]


def _keys_of(
    prefix: str, targets: Sequence[str], config: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of some lines with a prefix: the key, its source, and its target.

    Keys of other targets say nothing: a clone has the config of its source, and a main of its own.
    Keys without a target are those that lancekit wrote at first.
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
    """Return the config key for rows of one line that picks brought to another line."""
    return f"{PICK_KEYS}{source}.{target}"


def return_key(source: str, target: str) -> str:
    """Return the config key for deleted rows that came back to one line, and from it to another."""
    return f"{RETURN_KEYS}{source}.{target}"


def undone_keys(newest: Mapping[str, str], restored: Mapping[str, str]) -> dict[str, str]:
    """Return the config keys that a restore adds: rows of other lines that it takes away.

    newest, restored: the config of the newest version, and of the one that is restored.
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
    """Return the newest version of each line that keys of some lines name."""
    found = dict[str, int]()
    for key, name, target in _keys_of(prefix, targets, config):
        if target and config[key].isdecimal():
            found[name] = max(found.get(name, 0), int(config[key]))
    return found


@dataclass(frozen=True, slots=True)
class VersionVector:
    """All that a version contains: the newest version of each line, by unique names.

    chain: the version itself and the versions that its line forked from, its own line first.  The
        first version of a branch is the version that it forked from, and has that name alone.
    edges: the newest merge of each source.
    picks: the newest version of each line of which picks brought rows.
    returns: the newest version of each line that brought deleted rows back under new row ids.
    undone: the newest version of each line whose rows came once, and went again by a restore.
    versions: the newest version of each line, by its chain and its edges.
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
        """Return what a version contains.

        chain: the unique name and the version of its line, then those that it forked from.
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
        """The unique name of the version's line, and its number."""
        return next(iter(self.chain.items()))

    @property
    def rows_of(self) -> dict[str, int]:
        """The newest version of each line of which the version may have rows, also by picks."""
        names = dict.fromkeys([*self.versions, *self.picks])
        return {n: max(self.versions.get(n, 0), self.picks.get(n, 0)) for n in names}

    def ids_of(self, name: str) -> SharedIds | None:
        """Return which row ids of a line the version has.

        Of its own line, and of those that it forked from, `next_row_id` is 0.
        """
        own, edge = self.chain.get(name, 0), self.edges.get(name)
        if edge is not None and edge.ids is not None and edge.ids.source > own:
            return edge.ids
        return SharedIds(own, own, 0) if own else None

    def contains(self, name: str, version: int) -> bool:
        """Return True if a version of a line is contained."""
        return self.versions.get(name, -1) >= version


def merge_edges(
    theirs: VersionVector, uuid: str, ours: VersionVector, target: str
) -> tuple[MergeEdge, ...]:
    """Return the edges that a merge of theirs adds to the config of ours, that of theirs first.

    theirs, ours: what both sides contain.
    uuid: the transaction that made theirs.
    target: the unique name of the line that gets the merge.
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
    """Return the versions of lines that are newer than all known versions of the same line."""
    older = [*known]
    return {
        name: version
        for name, version in found.items()
        if all(version > one.get(name, 0) for one in older)
    }


def not_contained(common: Mapping[str, int], vectors: Mapping[str, VersionVector]) -> Iterator[str]:
    """Yield the lines whose common version no other common version contains: the merge bases.

    common: the newest version of each line that both sides contain.
    vectors: what these versions contain, as far as they are there.
    """
    for name, version in common.items():
        if not any(of != name and has.contains(name, version) for of, has in vectors.items()):
            yield name


# ---- features that a table requires of the lancekit that merges its branches or cleans it up

#: the config key: names of features, separated by spaces
_REQUIRES = "lancekit.requires"
#: what this release has: config keys of merges, one for each pair of branches
_FEATURES = frozenset({"merge-keys"})


def check_requirements(snapshot: Snapshot, doing: str) -> None:
    """Raise ``UnsupportedFeatureError`` if a table requires a feature that this release lacks.

    ``doing`` is what was to be done, as a sentence begins with it.
    """
    unknown = sorted(set(snapshot.manifest.config.get(_REQUIRES, "").split()) - _FEATURES)
    if unknown:
        raise UnsupportedFeatureError(
            f"{doing} needs {', '.join(map(literal, unknown))}, which this release of lancekit "
            f"lacks: {snapshot.called} of {snapshot.store.uri} says so in {_REQUIRES}.",
            hint="Use a newer lancekit.",
            features=unknown,
        )

"""The columns of an earlier version that a later version still has, after renames and casts.

A field id alone does not identify a column: once no file stores a dropped column, both libraries
give its id to the next new column.  An id identifies its column if every version between has the
id.  A cast gives a column a new id, in the version of the cast.  A merge of branches can drop a
column, add another in its place or with its id, and take over a cast, all in one version.  So its
transaction records the columns that their ids do not identify.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lancekit._format.operations import Merge, Overwrite, Restore, UnknownOperation
from lancekit._format.schema import LanceField
from lancekit._lazy import cached_property
from lancekit._pipeline.diff.fragments import can_be_retyped
from lancekit._versions.ancestor import branch_origins, origins
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.merge_edges import APPLIED
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import LancekitError

#: no history of more versions than this is read
_READ_VERSIONS = 1000

#: the property for columns whose ids do not identify them, as `target_id_property` writes it
_COLUMNS = f"{APPLIED}.columns"
#: the property for columns of the merged version, as `merged_id_property` writes it
_THEIRS = f"{APPLIED}.theirs.columns"

#: the field ids of a version, each with the column's id in the ancestor: ``None`` for a new column,
#: `_BY_NAME` for a column of an overwrite.  An id is missing if the versions between do not tell
Ids = Mapping[int, int | None]
_BY_NAME = -1
#: a column, and its predecessor in the other version, if any
_Pair = tuple[LanceField, LanceField | None]


class KeptColumns:
    """The columns of an ancestor that a later version still has.

    Nothing is read until a column is requested.  A file that both versions have identifies the ids
    that it stores, and all lower ids.  For other ids, the versions between are read.
    """

    def __init__(self, ancestor: Snapshot, side: Snapshot) -> None:
        self._ancestor, self._side = ancestor, side

    def had(self, id_: int) -> bool:
        """Return True if the ancestor has a column with this id, even a different column."""
        return id_ in fields_by_id(self._ancestor)

    def has(self, id_: int) -> bool:
        """Return True if the id stands for the same column as in the ancestor."""
        if self._side is self._ancestor:
            return id_ in fields_by_id(self._side)
        if not all(id_ in fields_by_id(one) for one in (self._ancestor, self._side)):
            return False
        return id_ <= self._highest_shared or self._followed.get(id_) == id_

    def origin(self, id_: int) -> int | None:
        """Return the column's id in the ancestor, or ``None`` for a new column.

        Unlike `has`, this follows casts, and reads the versions between.
        """
        if self._side is self._ancestor or self.has(id_):
            return id_
        found = self._followed.get(id_)
        return None if found == _BY_NAME else found

    def is_identified(self, id_: int) -> bool:
        """Return True if the column in the ancestor is known, or must be found by name."""
        return self._side is self._ancestor or self.has(id_) or id_ in self._followed

    def is_new(self, id_: int) -> bool:
        """Return True if the versions between show that the column is newer than the ancestor."""
        return self._side is not self._ancestor and self._followed.get(id_, id_) is None

    @cached_property
    def _highest_shared(self) -> int:
        return _highest_shared_id(self._ancestor, self._side)

    @cached_property
    def _followed(self) -> Ids:
        return _followed(self._ancestor, self._side)


class SharedColumns:
    """The columns that two versions share by their files, if their common ancestor is gone."""

    def __init__(self, one: Snapshot, other: Snapshot) -> None:
        self._one, self._other = one, other

    def had(self, id_: int) -> bool:
        """Return True if both versions have a column with this id."""
        return all(id_ in fields_by_id(side) for side in (self._one, self._other))

    def has(self, id_: int) -> bool:
        """Return True if the id stands for the same column in both versions."""
        return self.had(id_) and id_ <= self._highest_shared

    def origin(self, id_: int) -> int | None:
        """Return the id if it stands for the same column in both versions, else ``None``."""
        return id_ if self.has(id_) else None

    def is_identified(self, id_: int) -> bool:
        """Return True if a file of both versions shows that the id stands for one column."""
        return self.has(id_)

    def is_new(self, _: int) -> bool:
        """Return False, because no file shows that a column is new."""
        return False

    @cached_property
    def _highest_shared(self) -> int:
        return _highest_shared_id(self._one, self._other)


def kept_columns(
    ancestor: Snapshot | None, old: Snapshot, new: Snapshot
) -> tuple[KeptColumns | SharedColumns, KeptColumns | SharedColumns]:
    """Return the columns of a common ancestor that each of two versions still has."""
    if ancestor is None:
        shared = SharedColumns(old, new)
        return shared, shared
    return KeptColumns(ancestor, old), KeptColumns(ancestor, new)


def fields_by_id(snapshot: Snapshot) -> Mapping[int, LanceField]:
    """Return the fields of a version at all depths, by id; children of blobs have no id."""
    return snapshot.manifest.schema.by_id


def _highest_shared_id(old: Snapshot, new: Snapshot) -> int:
    """Return the highest field id in a file that both versions have, or -1.

    While that file was in the table, no new column could get this id or a lower one.
    """
    return max((id_ for _, id_ in _stored(old) & _stored(new)), default=-1)


def _stored(side: Snapshot) -> set[tuple[str, int]]:
    """Return the pairs of file and field id of a version."""
    return {
        (str(side.data_file(file)), id_)
        for fragment in side.manifest.fragments
        for file in fragment.files
        for id_ in file.fields
    }


# ---- the history between two versions


@dataclass(frozen=True, slots=True)
class Span:
    """A range of consecutive versions of a branch."""

    location: BranchLocation
    versions: range


def _followed(ancestor: Snapshot, side: Snapshot) -> Ids:
    """Return the columns that every version from an ancestor to a version has."""
    spans = spans_since(ancestor, side)
    if spans is None or sum(len(span.versions) for span in spans) > _READ_VERSIONS:
        return {}
    kept: dict[int, Ids] = {ancestor.version: {id_: id_ for id_ in fields_by_id(ancestor)}}
    last = ancestor
    for span in spans:
        for version in span.versions:
            at = side if (span.location, version) == (side.location, side.version) else None
            at = at or _loaded(span.location, version)
            if at is not None:
                kept[version] = _kept_by(at, last, kept, ancestor)
                last = at
    return kept.get(side.version, {})


def _kept_by(at: Snapshot, last: Snapshot, kept: dict[int, Ids], ancestor: Snapshot) -> Ids:
    """Return the columns that a version still has of the ancestor.

    `kept` has the columns of earlier versions; `last` is the newest of these that still exists.
    """
    before, after = fields_by_id(last), fields_by_id(at)
    there = {id_: origin for id_, origin in kept[last.version].items() if id_ in after}
    done = UnknownOperation() if at.transaction is None else at.transaction.operation
    if isinstance(done, Restore):
        if done.version in kept:
            return kept[done.version]
        old = _loaded(at.location, done.version)
        if old is not None:
            return _restored(_followed(old, ancestor), ancestor, after)
    if isinstance(done, Overwrite):
        return dict.fromkeys(after, _BY_NAME)  # an overwrite assigns all ids again
    if at.version == last.version + 1 and not isinstance(done, (Restore, UnknownOperation)):
        known = kept[last.version]
        there |= {id_: None for id_ in after if id_ not in before}
        for id_, was in _remapped_ids(before, after, at) if isinstance(done, Merge) else ():
            there.pop(id_, None)
            if was is None or was in known:
                there[id_] = None if was is None else known[was]
        return there
    # as long as a column exists, no new column can get a lower id
    alike = (id_ for id_ in there if description(before[id_]) == description(after[id_]))
    shared = max(_highest_shared_id(last, at), max(alike, default=-1))
    return {id_: origin for id_, origin in there.items() if id_ <= shared}


def _restored(found: Ids, ancestor: Snapshot, after: Iterable[int]) -> Ids:
    """Return the columns after the restore of a version that is older than the ancestor.

    ``found`` has the columns of the restored version that the ancestor still has.
    """
    back = {then: now for now, then in found.items() if then not in (None, _BY_NAME)}
    # a column that the ancestor had dropped is new after the restore
    is_identified = found.keys() == fields_by_id(ancestor).keys() and _BY_NAME not in found.values()
    return {**dict.fromkeys(after, None), **back} if is_identified else back


def _remapped_ids(
    before: Mapping[int, LanceField], after: Mapping[int, LanceField], at: Snapshot
) -> Iterator[tuple[int, int | None]]:
    """Yield each id that does not identify its column, with the id that the column had before."""
    properties = {} if at.transaction is None else at.transaction.transaction_properties
    if any(key.startswith(APPLIED) for key in properties):
        yield from parse_ids(properties.get(_COLUMNS, ""))
        return
    # a plain cast: the column keeps its position, and its name unless the same call renames it
    waiting = [tuple([f for f in one.values() if f.parent_id < 0] for one in (before, after))]
    while waiting:
        olds, news = waiting.pop()
        for was, now in zip(olds, news, strict=True) if len(olds) == len(news) else ():
            is_cast = (
                was.id not in after
                and now.id not in before
                and (
                    was.name == now.name or can_be_retyped(was.to_arrow().type, now.to_arrow().type)
                )
            )
            if is_cast:
                yield now.id, was.id
            if is_cast or was.id == now.id:
                waiting.append((list(was.children), list(now.children)))


def column_versions(before: Snapshot, after: Sequence[Snapshot]) -> set[int]:
    """Return the versions between two whose removal would lose track of renamed columns.

    before: a version that is kept.
    after: all later versions up to the next kept version.
    """
    steps = [(old, new, _names(old), _names(new)) for old, new in pairwise([before, *after])]
    if all(old == new for _, _, old, new in steps):
        return set()
    start: Ids = {id_: id_ for id_ in fields_by_id(before)}
    kept = {before.version: start}
    for last, at, _, _ in steps:
        kept[at.version] = _kept_by(at, last, kept, before)
    known = _kept_by(after[-1], before, {before.version: start}, before)
    is_identified = all(
        _is_evident(id_, origin, known, steps[0][2], steps[-1][3])
        for id_, origin in kept[after[-1].version].items()
    )
    # a newer column, which a merge of branches knows by its first name
    renamed = any(
        id_ in old and old[id_] != name
        for _, at, old, new in steps
        for id_, name in new.items()
        if kept[at.version].get(id_, id_) is None
    )
    if is_identified and not renamed:
        return set()
    changed = {side.version for last, at, old, new in steps if old != new for side in (last, at)}
    return changed - {before.version, after[-1].version}


def _names(side: Snapshot) -> dict[int, tuple[str, str, int]]:
    return {id_: description(field) for id_, field in fields_by_id(side).items()}


def _is_evident(
    id_: int,
    origin: int | None,
    known: Ids,
    before: Mapping[int, tuple[str, str, int]],
    after: Mapping[int, tuple[str, str, int]],
) -> bool:
    """Return True if the two versions that are kept show the column's origin."""
    if origin == _BY_NAME or (id_ in known and known[id_] == origin):
        return True
    if origin is not None:
        return False  # a match by name is possible, but a later version can rename the column
    return id_ not in before and after[id_][0] not in {name for name, _, _ in before.values()}


def target_id_property(columns: Iterable[_Pair], target: Snapshot) -> dict[str, str]:
    """Return the merge property that maps the columns to their ids in the target before the merge.

    Columns with a new id or an unchanged id are omitted.
    """
    text = encode_ids(columns, target)
    return {_COLUMNS: text} if text else {}


def merged_id_property(columns: Iterable[_Pair], theirs: Snapshot) -> dict[str, str]:
    """Return the merge property that maps the columns to their ids in the merged version."""
    text = encode_ids(columns, theirs)
    return {_THEIRS: text} if text else {}


def ids_of_theirs(merged: Snapshot) -> dict[int, int]:
    """Return the columns that a merge shares with the merged version: their ids in both."""
    done = merged.transaction
    properties = {} if done is None else done.transaction_properties
    others = dict(parse_ids(properties.get(_THEIRS, "")))
    known = set(fields_by_id(merged))
    if done is not None and not isinstance(done.operation, Merge):
        # another writer may have added columns before the merge landed
        read = _loaded(merged.location, done.read_version)
        known &= known if read is None else set(fields_by_id(read))
    alike = known - others.keys() - set(others.values())
    found = {**others, **{id_: id_ for id_ in alike}}
    return {id_: there for id_, there in found.items() if there is not None}


def encode_ids(columns: Iterable[_Pair], other: Snapshot) -> str:
    """Encode columns whose ids do not identify them in another version, with their ids there."""
    known = fields_by_id(other)
    return " ".join(
        f"{new.id}<" if old is None else f"{new.id}<{old.id}"
        for new, old in columns
        if (new.id in known if old is None else new.id != old.id)
    )


def parse_ids(text: str) -> Iterator[tuple[int, int | None]]:
    """Parse the text of `encode_ids`: yield each id with the id in the other version."""
    for new, _, old in (pair.partition("<") for pair in text.split()):
        yield int(new), int(old) if old else None


def description(field: LanceField) -> tuple[str, str, int]:
    """Return a column's name, type and parent, for comparisons of versions."""
    return field.name, field.logical_type, field.parent_id


def spans_since(ancestor: Snapshot, side: Snapshot) -> list[Span] | None:
    """Return the versions after an ancestor, oldest first, or ``None`` if the path is unknown."""
    if ancestor.location == side.location:
        return [Span(side.location, range(ancestor.version + 1, side.version + 1))]
    forked = branch_origins(ancestor.location, ancestor.version)
    # a branch begins with the version that it was forked from
    places = {one.place for one in forked if one.version == ancestor.version}
    spans: list[Span] = []
    steps = list(origins(side))
    for at, origin in enumerate(steps):
        found = origin.place in places
        first = ancestor.version if found else steps[at + 1].version if at + 1 < len(steps) else -1
        spans.append(Span(origin.location, range(first + 1, origin.version + 1)))
        if found:
            return spans[::-1]
    return None


def _loaded(location: BranchLocation, version: int) -> Snapshot | None:
    try:
        return load_snapshot(location, version)
    except LancekitError:
        return None

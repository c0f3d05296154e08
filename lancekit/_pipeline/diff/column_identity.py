"""Which columns of an earlier version a later one still has, whatever their names are by now.

A field id alone does not tell: once no file holds a dropped column, both libraries give its id to
the next new one.  What tells is that the id stood in every version between.  A cast gives a column
a new id, in the version that makes the cast.  A merge of branches can drop a column, add another
one in its place or with its id, and bring a cast, all in one version; so its transaction says where
the ids do not tell it.
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

#: a history longer than this is not read
_READ_VERSIONS = 1000

#: the property that names columns whose ids do not tell what they were, as `ids_said` writes it
_COLUMNS = f"{APPLIED}.columns"
#: the same for the columns of the version that was merged
_THEIRS = f"{APPLIED}.theirs.columns"

#: the field ids of a version, each with the id that the column had in the ancestor; ``None`` for a
#: column that came since, `_BY_NAME` for a column of an overwrite.  Columns of which the versions
#: between do not tell it are not listed
Ids = Mapping[int, int | None]
_BY_NAME = -1
#: a column, and the column that it was, if there is one
_Pair = tuple[LanceField, LanceField | None]


class KeptColumns:
    """The columns that a version still has of an ancestor.

    Nothing is read before a column is asked for.  A file that both versions have settles it for the
    ids that it holds, and for lower ones; else the versions between have to be looked at.
    """

    def __init__(self, ancestor: Snapshot, side: Snapshot) -> None:
        self._ancestor, self._side = ancestor, side

    def had(self, id_: int) -> bool:
        """Return True if the ancestor has a column of an id, be it another one."""
        return id_ in fields_by_id(self._ancestor)

    def has(self, id_: int) -> bool:
        """Return True if the column of an id is that of the ancestor."""
        if self._side is self._ancestor:
            return id_ in fields_by_id(self._side)
        if not all(id_ in fields_by_id(one) for one in (self._ancestor, self._side)):
            return False
        return id_ <= self._held or self._followed.get(id_) == id_

    def origin(self, id_: int) -> int | None:
        """Return the id that a column had in the ancestor; ``None`` for a new one.

        Other than `has`, it follows casts; for that the versions between are looked at.
        """
        if self._side is self._ancestor or self.has(id_):
            return id_
        found = self._followed.get(id_)
        return None if found == _BY_NAME else found

    def is_told(self, id_: int) -> bool:
        """Return True if it is known what the column was in the ancestor, or that names tell it."""
        return self._side is self._ancestor or self.has(id_) or id_ in self._followed

    def is_new(self, id_: int) -> bool:
        """Return True if the versions between tell that the column came since the ancestor."""
        return self._side is not self._ancestor and self._followed.get(id_, id_) is None

    @cached_property
    def _held(self) -> int:
        return _highest_held(self._ancestor, self._side)

    @cached_property
    def _followed(self) -> Ids:
        return _followed(self._ancestor, self._side)


class HeldColumns:
    """The columns that two versions share with a common version that is gone, found by files."""

    def __init__(self, one: Snapshot, other: Snapshot) -> None:
        self._one, self._other = one, other

    def had(self, id_: int) -> bool:
        """Return True if both versions have a column of an id."""
        return all(id_ in fields_by_id(side) for side in (self._one, self._other))

    def has(self, id_: int) -> bool:
        """Return True if the column of an id is the same in both versions."""
        return self.had(id_) and id_ <= self._held

    def origin(self, id_: int) -> int | None:
        """Return the id, if the column of it is the same in both versions."""
        return id_ if self.has(id_) else None

    def is_told(self, id_: int) -> bool:
        """Return True if a file of both versions shows that the id kept its column."""
        return self.has(id_)

    def is_new(self, _: int) -> bool:
        """Return False: no file shows that a column is new."""
        return False

    @cached_property
    def _held(self) -> int:
        return _highest_held(self._one, self._other)


def kept_columns(
    ancestor: Snapshot | None, old: Snapshot, new: Snapshot
) -> tuple[KeptColumns | HeldColumns, KeptColumns | HeldColumns]:
    """Return, for each of two versions, the columns of the version where both part."""
    if ancestor is None:
        held = HeldColumns(old, new)
        return held, held
    return KeptColumns(ancestor, old), KeptColumns(ancestor, new)


def fields_by_id(snapshot: Snapshot) -> Mapping[int, LanceField]:
    """Return the columns of a version and their parts, by id; parts of blobs have none."""
    return snapshot.manifest.schema.by_id


def _highest_held(old: Snapshot, new: Snapshot) -> int:
    """Return the highest id that a file of both versions holds, -1 for none.

    An id up to it cannot have been given to a new column while the file was there.
    """
    return max((id_ for _, id_ in _stored(old) & _stored(new)), default=-1)


def _stored(side: Snapshot) -> set[tuple[str, int]]:
    """Return the ids of fields, each with a file that holds it."""
    return {
        (str(side.data_file(file)), id_)
        for fragment in side.manifest.fragments
        for file in fragment.files
        for id_ in file.fields
    }


# ---- from version to version


@dataclass(frozen=True, slots=True)
class Span:
    """Versions of a line that follow each other."""

    location: BranchLocation
    versions: range


def _followed(ancestor: Snapshot, side: Snapshot) -> Ids:
    """Return the columns that stood in every version from an ancestor to a version."""
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

    `kept` tells those of the versions before it, of which `last` is the newest that is there.
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
        return dict.fromkeys(after, _BY_NAME)  # it gives out all ids anew
    if at.version == last.version + 1 and not isinstance(done, (Restore, UnknownOperation)):
        known = kept[last.version]
        there |= {id_: None for id_ in after if id_ not in before}
        for id_, was in _told(before, after, at) if isinstance(done, Merge) else ():
            there.pop(id_, None)
            if was is None or was in known:
                there[id_] = None if was is None else known[was]
        return there
    # a column that stood all the time kept lower ids from being given out again
    alike = (id_ for id_ in there if called(before[id_]) == called(after[id_]))
    held = max(_highest_held(last, at), max(alike, default=-1))
    return {id_: origin for id_, origin in there.items() if id_ <= held}


def _restored(found: Ids, ancestor: Snapshot, after: Iterable[int]) -> Ids:
    """Return the columns of a restored version that is older than the ancestor.

    ``found`` are the columns that the ancestor still has of it.
    """
    back = {then: now for now, then in found.items() if then not in (None, _BY_NAME)}
    # what the ancestor dropped is no column of it
    is_told = found.keys() == fields_by_id(ancestor).keys() and _BY_NAME not in found.values()
    return {**dict.fromkeys(after, None), **back} if is_told else back


def _told(
    before: Mapping[int, LanceField], after: Mapping[int, LanceField], at: Snapshot
) -> Iterator[tuple[int, int | None]]:
    """Yield each id that does not tell what a column was, with the id that the column had."""
    said = {} if at.transaction is None else at.transaction.transaction_properties
    if any(key.startswith(APPLIED) for key in said):
        yield from parsed_ids(said.get(_COLUMNS, ""))
        return
    # a cast by itself: the column keeps its place, and its name unless the same call renamed it
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

    before: a version that stays.
    after: all versions behind it up to the next one that stays.
    """
    steps = [(old, new, _names(old), _names(new)) for old, new in pairwise([before, *after])]
    if all(old == new for _, _, old, new in steps):
        return set()
    start: Ids = {id_: id_ for id_ in fields_by_id(before)}
    kept = {before.version: start}
    for last, at, _, _ in steps:
        kept[at.version] = _kept_by(at, last, kept, before)
    known = _kept_by(after[-1], before, {before.version: start}, before)
    is_told = all(
        _is_told(id_, origin, known, steps[0][2], steps[-1][3])
        for id_, origin in kept[after[-1].version].items()
    )
    # a column that came since, and that a merge of branches knows by its first name
    renamed = any(
        id_ in old and old[id_] != name
        for _, at, old, new in steps
        for id_, name in new.items()
        if kept[at.version].get(id_, id_) is None
    )
    if is_told and not renamed:
        return set()
    changed = {side.version for last, at, old, new in steps if old != new for side in (last, at)}
    return changed - {before.version, after[-1].version}


def _names(side: Snapshot) -> dict[int, tuple[str, str, int]]:
    return {id_: called(field) for id_, field in fields_by_id(side).items()}


def _is_told(
    id_: int,
    origin: int | None,
    known: Ids,
    before: Mapping[int, tuple[str, str, int]],
    after: Mapping[int, tuple[str, str, int]],
) -> bool:
    """Return True if two versions show what a column was."""
    if origin == _BY_NAME or (id_ in known and known[id_] == origin):
        return True
    if origin is not None:
        return False  # by its name, perhaps, but a later version can rename it
    return id_ not in before and after[id_][0] not in {name for name, _, _ in before.values()}


def ids_said(columns: Iterable[_Pair], target: Snapshot) -> dict[str, str]:
    """Return the property of a merge for its columns, each with what it was in the target before.

    A column that is as new as its id, or still has its id, needs no word.
    """
    text = said_ids(columns, target)
    return {_COLUMNS: text} if text else {}


def theirs_said(columns: Iterable[_Pair], theirs: Snapshot) -> dict[str, str]:
    """Return the property for what each column is in the version that was merged."""
    text = said_ids(columns, theirs)
    return {_THEIRS: text} if text else {}


def ids_of_theirs(merged: Snapshot) -> dict[int, int]:
    """Return for each column that a merge has of theirs its id there."""
    done = merged.transaction
    said = {} if done is None else done.transaction_properties
    others = dict(parsed_ids(said.get(_THEIRS, "")))
    known = set(fields_by_id(merged))
    if done is not None and not isinstance(done.operation, Merge):
        # another writer may have added columns before it landed
        read = _loaded(merged.location, done.read_version)
        known &= known if read is None else set(fields_by_id(read))
    alike = known - others.keys() - set(others.values())
    found = {**others, **{id_: id_ for id_ in alike}}
    return {id_: there for id_, there in found.items() if there is not None}


def said_ids(columns: Iterable[_Pair], other: Snapshot) -> str:
    """Return the columns whose id does not tell which column of another version each is."""
    known = fields_by_id(other)
    return " ".join(
        f"{new.id}<" if old is None else f"{new.id}<{old.id}"
        for new, old in columns
        if (new.id in known if old is None else new.id != old.id)
    )


def parsed_ids(text: str) -> Iterator[tuple[int, int | None]]:
    """Yield what `said_ids` says: ids, each with the id in the other version."""
    for new, _, old in (pair.partition("<") for pair in text.split()):
        yield int(new), int(old) if old else None


def called(field: LanceField) -> tuple[str, str, int]:
    """Return the name, the type and the parent of a column, by which versions are compared."""
    return field.name, field.logical_type, field.parent_id


def spans_since(ancestor: Snapshot, side: Snapshot) -> list[Span] | None:
    """Return the versions after an ancestor, oldest first; ``None`` if the way is not known."""
    if ancestor.location == side.location:
        return [Span(side.location, range(ancestor.version + 1, side.version + 1))]
    forked = branch_origins(ancestor.location, ancestor.version)
    # a branch begins with the version that it forked from
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

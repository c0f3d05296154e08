"""Which columns of two versions are the same, and which fragments they have alike."""

from __future__ import annotations

from functools import cache

from lancekit.commit.manifest.clone import with_bases
from lancekit.errors import LancekitError
from lancekit.format.operations import Overwrite, Restore
from lancekit.format.schema import LanceField
from lancekit.operations.lineage.history import operations_between
from lancekit.operations.lineage.rows import seen
from lancekit.pipeline.diff.fragments import ColumnPair, pair_columns
from lancekit.versions.ancestor import common_ancestor
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["column_pairs", "fragments_apart", "pairs_since"]


def column_pairs(old: Snapshot, new: Snapshot) -> list[ColumnPair]:
    """Return each column of a version with the one that it was in another."""
    return pairs_since(old, new, common_ancestor(old, new))


def pairs_since(old: Snapshot, new: Snapshot, ancestor: Snapshot | None) -> list[ColumnPair]:
    """Do the same where it is known from which version both come."""
    return pair_columns(seen(old), seen(new), _last_common_id(old, new, ancestor))


def fragments_apart(old: Snapshot, new: Snapshot) -> tuple[list[int], list[int]]:
    """Return the places of the fragments that two versions do not have alike.

    All of them, if columns are not the same: what is no column of the one may be in its files.
    """
    mine, theirs = (side.manifest.fragments.encoded for side in (old, new))
    both = set[bytes]()
    alike = old.manifest.base_paths == new.manifest.base_paths
    if old.line != new.line:  # where a branch or a clone was made
        numbers = dict[tuple[str, bool], int]()
        mine, theirs = _encoded(old, numbers), _encoded(new, numbers)
        alike = True
    if alike and _same_columns(old, new):
        both = set(mine).intersection(theirs)
    return (
        [place for place, message in enumerate(mine) if message not in both],
        [place for place, message in enumerate(theirs) if message not in both],
    )


def _encoded(side: Snapshot, numbers: dict[tuple[str, bool], int]) -> list[bytes]:
    """Return the fragments of a version, with bases that are numbered alike wherever they are."""

    @cache
    def number(base_id: int | None) -> int:
        return numbers.setdefault(side.base_place(base_id), len(numbers))

    return [with_bases(fragment, number).to_bytes() for fragment in side.manifest.fragments]


def _same_columns(old: Snapshot, new: Snapshot) -> bool:
    if old.manifest.schema.fields == new.manifest.schema.fields:
        return True
    return all(
        pair.old is not None
        and [(part.id, part.logical_type) for part in pair.old.walk()]
        == [(part.id, part.logical_type) for part in pair.new.walk()]
        for pair in column_pairs(old, new)
    )


def _last_common_id(old: Snapshot, new: Snapshot, ancestor: Snapshot | None) -> int:
    """Return up to which id of a field both sides mean the same; -1 for none.

    Two branches give the same ids to columns of their own, and an overwrite begins anew; a file
    that both have with a column of the id shows that it is the same.
    """
    if ancestor is None:
        return -1
    fields = old.manifest.schema.fields
    if (ancestor is old or ancestor is new) and fields == new.manifest.schema.fields:
        return max((part.id for field in fields for part in field.walk()), default=-1)
    last = ancestor.manifest.max_field_id()
    ours, theirs = (
        {f.id: f for f in side.manifest.schema.fields if f.id <= last} for side in (old, new)
    )
    unlike = [
        id_ for id_ in ours.keys() & theirs.keys() if _called(ours[id_]) != _called(theirs[id_])
    ]
    if not unlike:
        return last
    stored = {id_ for _, id_ in _stored(old) & _stored(new)}
    if all(stored.intersection(part.id for part in theirs[id_].walk()) for id_ in unlike):
        return last
    done = operations_between(old, new)
    if done is None or any(isinstance(one, Overwrite) for one in done):
        return -1
    return min([last, *(_ids_of(old, one.version) for one in done if isinstance(one, Restore))])


def _ids_of(side: Snapshot, version: int) -> int:
    """Return up to which id a restored version has columns; those above are handed out again."""
    try:
        return load_snapshot(side.line, version).manifest.max_field_id()
    except LancekitError:
        return -1


def _called(field: LanceField) -> tuple[str, str]:
    return field.name, field.logical_type


def _stored(side: Snapshot) -> set[tuple[str, int]]:
    """Return the ids of fields, each with a file that holds it."""
    return {
        (str(side.data_file(file)), id_)
        for fragment in side.manifest.fragments
        for file in fragment.files
        for id_ in file.fields
    }

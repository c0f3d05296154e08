"""How an operation meets one that was committed since it read: a table of rules.

`RULES[mine][theirs]` is a pure function over both operations.  The table in
`docs/conflicts.md` is generated from it.  Sources: table format, 8.3; operations, 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from lancekit.commit.pending import Pending
from lancekit.format import transaction as ops
from lancekit.format.fragment import Fragment
from lancekit.format.key_filter import keys_conflict
from lancekit.format.manifest import Manifest
from lancekit.format.transaction import Operation

__all__ = ["RULES", "Context", "Outcome", "Verdict", "document", "judge"]


class Outcome(Enum):
    """What happens to my transaction."""

    COMPATIBLE = "lands on top, rebased where needed"
    RETRYABLE = "has to be worked out again on the newest version"
    INCOMPATIBLE = "can never land"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome and its evidence, in words."""

    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule may look at besides the operations: the manifest that mine was made from."""

    mine: Pending
    read: Manifest


Rule = Callable[[Any, Any, Context], Verdict]

_OK = Verdict(Outcome.COMPATIBLE)


def _retry(reason: str) -> Verdict:
    return Verdict(Outcome.RETRYABLE, reason)


def compatible(_mine: Operation, _theirs: Operation, _context: Context) -> Verdict:
    """Lands unchanged."""
    return _OK


def retryable(_mine: Operation, _theirs: Operation, _context: Context) -> Verdict:
    """Has to be done again on the newest version."""
    return _retry("the other change decides what this one has to do")


def incompatible(_mine: Operation, _theirs: Operation, _context: Context) -> Verdict:
    """Can never land."""
    return Verdict(Outcome.INCOMPATIBLE, "the two changes exclude each other")


def _touched(operation: Operation) -> tuple[dict[int, Fragment], frozenset[int]]:
    """Return the fragments that a delete or an update leaves changed, and those it removes."""
    if isinstance(operation, ops.Delete):
        updated, removed = operation.updated_fragments, operation.deleted_fragment_ids
    elif isinstance(operation, ops.Update):
        updated, removed = operation.updated_fragments, operation.removed_fragment_ids
    else:
        updated, removed = (), ()
    return {f.id: f for f in updated}, frozenset(removed)


def _named(ids: frozenset[int] | set[int]) -> str:
    listed = ", ".join(map(str, sorted(ids)[:5])) + (", ..." if len(ids) > 5 else "")
    return f"fragment{'s' if len(ids) > 1 else ''} {listed}"


def same_rows(mine: Operation, theirs: Operation, context: Context) -> Verdict:
    """Lands if no row was changed by both; different rows of one fragment are fine."""
    my_updated, my_removed = _touched(mine)
    their_updated, their_removed = _touched(theirs)
    mine_all = my_updated.keys() | my_removed
    if not mine_all & (their_updated.keys() | their_removed):
        return _OK
    if context.mine.affected_rows is None:
        return _retry("both changed the same fragments, and the rows are not known")
    if gone := mine_all & their_removed:
        return _retry(f"{_named(gone)} was removed")
    before = {f.id: f for f in context.read.fragments}
    rewritten = {
        id_ for id_ in mine_all & their_updated.keys()
        if id_ in before and their_updated[id_].files != before[id_].files
    }  # fmt: skip
    if rewritten:
        return _retry(f"columns of {_named(rewritten)} were rewritten")
    return _OK  # whether single rows overlap shows when the deletions are merged


def same_fragments(
    mine: Operation, theirs: ops.Rewrite | ops.DataReplacement, _context: Context
) -> Verdict:
    """Lands if no fragment was changed by both."""
    updated, removed = _touched(mine)
    old = theirs.all_old_ids if isinstance(theirs, ops.Rewrite) else theirs.fragment_ids
    both = (updated.keys() | removed) & old
    return _retry(f"{_named(both)} was rewritten") if both else _OK


def _lost_fields(fragments: tuple[Fragment, ...], schema: Any) -> set[int]:
    known = {f.id for f in schema.walk()}
    written = {id_ for fragment in fragments for file in fragment.files for id_ in file.fields}
    return {id_ for id_ in written if id_ >= 0} - known


def new_schema(
    mine: ops.Append | ops.Update, theirs: ops.Merge | ops.Project, _context: Context
) -> Verdict:
    """Lands if the new schema cannot refuse, and still has, every value written.

    A column that was cast or dropped has another field id: its values would silently read null.
    """
    if not theirs.preserves_nullability:
        return _retry("the schema changed, and may have become stricter")
    written = mine.fragments if isinstance(mine, ops.Append) else mine.new_fragments
    if lost := _lost_fields(written, theirs.schema):
        return _retry(f"fields {sorted(lost)} are no longer in the schema")
    return _OK


def new_keys_append(mine: ops.Update, _theirs: Operation, _context: Context) -> Verdict:
    """Lands unless the merge inserted keys: an append does not say which keys it added."""
    if mine.inserted_rows is None:
        return _OK
    return _retry("rows were appended that may have the inserted keys")


def new_keys_update(mine: ops.Update, theirs: ops.Update, context: Context) -> Verdict:
    """Lands if the keys inserted by both are distinct, and no row was changed by both."""
    ours = mine.inserted_rows
    if ours is not None:
        if theirs.inserted_rows is None:
            return _retry("an update landed that does not say which keys it inserted")
        if keys_conflict(ours, theirs.inserted_rows, _key_types(ours.field_ids, context.read)):
            return _retry("the same key may have been inserted")
    return same_rows(mine, theirs, context)


def _key_types(field_ids: tuple[int, ...], manifest: Manifest) -> list[pa.DataType]:
    by_id = {f.id: f for f in manifest.schema.walk()}
    return [by_id[id_].to_arrow().type for id_ in field_ids if id_ in by_id]


def config_keys(
    mine: ops.Overwrite, theirs: ops.Overwrite | ops.UpdateConfig, _context: Context
) -> Verdict:
    """Lands unless both set the same config key."""
    if isinstance(theirs, ops.Overwrite):
        set_by_them = frozenset(theirs.config_upsert_values)
    else:
        set_by_them = theirs.config_keys
    both = set_by_them & frozenset(mine.config_upsert_values)
    if both:
        return Verdict(Outcome.INCOMPATIBLE, f"both set config {', '.join(sorted(both))}")
    return _OK


def overwrite_twice(mine: ops.Overwrite, theirs: ops.Overwrite, context: Context) -> Verdict:
    """Has to be done again: the later overwrite must have seen the earlier one."""
    verdict = config_keys(mine, theirs, context)
    return verdict if verdict != _OK else _retry("the dataset was overwritten")


def metadata_changed(_mine: Operation, theirs: ops.UpdateConfig, _context: Context) -> Verdict:
    """Lands unless schema or field metadata changed, which a restore would silently undo."""
    if theirs.touches_metadata:
        return Verdict(Outcome.INCOMPATIBLE, "schema or field metadata was changed")
    return _OK


_ALWAYS: Mapping[type, Rule] = dict.fromkeys(ops.OPERATIONS, compatible)

#: an operation that is not in a row (one of a newer release) is retried, never passed over
RULES: Mapping[type, Mapping[type, Rule]] = {
    ops.Append: {
        **_ALWAYS,
        ops.Overwrite: incompatible,
        ops.Restore: incompatible,
        ops.Merge: new_schema,
        ops.Project: new_schema,
        ops.UpdateMemWalState: incompatible,
    },
    ops.Delete: {
        **_ALWAYS,
        ops.Delete: same_rows,
        ops.Update: same_rows,
        ops.Rewrite: same_fragments,
        ops.DataReplacement: same_fragments,
        ops.Merge: retryable,
        ops.Overwrite: incompatible,
        ops.Restore: incompatible,
        ops.UpdateMemWalState: incompatible,
    },
    ops.Update: {
        **_ALWAYS,
        ops.Append: new_keys_append,
        ops.Update: new_keys_update,
        ops.Delete: same_rows,
        ops.Rewrite: same_fragments,
        ops.DataReplacement: same_fragments,
        ops.Merge: retryable,
        ops.Project: new_schema,
        ops.Overwrite: incompatible,
        ops.Restore: incompatible,
        ops.UpdateMemWalState: retryable,
    },
    ops.Overwrite: {
        **_ALWAYS,
        ops.Overwrite: overwrite_twice,
        ops.UpdateConfig: config_keys,
        ops.UpdateMemWalState: incompatible,
    },
    ops.Restore: {
        **_ALWAYS,
        ops.UpdateConfig: metadata_changed,
        ops.UpdateMemWalState: incompatible,
    },
    ops.Clone: _ALWAYS,
}


def judge(mine: Operation, theirs: Operation, context: Context) -> Verdict:
    """Return how ``mine`` meets the committed ``theirs``."""
    return RULES[type(mine)].get(type(theirs), retryable)(mine, theirs, context)


def document() -> str:
    """Return `docs/conflicts.md`: the table of rules, and what each rule says."""
    named = {rule for row in RULES.values() for rule in row.values()} | {retryable}
    order = sorted(named - {compatible}, key=lambda rule: rule.__name__)
    marks = {
        compatible: "lands",
        **{rule: f"[{rule.__name__}](#{rule.__name__})" for rule in order},
    }
    lines = [
        "# How changes meet",
        "",
        "Your change was worked out on one version; meanwhile another was committed. Rows are your "
        "operation, columns the committed one. Generated from `lancekit/commit/conflicts.py`.",
        "",
        "| yours | " + " | ".join(kind.__name__ for kind in ops.OPERATIONS) + " |",
        "|---|" + "---|" * len(ops.OPERATIONS),
    ]
    for mine, row in RULES.items():
        cells = " | ".join(marks[row.get(kind, retryable)] for kind in ops.OPERATIONS)
        lines.append(f"| {mine.__name__} | {cells} |")
    lines += [
        "",
        "A delete, a merge and an update are worked out again on the newest version when a rule "
        "says so; other operations raise `RetryableConflictError`. An operation of a newer release "
        "counts as retryable.",
        "",
    ]
    for rule in order:
        lines += [f"### {rule.__name__}", "", " ".join((rule.__doc__ or "").split()), ""]
    return "\n".join(lines)

"""The table of conflict rules, for an operation and another committed since its read version.

`RULES[mine][theirs]` is a pure function over both operations; `verdict` has its results.
The page `docs/reference/conflict-rules.md` is generated from this table (`document`).

See docs/format/operations.md, 3.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancekit._commit.rules.config import (
    config_and_metadata,
    config_keys,
    field_metadata_kept,
    metadata_gone,
    metadata_in_new_schema,
    metadata_restored,
    new_schema,
    overwrite_twice,
    replaced_in_new_schema,
    same_bases,
    stricter_schema,
    updated_in_new_schema,
)
from lancekit._commit.rules.indices import (
    index_of_rewritten_columns,
    index_of_rewritten_rows,
    index_over_new_schema,
    log_index_over_new_schema,
    rewrite_of_indexed_rows,
    same_indices,
)
from lancekit._commit.rules.pending import Pending
from lancekit._commit.rules.rows import (
    compatible,
    generations,
    incompatible,
    index_over_generations,
    new_keys_append,
    new_keys_replacement,
    new_keys_update,
    replaced_rows,
    retryable,
    same_columns,
    same_fragments,
    same_rows,
)
from lancekit._commit.rules.verdict import Context, Rule, Verdict, retry
from lancekit._format import operations as ops
from lancekit._format.transaction import Transaction


def _row(exceptions: Mapping[type, Rule]) -> Mapping[type, Rule]:
    """Return a row of the table: without an exception, mine lands unchanged."""
    return {**dict.fromkeys(ops.OPERATIONS, compatible), **exceptions}


#: Part of many rows: replacing the whole table excludes nearly every earlier change.  A row without
#: this part lands over both, or has separate rules for them.
_REPLACED: Mapping[type, Rule] = {ops.Overwrite: incompatible, ops.Restore: incompatible}
_LOG_CHANGED: Mapping[type, Rule] = {ops.UpdateMemWalState: incompatible}

#: my operation, then the operation that was committed first
RULES: Mapping[type, Mapping[type, Rule]] = {
    ops.Append: _row(
        {
            **_REPLACED,
            **_LOG_CHANGED,
            ops.Merge: new_schema,
            ops.Project: new_schema,
        }
    ),
    ops.Delete: _row(
        {
            **_REPLACED,
            **_LOG_CHANGED,
            ops.Delete: same_rows,
            ops.Update: same_rows,
            ops.Rewrite: same_fragments,
            ops.DataReplacement: same_fragments,
            ops.Merge: retryable,
        }
    ),
    ops.Overwrite: _row(
        {
            **_LOG_CHANGED,
            ops.Overwrite: overwrite_twice,
            ops.UpdateConfig: config_keys,
        }
    ),
    ops.CreateIndex: _row(
        {
            **_REPLACED,
            ops.CreateIndex: same_indices,
            ops.Rewrite: index_of_rewritten_rows,
            ops.Merge: index_over_new_schema,
            ops.Project: index_over_new_schema,
            ops.Update: index_of_rewritten_columns,
            ops.DataReplacement: index_of_rewritten_columns,
            ops.UpdateMemWalState: index_over_generations,
        }
    ),
    ops.Rewrite: _row(
        {
            **_REPLACED,
            ops.Delete: same_fragments,
            ops.Update: same_fragments,
            ops.Rewrite: same_fragments,
            ops.DataReplacement: same_fragments,
            ops.CreateIndex: rewrite_of_indexed_rows,
            ops.Merge: retryable,
        }
    ),
    ops.Merge: _row(
        {
            **_REPLACED,
            **_LOG_CHANGED,
            ops.Append: retryable,
            ops.Delete: retryable,
            ops.Update: retryable,
            ops.Rewrite: retryable,
            ops.Merge: retryable,
            ops.DataReplacement: retryable,
            ops.Project: incompatible,
            ops.CreateIndex: log_index_over_new_schema,
            ops.UpdateConfig: field_metadata_kept,
        }
    ),
    ops.Restore: _row({**_LOG_CHANGED, ops.UpdateConfig: metadata_restored}),
    ops.ReserveFragments: _row(_REPLACED),
    ops.Update: _row(
        {
            **_REPLACED,
            ops.Append: new_keys_append,
            ops.Update: new_keys_update,
            ops.Delete: same_rows,
            ops.Rewrite: same_fragments,
            ops.DataReplacement: new_keys_replacement,
            ops.Merge: retryable,
            ops.Project: updated_in_new_schema,
            ops.UpdateMemWalState: generations,
        }
    ),
    ops.Project: _row(
        {
            **_REPLACED,
            **_LOG_CHANGED,
            ops.Append: stricter_schema,
            ops.Update: stricter_schema,
            ops.DataReplacement: stricter_schema,
            ops.Merge: retryable,
            ops.Project: retryable,
            ops.UpdateConfig: field_metadata_kept,
        }
    ),
    ops.UpdateConfig: _row(
        {
            ops.Overwrite: metadata_gone,
            ops.Restore: metadata_restored,
            ops.Merge: metadata_in_new_schema,
            ops.Project: metadata_in_new_schema,
            ops.UpdateConfig: config_and_metadata,
        }
    ),
    ops.DataReplacement: _row(
        {
            **_REPLACED,
            **_LOG_CHANGED,
            ops.Delete: replaced_rows,
            ops.Update: replaced_rows,
            ops.Rewrite: same_fragments,
            ops.Merge: retryable,
            ops.Project: replaced_in_new_schema,
            ops.DataReplacement: same_columns,
        }
    ),
    ops.UpdateMemWalState: _row(
        {
            **_REPLACED,
            ops.Append: incompatible,
            ops.Delete: incompatible,
            ops.Merge: incompatible,
            ops.Project: incompatible,
            ops.DataReplacement: incompatible,
            ops.Clone: incompatible,
            ops.CreateIndex: generations,
            ops.Update: generations,
            ops.UpdateMemWalState: generations,
        }
    ),
    ops.Clone: _row({}),
    ops.UpdateBases: _row({ops.UpdateBases: same_bases}),
}


def judge(mine: Pending, theirs: Transaction, context: Context) -> Verdict:
    """Judge ``mine`` against ``theirs``, which is committed.

    An operation of a newer release is never ignored: mine must be done again.

    Examples
    --------
    >>> from lancekit._format.operations import Append
    >>> mine = Pending(operation=Append(), uuid="mine")
    >>> judge(mine, Transaction(read_version=1, uuid="theirs", operation=Append()), None).outcome
    <Outcome.COMPATIBLE: 'lands unchanged'>
    """
    rule = RULES[type(mine.operation)].get(type(theirs.operation))
    if rule is None:
        return retry("a newer release committed an unknown operation")
    return rule(mine.operation, theirs.operation, context)

"""`MergeInsertBuilder`: a merge-insert that is configured clause by clause."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, get_args

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api._merge_plans import MergePlans
from lancekit._api.hinting import hinting_operators
from lancekit._api.write_settings import check_schema_mode
from lancekit._arguments.checks import check_flag, check_items, check_list, check_names
from lancekit._checked import checked_methods
from lancekit._choice import check_choice
from lancekit._display import Displayed
from lancekit._format.data_file import check_storage_version
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.transaction import COMMIT_MESSAGE, Transaction
from lancekit._legible import shown
from lancekit._operations.common.results import MergeResult
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.merge_insert import check_clauses, merge_rows, merge_uncommitted
from lancekit._pipeline.merge_plan import MergeClauses
from lancekit._pipeline.source_keys import Kept
from lancekit._scan.expressions.objects import Expression
from lancekit._scan.expressions.predicate import Unbound
from lancekit._scan.expressions.syntax import Syntax
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError, PredicateError

#: the ways to write updated rows, under pylance's names
_WRITE_MODES = ("auto", "rewrite_rows", "rewrite_columns")
#: the values of ``keep``: which source row of a duplicate key to keep
_DEDUPE: tuple[Kept, ...] = get_args(Kept)


@hinting_operators("__call__ __enter__ __exit__")
@checked_methods
class MergeInsertBuilder(MergePlans, Displayed):
    """Configures a merge-insert: the actions for matched, new and missing source rows.

    `LanceDataset.merge_insert` returns it.  Source rows with a null key match no row: they are new.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset(pa.table({"id": [1, 2], "v": ["a", "b"]}), "memory://merge-example")
    >>> merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    >>> dict(merge.execute(pa.table({"id": [2, 3], "v": ["B", "C"]})))
    {'num_inserted_rows': 1, 'num_updated_rows': 1, 'num_deleted_rows': 0}
    """

    def __init__(self, handle: Handle, on: tuple[str, ...], *, new_columns: bool = False) -> None:
        self._handle = handle
        self._clauses = MergeClauses(on=on, new_columns=new_columns)
        self._policy = RetryPolicy()

    def _plain(self) -> str:
        return f"MergeInsertBuilder(on={list(self._clauses.on)})"

    def _with(self, **changes: Any) -> MergeInsertBuilder:
        self._clauses = replace(self._clauses, **changes)
        return self

    def _with_files(self, **changes: Any) -> MergeInsertBuilder:
        files = replace(self._clauses.files, **changes)
        if files.every and files.bases:
            raise InvalidArgumentError(
                "target_bases and target_all_bases exclude each other.", hint="Call one of the two."
            )
        return self._with(files=files)

    # ---- clauses

    def when_matched_update_all(
        self, condition: str | Expression | None = None
    ) -> MergeInsertBuilder:
        """Replace matched rows by source rows.

        ``condition`` is SQL over ``source.`` and ``target.`` columns, or an expression such as
        ``lk.source("rev") > lk.target("rev")``.  Matched rows where it is not true are not changed,
        and their source rows are not inserted.
        """
        return self._with(matched="update", condition=_sql("condition", condition))

    def when_matched_delete(self) -> MergeInsertBuilder:
        """Delete matched rows; the source can consist of only the key columns."""
        return self._with(matched="delete", condition=None)

    def when_matched_fail(self) -> MergeInsertBuilder:
        """Raise ``MatchedRowsError`` if any row matches; then nothing is written."""
        return self._with(matched="fail", condition=None)

    def when_not_matched_insert_all(self) -> MergeInsertBuilder:
        """Insert source rows without a match."""
        return self._with(insert=True)

    def when_not_matched_by_source_delete(
        self, expr: str | Expression | None = None
    ) -> MergeInsertBuilder:
        """Delete target rows without a match; with ``expr``, only those where it is true.

        The condition reads columns of the target: ``lk.target("id") == 9`` and
        ``lk.col("id") == 9`` are the same.
        """
        names = self._handle._snapshot.manifest.schema.to_arrow().names
        if isinstance(expr, Expression) and "target" not in names:
            expr = Expression(_of_target(expr.sql.tree))
        return self._with(delete_by_source=True, by_source=_sql("expr", expr))

    # ---- settings

    def dedupe(
        self, keep: Literal["first", "last"] | None = None, *, by: str | None = None
    ) -> MergeInsertBuilder:
        """Keep one of several source rows with the same key; otherwise they are an error.

        Parameters
        ----------
        keep
            ``"first"`` or ``"last"``, in source order, which a Spark DataFrame does not have.
        by
            A source column instead: the row with its largest value is kept, or the first such row.

        Returns
        -------
        MergeInsertBuilder
            This builder.

        Raises
        ------
        InvalidArgumentError
            Not exactly one argument was given, or ``keep`` has another value.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1], "v": [0]}, "memory://dedupe-example")
        >>> rows = [{"id": 1, "v": 5}, {"id": 1, "v": 4}]
        >>> _ = ds.merge_insert("id").when_matched_update_all().dedupe(by="v").execute(rows)
        >>> ds.to_table()["v"].to_pylist()
        [5]
        """
        kept = next((one for one in _DEDUPE if one == keep), None)
        if (keep is None) == (by is None) or kept != keep:
            raise InvalidArgumentError(
                f"dedupe needs either a row to keep or by=, got ({keep!r}, by={by!r}).",
                hint="Pass 'first' or 'last', or by= and a column whose largest value is kept.",
                dedupe=keep,
                by=by,
            )
        if by is not None:
            (by,) = check_names("by", by) or (None,)
        return self._with(dedupe=kept, dedupe_by=by)

    def write_mode(
        self, mode: Literal["auto", "rewrite_rows", "rewrite_columns"]
    ) -> MergeInsertBuilder:
        """Set how updated rows are written.

        Parameters
        ----------
        mode
            ``"rewrite_rows"`` writes whole rows into new files.  ``"rewrite_columns"`` writes the
            source's columns, for all rows of each fragment with a match.  The rows do not move, and
            the other columns of the dataset are neither read nor written.  This mode is for merges
            that only update matched rows, with sources that have some of the columns.  It pays off
            if many rows of a fragment match, or rows are wide.  ``"auto"`` (default) rewrites rows.

        Raises
        ------
        InvalidArgumentError
            The mode is unknown.
        """
        check_choice("write_mode", mode, _WRITE_MODES)
        return self._with(rewrite_columns=mode == "rewrite_columns")

    def conflict_retries(self, max_retries: int) -> MergeInsertBuilder:
        """Set how often the merge is retried after conflicting commits; 10 by default."""
        self._policy = replace(self._policy, conflict_retries=max_retries)
        return self

    def retry_timeout(self, timeout: timedelta) -> MergeInsertBuilder:
        """Set the time limit for retries; 30 seconds by default."""
        self._policy = replace(self._policy, timeout=timeout)
        return self

    def use_index(self, use_index: bool) -> MergeInsertBuilder:
        """Set whether indices of the key columns can be used to find matching rows.

        By default they are used if that is cheaper than reading the keys.  They change no result.
        """
        return self._with(use_index=check_flag("use_index", use_index))

    def mark_sstables_as_compacted(self, sstables: list[CompactedSsTable]) -> MergeInsertBuilder:
        """Record that this merge brings generations of write-ahead logs into the table.

        Rows and record are committed in one version, also after `execute_uncommitted`.  If a merge
        takes several steps, the last one has the record; `LanceDataset.merge_mem_wal` takes one.

        Parameters
        ----------
        sstables
            The merged generation of each shard; one generation at a time, in order.

        Raises
        ------
        IncompatibleConflictError
            When the merge runs: a generation was merged before, or the table has no logs.
        InvalidArgumentError
            When the merge runs: an earlier generation of the shard is not merged yet.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://mark-example", primary_key="id")
        >>> _ = ds.initialize_mem_wal(unsharded=True)
        >>> done = lk.mem_wal.CompactedSsTable("00000000-0000-0000-0000-000000000007", 1)
        >>> merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        >>> merge.mark_sstables_as_compacted([done]).execute({"id": [2]})["num_inserted_rows"]
        1
        """
        marks = check_items("sstables", sstables, CompactedSsTable, "mem_wal.CompactedSsTable")
        return self._with(compacted=tuple(marks))

    def target_bases(self, bases: list[str]) -> MergeInsertBuilder:
        """Write new rows to base paths, file by file in turn.

        Rewritten columns and deletion files stay in the dataset's own folder.

        Parameters
        ----------
        bases
            Names or paths of base paths; the dataset's own URI means its own folder.

        Raises
        ------
        InvalidArgumentError
            ``bases`` is empty, or `target_all_bases` was called.  An unknown base path is only
            reported when the merge runs.
        """
        names = tuple(check_list("target_bases", bases, "names or paths"))
        if not names:
            raise InvalidArgumentError(
                "target_bases is empty.", hint="Leave it out to write to the dataset's own folder."
            )
        return self._with_files(bases=names)

    def target_all_bases(self, include_primary: bool = True) -> MergeInsertBuilder:
        """Write new rows to all base paths that the dataset has when the merge runs.

        Parameters
        ----------
        include_primary
            Whether to use the dataset's own folder, too.

        Raises
        ------
        InvalidArgumentError
            `target_bases` was called.
        """
        return self._with_files(every=True, primary=bool(include_primary))

    def data_storage_version(self, version: str) -> MergeInsertBuilder:
        """Set the format of new files; only tables with mixed formats accept another format.

        Raises
        ------
        InvalidArgumentError
            The format is unknown.  The merge itself reports formats that the table does not accept.
        """
        return self._with_files(
            storage_version=check_storage_version("data_storage_version", version)
        )

    # ---- execution

    def execute(
        self,
        data_obj: object,
        *,
        schema: pa.Schema | None = None,
        commit_message: str | None = None,
        schema_mode: Literal["merge"] | None = None,
    ) -> MergeResult:
        """Run the merge; the dataset's handle moves to the new version.

        Parameters
        ----------
        data_obj
            Rows in any form that `write_dataset` accepts.
        schema
            The columns of the rows and their types, as in `write_dataset`.
        commit_message
            Stored in the transaction; the history shows the message.
        schema_mode
            As in `LanceDataset.merge_insert`.

        Returns
        -------
        MergeResult
            Counts of inserted, updated and deleted rows, the new version, and the attempts.

        Raises
        ------
        SchemaMismatchError
            The source does not fit the dataset; the error only names the difference.
        DuplicateKeysError
            A key occurs more than once in the source.
        MatchedRowsError
            `when_matched_fail` is set, and a row matches.
        InvalidArgumentError
            No clause was given, or columns cannot be rewritten for this merge.
        RetriesExhaustedError
            Other writers committed conflicting changes before every attempt.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1], "v": ["a"]}, "memory://execute-example")
        >>> merge = ds.merge_insert("id").when_matched_update_all()
        >>> merge.execute({"id": [1], "v": ["A"]}).num_updated_rows
        1
        """
        properties = {} if commit_message is None else {COMMIT_MESSAGE: commit_message}
        if check_schema_mode(schema_mode):
            self._with(new_columns=True)
        with self._rows(data_obj, schema) as source:

            def run(snapshot: Snapshot) -> tuple[Snapshot, MergeResult]:
                clauses = check_clauses(snapshot.manifest.schema, self._clauses)
                return merge_rows(snapshot, source, clauses, self._policy, properties=properties)

            return self._handle._move(run)

    def execute_uncommitted(
        self, data_obj: object, *, schema: pa.Schema | None = None
    ) -> tuple[Transaction, dict[str, int]]:
        """Write the files of the merge, for a later commit; the handle does not move.

        The transaction contains a filter of the inserted keys.  So `LanceDataset.commit` refuses it
        if a concurrent merge inserted the same keys.

        Parameters
        ----------
        data_obj, schema
            As in `execute`.

        Returns
        -------
        tuple
            The transaction, and the counts of inserted, updated and deleted rows.

        Raises
        ------
        SchemaMismatchError, DuplicateKeysError, MatchedRowsError
            As in `execute`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://uncommitted-example")
        >>> merge = ds.merge_insert("id").when_not_matched_insert_all()
        >>> transaction, counts = merge.execute_uncommitted({"id": [1, 2]})
        >>> lk.LanceDataset.commit(ds, transaction).count_rows(), counts["num_inserted_rows"]
        (2, 1)
        """
        with self._rows(data_obj, schema) as source:

            def run(snapshot: Snapshot) -> tuple[Snapshot, tuple[Transaction, dict[str, int]]]:
                clauses = check_clauses(snapshot.manifest.schema, self._clauses)
                return snapshot, merge_uncommitted(snapshot, source, clauses)

            return self._handle._move(run)

    def execute_batches(self, /, new_data: object) -> MergeResult:
        """Run the merge of batches, as in `execute`."""
        return self.execute(new_data)

    def execute_uncommitted_batches(
        self, /, new_data: object
    ) -> tuple[Transaction, dict[str, int]]:
        """Write the files of the merge of batches, as in `execute_uncommitted`."""
        return self.execute_uncommitted(new_data)


def merge_keys(columns: Sequence[str], on: object) -> tuple[str, ...]:
    """Return the names of key columns; an error for rows, and for a condition as in Delta."""
    if isinstance(on, Mapping) or hasattr(on, "columns"):
        raise InvalidTypeError(
            f"on must be names of key columns, got a {type(on).__name__}.",
            hint="Pass rows to execute: ds.merge_insert('id').when_matched_update_all()"
            ".when_not_matched_insert_all().execute(rows).",
            argument="on",
        )
    if type(on).__name__ == "Expression":
        raise InvalidTypeError(
            f"on must be names of key columns, got an expression: {shown(on)}.",
            hint=f"Use ds.merge_insert({columns[0]!r}).",
            argument="on",
        )
    names = check_names("on", on)
    for name in names:
        if "=" in name and name not in columns:
            keys = [*dict.fromkeys(re.findall(r"(\w+)\s*=", name) or columns[:1])]
            raise InvalidArgumentError(
                f"on must be names of key columns, got a condition: {shown(name)}.",
                hint=f"Use ds.merge_insert({keys if len(keys) > 1 else keys[0]!r}).",
                argument="on",
            )
    return names


def _of_target(tree: Syntax) -> Syntax:
    """Return the tree with the plain names of target columns."""
    if tree.kind == "column" and tree.value[0] == "target" and len(tree.value) > 1:
        return replace(tree, value=tree.value[1:])
    return replace(tree, parts=tuple(map(_of_target, tree.parts)))


def _sql(name: str, value: object) -> Unbound | None:
    if isinstance(value, Expression):
        return value.sql
    if value is not None and not isinstance(value, str):
        raise InvalidTypeError(
            f"{name} of a merge-insert must be SQL text or an expression, got {shown(value)}.",
            hint="For example 'source.rev > target.rev', or lk.source('rev') > lk.target('rev').",
            argument=name,
        )
    if value is not None and not value.strip():
        raise PredicateError(
            f"{name} of a merge-insert is empty.", hint="Leave it out to select all rows."
        )
    return None if value is None else Unbound(value)

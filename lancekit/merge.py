"""`MergeInsertBuilder`: a merge-insert, clause by clause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

from lancekit.arguments import refuse
from lancekit.commit.snapshot import Snapshot
from lancekit.format.transaction import Transaction
from lancekit.not_offered import PartOfPylance
from lancekit.operations.merge_insert import check_clauses, merge_insert, prepare_merge
from lancekit.operations.results import MergeResult
from lancekit.operations.retry import RetryPolicy
from lancekit.pipeline.merge import MergeClauses
from lancekit.pipeline.source import open_source

__all__ = ["MergeInsertBuilder"]

#: hands the builder the version that its handle is at, and takes the one that came of it
Land = Callable[[Callable[[Snapshot], tuple[Snapshot, Any]]], Any]


class MergeInsertBuilder(PartOfPylance):
    """Says what happens to matched rows, to new rows, and to rows that the source lacks.

    Made by `LanceDataset.merge_insert`.  A null in a key equals nothing: such source rows are new.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset(pa.table({"id": [1, 2], "v": ["a", "b"]}), "memory://merge-example")
    >>> merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    >>> dict(merge.execute(pa.table({"id": [2, 3], "v": ["B", "C"]})))
    {'num_inserted_rows': 1, 'num_updated_rows': 1, 'num_deleted_rows': 0}
    """

    def __init__(self, land: Land, on: tuple[str, ...]) -> None:
        self._land = land
        self._clauses = MergeClauses(on=on)
        self._policy = RetryPolicy()

    def _with(self, **changes: Any) -> MergeInsertBuilder:
        self._clauses = replace(self._clauses, **changes)
        return self

    def when_matched_update_all(self, condition: str | None = None) -> MergeInsertBuilder:
        """Replace matched rows by the source's.

        ``condition`` is SQL over ``source.`` and ``target.`` columns; rows for which it is not
        true stay as they are, and are not inserted either.
        """
        return self._with(matched="update", condition=condition)

    def when_matched_delete(self) -> MergeInsertBuilder:
        """Delete matched rows; the source may consist of the key columns alone."""
        return self._with(matched="delete")

    def when_matched_fail(self) -> MergeInsertBuilder:
        """Raise ``MatchedRowsError`` if a row matches; nothing is written then."""
        return self._with(matched="fail")

    def when_not_matched_insert_all(self) -> MergeInsertBuilder:
        """Insert source rows without a match."""
        return self._with(insert=True)

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> MergeInsertBuilder:
        """Delete target rows without a match, of those that ``expr`` selects."""
        return self._with(delete_by_source=expr or "")

    def conflict_retries(self, max_retries: int) -> MergeInsertBuilder:
        """Set how often the merge is worked out anew when other writers land; 10 by default."""
        self._policy = replace(self._policy, conflict_retries=max_retries)
        return self

    def retry_timeout(self, timeout: timedelta) -> MergeInsertBuilder:
        """Set how long it is tried; 30 seconds by default."""
        self._policy = replace(self._policy, timeout=timeout)
        return self

    def use_index(self, use_index: bool) -> MergeInsertBuilder:  # noqa: ARG002  # a hint
        """Do nothing: lancekit joins without indices, so this hint changes no result."""
        return self

    def data_storage_version(self, version: str) -> MergeInsertBuilder:
        """Refuse: new rows are written in the dataset's own file version."""
        refuse("merge_insert", data_storage_version=version)
        return self

    def execute(self, data_obj: Any, *, schema: pa.Schema | None = None) -> MergeResult:
        """Run the merge; the dataset's handle moves to the new version.

        Parameters
        ----------
        data_obj
            pandas, Arrow (table, batches, reader), Polars, or a Spark DataFrame (runs on Spark).
        schema
            The schema of ``data_obj``, if it does not say.

        Returns
        -------
        MergeResult
            Counts of inserted, updated and deleted rows, the new version, and how it went.

        Raises
        ------
        SchemaMismatchError
            The source does not fit the dataset; only the difference is named.
        DuplicateKeysError
            A key occurs more than once in the source.
        MatchedRowsError
            `when_matched_fail` met a match.
        RetriesExhaustedError
            Other writers landed before every attempt.
        """
        with open_source(data_obj, schema) as source:

            def run(snapshot: Snapshot) -> tuple[Snapshot, MergeResult]:
                clauses = check_clauses(snapshot.manifest.schema, self._clauses)
                return merge_insert(snapshot, source, clauses, self._policy)

            result: MergeResult = self._land(run)
        return result

    def execute_uncommitted(
        self, data_obj: Any, *, schema: pa.Schema | None = None
    ) -> tuple[Transaction, dict[str, int]]:
        """Work out the merge, to be committed later; the handle does not move.

        The transaction carries the guard of the inserted keys, so that `LanceDataset.commit`
        refuses it if another merge inserted the same ones meanwhile.

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
        """
        with open_source(data_obj, schema) as source:

            def run(snapshot: Snapshot) -> tuple[Snapshot, tuple[Transaction, dict[str, int]]]:
                clauses = check_clauses(snapshot.manifest.schema, self._clauses)
                return snapshot, prepare_merge(snapshot, source, clauses)

            prepared: tuple[Transaction, dict[str, int]] = self._land(run)
        return prepared

    def execute_batches(self, /, new_data: Any) -> MergeResult:
        """Run the merge of batches, as `execute` does with a reader."""
        return self.execute(new_data)

    def execute_uncommitted_batches(self, /, new_data: Any) -> tuple[Transaction, dict[str, int]]:
        """Work out the merge of batches, as `execute_uncommitted` does with a reader."""
        return self.execute_uncommitted(new_data)

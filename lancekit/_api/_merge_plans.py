"""The part of a merge-insert that plans: it explains the merge, and previews its changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_hints
from lancekit._checked import checked_methods
from lancekit._display import interactive
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.merge_insert import check_clauses
from lancekit._pipeline.engine import Choice, choose_source
from lancekit._pipeline.inputs import as_reader, is_spark_dataframe, owned
from lancekit._pipeline.merge_plan import MergeClauses
from lancekit._pipeline.source import Source, open_source
from lancekit._versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lancekit._operations.explain.explanation import Explanation
    from lancekit._operations.explain.merge import MergePlan


@checked_methods
class MergePlans:
    """Plans of a merge-insert, which write nothing."""

    _handle: Handle
    _clauses: MergeClauses
    _policy: RetryPolicy

    def _rows(self, data: object, schema: pa.Schema | None) -> Source:
        return open_source(data, schema, self._handle._snapshot.row_schema)

    def explain(self, data_obj: object = None, *, schema: pa.Schema | None = None) -> Explanation:
        """Describe where the merge would run, how it matches keys, and its reads and writes.

        Parameters
        ----------
        data_obj
            The rows, whose keys are read; a reader is read to its end.  Without rows, or if the
            merge would run on Spark, no keys are read, no job runs, and the numbers of rows are
            missing.
        schema
            As in `execute`; it can also describe rows that are not given yet.

        Returns
        -------
        Explanation
            The plan, which the notebook shows.

        Raises
        ------
        SchemaMismatchError, DuplicateKeysError
            As in `execute`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://explain-merge-example")
        >>> ds.merge_insert("id").when_not_matched_insert_all().explain({"id": [1, 2]}).engine
        'local'
        """
        from lancekit._operations.explain.merge import explain_merge, explain_unknown_merge

        snapshot = self._handle._snapshot
        clauses = check_clauses(snapshot.manifest.schema, self._clauses)
        choice = _choice(data_obj)
        if data_obj is None:
            return explain_unknown_merge(snapshot, clauses, schema, choice)
        if choice.engine == "spark" and not is_spark_dataframe(data_obj):
            known = as_reader(data_obj, schema, snapshot.row_schema).schema
            return explain_unknown_merge(snapshot, clauses, known, choice)
        with self._rows(data_obj, schema) as source:
            if choice.engine == "spark":
                return explain_unknown_merge(snapshot, clauses, source.schema, choice)
            return explain_merge(snapshot, source, clauses, choice)

    def preview(self, data_obj: object, *, schema: pa.Schema | None = None) -> MergePlan:
        """Compute the merge without writing: its changes, with samples.

        The rows are read once, and kept for `MergePlan.apply`.

        Parameters
        ----------
        data_obj, schema
            As in `execute`.

        Returns
        -------
        MergePlan
            Counts of rows, changed cells, planned reads and writes; `MergePlan.apply` commits it.

        Raises
        ------
        SchemaMismatchError, DuplicateKeysError, MatchedRowsError
            As in `execute`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2], "v": ["a", "b"]}, "memory://preview-example")
        >>> merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        >>> plan = merge.preview({"id": [2, 3], "v": ["B", "C"]})
        >>> plan.num_inserted_rows, plan.changes[0].old, plan.changes[0].new, ds.version
        (1, 'b', 'B', 1)
        >>> plan.apply().version
        2
        """
        return self._preview_at(self._handle._snapshot, data_obj, schema)

    def _preview_at(
        self, snapshot: Snapshot, data_obj: object, schema: pa.Schema | None
    ) -> MergePlan:
        from lancekit._operations.explain.merge import preview_merge

        clauses = check_clauses(snapshot.manifest.schema, self._clauses)
        source = self._rows(owned(data_obj, schema, snapshot.row_schema), schema)
        choice = _choice(data_obj)
        return preview_merge(snapshot, source, clauses, self._policy, self._handle._move, choice)

    def interactive(self, data_obj: object, *, schema: pa.Schema | None = None) -> Any:
        """Open a widget that sets up the merge: its key and rules, a preview, apply and undo.

        The first selection is this builder's configuration, or an upsert.  Without ipywidgets, and
        in a saved notebook, it is a card with the preview and the call.

        Parameters
        ----------
        data_obj, schema
            As in `execute`.  The rows stay in memory.  For a Spark DataFrame, a button computes the
            preview on Spark.

        Returns
        -------
        widget or card
            The widget; its `code` is the call.

        Raises
        ------
        InvalidTypeError, SchemaMismatchError
            The rows cannot be read.  Other errors are shown in the widget.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2], "v": ["a", "b"]}, "memory://bench-example")
        >>> bench = ds.merge_insert("id").interactive({"id": [2, 3], "v": ["B", "C"]})
        >>> print(bench.code)
        ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all().execute(df)
        """
        return interactive("merge", self, data_obj, schema)

    def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str:
        """Return `explain` for a source schema as text.

        Parameters
        ----------
        schema
            The columns of the rows and their types; by default the dataset's.
        verbose
            A hint that changes nothing.

        Returns
        -------
        str
            The text, in several lines.

        Raises
        ------
        ColumnNotFoundError, InvalidArgumentError
            The schema lacks a key column, or no clause was given.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://explain-plan-example")
        >>> ds.merge_insert("id").when_not_matched_insert_all().explain_plan()[:22]
        'merge_insert of main:1'
        """
        check_hints(verbose=verbose)
        return str(self.explain(schema=schema))

    def analyze_plan(self, data_obj: object, *, schema: pa.Schema | None = None) -> str:
        """Compute the merge without writing.

        Parameters
        ----------
        data_obj, schema
            As in `execute`.

        Returns
        -------
        str
            The counts and the duration, in several lines.

        Raises
        ------
        ColumnNotFoundError, SchemaMismatchError, DuplicateKeysError
            The rows lack a key column, do not fit the dataset, or have a key twice.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://analyze-plan-example")
        >>> text = ds.merge_insert("id").when_not_matched_insert_all().analyze_plan({"id": [1, 2]})
        >>> text.splitlines()[0].split(" · ")[1]
        '1 to insert'
        """
        started = time.monotonic()
        with self.preview(data_obj, schema=schema) as plan:
            return f"{plan}\n  planned in {time.monotonic() - started:.3f} s; nothing was written"

    def analyze_plan_batches(self, /, new_data: object) -> str:
        """Compute the merge of batches without writing; see `analyze_plan`."""
        return self.analyze_plan(new_data)


def _choice(data: object) -> Choice:
    return choose_source(data, is_frame=is_spark_dataframe(data))

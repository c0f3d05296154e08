"""The part of a fragment that changes it, for a commit of one's own."""

from __future__ import annotations

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.lance_schema import LanceSchema
from lancekit._api.planned_scan import OneFragment
from lancekit._arguments.checks import check_count
from lancekit._checked import checked_methods
from lancekit._format.fragment import Fragment
from lancekit._operations.columns.add import NewColumns, rows_like
from lancekit._operations.columns.in_fragment import (
    add_to_fragment,
    join_to_fragment,
    update_in_fragment,
)
from lancekit._pipeline.engine.inputs import as_reader

__all__ = ["ChangingFragment"]


@checked_methods
class ChangingFragment(OneFragment):
    """Writes files for a new state of the fragment, and returns that; nothing is committed."""

    _dataset: Handle

    def merge_columns(
        self,
        value_func: object,
        columns: list[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[Fragment, LanceSchema]:
        """Write new columns, for a commit of `LanceOperation.Merge`.

        Parameters
        ----------
        value_func
            As the ``transforms`` of `LanceDataset.add_columns`; rows are the fragment's.
        columns, batch_size, reader_schema
            As ``read_columns``, ``batch_size`` and ``reader_schema`` there.

        Returns
        -------
        tuple
            The fragment with a new file, and the schema to commit.
        """
        rows = None if batch_size is None else check_count("batch_size", batch_size, least=1)
        new = NewColumns(
            transforms=value_func, read_columns=columns, schema=reader_schema, batch_size=rows
        )
        fragment, schema = add_to_fragment(self._dataset._snapshot, self.source, new)
        return fragment, LanceSchema(schema)

    def merge(
        self,
        data_obj: object,
        left_on: str,
        right_on: str | None = None,
        schema: pa.Schema | None = None,
    ) -> tuple[Fragment, LanceSchema]:
        """Write columns of another table, found by a key; as `LanceDataset.merge`.

        Returns
        -------
        tuple
            The fragment with a new file, and the schema to commit.
        """
        snapshot, on = self._dataset._snapshot, right_on or left_on
        table = as_reader(data_obj, schema, rows_like(snapshot, left_on, on)).read_all()
        fragment, joined = join_to_fragment(snapshot, self.source, table, left_on, on)
        return fragment, LanceSchema(joined)

    def update_columns(
        self,
        data_obj: object,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: bool = False,
    ) -> tuple[Fragment, list[int]] | tuple[Fragment, list[int], bytes]:
        """Write columns anew, for a commit of `LanceOperation.Update` in mode rewrite_columns.

        Parameters
        ----------
        data_obj
            New values and their keys; of several rows with one key the last counts.  Rows of the
            fragment without a match keep their values.
        left_on, right_on
            The key column of the fragment, and of the rows.
        schema
            The columns of the rows and their types, as in `lancekit.write_dataset`.
        with_offsets
            Return the offsets of the matched rows too, as a portable Roaring bitmap.

        Returns
        -------
        tuple
            The fragment, the ids of the fields that were written, and maybe the offsets.
        """
        snapshot, on = self._dataset._snapshot, right_on or left_on
        table = as_reader(data_obj, schema, rows_like(snapshot, left_on, on)).read_all()
        fragment, ids, rows = update_in_fragment(snapshot, self.source, table, left_on, on)
        return (fragment, ids, bytes(rows.serialize())) if with_offsets else (fragment, ids)

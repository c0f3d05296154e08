"""The part of a handle that hands its rows to Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lancekit._api._handle import Handle
from lancekit._checked import checked_methods
from lancekit._versions.references import parse_reference, resolve
from lancekit.errors import InvalidTypeError

if TYPE_CHECKING:
    from lancekit._api.fragment import LanceFragment
    from lancekit._api.scan_options import Columns

__all__ = ["SparkFrames"]


@checked_methods
class SparkFrames(Handle):
    """DataFrames and views over the handle's version."""

    def to_spark(
        self,
        columns: Columns = None,
        filter: Any = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        *,
        batch_size: int | None = None,
        fragments: Iterable[LanceFragment] | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        blob_handling: str | None = None,
        include_mem_wal: bool | None = None,
    ) -> Any:
        """Return a Spark DataFrame over this version, read on the executors.

        It stays at this version, whatever is committed later.  It reads what it is told here and
        no less: Spark does not say which columns of it a query needs, nor its conditions.  So
        ``ds.to_spark().select("id")`` and ``.count()`` read all columns;
        ``ds.to_spark(columns=["id"])`` reads one, ``ds.to_spark(columns=[]).count()`` none, and
        ``ds.count_rows()`` runs no job.

        Parameters
        ----------
        columns
            As in `scanner`: names (hidden ones, such as ``_row_created_at_version``, too), or SQL
            expressions by the names of their results.
        filter
            SQL text or a pyarrow expression, worked out in the scan, which then reads the other
            columns only for the rows that are left; conditions on ``_rowid`` and ``_rowaddr``
            leave whole fragments out.  Or a Spark ``Column`` over the columns chosen, which Spark
            works out after the scan.
        limit, offset
            How many rows, and how many to pass over before.  Without a filter no others are read.
        batch_size
            The most rows of the batches that are sent to Spark.
        fragments
            Read only these fragments.
        with_row_id, with_row_address
            Append ``_rowid`` or ``_rowaddr``, as ``bigint``.
        blob_handling, include_mem_wal
            As in `scanner`; of shards it has what they held when it was made.

        Raises
        ------
        UnsupportedTypeError
            Spark has no type for a column.
        StorageError
            The dataset is in this process's memory, where no executor can read it.
        JavaNotFoundError, SessionError
            Spark cannot be started.

        Examples
        --------
        >>> delayed = ds.to_spark(["carrier", "dep_delay"], "dep_delay > 60")  # doctest: +SKIP
        >>> delayed.groupBy("carrier").count().show()  # doctest: +SKIP
        """
        given = dict(locals())  # before an import adds to them
        from lancekit._api.scan_options import ScanOptions
        from lancekit._api.spark_frames import frame_over

        options = ScanOptions.said(given)
        options.check()
        self._check_shards(asked=include_mem_wal)
        return frame_over(self, options)

    def create_temp_view(
        self,
        name: str,
        columns: Columns = None,
        filter: Any = None,  # noqa: A002
        *,
        version: int | str | tuple[str | None, int | None] | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
    ) -> None:
        """Make a version known to Spark's SQL under a name, in this session.

        Parameters
        ----------
        name
            The view's name; a view that has it is replaced.
        columns, filter, with_row_id, with_row_address
            As in `to_spark`: queries read all the columns of a view, whatever they name.
        version
            Another version than the handle's: a number, a tag, or a pair of branch and version.

        Examples
        --------
        Two versions side by side:

        >>> ds.create_temp_view("now", ["id", "price"])  # doctest: +SKIP
        >>> ds.create_temp_view("before", ["id", "price"], version="jan")  # doctest: +SKIP
        >>> spark.sql('''
        ...     SELECT id, before.price, now.price FROM now JOIN before USING (id)
        ...     WHERE now.price > before.price''').show()  # doctest: +SKIP
        """
        from lancekit._api.scan_options import ScanOptions
        from lancekit._api.spark_frames import frame_of
        from lancekit._pipeline.engine.engine import spark_engine

        if not isinstance(name, str):
            raise InvalidTypeError(f"The name of the view is {name!r}.", hint="Pass text.")
        snapshot = self._snapshot
        if version is not None:
            snapshot = resolve(snapshot.line, parse_reference(version, snapshot.line))
        options = ScanOptions(
            columns=columns,
            filter=filter,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
        )
        frame = frame_of(snapshot, options)
        spark_engine().name(frame, name)

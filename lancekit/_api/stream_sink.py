"""`stream_sink`: batches of a streaming query into a dataset, each exactly once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from lancekit._api.pylance.arguments import check_names, check_place
from lancekit._api.write_options import write_settings
from lancekit._checked import checked
from lancekit._choice import check_choice
from lancekit._defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lancekit._provenance import recorded
from lancekit._versions.line import open_line
from lancekit.errors import InvalidArgumentError

__all__ = ["stream_sink"]

_MODES = ("append", "merge")


@checked
def stream_sink(
    uri: str | os.PathLike[str],
    query: str,
    *,
    mode: str = "append",
    on: str | Iterable[str] | None = None,
    branch: str | None = None,
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    max_page_bytes: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    data_storage_version: str | None = None,
    enable_stable_row_ids: bool = False,
    commit_message: str | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    optimize_for: str | None = None,
) -> Any:
    """Return a function for ``foreachBatch`` that writes each batch of a stream exactly once.

    A batch is one commit, which also notes its number in the config of the table, under
    ``lancekit.stream.<query>``.  A batch that Spark gives again, after a crash or a restart from
    the checkpoint, is known by that and passed over, whatever was written or cleaned up since.

    Parameters
    ----------
    uri
        The dataset; the first batch creates it if there is none.
    query
        The streaming query's name: of all that write into this dataset, each has its own.  A query
        with a new checkpoint needs a new name, because its batches count from 0 again: another
        query of the same name is refused.  Over Spark Connect, one that runs next to the first, in
        the same session, is not recognised.
    mode
        ``"append"``, or ``"merge"``: replace the rows whose keys are there, and insert the others.
    on
        The key columns of a merge; the primary key by default.
    branch
        A branch to write to.
    max_rows_per_file, max_bytes_per_file, max_page_bytes
        As in `write_dataset`.
    storage_options, data_storage_version, enable_stable_row_ids, optimize_for
        As there, too.
    commit_message, transaction_properties
        As there, for each batch.  If `lancekit.options.provenance` asks for it, they say where
        this function was called.

    Returns
    -------
    StreamSink
        Call it with a DataFrame and the batch's number; it returns whether it wrote the batch.

    Raises
    ------
    InvalidArgumentError
        An argument that cannot be used.

    Examples
    --------
    >>> sink = stream_sink("events.lance", query="clicks")
    >>> sink.query
    'clicks'
    >>> stream = clicks.writeStream.foreachBatch(sink)  # doctest: +SKIP
    >>> stream.option("checkpointLocation", "clicks.checkpoint").start()  # doctest: +SKIP
    """
    if not isinstance(query, str) or not query:
        raise InvalidArgumentError(
            f"query is {query!r}.", hint="Name the streaming query, for example query='clicks'."
        )
    check_choice("mode", mode, _MODES)
    keys = check_names("on", on)
    if keys and mode != "merge":
        raise InvalidArgumentError("on= is for a merge.", hint='Pass mode="merge" with it.')
    from lancekit._spark.stream_sink import StreamSink

    return StreamSink(
        # a worker that calls it over Connect has another working directory
        uri=open_line(check_place(uri), storage_options).root.uri,
        query=query,
        settings=write_settings(
            mode="append",
            max_rows_per_file=max_rows_per_file,
            max_bytes_per_file=max_bytes_per_file,
            max_page_bytes=max_page_bytes,
            data_storage_version=data_storage_version,
            stable_row_ids=enable_stable_row_ids,
            message=commit_message,
            # batches come in a thread, or over Connect in a process, that knows no cell
            properties=dict(recorded(transaction_properties or {})),
            optimize_for=optimize_for,
        ),
        storage_options=None if storage_options is None else dict(storage_options),
        branch=branch,
        merge=mode == "merge",
        on=keys,
    )

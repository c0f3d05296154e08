"""`stream_sink`: batches of a streaming query into a dataset, each exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancekit._api.write_settings import size_settings
from lancekit._arguments.checks import check_names, check_place
from lancekit._arguments.record import takes
from lancekit._arguments.write import StreamArguments
from lancekit._checked import checked
from lancekit._choice import check_choice
from lancekit._provenance import recorded
from lancekit._versions.line import open_line
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lancekit._spark.stream_sink import StreamSink

__all__ = ["stream_sink"]

_MODES = ("append", "merge")


@checked
@takes(StreamArguments)
def stream_sink(arguments: StreamArguments) -> StreamSink:
    """Return a function for ``foreachBatch`` that writes each batch of a stream exactly once.

    A batch is one commit, which also notes its number in the config of the table, under
    ``lancekit.stream.<query>``.  A batch that Spark gives again, after a crash or a restart from
    the checkpoint, is known by that and passed over, whatever was written or cleaned up since.  If
    `lancekit.options.provenance` asks for it, its commit says where this function was called.

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
    query, mode, uri = arguments.query, arguments.mode, arguments.uri
    if not query:
        raise InvalidArgumentError(
            f"query is {query!r}.", hint="Name the streaming query, for example query='clicks'."
        )
    check_choice("mode", mode, _MODES)
    keys = check_names("on", arguments.on)
    if keys and mode != "merge":
        raise InvalidArgumentError("on= is for a merge.", hint='Pass mode="merge" with it.')
    from lancekit._spark.stream_sink import StreamSink

    options = arguments.storage_options
    return StreamSink(
        # a worker that calls it over Connect has another working directory
        uri=open_line(check_place(uri), options).root.uri,
        query=query,
        settings=size_settings(
            arguments,
            "append",
            stable_row_ids=arguments.enable_stable_row_ids,
            message=arguments.commit_message,
            # batches come in a thread, or over Connect in a process, that knows no cell
            properties=dict(recorded(arguments.transaction_properties or {})),
        ),
        storage_options=None if options is None else dict(options),
        branch=arguments.branch,
        merge=mode == "merge",
        on=keys,
    )

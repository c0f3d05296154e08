"""Conversion of scan arguments to an executable scan plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from lancekit._arguments.checks import check_count, check_items
from lancekit._checked import is_whole
from lancekit._legible import shown
from lancekit._scan.fragment_rows import ScanRequest, default_batch_rows
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read, reading
from lancekit._scan.scan import Scan
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from lancekit._arguments.record import Columns
    from lancekit._arguments.scan import ScanArguments
    from lancekit._operations.mem_wal.reader.sources import ReadSet
    from lancekit._scan.expressions.objects import Filter
    from lancekit._scan.expressions.predicate import Predicate
    from lancekit._scan.search.nearest import NearestSearch
    from lancekit._scan.search.text_search import FullTextSearch

T = TypeVar("T")


class OneFragment:
    """Base class of fragments, which can restrict a scan."""

    source: FragmentSource


#: the arguments that cannot be combined with ``include_mem_wal``
_TABLE_ONLY = ("fragments", "include_deleted_rows")


def check_scan(arguments: ScanArguments) -> None:
    """Check the arguments that the plan does not contain.

    Raises InvalidArgumentError, InvalidTypeError: an argument is invalid, or conflicts with
    another.
    """
    if arguments.strict_batch_size and arguments.batch_size_bytes is not None:
        raise InvalidArgumentError(
            "strict_batch_size and batch_size_bytes exclude each other.",
            hint="A batch with an exact number of rows can have any number of bytes.",
        )
    for name in _TABLE_ONLY if arguments.include_mem_wal else ():
        if getattr(arguments, name):
            raise InvalidArgumentError(
                f"{name} and include_mem_wal exclude each other.",
                hint="Leave one out: the fragments of the table have no rows of shards.",
            )
    report = arguments.scan_stats_callback
    if report is not None and not callable(report):
        raise InvalidTypeError(
            f"scan_stats_callback must be a function, got {shown(report)}.",
            hint="Pass a function that takes a ScanStatistics.",
            argument="scan_stats_callback",
        )


#: the number of retries if files are removed while they are read
ATTEMPTS = 5


def with_read_set(read: Callable[[], ReadSet], work: Callable[[ReadSet], T]) -> T:
    """Run work on a read set; again on a new one if files were merged and removed meanwhile."""
    of = read()
    for _ in range(ATTEMPTS):
        try:
            return work(of)
        except CorruptFileError:
            before, of = of, read()
            if of.is_like(before):
                raise
    return work(of)


def planned_with_shards(location: BranchLocation, arguments: ScanArguments) -> tuple[ReadSet, Scan]:
    """Plan a scan of the newest version together with the rows of its shards.

    Planning reads keys of generations.  It is retried if they are merged and cleaned up meanwhile.
    """
    from lancekit._operations.mem_wal.reader.sources import newest_read_set

    return with_read_set(
        partial(newest_read_set, location), lambda of: (of, planned_over(of, arguments))
    )


def planned_over(of: ReadSet, arguments: ScanArguments) -> Scan:
    """Plan a scan of a read set: a version with rows of shards."""
    from lancekit._operations.mem_wal.reader.merge_on_read import merged_scan

    return merged_scan(planned(of.base, arguments), of, arguments.blob_handling)


def planned(snapshot: Snapshot, arguments: ScanArguments) -> Scan:
    """Plan a scan of a version: check names and types, without reading rows."""
    schema = blob_view(snapshot.manifest.schema, arguments.blob_handling)
    columns = output_columns(arguments.columns)
    hidden = [
        name
        for name, wanted in (
            ("_rowid", arguments.with_row_id),
            ("_rowaddr", arguments.with_row_address),
        )
        if wanted
    ]
    search, with_deleted = _search(snapshot, arguments), bool(arguments.include_deleted_rows)
    made = () if search is None else search.made
    late = search is not None and not search.prefilter
    known = pa.schema([*schema.to_arrow(), *(made if late else ())])
    predicate = None if arguments.filter is None else _parsed(arguments.filter, known)
    if search is not None:
        scored = not arguments.disable_scoring_autoprojection
        columns = search.columns(columns, schema.names, scored=scored)
    if arguments.fragments is None:
        read = reading(
            snapshot,
            None if late else predicate,
            schema,
            indexed=arguments.use_scalar_index is not False and not with_deleted,
            indexed_only=bool(arguments.fast_search),
        )
    else:
        sources = _sources_of(arguments.fragments)
        read = Read([replace(source, schema=schema) for source in sources])
    rows = arguments.batch_size
    request = ScanRequest(
        outputs=plan_columns(schema, columns, hidden, made),
        predicate=predicate,
        batch_rows=(
            default_batch_rows() if rows is None else check_count("batch_size", rows, least=1)
        ),
        metadata=tuple(schema.metadata.items()),
    )
    if with_deleted:
        if search is not None:
            raise InvalidArgumentError(
                "include_deleted_rows: Cannot include deleted rows in a search.",
                hint="Leave one out.",
            )
        if "_rowid" not in request.schema.names:
            raise InvalidArgumentError(
                "include_deleted_rows needs with_row_id=True.",
                hint="Pass with_row_id=True: deleted rows have no row id.",
            )
        read = replace(read, sources=[replace(one, with_deleted=True) for one in read.sources])
    if search is not None:
        read = replace(read, sources=tuple(read.sources))
    scan = Scan(
        read=read,
        request=request,
        limit=None if arguments.limit is None else _row_count("limit", arguments.limit),
        offset=0 if arguments.offset is None else _row_count("offset", arguments.offset),
        search=search,
    )
    if arguments.scan_stats_callback is None:
        return scan
    from lancekit._scan.statistics import WatchedScan

    return WatchedScan(**vars(scan), report=arguments.scan_stats_callback)


def _sources_of(fragments: object) -> list[FragmentSource]:
    of = "fragments from get_fragments()"
    return [fragment.source for fragment in check_items("fragments", fragments, OneFragment, of)]


def _search(snapshot: Snapshot, arguments: ScanArguments) -> NearestSearch | FullTextSearch | None:
    early, indexed_only = bool(arguments.prefilter), bool(arguments.fast_search)
    if arguments.nearest is not None and arguments.full_text_query is not None:
        raise InvalidArgumentError(
            "nearest and full_text_query exclude each other.",
            hint="Search with one of them, and filter its rows.",
        )
    if arguments.full_text_query is not None:
        from lancekit._api.fulltext import full_text_search

        return full_text_search(
            arguments.full_text_query, snapshot, prefilter=early, indexed_only=indexed_only
        )
    if arguments.nearest is not None:
        from lancekit._api.nearest import nearest_search

        return nearest_search(
            arguments.nearest,
            snapshot,
            prefilter=early,
            indexed_only=indexed_only,
            limit=None if arguments.limit is None else arguments.limit + (arguments.offset or 0),
        )
    return None


def output_columns(columns: Columns) -> Sequence[str] | dict[str, str] | None:
    """Return output columns with SQL text instead of expressions.

    Raises InvalidTypeError: the columns are one string.
    """
    if isinstance(columns, str):
        raise InvalidTypeError(
            f"columns must be a list, got the string {shown(columns)}.",
            hint=f"Use filter={shown(columns)}."
            if {*columns} & {*"<>="}
            else f"Pass a list: {columns.replace(', ', ',').split(',')}.",
        )
    values = columns.values() if isinstance(columns, dict) else columns
    if not isinstance(columns, list | tuple | dict) or {*map(type, values or ())} <= {str}:
        return cast("Sequence[str] | dict[str, str] | None", columns)
    from lancekit._scan.expressions.texts import outputs_sql  # not needed for names

    return outputs_sql(columns)


def _parsed(condition: Filter, known: pa.Schema) -> Predicate:
    from lancekit._scan.expressions.predicate import Predicate  # not needed without a filter

    if not isinstance(condition, str):
        from lancekit._scan.expressions.texts import as_sql  # not needed for text

        condition = as_sql(condition)
    return Predicate.parse(condition, known)


def _row_count(name: str, value: Any) -> int:
    if is_whole(value) and value < 0:
        raise InvalidArgumentError(
            f"{name.capitalize()} must be non-negative; {name} is {value}.",
            hint="Pass an integer of 0 or more.",
            argument=name,
            value=value,
        )
    return check_count(name, value)

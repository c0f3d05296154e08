"""`ScanOptions`: what a scan is asked for, and the plan that is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._api.pylance.arguments import (
    check_count,
    check_flag,
    check_hints,
    check_items,
    check_known,
    refuse,
)
from lancekit._checked import checked, is_whole
from lancekit._legible import shown
from lancekit._scan.fragment_rows import ScanRequest, default_batch_rows
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read, reading
from lancekit._scan.scan import Scan
from lancekit._versions.line import Line
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from lancekit._operations.mem_wal.reader.sources import ReadSet
    from lancekit._scan.expressions.predicate import Predicate
    from lancekit._scan.fulltext.search import FullTextSearch
    from lancekit._scan.nearest.search import NearestSearch
    from lancekit._scan.statistics import ScanStatistics

__all__ = [
    "Columns",
    "OneFragment",
    "ScanOptions",
    "planned",
    "planned_over",
    "planned_with_shards",
]

Columns = list[str] | dict[str, str] | None

_ROLE = "role"


#: changes no result: accepted, and not used
_HINT = {_ROLE: "hint"}
#: needs an index; ``False`` and nothing ask for nothing
_REFUSED = {_ROLE: "refused"}


class OneFragment:
    """What a scan can be limited to: a fragment of the dataset's version."""

    source: FragmentSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """What `LanceDataset.scanner` describes; ``None`` is what nobody has asked for."""

    columns: Columns = None
    filter: Any = None
    limit: int | None = None
    offset: int | None = None
    batch_size: int | None = None
    batch_size_bytes: int | None = None
    strict_batch_size: bool | None = None
    fragments: Iterable[OneFragment] | None = None
    with_row_id: bool | None = None
    with_row_address: bool | None = None
    include_deleted_rows: bool | None = None
    blob_handling: str | None = None
    order_by: list[Any] | None = None
    nearest: Any = None
    full_text_query: Any = None
    prefilter: bool | None = None
    disable_scoring_autoprojection: bool | None = None
    use_scalar_index: bool | None = None
    fast_search: bool | None = None
    scan_stats_callback: Callable[[ScanStatistics], object] | None = None
    include_mem_wal: bool | None = None

    batch_readahead: Any = field(default=None, metadata=_HINT)
    fragment_readahead: Any = field(default=None, metadata=_HINT)
    scan_in_order: Any = field(default=None, metadata=_HINT)
    use_stats: Any = field(default=None, metadata=_HINT)
    io_buffer_size: Any = field(default=None, metadata=_HINT)
    late_materialization: Any = field(default=None, metadata=_HINT)

    index_segments: Any = field(default=None, metadata=_REFUSED)
    row_addr_allowlist: Any = field(default=None, metadata=_REFUSED)
    row_addr_blocklist: Any = field(default=None, metadata=_REFUSED)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ScanOptions:
        """Return options of arguments that came by name.

        Raises
        ------
        InvalidTypeError
            A scan has no such argument.
        """
        check_known("A scan", given, (option.name for option in fields(cls)), "scanner()")
        return cls(**given)

    @classmethod
    def said(cls, arguments: Mapping[str, Any], *others: str) -> ScanOptions:
        """Return options of a method's ``locals()``, before it has any but its arguments.

        All of these are options, save ``self`` and the ``others`` that are named.
        """
        left_out = {"self", *others}
        return cls(**{name: value for name, value in arguments.items() if name not in left_out})

    def over(self, defaults: Mapping[str, Any]) -> ScanOptions:
        """Return the options, with defaults for what nobody has asked for."""
        if not defaults:
            return self
        return self.of({**defaults, **_asked(self)})

    def with_more(self, given: Mapping[str, Any]) -> ScanOptions:
        """Return the options with others that came by name; `InvalidTypeError` as in `of`."""
        return self.of({**_asked(self), **given}) if given else self

    def check(self) -> None:
        """Look at what does not go into the plan.

        Raises
        ------
        NotOfferedError, InvalidArgumentError, InvalidTypeError
            An argument cannot be followed, or does not go with another.
        """
        refuse("scanner", **{name: _wanted(value) for name, value in self._of_role("refused")})
        check_hints(**dict(self._of_role("hint")))
        for name in _FLAGS:
            if flag := getattr(self, name):
                check_flag(name, flag)
        if self.strict_batch_size and self.batch_size_bytes is not None:
            raise InvalidArgumentError(
                "strict_batch_size and batch_size_bytes exclude each other.",
                hint="A batch of exactly so many rows may have any number of bytes.",
            )
        for name in _OF_THE_TABLE if self.include_mem_wal else ():
            if getattr(self, name):
                raise InvalidArgumentError(
                    f"{name} and include_mem_wal exclude each other.",
                    hint="Leave one out: rows of shards are in no fragment of the table.",
                )
        if self.scan_stats_callback is not None and not callable(self.scan_stats_callback):
            raise InvalidTypeError(
                f"scan_stats_callback is {shown(self.scan_stats_callback)}.",
                hint="Pass a function of a ScanStatistics.",
                argument="scan_stats_callback",
            )

    def _of_role(self, role: str) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in _ROLES[role]]


def _asked(options: ScanOptions) -> dict[str, Any]:
    values = {option.name: getattr(options, option.name) for option in fields(options)}
    return {name: value for name, value in values.items() if value is not None}


_FLAGS = (
    "with_row_id",
    "with_row_address",
    "include_deleted_rows",
    "strict_batch_size",
    "prefilter",
    "disable_scoring_autoprojection",
    "use_scalar_index",
    "fast_search",
    "include_mem_wal",
)
#: what does not go with rows of shards
_OF_THE_TABLE = ("fragments", "include_deleted_rows")
_ROLES = {
    role: [option.name for option in fields(ScanOptions) if option.metadata.get(_ROLE) == role]
    for role in ("hint", "refused")
}


#: how often a scan is planned anew if files go while it is planned
_ATTEMPTS = 5


def planned_with_shards(line: Line, options: ScanOptions) -> tuple[ReadSet, Scan]:
    """Plan what the options ask for of the newest version and of what its shards hold.

    That reads keys of generations, which may be merged and cleaned up meanwhile.
    """
    from lancekit._operations.mem_wal.reader.sources import newest_read_set

    of = newest_read_set(line)
    for _ in range(_ATTEMPTS):
        try:
            return of, planned_over(of, options)
        except CorruptFileError:
            before, of = of, newest_read_set(line)
            if of.is_like(before):
                raise
    return of, planned_over(of, options)


def planned_over(of: ReadSet, options: ScanOptions) -> Scan:
    """Plan a scan of a version and of the rows of shards that are read with it."""
    from lancekit._operations.mem_wal.reader.merge_on_read import merged_scan

    return merged_scan(planned(of.base, options), of, options.blob_handling)


def planned(snapshot: Snapshot, options: ScanOptions) -> Scan:
    """Plan what the options ask for; names and types are checked, nothing is read."""
    return _make_scan(
        snapshot,
        columns=options.columns,
        filter=options.filter,
        limit=options.limit,
        offset=options.offset,
        batch_size=options.batch_size,
        with_row_id=options.with_row_id,
        with_row_address=options.with_row_address,
        blob_handling=options.blob_handling,
        sources=None if options.fragments is None else _sources_of(options.fragments),
        with_deleted=bool(options.include_deleted_rows),
        report=options.scan_stats_callback,
        search=_search(snapshot, options),
        scored=not options.disable_scoring_autoprojection,
        indexed=options.use_scalar_index is not False,
        indexed_only=bool(options.fast_search),
    )


def _sources_of(fragments: Any) -> list[FragmentSource]:
    of = "fragments of this dataset, of get_fragments()"
    return [fragment.source for fragment in check_items("fragments", fragments, OneFragment, of)]


def _search(snapshot: Snapshot, options: ScanOptions) -> NearestSearch | FullTextSearch | None:
    early, indexed_only = bool(options.prefilter), bool(options.fast_search)
    if options.nearest is not None and options.full_text_query is not None:
        raise InvalidArgumentError(
            "nearest and full_text_query exclude each other.",
            hint="Search by one of them, and filter its rows by what they hold.",
        )
    if options.full_text_query is not None:
        from lancekit._api.fulltext import full_text_search

        return full_text_search(
            options.full_text_query, snapshot, prefilter=early, indexed_only=indexed_only
        )
    if options.nearest is not None:
        from lancekit._api.nearest import nearest_search

        return nearest_search(
            options.nearest,
            snapshot,
            prefilter=early,
            indexed_only=indexed_only,
            limit=None if options.limit is None else options.limit + (options.offset or 0),
        )
    return None


@checked
def _make_scan(
    snapshot: Snapshot,
    *,
    columns: Columns = None,
    filter: Any = None,  # noqa: A002
    limit: int | None = None,
    offset: int | None = None,
    batch_size: int | None = None,
    with_row_id: bool | None = None,
    with_row_address: bool | None = None,
    blob_handling: str | None = None,
    sources: Sequence[FragmentSource] | None = None,
    with_deleted: bool = False,
    report: Callable[[ScanStatistics], object] | None = None,
    search: NearestSearch | FullTextSearch | None = None,
    scored: bool = True,
    indexed: bool = True,
    indexed_only: bool = False,
) -> Scan:
    schema = blob_view(snapshot.manifest.schema, blob_handling)
    if isinstance(columns, str):
        raise InvalidTypeError(
            f"columns is the string {shown(columns)}.", hint=f"Pass a list: [{shown(columns)}]."
        )
    hidden = [
        name for name, wanted in (("_rowid", with_row_id), ("_rowaddr", with_row_address)) if wanted
    ]
    made = () if search is None else search.made
    late = search is not None and not search.prefilter
    known = pa.schema([*schema.to_arrow(), *(made if late else ())])
    predicate = None if filter is None else _parsed(filter, known)
    if search is not None:
        columns = search.columns(columns, schema.names, scored=scored)
    if sources is None:
        wanted = None if late else predicate
        asked = indexed and not with_deleted
        read = reading(snapshot, wanted, schema, indexed=asked, indexed_only=indexed_only)
    else:
        read = Read([replace(source, schema=schema) for source in sources])
    request = ScanRequest(
        outputs=plan_columns(schema, columns, hidden, made),
        predicate=predicate,
        batch_rows=default_batch_rows()
        if batch_size is None
        else check_count("batch_size", batch_size, least=1),
        metadata=tuple(schema.metadata.items()),
    )
    if with_deleted:
        if search is not None:
            raise InvalidArgumentError(
                "include_deleted_rows is set: Cannot include deleted rows in a search.",
                hint="Leave one out: deleted rows are not searched.",
            )
        if "_rowid" not in request.schema.names:
            raise InvalidArgumentError(
                "include_deleted_rows is set, but with_row_id is false.",
                hint="Pass with_row_id=True: deleted rows are those without a row id.",
            )
        read = replace(read, sources=[replace(one, with_deleted=True) for one in read.sources])
    if search is not None:
        read = replace(read, sources=tuple(read.sources))
    scan = Scan(
        read=read,
        request=request,
        limit=None if limit is None else _row_count("limit", limit),
        offset=0 if offset is None else _row_count("offset", offset),
        search=search,
    )
    if report is None:
        return scan
    from lancekit._scan.statistics import WatchedScan

    return WatchedScan(**vars(scan), report=report)


def _parsed(condition: Any, known: pa.Schema) -> Predicate:
    from lancekit._scan.expressions.predicate import Predicate  # many reads have no filter

    return Predicate.parse(condition, known)


def _wanted(value: Any) -> Any:
    """Return what asks for something: neither ``False`` nor an empty list does."""
    return None if isinstance(value, bool | list | tuple | dict | bytes) and not value else value


def _row_count(name: str, value: Any) -> int:
    if is_whole(value) and value < 0:
        raise InvalidArgumentError(
            f"{name.capitalize()} must be non-negative; {name} is {value}.",
            hint="Pass a whole number, 0 or more.",
            argument=name,
            value=value,
        )
    return check_count(name, value)

"""`ScannerBuilder` sets up a scan step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lancekit._api._handle import Handle
from lancekit._api.fulltext import full_text_search
from lancekit._api.nearest import nearest_search
from lancekit._api.scanner import LanceScanner, scan_of
from lancekit._arguments.record import Columns
from lancekit._arguments.scan import scan_arguments
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._legible import shown
from lancekit._scan.search.text_queries import FullTextQuery
from lancekit._scan.statistics import ScanStatistics
from lancekit.errors import InvalidTypeError


@checked_methods
class ScannerBuilder(Displayed):
    """Sets up a scan step by step; every setter returns the builder.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset(pa.table({"x": [1, 2, 3]}), "memory://builder-example")
    >>> lk.ScannerBuilder(ds).filter("x > 1").limit(1).to_scanner().to_table().num_rows
    1
    """

    def __init__(self, ds: object) -> None:
        if not isinstance(ds, Handle):
            raise InvalidTypeError(f"Not a LanceDataset: {shown(ds)}.", hint="Pass a LanceDataset.")
        self._ds = ds
        self._arguments: dict[str, object] = {}

    def _plain(self) -> str:
        return f"ScannerBuilder({', '.join(self._arguments)})"

    def _set(self, argument: str, value: object) -> ScannerBuilder:
        self._arguments[argument] = value
        return self

    def columns(self, cols: Columns = None) -> ScannerBuilder:
        """Set ``columns`` of `LanceDataset.scanner`."""
        return self._set("columns", cols)

    def filter(self, filter: object) -> ScannerBuilder:  # noqa: A002
        """Set ``filter`` of `LanceDataset.scanner`."""
        return self._set("filter", filter)

    def limit(self, n: int | None = None) -> ScannerBuilder:
        """Set ``limit`` of `LanceDataset.scanner`."""
        return self._set("limit", n)

    def offset(self, n: int | None = None) -> ScannerBuilder:
        """Set ``offset`` of `LanceDataset.scanner`."""
        return self._set("offset", n)

    def batch_size(self, batch_size: int) -> ScannerBuilder:
        """Set ``batch_size`` of `LanceDataset.scanner`."""
        return self._set("batch_size", batch_size)

    def batch_size_bytes(self, batch_size_bytes: int) -> ScannerBuilder:
        """Set ``batch_size_bytes`` of `LanceDataset.scanner`."""
        return self._set("batch_size_bytes", batch_size_bytes)

    def batch_readahead(self, nbatches: int | None = None) -> ScannerBuilder:
        """Set ``batch_readahead`` of `LanceDataset.scanner`."""
        return self._set("batch_readahead", nbatches)

    def fragment_readahead(self, nfragments: int | None = None) -> ScannerBuilder:
        """Set ``fragment_readahead`` of `LanceDataset.scanner`."""
        return self._set("fragment_readahead", nfragments)

    def scan_in_order(self, scan_in_order: bool = True) -> ScannerBuilder:
        """Set ``scan_in_order`` of `LanceDataset.scanner`."""
        return self._set("scan_in_order", scan_in_order)

    def with_fragments(self, fragments: Iterable[object] | None) -> ScannerBuilder:
        """Set ``fragments`` of `LanceDataset.scanner`."""
        return self._set("fragments", fragments)

    def with_row_id(self, with_row_id: bool = True) -> ScannerBuilder:
        """Set ``with_row_id`` of `LanceDataset.scanner`."""
        return self._set("with_row_id", with_row_id)

    def with_row_address(self, with_row_address: bool = True) -> ScannerBuilder:
        """Set ``with_row_address`` of `LanceDataset.scanner`."""
        return self._set("with_row_address", with_row_address)

    def order_by(self, orderings: list[Any] | None) -> ScannerBuilder:
        """Set ``order_by`` of `LanceDataset.scanner`."""
        return self._set("order_by", orderings)

    def nearest(
        self,
        column: str,
        q: object,
        k: int | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        use_index: bool = True,
        ef: int | None = None,
        query_parallelism: int | None = None,
        approx_mode: str = "normal",
        distance_range: tuple[float | None, float | None] | None = None,
        search_effort: float | None = None,
    ) -> ScannerBuilder:
        """Set ``nearest`` of `LanceDataset.scanner`.

        Parameters
        ----------
        column, q, k, metric, nprobes, minimum_nprobes, maximum_nprobes, refine_factor
            Members of the dictionary ``nearest``.
        use_index, ef, query_parallelism, approx_mode, distance_range, search_effort
            Further members.

        Returns
        -------
        ScannerBuilder
            This builder.

        Raises
        ------
        ColumnNotFoundError
            The column does not exist.
        InvalidArgumentError, InvalidTypeError
            The query does not fit the column, or an argument is out of range.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> vectors = pa.array([[0.0, 0.0], [5.0, 5.0]], pa.list_(pa.float32(), 2))
        >>> ds = lk.write_dataset({"v": vectors}, "memory://builder-nearest-example")
        >>> lk.ScannerBuilder(ds).nearest("v", [4, 5], k=1).to_scanner().to_table()["v"].to_pylist()
        [[5.0, 5.0]]
        """
        given = {
            "column": column,
            "q": q,
            "k": k,
            "metric": metric,
            "nprobes": nprobes,
            "minimum_nprobes": minimum_nprobes,
            "maximum_nprobes": maximum_nprobes,
            "refine_factor": refine_factor,
            "use_index": use_index,
            "ef": ef,
            "query_parallelism": query_parallelism,
            "approx_mode": approx_mode,
            "distance_range": distance_range,
            "search_effort": search_effort,
        }
        nearest_search(given, self._ds._snapshot)  # raise errors here, not when the scan runs
        return self._set("nearest", given)

    def full_text_search(
        self, query: str | FullTextQuery, columns: list[str] | None = None
    ) -> ScannerBuilder:
        """Set ``full_text_query`` of `LanceDataset.scanner`.

        Parameters
        ----------
        query
            Words, or a query object, which names its columns itself.
        columns
            The columns to search for words; by default all with a full-text index.

        Returns
        -------
        ScannerBuilder
            This builder.

        Raises
        ------
        ColumnNotFoundError, InvalidArgumentError
            A column does not exist, or no column has an index.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"t": ["late snow", "rain"]}, "memory://builder-words-example")
        >>> lk.ScannerBuilder(ds).full_text_search("snow", ["t"]).to_scanner().count_rows()
        1
        """
        given = query if isinstance(query, FullTextQuery) else {"query": query, "columns": columns}
        full_text_search(given, self._ds._snapshot)  # raise errors here, not when the scan runs
        return self._set("full_text_query", given)

    def disable_scoring_autoprojection(self, disable: bool = True) -> ScannerBuilder:
        """Set ``disable_scoring_autoprojection`` of `LanceDataset.scanner`."""
        return self._set("disable_scoring_autoprojection", disable)

    def prefilter(self, prefilter: bool) -> ScannerBuilder:
        """Set ``prefilter`` of `LanceDataset.scanner`."""
        return self._set("prefilter", prefilter)

    def use_stats(self, use_stats: bool = True) -> ScannerBuilder:
        """Set ``use_stats`` of `LanceDataset.scanner`."""
        return self._set("use_stats", use_stats)

    def use_scalar_index(self, use_scalar_index: bool = True) -> ScannerBuilder:
        """Set ``use_scalar_index`` of `LanceDataset.scanner`."""
        return self._set("use_scalar_index", use_scalar_index)

    def fast_search(self, flag: bool) -> ScannerBuilder:
        """Set ``fast_search`` of `LanceDataset.scanner`."""
        return self._set("fast_search", flag)

    def late_materialization(self, late_materialization: bool | list[str]) -> ScannerBuilder:
        """Set ``late_materialization`` of `LanceDataset.scanner`."""
        return self._set("late_materialization", late_materialization)

    def blob_handling(self, blob_handling: str) -> ScannerBuilder:
        """Set ``blob_handling`` of `LanceDataset.scanner`."""
        return self._set("blob_handling", blob_handling)

    def include_deleted_rows(self, flag: bool) -> ScannerBuilder:
        """Set ``include_deleted_rows`` of `LanceDataset.scanner`."""
        return self._set("include_deleted_rows", flag)

    def strict_batch_size(self, strict_batch_size: bool = False) -> ScannerBuilder:
        """Set ``strict_batch_size`` of `LanceDataset.scanner`."""
        return self._set("strict_batch_size", strict_batch_size)

    def scan_stats_callback(self, callback: Callable[[ScanStatistics], object]) -> ScannerBuilder:
        """Set ``scan_stats_callback`` of `LanceDataset.scanner`."""
        return self._set("scan_stats_callback", callback)

    def io_buffer_size(self, io_buffer_size: int) -> ScannerBuilder:
        """Set ``io_buffer_size`` of `LanceDataset.scanner`."""
        return self._set("io_buffer_size", io_buffer_size)

    def apply_defaults(self, default_opts: dict[str, Any]) -> ScannerBuilder:
        """Set arguments of `LanceDataset.scanner` that are not set yet."""
        self._arguments = {**default_opts, **self._arguments}
        return self

    def to_scanner(self) -> LanceScanner:
        """Return the scan."""
        return scan_of(self._ds._snapshot, scan_arguments(self._arguments))

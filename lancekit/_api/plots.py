"""`Plots`: the pictures of a dataset, one method for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from lancekit._api._handle import Handle
from lancekit._api.hinting import hinting_operators
from lancekit._api.time_travel import snapshot_at
from lancekit._arguments.checks import check_count, check_items
from lancekit._checked import checked, checked_methods
from lancekit._choice import check_choice
from lancekit._display import Hinting
from lancekit._format.transaction import Transaction
from lancekit._legible import shown
from lancekit._picture import Picture, draw
from lancekit._versions.references import Ref
from lancekit.errors import InvalidArgumentError, InvalidTypeError

_PANELS = ("rows", "bytes", "operations")


@hinting_operators("__call__")
@checked_methods
class Plots(Hinting):
    """The pictures of a dataset; `LanceDataset.plot` returns this object.

    Each picture has an alternative text with the same content, and follows the light or dark theme
    around it. All pictures but `graph` are drawn by matplotlib, on the axes ``ax=`` if given.
    Without matplotlib, the same call returns the text.  Only `columns` reads rows.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://plots-example")
    >>> ds.plot.history().alt
    'History of plots-example. main: 1 version, 2 to 2 rows.'
    """

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __repr__(self) -> str:
        names = [name for name in dir(self) if not name.startswith("_")]
        return f"Plots({', '.join(names)})"

    def history(
        self,
        *,
        limit: int = 50,
        spread: bool = False,
        over: Literal["version", "time"] = "version",
        show: Sequence[str] = _PANELS,
        ax: object = None,
    ) -> Picture:
        """Draw the growth of rows and bytes, and the operations, of all branches.

        Parameters
        ----------
        limit
            The most versions of each branch, newest first.  Each costs one small read.
        spread
            Take versions evenly from the first to the last instead of the newest ones.
        over
            The axis: ``"version"`` for version numbers, ``"time"`` for commit times.
        show
            The panels: ``"rows"``, ``"bytes"``, ``"operations"``.
        ax
            The matplotlib axes to draw on: one for the first panel, or one for each.

        Returns
        -------
        Picture
            The picture; `alt` is its text.

        Raises
        ------
        InvalidArgumentError
            ``limit`` is less than 1, or ``over``, ``show`` or ``ax`` has another value.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://plot-history-example")
        >>> _ = ds.insert({"x": [2, 3]})
        >>> ds.plot.history(show=["rows"]).alt
        'History of plot-history-example. main: 2 versions, 1 to 3 rows.'
        """
        check_count("limit", limit, least=1)
        check_choice("over", over, ("version", "time"))
        if isinstance(show, str) or not show:
            raise InvalidTypeError(
                f"show must be a list of {', '.join(_PANELS)}, got {shown(show)}."
            )
        for panel in show:
            check_choice("show", panel, _PANELS)
        how = {"limit": limit, "spread": spread, "over": over, "show": tuple(show), "ax": ax}
        return draw("history", self._handle, **how)

    def graph(self, *, clones: Sequence[Handle] = ()) -> Picture:
        """Draw the branches as a graph: heads first, with tags, forks, merges and clones.

        Long runs of versions without tags, forks and merges become one line.  Names and numbers
        come from listings.  Only the manifests of drawn versions are read.  The picture is an SVG
        that needs no matplotlib.  `Picture.text` has the same content for terminals, and
        `Picture.mermaid` for documents.

        Parameters
        ----------
        clones
            Handles on clones of this dataset to draw, which the dataset does not record.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://plot-graph-example")
        >>> for x in range(2, 12):
        ...     _ = ds.insert({"x": [x]})
        >>> print(ds.plot.graph())
        1 branch, 11 versions of plot-graph-example; newest first
        ● main:11  head, open here, append
        ┊ 9 versions
        ● main:1  create
        """
        drawn = tuple(check_items("clones", clones, Handle, "datasets"))
        return draw("graph", self._handle, clones=drawn)

    def fragments(self, *, ax: object = None) -> Picture:
        """Draw this version's fragments: rows, bytes, files, indices, and a compaction plan.

        Only the manifest is read.

        Parameters
        ----------
        ax
            matplotlib axes to draw on: one for the rows, or three for rows, bytes and the rest.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": range(4)}, "memory://plot-fragments", max_rows_per_file=2)
        >>> ds.plot.fragments().text.splitlines()[-1]
        '  compaction  ████████████████████  2 fragments into about 1'
        """
        return draw("fragments", self._handle, ax=ax)

    def key_filters(
        self,
        mine: int | str | Transaction | None = None,
        theirs: int | str | Transaction | None = None,
        *,
        ax: object = None,
    ) -> Picture:
        """Draw the key filters of commits: their fill, error rate, and overlap of two filters.

        Parameters
        ----------
        mine, theirs
            Versions, tags or transactions.  By default the newest two commits with filters.
        ax
            The matplotlib axes to draw on: one for each filter, and one for the overlap.

        Returns
        -------
        Picture
            The picture; `alt` is its text.

        Raises
        ------
        InvalidArgumentError
            The commit has no key filter.
        VersionNotFoundError, TagNotFoundError
            The version or tag does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://plot-filters-example", primary_key="id")
        >>> _ = ds.merge_insert("id").when_not_matched_insert_all().execute({"id": [2]})
        >>> ds.plot.key_filters().alt[:36]
        'Key filters of plot-filters-example.'
        """
        return draw("key_filters", self._handle, mine=mine, theirs=theirs, ax=ax)

    def columns(
        self,
        old: Ref | datetime | timedelta | Handle,
        new: Ref | datetime | timedelta | Handle | None = None,
        *,
        columns: Sequence[str] | None = None,
        sample: int | None = None,
        measure: Literal["psi", "ks"] = "psi",
        ax: object = None,
    ) -> Picture:
        """Draw the distribution of column values in two versions, and mark columns that drifted.

        All rows of both versions are read, if that takes no longer than about a second.  Otherwise
        evenly spread blocks of rows are read, and the figures are marked as estimates.

        Parameters
        ----------
        old, new
            As in `LanceDataset.diff`.  By default ``new`` is this handle.
        columns
            The columns to draw.  By default the first 24 of numbers, times, booleans and text.
        sample
            The most rows to read of each version, in at most 256 MiB.  By default as many as can be
            read in half a second.
        measure
            ``"psi"``: population stability index, drift from 0.2 on.  ``"ks"``: Kolmogorov-Smirnov
            distance, drift from 0.1 on.  Text and booleans always use ``"psi"``.
        ax
            matplotlib axes to draw on, the most drifted column on the first.

        Returns
        -------
        Picture
            The picture; `alt` is its text.

        Raises
        ------
        ColumnNotFoundError
            A column does not exist.
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            A version, tag or branch does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1.0, 2.0] * 50}, "memory://plot-columns-example")
        >>> _ = ds.update({"x": "x + 1"})
        >>> "1 column compared, drift in x" in ds.plot.columns(1).alt
        True
        """
        rows = None if sample is None else check_count("sample", sample, least=1)
        check_choice("measure", measure, ("psi", "ks"))
        if isinstance(columns, str):
            raise InvalidTypeError(f"columns must be a list of names, got {shown(columns)}.")
        here = self._handle
        before, after = (
            here if at is None else here._other(snapshot_at(here._location, at), read_only=True)
            for at in (old, new)
        )
        if old is None:
            raise InvalidArgumentError("old must be a version, got None.")
        how = {"columns": columns, "sample": rows, "measure": measure, "ax": ax}
        return draw("columns", after, old=before, **how)

    def mem_wal(self, *, ax: object = None) -> Picture:
        """Draw the shards of the write-ahead log: writers, generations, and unmerged rows.

        Parameters
        ----------
        ax
            matplotlib axes to draw on: one for the generations, and one for the unmerged rows.
        """
        return draw("mem_wal", self._handle, ax=ax)


@checked
def plot_history(dataset: Handle, *, limit: int = 50) -> Picture:
    """Draw the versions of all branches; see `Plots.history`.

    Parameters
    ----------
    dataset
        A handle at any version or branch; all branches are drawn.
    limit
        The most versions of each branch, newest first; each costs one small read.

    Returns
    -------
    Picture
        The picture; `alt` is its text.

    Raises
    ------
    InvalidArgumentError
        ``limit`` is less than 1.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1]}, "memory://plot-example")
    >>> _ = ds.tags.create("first", 1)
    >>> lk.plot_history(lk.write_dataset({"x": [2, 3]}, ds, mode="append")).alt
    'History of plot-example. main: 2 versions, 1 to 3 rows; tag first at 1.'
    """
    if not isinstance(dataset, Handle):
        raise InvalidTypeError(
            f"Not a LanceDataset: {shown(dataset)}.", hint="Pass a LanceDataset."
        )
    return Plots(dataset).history(limit=limit)

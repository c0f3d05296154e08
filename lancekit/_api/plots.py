"""`Plots`: the pictures of a dataset, by the names of what they show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from lancekit._api._handle import Handle
from lancekit._api.time_travel import snapshot_at
from lancekit._arguments.checks import check_count, check_items
from lancekit._checked import checked, checked_methods
from lancekit._choice import check_choice
from lancekit._format.transaction import Transaction
from lancekit._legible import shown
from lancekit._picture import Picture, draw
from lancekit._versions.references import Ref
from lancekit.errors import InvalidArgumentError, InvalidTypeError

_PANELS = ("rows", "bytes", "operations")


@checked_methods
class Plots:
    """The pictures of a dataset; `LanceDataset.plot` makes it.

    Each has a text that says the same, alternative text, and is light or dark as what it stands
    in.  All but `graph` are drawn by matplotlib, on the user's axes if ``ax=`` has some; where that
    is missing, the same call gives the text.  Only `columns` reads rows.

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
        """Draw how rows and bytes grew, and which operations did it, of main and of the branches.

        Parameters
        ----------
        limit
            The most versions of each line, the newest; each costs one small read.
        spread
            Take so many versions evenly from the first to the last instead.
        over
            ``"version"``: by their numbers; ``"time"``: by when they were committed.
        show
            The panels: ``"rows"``, ``"bytes"``, ``"operations"``.
        ax
            matplotlib's axes to draw on: one for the first panel, or one for each.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://plot-history-example")
        >>> ds.insert({"x": [2, 3]})
        >>> ds.plot.history(show=["rows"]).alt
        'History of plot-history-example. main: 2 versions, 1 to 3 rows.'
        """
        check_count("limit", limit, least=1)
        check_choice("over", over, ("version", "time"))
        if isinstance(show, str) or not show:
            raise InvalidTypeError(
                f"show is {shown(show)}.", hint=f"Pass a list of {', '.join(_PANELS)}."
            )
        for panel in show:
            check_choice("show", panel, _PANELS)
        how = {"limit": limit, "spread": spread, "over": over, "show": tuple(show), "ax": ax}
        return draw("history", self._handle, **how)

    def graph(self, *, clones: Sequence[Handle] = ()) -> Picture:
        """Draw main and the branches as a graph: heads first, with tags, forks, merges, clones.

        Long runs of versions without tags, forks and merges are one line.  Names and numbers come
        from listings, what versions did from the manifests of those that are drawn.  The picture
        is an SVG that needs no matplotlib; `Picture.text` has the same for terminals, and
        `Picture.mermaid` for documents.

        Parameters
        ----------
        clones
            Handles on clones of this dataset, which are drawn with it: a dataset does not know
            its clones, only they know it.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://plot-graph-example")
        >>> for x in range(2, 12):
        ...     ds.insert({"x": [x]})
        >>> print(ds.plot.graph())
        1 line, 11 versions of plot-graph-example; heads first
        ● main:11  head, this handle, append
        ┊ 9 versions
        ● main:1  create
        """
        drawn = tuple(check_items("clones", clones, Handle, "datasets"))
        return draw("graph", self._handle, clones=drawn)

    def fragments(self, *, ax: object = None) -> Picture:
        """Draw the fragments of this version: rows, bytes, files, indices, what a compaction does.

        Only the manifest is read.

        Parameters
        ----------
        ax
            matplotlib's axes to draw on: one for the rows, or three for rows, bytes and the rest.

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
        """Draw the key filters of commits: how full, how often they err, what two have in common.

        Parameters
        ----------
        mine, theirs
            Versions, tags or transactions; by default the newest two commits that have filters.
        ax
            matplotlib's axes to draw on: one for each filter, and one for what they share.

        Raises
        ------
        InvalidArgumentError
            The commit has no key filter.
        VersionNotFoundError, TagNotFoundError
            There is no such version.
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
        """Draw how the values of columns are distributed in two versions, and which drifted.

        All rows of both versions are read, if that takes no longer than about a second.  Else
        blocks of rows are read that are spread evenly, and the figures are marked as estimates.

        Parameters
        ----------
        old, new
            As of `LanceDataset.diff`; ``new`` is this handle by default.
        columns
            Which columns; by default the first 24 of numbers, times, truth values and text.
        sample
            The most rows to read of each version, in no more than 256 MiB; by default as many as
            can be read in half a second.
        measure
            ``"psi"``: population stability index, drift from 0.2; ``"ks"``: Kolmogorov-Smirnov
            distance, drift from 0.1.  Text and truth values are always measured by the first.
        ax
            matplotlib's axes to draw on, the most drifted column on the first.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            There is no such version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1.0, 2.0] * 50}, "memory://plot-columns-example")
        >>> _ = ds.update({"x": "x + 1"})
        >>> "1 column compared, drifted: x" in ds.plot.columns(1).alt
        True
        """
        rows = None if sample is None else check_count("sample", sample, least=1)
        check_choice("measure", measure, ("psi", "ks"))
        if isinstance(columns, str):
            raise InvalidTypeError(f"columns is {shown(columns)}.", hint="Pass a list of names.")
        here = self._handle
        before, after = (
            here if at is None else here._other(snapshot_at(here._location, at), read_only=True)
            for at in (old, new)
        )
        if old is None:
            raise InvalidArgumentError("old is None.", hint="Pass the version to compare with.")
        how = {"columns": columns, "sample": rows, "measure": measure, "ax": ax}
        return draw("columns", after, old=before, **how)

    def mem_wal(self, *, ax: object = None) -> Picture:
        """Draw the shards of the write-ahead log: writers, generations, and rows to be merged.

        Parameters
        ----------
        ax
            matplotlib's axes to draw on: one for the generations, and one for the rows that wait.
        """
        return draw("mem_wal", self._handle, ax=ax)


@checked
def plot_history(dataset: Handle, *, limit: int = 50) -> Picture:
    """Draw the versions of main and of the branches; see `Plots.history`.

    Parameters
    ----------
    dataset
        A handle; whichever version or branch it is at, all lines are drawn.
    limit
        The most versions of each line, the newest; each costs one small read.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1]}, "memory://plot-example")
    >>> ds.tags.create("first", 1)
    >>> lk.plot_history(lk.write_dataset({"x": [2, 3]}, ds, mode="append")).alt
    'History of plot-example. main: 2 versions, 1 to 3 rows; tag first at 1.'
    """
    if not isinstance(dataset, Handle):
        raise InvalidTypeError(f"{shown(dataset)} is no dataset.", hint="Pass a LanceDataset.")
    return Plots(dataset).history(limit=limit)

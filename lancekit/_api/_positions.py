"""The part of a handle that reads chosen rows: by position, by id, at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.pylance.arguments import check_count, check_hints
from lancekit._checked import TAKEN_ELSEWHERE, checked_methods, not_taken_here
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lancekit._scan.fragments.source import FragmentSources

__all__ = ["Positions"]


@checked_methods
class Positions(Handle):
    """Chosen rows of the handle's version."""

    def take(
        self, indices: list[int] | pa.Array, columns: list[str] | dict[str, str] | None = None
    ) -> pa.Table:
        """Read the rows at given positions, in the order given.

        Parameters
        ----------
        indices
            Positions from 0; they may repeat.
        columns
            As in `scanner`; but a path ``s.x`` gives the column ``s``, with only ``x`` in it.
            One of the rows' own, such as ``_rowid``, comes as often as it is named, others once.

        Raises
        ------
        RowOutOfRangeError
            A position is negative, or not below `count_rows`.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset(pa.table({"x": [10, 20, 30]}), "memory://take-example")
        >>> ds.take([2, 0])["x"].to_pylist()
        [30, 10]
        """
        from lancekit._scan.take import parse_positions

        positions = parse_positions(indices, self._snapshot.manifest.num_rows)
        return self._take(lambda _: positions, columns)

    def _take_rows(
        self,
        row_ids: list[int] | pa.Array,
        columns: list[str] | dict[str, str] | None = None,
        *,
        ignore_deletions: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> pa.Table:
        """Read the rows with given row ids, in the order given; deleted rows are left out.

        Parameters
        ----------
        row_ids
            As ``_rowid`` shows them: stable ids, or addresses; they may repeat.
        columns
            As in `take`.
        ignore_deletions
            Does nothing: deletions are looked at only where a row was found.
        with_row_id, with_row_address
            Append ``_rowid`` or ``_rowaddr``.

        Raises
        ------
        RowNotFoundError
            Ids are addresses, and there never was a row at one.
        """
        from lancekit._scan.row_lookup import row_positions

        check_hints(ignore_deletions=ignore_deletions)
        hidden = {"_rowid": with_row_id, "_rowaddr": with_row_address}
        more = [name for name, wanted in hidden.items() if wanted and name not in (columns or ())]
        if isinstance(columns, dict):
            columns = {**columns, **{name: name for name in more}}
        elif more:
            known = self._snapshot.manifest.schema.names if columns is None else columns
            columns = [*known, *more]
        return self._take(lambda sources: row_positions(sources, row_ids), columns)

    def _take(
        self,
        positions: Callable[[FragmentSources], npt.NDArray[np.int64]],
        columns: list[str] | dict[str, str] | None,
    ) -> pa.Table:
        from lancekit._format.extensions import resolved
        from lancekit._scan.fragments.blobs import blob_view
        from lancekit._scan.fragments.source import fragment_sources
        from lancekit._scan.take import take_rows

        schema = blob_view(self._snapshot.manifest.schema)
        sources = fragment_sources(self._snapshot, schema)
        table = take_rows(sources, sources.ends, columns, positions(sources), schema)
        if not table.num_columns:
            return table
        metadata = dict(self._snapshot.manifest.schema.metadata)
        return resolved(table.replace_schema_metadata(metadata or None))

    def sample(
        self,
        num_rows: int,
        columns: list[str] | dict[str, str] | None = None,
        randomize_order: bool = True,
        **kwargs: Any,
    ) -> pa.Table:
        """Read rows chosen at random, each at most once; in row order unless randomized."""
        rows = check_count("num_rows", num_rows)
        if kwargs:
            refused = next(iter(kwargs))
            if refused in TAKEN_ELSEWHERE:
                raise not_taken_here("LanceDataset.sample", refused)
            raise InvalidArgumentError(
                f"sample({refused}=...) is not offered.", hint="Filter after taking the sample."
            )
        total = self._snapshot.manifest.num_rows
        if rows > total:
            raise InvalidArgumentError(
                f"A sample of {rows} rows was asked for; the version has {total}."
            )
        chosen = np.random.default_rng().choice(total, rows, replace=False)
        positions = chosen if randomize_order else np.sort(chosen)
        return self._take(lambda _: positions, columns)

"""Rows by position, id or address: which fragments they are in, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lancekit.errors import RowOutOfRangeError
from lancekit.scan.blobs import BlobPlace
from lancekit.scan.fragment import FragmentReader, FragmentSource
from lancekit.scan.take import parse_positions

__all__ = ["blob_places", "row_addresses"]

Numbers = npt.NDArray[np.uint64]

_ALL = 2**63 - 1


def row_addresses(sources: Sequence[FragmentSource], kind: str, rows: Any) -> Numbers:
    """Return the addresses of rows, in the order given.

    Parameters
    ----------
    kind
        What ``rows`` are: ``"indices"``, ``"ids"`` or ``"addresses"``.

    Raises
    ------
    InvalidTypeError
        They are not whole numbers.
    RowOutOfRangeError
        There is no such row, or it was deleted.
    """
    total = sum(source.fragment.num_rows for source in sources)
    wanted = parse_positions(rows, total if kind == "indices" else _ALL).astype(np.uint64)
    known, addresses = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for reader in map(FragmentReader, _touched(sources, kind, wanted)):
        live = np.arange(reader.physical_rows) if reader.live is None else reader.live
        names = {
            "indices": reader.row_positions,
            "ids": reader.row_ids,
            "addresses": reader.addresses,
        }
        known.append(names[kind](live))
        addresses.append(reader.addresses(live))
    names_of, places = np.concatenate(known), np.concatenate(addresses)
    order = np.argsort(names_of)
    at = np.minimum(np.searchsorted(names_of, wanted, sorter=order), max(len(order) - 1, 0))
    missing = wanted if not len(order) else wanted[names_of[order[at]] != wanted]
    if len(missing):
        raise RowOutOfRangeError(
            f"There is no row with {kind.removesuffix('s')} {missing[0]}.",
            hint="It may have been deleted.",
            row=int(missing[0]),
        )
    return places[order[at]] if len(wanted) else np.empty(0, np.uint64)


def _touched(
    sources: Sequence[FragmentSource], kind: str, wanted: Numbers
) -> Sequence[FragmentSource]:
    """Leave out the fragments that cannot have any of the rows."""
    if kind == "indices":
        starts = np.array([source.first_row for source in sources], np.uint64)
        owners = np.unique(np.searchsorted(starts, wanted, side="right") - 1)
        return [sources[owner] for owner in owners]
    if kind == "ids" and any(source.stable_row_ids for source in sources):
        return sources
    fragments = set((wanted >> np.uint64(32)).tolist())
    return [source for source in sources if source.fragment.id in fragments]


def blob_places(
    sources: Sequence[FragmentSource], path: str, addresses: Numbers
) -> list[BlobPlace | None]:
    """Return where the blobs of rows are, in the order given; ``None`` where they are null."""
    by_id = {source.fragment.id: source for source in sources}
    found: list[BlobPlace | None] = [None] * len(addresses)
    owners = (addresses >> np.uint64(32)).astype(np.int64)
    for owner in np.unique(owners).tolist():
        at = np.flatnonzero(owners == owner)
        offsets = (addresses[at] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        rows, inverse = np.unique(offsets, return_inverse=True)
        places = FragmentReader(by_id[owner]).find_blobs(path, rows)
        for place, row in zip(at.tolist(), inverse.tolist(), strict=True):
            found[place] = places[row]
    return found

"""Rows by position, id or address: which fragments they are in, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit._format import row_address
from lancekit._format.deletions import to_offsets
from lancekit._scan.fragments.blobs import BlobPlace
from lancekit._scan.fragments.reader import FragmentReader, Offsets
from lancekit._scan.fragments.source import FragmentSource, FragmentSources
from lancekit._scan.take import parse_positions
from lancekit.errors import RowNotFoundError

__all__ = ["blob_places", "row_addresses", "row_positions"]

Numbers = npt.NDArray[np.uint64]

_ALL = 2**63 - 1

_ONE = {"ids": "id", "addresses": "address"}


@dataclass(frozen=True, slots=True)
class _Found:
    """For each row asked for: its address, and its position among all rows; -1 if there is none."""

    addresses: Numbers
    positions: Offsets

    @property
    def missing(self) -> Offsets:
        return np.flatnonzero(self.positions < 0)


def row_addresses(sources: FragmentSources, kind: str, rows: object) -> Numbers:
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
        There is no such position.
    RowNotFoundError
        There is no row with such an id or address, or it was deleted.
    """
    total = int(sources.ends[-1]) if len(sources) else 0
    wanted = parse_positions(rows, total if kind == "indices" else _ALL)
    if kind == "indices":
        return _addresses_at(sources, wanted)
    asked, inverse = np.unique(wanted.astype(np.uint64), return_inverse=True)
    found = _find(sources, asked, stable=kind == "ids" and sources.stable_row_ids)
    if len(found.missing):
        raise _no_row(_ONE[kind], int(asked[found.missing[0]]), "been deleted")
    return found.addresses[inverse]


def row_positions(sources: FragmentSources, ids: object) -> Offsets:
    """Return the positions of the rows with given ids, in the order given.

    Rows that were deleted are left out; with stable row ids, so are ids that no row has.

    Raises
    ------
    InvalidTypeError
        They are not whole numbers.
    RowNotFoundError
        Ids are addresses, and there never was a row at one.
    """
    wanted = parse_positions(ids, _ALL)
    asked, inverse = np.unique(wanted.astype(np.uint64), return_inverse=True)
    stable = sources.stable_row_ids
    found = _find(sources, asked, stable=stable)
    if not stable:
        _check_addresses(sources, asked[found.missing])
    positions = found.positions[inverse]
    return positions[positions >= 0]


def _find(sources: FragmentSources, asked: Numbers, *, stable: bool) -> _Found:
    """Look up ids or addresses, which ascend."""
    addresses = np.zeros(len(asked), np.uint64)
    positions = np.full(len(asked), -1)
    owners = sources.with_row_ids(asked) if stable else sources.with_addresses(asked)
    for owner in owners.tolist():
        reader = FragmentReader(sources[owner])
        offsets = _offsets(reader, asked, stable=stable)
        places = np.flatnonzero(offsets >= 0)
        if len(places) and reader.deleted:
            gone = np.isin(offsets[places], to_offsets(reader.deleted))
            places = places[~gone]
        addresses[places] = reader.addresses(offsets[places])
        positions[places] = reader.row_positions(offsets[places]).astype(np.int64)
    return _Found(addresses, positions)


def _offsets(reader: FragmentReader, asked: Numbers, *, stable: bool) -> Offsets:
    if stable and reader.stable_ids is not None:
        return reader.stable_ids.find(asked)
    offsets = row_address.offsets(asked).astype(np.int64)
    owners = row_address.fragment_ids(asked)
    inside = (owners == reader.source.fragment.id) & (offsets < reader.physical_rows)
    return np.where(inside, offsets, -1)


def _check_addresses(sources: FragmentSources, missing: Numbers) -> None:
    owners = map(sources.__getitem__, sources.with_addresses(missing).tolist())
    rows = {source.fragment.id: source.fragment.physical_rows for source in owners}
    for address in missing.tolist():
        id_, offset = row_address.parts(address)
        if offset >= rows.get(id_, 0):
            raise _no_row("address", address, "been in a fragment that is gone")


def _no_row(kind: str, row: int, perhaps: str) -> RowNotFoundError:
    return RowNotFoundError(
        f"There is no row with {kind} {row}.", hint=f"It may have {perhaps}.", row=row
    )


def _addresses_at(sources: FragmentSources, positions: Offsets) -> Numbers:
    owners = np.searchsorted(sources.ends, positions, side="right")
    out = np.empty(len(positions), np.uint64)
    for owner in np.unique(owners).tolist():
        reader = FragmentReader(sources[owner])
        mine = np.flatnonzero(owners == owner)
        rows = positions[mine] - reader.source.first_row
        out[mine] = reader.addresses(rows if reader.live is None else reader.live[rows])
    return out


def blob_places(
    sources: Sequence[FragmentSource], path: str, addresses: Numbers
) -> list[BlobPlace | None]:
    """Return where the blobs of rows are, in the order given; ``None`` where they are null."""
    by_id = {source.fragment.id: source for source in sources}
    found: list[BlobPlace | None] = [None] * len(addresses)
    owners = row_address.fragment_ids(addresses).astype(np.int64)
    for owner in np.unique(owners).tolist():
        at = np.flatnonzero(owners == owner)
        offsets = row_address.offsets(addresses[at]).astype(np.int64)
        rows, inverse = np.unique(offsets, return_inverse=True)
        places = FragmentReader(by_id[owner]).find_blobs(path, rows)
        for place, row in zip(at.tolist(), inverse.tolist(), strict=True):
            found[place] = places[row]
    return found

"""The rows of a version, by their addresses, as they are compared."""

from __future__ import annotations

import numpy as np

from lancekit._format.schema import LanceSchema
from lancekit._pipeline.diff.side import Addresses, Side
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.snapshot import Snapshot

__all__ = ["NOWHERE", "read_rows", "seen"]

#: the address of a row on a side that does not have it
NOWHERE = np.uint64((1 << 64) - 1)


def seen(snapshot: Snapshot) -> LanceSchema:
    """Return the columns of a version as they are compared: blobs as their bytes."""
    return blob_view(snapshot.manifest.schema, "all_binary")


def read_rows(snapshot: Snapshot, rows: Addresses, schema: LanceSchema | None = None) -> Side:
    """Return what reads some rows of a version, as they are compared or with another schema."""
    sources = fragment_sources(snapshot, seen(snapshot) if schema is None else schema)
    return Side((sources[place] for place in sources.with_addresses(rows).tolist()), None)

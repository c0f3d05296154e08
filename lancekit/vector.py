"""pylance's `vector`, re-exported from `lancekit._api.vectors`."""

from lancekit._api.vectors import vec_to_table

__all__ = ["vec_to_table"]

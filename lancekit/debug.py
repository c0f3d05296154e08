"""pylance's `debug`, re-exported from `lancekit._pylance.debug`."""

from lancekit._pylance.debug import (
    format_fragment,
    format_manifest,
    format_schema,
    list_transactions,
)

__all__ = ["format_fragment", "format_manifest", "format_schema", "list_transactions"]

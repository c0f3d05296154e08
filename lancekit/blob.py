"""A door: pylance's `blob`, which is `lancekit.api.blob_values`."""

from lancekit.api.blob_values import (
    Blob,
    BlobFile,
    BlobType,
    blob_array,
    blob_field,
)

__all__ = [
    "Blob",
    "BlobFile",
    "BlobType",
    "blob_array",
    "blob_field",
]

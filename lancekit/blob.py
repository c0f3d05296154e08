"""pylance's `blob`, re-exported from `lancekit._api.blob_values`."""

from lancekit._api.blob_values import Blob, BlobColumn, BlobFile, BlobType, blob_array, blob_field

__all__ = ["Blob", "BlobColumn", "BlobFile", "BlobType", "blob_array", "blob_field"]

"""The Arrow type of blobs to write, which must be registered before it is used."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from lancekit._format.extensions import BLOB_INPUT
from lancekit._format.field_marks import BLOB_V2


class BlobType(pa.ExtensionType):
    """The Arrow type of blobs to write: a struct of bytes or a URI, in the reference's form."""

    def __init__(self, storage: pa.DataType | None = None) -> None:
        super().__init__(BLOB_INPUT if storage is None else storage, BLOB_V2)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> BlobType:
        del serialized
        return cls(storage)


def register_blob_type() -> None:
    """Register the type in Arrow, unless pylance has registered a type of this name."""
    try:
        pa.register_extension_type(BlobType())
    except pa.ArrowKeyError:
        return


def known_blob_type() -> pa.BaseExtensionType:
    """Return the registered Arrow type of blobs: pylance's if it was loaded before lancekit.

    New arrays then have the same type as the schema of a dataset.
    """
    marks = {b"ARROW:extension:name": BLOB_V2.encode(), b"ARROW:extension:metadata": b""}
    plain = pa.schema([pa.field("blob", BLOB_INPUT, metadata=marks)])
    return cast("pa.BaseExtensionType", pa.ipc.read_schema(plain.serialize()).field("blob").type)

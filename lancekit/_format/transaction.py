"""Transactions: each commit's operation and its read version (docs/format/table.md, 3.4)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from lancekit._display import Displayed
from lancekit._format import _codecs as c
from lancekit._format._codecs import Part, decode, encode, values_of, wire
from lancekit._format.operations import OPERATIONS, Append, Operation, Overwrite, UnknownOperation
from lancekit._format.pb.transaction_pb2 import Transaction as Message
from lancekit._format.unknown_fields import parse
from lancekit._provenance import Provenance

#: transaction property with the commit message
COMMIT_MESSAGE = "__lance_commit_message"

#: transaction property with the numbers of inserted, updated and deleted rows
ROW_COUNTS = "lancekit.rows"

_BY_ARM: dict[str, type[Any]] = {kind.arm: kind for kind in OPERATIONS}

#: operations of newer releases, by field number
_NEWER = {115: "DataOverlay", 116: "FragmentReuseTransitions"}
_OPERATION_NUMBERS = range(100, 200)

#: operations on the separate dataset of blob columns, which releases before 1.0 had
_BLOB_ARMS: dict[str, type[Append] | type[Overwrite]] = {
    "blob_append": Append,
    "blob_overwrite": Overwrite,
}


@dataclass(frozen=True, slots=True, repr=False)
class Transaction(Displayed, Part):
    """Commit: the version it read, its operation, and a unique `uuid`.

    `blobs_op` is the operation on the blob dataset of old releases, a removed feature.
    """

    read_version: int = field(metadata=c.codec_metadata(c.whole()))
    operation: Operation
    uuid: str = wire(c.TEXT, default_factory=lambda: str(uuid.uuid4()))
    transaction_properties: Mapping[str, str] = wire(c.TEXT_MAP, default_factory=dict)
    blobs_op: Append | Overwrite | None = field(default=None, kw_only=True)
    tag: str = wire(c.TEXT, default="", kw_only=True)

    @property
    def commit_message(self) -> str | None:
        """Message of the writer about the commit."""
        return self.transaction_properties.get(COMMIT_MESSAGE)

    @property
    def provenance(self) -> Provenance | None:
        """Origin of the version, if it was recorded."""
        return Provenance.of(self.transaction_properties)

    def _plain(self) -> str:
        kind = type(self.operation).__name__
        return f"Transaction({kind}, read_version={self.read_version}, uuid={self.uuid!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSummary:
    """Commit in a list of versions; `operation` is the name of its class.

    `rows` are the numbers of inserted, updated and deleted rows, if lancekit recorded them.
    `rewritten` is the number of rows that an update wrote, and `files` are the numbers of data
    files before and after a compaction.
    """

    operation: str
    read_version: int
    message: str | None
    provenance: Provenance | None = None
    rows: tuple[int, ...] | None = None
    rewritten: int = 0
    files: tuple[int, int] | None = None


def row_counts(inserted: int, updated: int, deleted: int) -> dict[str, str]:
    """Return the property that records the rows that a commit changed."""
    return {ROW_COUNTS: f"{inserted} {updated} {deleted}"}


def _recorded_rows(text: str) -> tuple[int, ...] | None:
    parts = text.split()
    known = len(parts) == 3 and all(p.isascii() and p.isdigit() and len(p) < 20 for p in parts)
    return tuple(map(int, parts)) if known else None


def summarize_transaction(data: bytes | memoryview, where: str) -> TransactionSummary:
    """Decode the summary of a transaction, without its operation.

    Raises CorruptFileError: the bytes are not a transaction.
    """
    message = parse(Message, data, f"transaction {where}")
    arm = message.WhichOneof("operation")
    return TransactionSummary(
        operation=(_BY_ARM[arm] if arm else UnknownOperation).__name__,
        read_version=message.read_version,
        message=message.transaction_properties.get(COMMIT_MESSAGE),
        provenance=Provenance.of(message.transaction_properties),
        rows=_recorded_rows(message.transaction_properties.get(ROW_COUNTS, "")),
        rewritten=sum(
            new.physical_rows - new.deletion_file.num_deleted_rows
            for new in message.update.new_fragments
        ),
        files=_files(message) if arm == "rewrite" else None,
    )


def _files(message: Message) -> tuple[int, int]:
    groups = message.rewrite.groups
    old = sum(len(one.files) for group in groups for one in group.old_fragments)
    return old, sum(len(one.files) for group in groups for one in group.new_fragments)


def parse_transaction(data: bytes | memoryview, where: str) -> Transaction:
    """Decode a transaction file, or the inline section of a manifest.

    Raises CorruptFileError: the bytes are not a transaction.
    """
    message = parse(Message, data, f"transaction {where}")
    arm, blob_arm = message.WhichOneof("operation"), message.WhichOneof("blob_operation")
    return Transaction(
        operation=(
            decode(_BY_ARM[arm], getattr(message, arm)) if arm else _unknown_operation(message)
        ),
        blobs_op=decode(_BLOB_ARMS[blob_arm], getattr(message, blob_arm)) if blob_arm else None,
        **values_of(Transaction, message),
    )


def _unknown_operation(message: Message) -> UnknownOperation:
    unknown: Any = UnknownFieldSet(message)
    numbers = [known.field_number for known in unknown]
    number = next((n for n in numbers if n in _OPERATION_NUMBERS), None)
    return UnknownOperation(number, _NEWER.get(number or 0, ""))


def encode_transaction(transaction: Transaction) -> bytes:
    """Encode a transaction; file and inline section have the same bytes."""
    message = Message()
    encode(transaction, message)
    operation, blobs_op = transaction.operation, transaction.blobs_op
    if not isinstance(operation, UnknownOperation):
        encode(operation, getattr(message, operation.arm))
    if blobs_op is not None:
        encode(blobs_op, getattr(message, f"blob_{blobs_op.arm}"))
    return message.SerializeToString()

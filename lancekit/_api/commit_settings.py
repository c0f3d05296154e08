"""The arguments of `LanceDataset.commit` and `commit_batch`: their checks, and the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_count, check_flag, check_list, check_mapping
from lancekit._format.names import ManifestNaming
from lancekit._format.operations import Operation
from lancekit._format.transaction import COMMIT_MESSAGE, Transaction
from lancekit._legible import shown
from lancekit._operations.commit import CommitSettings
from lancekit._versions.branch_location import BranchLocation, check_same_place, open_location
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError, type_name


def target_of(
    place: str | os.PathLike[str] | Handle,
    storage_options: Mapping[str, str] | None,
    commit_lock: Any,
) -> BranchLocation | Snapshot:
    """Return the snapshot of a handle that can move, or the location of a path or URI."""
    if isinstance(place, Handle):
        place._check_movable()
        check_same_place(place._location, storage_options, commit_lock=commit_lock)
        return place._snapshot
    if not isinstance(place, str | os.PathLike):
        raise InvalidTypeError(
            f"base_uri must be a path, a URI or a LanceDataset, not {type_name(place)}.",
            base_uri=place,
        )
    return open_location(place, storage_options, commit_lock=commit_lock)


def transaction_of(
    operation: Operation | Transaction,
    read_version: int | None,
    message: str | None,
    properties: Mapping[str, str] | None,
) -> Transaction:
    """Return the transaction of an operation, or the given one."""
    if isinstance(operation, Transaction):
        if message is not None or properties:
            raise InvalidArgumentError(
                "commit_message is not supported when calling commit with a Transaction.",
                hint="Set the message in the transaction's properties instead.",
            )
        return operation
    if not isinstance(operation, Operation):
        raise InvalidTypeError(
            f"operation must be a LanceOperation or a Transaction, not {type_name(operation)}.",
            operation=operation,
        )
    check_mapping("properties", properties or {})
    stored = {} if message is None else {COMMIT_MESSAGE: message}
    return Transaction(
        read_version or 0, operation, transaction_properties={**(properties or {}), **stored}
    )


def transactions_of(given: object) -> list[Transaction]:
    """Return the transactions of a batch, each checked to be one."""
    transactions = check_list("transactions", given, "transactions")
    for transaction in transactions:
        if not isinstance(transaction, Transaction):
            raise InvalidTypeError(
                f"Every item of transactions must be a Transaction, got {type_name(transaction)}.",
                hint="Wrap an operation: Transaction(read_version, operation).",
            )
    return transactions


def settings_of(
    v2_names: bool | None,
    detached: bool | None,
    max_retries: int,
    timeout: timedelta | None,
    stable_row_ids: bool | None,
) -> CommitSettings:
    """Return the checked settings of a commit."""
    if timeout is not None and not isinstance(timeout, timedelta):
        raise InvalidTypeError(
            f"commit_timeout must be a timedelta, got {shown(timeout)}.",
            hint="Pass a datetime.timedelta such as timedelta(minutes=5).",
        )
    if timeout is not None and timeout <= timedelta(0):
        raise InvalidArgumentError(f"commit_timeout must be positive, got {timeout}.")
    return CommitSettings(
        max_retries=check_count("max_retries", max_retries),
        timeout=timeout,
        detached=check_flag("detached", detached or False),
        stable_row_ids=check_flag("enable_stable_row_ids", stable_row_ids or False),
        naming=ManifestNaming.V2
        if check_flag("enable_v2_manifest_paths", True if v2_names is None else v2_names)
        else ManifestNaming.V1,
    )

"""The dictionaries that arguments take, by pylance's names: for annotations alone."""

from __future__ import annotations

from typing import NotRequired, Required, TypedDict

import pyarrow as pa

__all__ = ["AlterColumn", "AutoCleanupConfig"]


class AlterColumn(TypedDict, total=False):
    """A change of a column; `LanceDataset.alter_columns`."""

    path: Required[str]
    name: str | None
    nullable: bool | None
    data_type: pa.DataType | None


class AutoCleanupConfig(TypedDict):
    """When commits remove old versions; `DatasetOptimizer.enable_auto_cleanup`."""

    interval: int
    older_than_seconds: NotRequired[int]
    retain_versions: NotRequired[int]

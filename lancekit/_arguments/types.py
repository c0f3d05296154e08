"""Types of arguments, for annotations: dictionaries as in pylance, handles seen from below."""

from __future__ import annotations

from typing import NotRequired, Protocol, Required, TypeAlias, TypedDict

import pyarrow as pa

__all__ = [
    "AlterColumn",
    "AutoCleanupConfig",
    "Columns",
    "DatasetLike",
    "FragmentLike",
]

#: the columns of a read: their names, or SQL expressions by the names of their results
Columns: TypeAlias = list[str] | dict[str, str] | None


class DatasetLike(Protocol):
    """A `lancekit.LanceDataset`."""

    @property
    def uri(self) -> str:
        """Where it is."""

    @property
    def version(self) -> int:
        """The version that it is at."""


class FragmentLike(Protocol):
    """A `lancekit.LanceFragment`."""

    @property
    def fragment_id(self) -> int:
        """Its id."""


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

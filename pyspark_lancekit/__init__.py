"""Where Spark looks for ``format("lance")`` by itself: in packages called ``pyspark_...``.

Spark imports this in its own Python, for all who use any source of Python's.  So nothing is loaded
here: lancekit is, when a dataset is read or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """One Lance dataset; the options are those of `lancekit._spark.datasource`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._given = options

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lance"

    @cached_property
    def _source(self) -> Any:
        from lancekit._spark.datasource.datasource import LanceDataSource

        return LanceDataSource(self._given)

    def schema(self) -> Any:
        """Return the columns as Spark has them."""
        return self._source.schema()

    def reader(self, schema: Any) -> Any:
        """Return what reads the rows."""
        return self._source.reader(schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Return what writes rows."""
        return self._source.writer(schema, overwrite)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        """Return what reads changes."""
        return self._source.streamReader(schema)

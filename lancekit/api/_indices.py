"""The part of a handle that makes and drops indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from lancekit.api._handle import Handle
from lancekit.api.index_config import IndexConfig, kind_named
from lancekit.api.pylance.arguments import check_flag, refuse, refuse_more
from lancekit.checked import checked_methods
from lancekit.errors import InvalidArgumentError, NotOfferedError
from lancekit.legible import shown
from lancekit.operations.common.retry import RetryPolicy
from lancekit.operations.index.create import IndexRequest, create_index, drop_index
from lancekit.operations.index.describe import (
    IndexDescription,
    describe_indices,
    index_statistics,
)

__all__ = ["Indices"]


@checked_methods
class Indices(Handle):
    """Scalar indices: made, dropped and told of."""

    def create_scalar_index(
        self,
        column: str | Sequence[str],
        index_type: str | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: Any = None,
        format_version: Any = None,
        document_granularity: Any = None,
        **kwargs: Any,
    ) -> None:
        """Make an index of a column, which filters use from then on; the handle moves.

        Parameters
        ----------
        column
            A name, or the path of a field of structs.
        index_type
            ``"BTREE"``, ``"BITMAP"``, ``"LABEL_LIST"``, ``"NGRAM"``, ``"ZONEMAP"`` or
            ``"BLOOMFILTER"``, or an `lancekit.indices.IndexConfig` with parameters.
        name
            Of the index, by default the column's with ``_idx``.
        replace
            Whether it may take the place of an index of the same name on the column.
        train
            ``False`` makes an index that covers no rows, until they are added by
            ``ds.optimize.optimize_indices()``.
        index_uuid
            The folder of its files.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidTypeError
            Such an index cannot be made of the column's type.
        NotOfferedError
            A kind of index that lancekit does not make.
        IndexExistsError
            The name is taken.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [3, 1, 2]}, "memory://scalar-index-example")
        >>> ds.create_scalar_index("id", "BTREE")
        >>> ds.index_columns
        {'id_idx': ('id',)}
        """
        refuse(
            "create_scalar_index",
            progress_callback=progress_callback,
            format_version=format_version,
            document_granularity=document_granularity,
        )
        refuse_more("create_scalar_index", kwargs)
        if fragment_ids is not None:
            raise InvalidArgumentError(
                "create_scalar_index takes no fragment_ids: an index is of all rows.",
                hint="Use create_index_uncommitted for some fragments at a time.",
                argument="fragment_ids",
            )
        kind, parameters = kind_named(index_type)
        request = IndexRequest(
            column=_one_column(column),
            kind=kind,
            name=name,
            parameters=parameters,
            replace=check_flag("replace", replace),
            train=check_flag("train", train),
            uuid=_uuid(index_uuid),
        )
        self._move(lambda snapshot: (create_index(snapshot, request, RetryPolicy()), None))

    def describe_indices(self) -> list[IndexDescription]:
        """Describe the version's indices, by their names; no file is read.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://describe-example")
        >>> ds.create_scalar_index("x", "BITMAP")
        >>> found = ds.describe_indices()[0]
        >>> found.name, found.index_type, found.field_names, found.num_rows_indexed
        ('x_idx', 'Bitmap', ('x',), 2)
        """
        return describe_indices(self._snapshot)

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """Tell what ``ds.stats.index_stats`` tells, of which this is an older name."""
        return index_statistics(self._snapshot, index_name)

    def drop_index(self, name: str) -> None:
        """Drop an index; the handle moves.  Its files stay, for older versions.

        Raises
        ------
        IndexNotFoundError
            There is no index of the name.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [3, 1, 2]}, "memory://drop-index-example")
        >>> ds.create_scalar_index("id", "BTREE")
        >>> ds.drop_index("id_idx")
        >>> ds.has_index
        False
        """
        self._move(lambda snapshot: (drop_index(snapshot, name, RetryPolicy()), None))


def _one_column(column: str | Sequence[str]) -> str:
    names = [column] if isinstance(column, str) else list(column)
    if len(names) != 1:
        raise NotOfferedError(
            f"An index of {len(names)} columns is not offered.", hint="Pass one column."
        )
    return names[0]


def _uuid(text: str | None) -> UUID | None:
    if text is None:
        return None
    try:
        return UUID(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"index_uuid is {shown(text)}.", hint="Pass the text of a UUID.", argument="index_uuid"
        ) from error

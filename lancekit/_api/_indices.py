"""The part of a dataset handle that creates, drops and describes indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_hints, check_items, refuse
from lancekit._arguments.index import VectorIndexArguments
from lancekit._arguments.record import takes
from lancekit._checked import checked_methods
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, NotOfferedError

if TYPE_CHECKING:
    from lancekit._api.answer import Answer
    from lancekit._api.index_models import IvfModel
    from lancekit._api.index_requests import IndexConfig
    from lancekit._api.lance_operation import Index
    from lancekit._api.table_indices import TableIndices
    from lancekit.progress import IndexProgress


#: the kinds of `create_scalar_index`, for editors; case does not matter
ScalarKind: TypeAlias = Literal[
    "BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "ZONEMAP", "BLOOMFILTER", "INVERTED", "FTS"
]


@checked_methods
class Indices(Handle):
    """Creation, removal and description of indices."""

    @property
    def indices(self) -> TableIndices:
        """The indices of this version, with their coverage and the versions of uncovered rows.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": range(1000)}, "memory://indices-property-example")
        >>> _ = ds.create_scalar_index("id", "BTREE")
        >>> ds.indices["id_idx"].share
        1.0
        """
        from lancekit._api.table_indices import TableIndices

        return TableIndices(partial(getattr, self, "_snapshot"))

    def create_scalar_index(
        self,
        column: str | Sequence[str],
        index_type: ScalarKind | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: Callable[[IndexProgress], Any] | None = None,
        format_version: object = None,
        document_granularity: object = None,
        **kwargs: object,
    ) -> Answer:
        """Create an index of a column for filters or full-text search; the handle moves.

        Parameters
        ----------
        column
            The name of the column, or the path of a nested field.
        index_type
            ``"BTREE"``, ``"BITMAP"``, ``"LABEL_LIST"``, ``"NGRAM"``, ``"ZONEMAP"``,
            ``"BLOOMFILTER"`` or ``"INVERTED"`` (also ``"FTS"``), or an
            `lancekit.indices.IndexConfig` with parameters.
        name
            The name of the index, by default the column name with ``_idx``.
        replace
            Whether to replace an index of the same name on the column.
        train
            ``False`` makes an empty index, until ``ds.optimize.optimize_indices()`` adds rows.
        fragment_ids
            For ``"INVERTED"``: the fragments of a partial index.  It needs `merge_index_metadata`
            and a commit before it is an index.
        index_uuid
            The name of the folder of the index files.
        progress_callback
            Called with a `lancekit.progress.IndexProgress` when indexing begins and ends.
        format_version, document_granularity
            For ``"INVERTED"``: only 2 and ``"row"``, which are also the defaults.
        kwargs
            For ``"INVERTED"``: ``with_position=True`` for phrases, and tokenizer settings (see
            ``docs/search.md``).  ``memory_limit`` and ``num_workers`` change nothing.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        ColumnNotFoundError
            The column does not exist.
        InvalidTypeError
            The kind of index does not support the column's type.
        NotOfferedError
            lancekit does not make this kind of index.
        IndexExistsError
            The name is in use already.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [3, 1, 2]}, "memory://scalar-index-example")
        >>> ds.create_scalar_index("id", "BTREE")
        indexed id (BTree) as id_idx, 3 rows · main:2; ds.drop_index('id_idx') takes it back
        >>> ds.index_columns
        {'id_idx': ('id',)}
        """
        from lancekit._api.answer import answer
        from lancekit._api.index_requests import no_fragments, scalar_request
        from lancekit._index.kinds import INVERTED
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.index.create import create_index
        from lancekit._operations.index.staged import stage_part
        from lancekit.progress import told_of_rows

        request = scalar_request(
            index_type,
            column=column,
            name=name,
            replace=replace,
            train=train,
            index_uuid=index_uuid,
            progress_callback=progress_callback,
            format_version=format_version,
            document_granularity=document_granularity,
            kwargs=kwargs,
        )
        if fragment_ids is not None:
            if request.kind is not INVERTED:
                raise no_fragments("create_scalar_index")
            with told_of_rows(request.progress):
                stage_part(
                    self._snapshot, request.column, fragment_ids, request.parameters, request.uuid
                )
            return answer(
                "create_scalar_index", self._snapshot, self._snapshot, fragments=fragment_ids
            )
        return self._done(
            "create_scalar_index", lambda snapshot: create_index(snapshot, request, RetryPolicy())
        )

    def create_index_uncommitted(
        self,
        column: str | Sequence[str],
        index_type: ScalarKind | IndexConfig,
        name: str | None = None,
        *,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        **kwargs: object,
    ) -> Index:
        """Index some fragments, for a later commit by `commit_existing_index_segments`.

        Several processes can make the segments of one index in this way.

        Parameters
        ----------
        fragment_ids
            The fragments to index; required.
        kwargs
            As in `create_scalar_index` and `create_index`.  Vector segments with the same
            ``ivf_centroids`` and ``pq_codebook`` can be merged.

        Returns
        -------
        Index
            The segment's future entry in the manifest.

        Raises
        ------
        InvalidArgumentError
            ``fragment_ids`` is missing.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": range(4)}, "memory://parts-example", max_rows_per_file=2)
        >>> parts = [ds.create_index_uncommitted("x", "BTREE", fragment_ids=[i]) for i in (0, 1)]
        >>> len(ds.commit_existing_index_segments("x_idx", "x", parts).list_indices())
        2
        """
        from lancekit._api.index_requests import index_parameters, one_column, uuid_of
        from lancekit._operations.index.staged import make_part

        if fragment_ids is None:
            raise InvalidArgumentError(
                "create_index_uncommitted needs fragment_ids.",
                hint="To index all rows, use create_scalar_index.",
                argument="fragment_ids",
            )
        kind, parameters = index_parameters(index_type, kwargs, "create_index_uncommitted")
        return make_part(
            self._snapshot,
            one_column(column),
            kind,
            fragment_ids,
            name=name,
            parameters=parameters,
            uuid=uuid_of(index_uuid),
        )

    def merge_existing_index_segments(self, segments: list[Index]) -> Index:
        """Merge segments from `create_index_uncommitted` into one, which makes searches faster.

        Raises
        ------
        InvalidArgumentError
            The segments differ in column or kind, or share a fragment.
        """
        from lancekit._api.lance_operation import Index
        from lancekit._operations.index.staged import merge_parts

        of = "results of create_index_uncommitted"
        return merge_parts(self._snapshot, check_items("segments", segments, Index, of))

    def merge_index_metadata(
        self,
        index_uuid: str,
        index_type: str,
        batch_readhead: int | None = None,
        progress_callback: object = None,
    ) -> Answer:
        """Merge the partial full-text indices of single fragments.

        `create_scalar_index` makes them with ``fragment_ids`` and the same ``index_uuid``.  After
        the merge, commit a `LanceOperation.CreateIndex` with an `Index` of this ``uuid``.

        Parameters
        ----------
        index_uuid
            The name of the folder of the index files.
        index_type
            ``"INVERTED"``.
        batch_readhead
            A hint: it is checked, and changes no result.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        InvalidArgumentError
            There are no partial indices, or their parameters differ.
        NotOfferedError
            The index has another type: use `merge_existing_index_segments`.

        Examples
        --------
        >>> import lancekit as lk
        >>> from uuid import uuid4
        >>> ds = lk.write_dataset({"t": ["late snow", "snow"]}, "memory://staged-example")
        >>> uuid = str(uuid4())
        >>> _ = ds.create_scalar_index("t", "INVERTED", fragment_ids=[0], index_uuid=uuid)
        >>> _ = ds.merge_index_metadata(uuid, "INVERTED")
        >>> index = lk.Index(uuid, "t_idx", [0], ds.version, [0], 2)
        >>> made = lk.LanceOperation.CreateIndex([index], [])
        >>> ds = lk.LanceDataset.commit(ds, made, read_version=ds.version)
        >>> ds.to_table(full_text_query="late")["t"].to_pylist()
        ['late snow']
        """
        from lancekit._api.answer import answer
        from lancekit._api.index_requests import parsed_uuid
        from lancekit._index.kinds import INVERTED
        from lancekit._operations.index.staged import merge_staged

        refuse("merge_index_metadata", progress_callback=progress_callback)
        check_hints(batch_readhead=batch_readhead)
        if index_type.upper() != INVERTED.name:
            raise NotOfferedError(
                f"The parts of a {shown(index_type)} index cannot be merged by their uuid.",
                hint="Use create_index_uncommitted and merge_existing_index_segments.",
                argument="index_type",
            )
        merge_staged(self._snapshot, parsed_uuid(index_uuid))
        return answer("merge_index_metadata", self._snapshot, self._snapshot, uuid=index_uuid)

    def commit_existing_index_segments(
        self, index_name: str, column: str, segments: list[Index]
    ) -> Self:
        """Commit an index of segments from `create_index_uncommitted`; the handle moves.

        The index replaces one of the same name on the column.

        Parameters
        ----------
        index_name
            The name of the index.
        column
            The indexed column.
        segments
            The segments, all of one kind.

        Returns
        -------
        LanceDataset
            This handle.

        Raises
        ------
        ColumnNotFoundError
            The column does not exist.
        InvalidArgumentError
            The segments have another column or several kinds, share a fragment, or have no files.
        CommitConflictError
            Fragments that the segments cover were rewritten since.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [3, 4]}, "memory://commit-segments-example")
        >>> part = ds.create_index_uncommitted("x", "BTREE", fragment_ids=[0])
        >>> ds.commit_existing_index_segments("x_idx", "x", [part]).index_columns
        {'x_idx': ('x',)}
        """
        from lancekit._api.lance_operation import Index
        from lancekit._operations.index.staged import commit_parts

        of = "results of create_index_uncommitted"
        parts = check_items("segments", segments, Index, of)
        self._move(lambda snapshot: (commit_parts(snapshot, index_name, column, parts), None))
        return self

    def drop_index(self, name: str) -> Answer:
        """Drop an index; the handle moves.  The files stay for older versions.

        Raises
        ------
        IndexNotFoundError
            There is no index of this name.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [3, 1, 2]}, "memory://drop-index-example")
        >>> _ = ds.create_scalar_index("id", "BTREE")
        >>> ds.drop_index("id_idx")
        dropped index id_idx · main:3; ds.undo() takes it back
        """
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.index.create import drop_index

        return self._done(
            "drop_index", lambda snapshot: drop_index(snapshot, name, RetryPolicy()), name=name
        )

    @takes(VectorIndexArguments)
    def create_index(self, arguments: VectorIndexArguments) -> Self:
        """Create an index of a vector column for searches; the handle moves.

        Returns
        -------
        LanceDataset
            This handle.

        Raises
        ------
        ColumnNotFoundError
            The column does not exist.
        InvalidTypeError
            The column has no numeric vectors.
        InvalidArgumentError
            An argument does not fit the vectors.
        NotOfferedError
            lancekit does not make this kind of index.
        IndexExistsError
            The name is in use already.

        Examples
        --------
        >>> import lancekit as lk, numpy as np, pyarrow as pa
        >>> values = pa.array(np.arange(64, dtype="float32"))
        >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 4)}
        >>> ds = lk.write_dataset(rows, "memory://vector-index-example")
        >>> ds = ds.create_index("v", "IVF_FLAT", metric="cosine", num_partitions=2)
        >>> ds.to_table(nearest={"column": "v", "q": [1, 1, 1, 1], "k": 1})["v"].to_pylist()
        [[60.0, 61.0, 62.0, 63.0]]
        """
        from lancekit._api.index_requests import vector_request
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.index.create import create_index

        request = vector_request(arguments)
        self._move(lambda snapshot: (create_index(snapshot, request, RetryPolicy()), None))
        return self

    def get_ivf_model(self, index_name: str) -> IvfModel:
        """Return the partition centroids of a vector index.

        Raises
        ------
        IndexNotFoundError
            There is no index of this name.
        InvalidArgumentError
            The index is not a vector index, or it has no vectors yet.
        """
        from lancekit._api.index_models import IvfModel
        from lancekit._operations.index.vectors import vector_segments

        found = vector_segments(self._snapshot, index_name)
        if not found:
            raise InvalidArgumentError(f"Index {index_name!r} has no vectors yet.")
        centroids = found[0].centroids
        lists = pa.FixedSizeListArray.from_arrays(pa.array(centroids.ravel()), centroids.shape[1])
        return IvfModel(lists, found[0].metric)

    def centroids(
        self, *, index_name: str | None = None, column: str | None = None
    ) -> pa.FixedSizeListArray:
        """Return the partition centroids of a vector index, named or the first one of a column.

        Parameters
        ----------
        index_name
            The name of the index; it takes precedence over ``column``.
        column
            The column of the index.

        Returns
        -------
        pyarrow.FixedSizeListArray
            One vector for each partition.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        InvalidArgumentError
            Neither argument is given, or the index has no vectors.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> rows = {"v": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))}
        >>> ds = lk.write_dataset(rows, "memory://centroids-example")
        >>> ds.create_index("v", "IVF_FLAT", num_partitions=1).centroids(column="v").to_pylist()
        [[2.0, 3.0]]
        """
        from lancekit._operations.index.vectors import name_of_vectors

        if index_name is None:
            if column is None:
                raise InvalidArgumentError("centroids() needs index_name or column.")
            index_name = name_of_vectors(self._snapshot, column)
        return self.get_ivf_model(index_name).centroids

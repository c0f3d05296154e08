"""`IndicesBuilder` makes a vector index in steps; `VectorIndexReader` reads its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit._api.index_models import IvfModel, PqModel
from lancekit._api.index_requests import metric_named
from lancekit._api.vectors import centroids_of, codebook_of
from lancekit._arguments.checks import check_count, refuse
from lancekit._checked import checked_methods
from lancekit._file.lance_file import LanceFileReader
from lancekit._format.index import VectorSettings
from lancekit._index.kinds import VECTORS
from lancekit._operations.index.segments import indexed_field
from lancekit._operations.index.vectors import (
    in_order,
    load_vectors,
    train_centroids,
    train_words,
    transformed,
    write_codes,
)
from lancekit._storage.places import open_store
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lancekit._api.fragment import LanceFragment
    from lancekit._api.lance_dataset import LanceDataset

_SAMPLED, _ROUNDS = 256, 50
_Floats: TypeAlias = NDArray[np.floating | np.uint8]


@checked_methods
class IndicesBuilder:
    """Makes an ``IVF_PQ`` index in steps, which can run in several processes.

    `create_index` does the same in one call.

    Parameters
    ----------
    dataset
        The dataset.
    column
        The name of its vector column.

    Raises
    ------
    ColumnNotFoundError
        The column does not exist.
    InvalidTypeError
        The column has no vectors.

    Examples
    --------
    >>> import lancekit as lk, numpy as np, pyarrow as pa
    >>> from lancekit.indices import IndicesBuilder
    >>> values = pa.array(np.random.default_rng(0).standard_normal(4800).astype("float32"))
    >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 8)}
    >>> ds = lk.write_dataset(rows, "memory://steps/table")
    >>> builder = IndicesBuilder(ds, "v")
    >>> ivf = builder.train_ivf(2)
    >>> pq = builder.train_pq(ivf, 2, sample_rate=2)
    >>> builder.transform_vectors(ivf, pq, "memory://steps/codes")
    >>> names = builder.shuffle_transformed_vectors(["codes"], "memory://steps", ivf)
    >>> builder.load_shuffled_vectors(names, "memory://steps", ivf, pq)
    >>> lk.dataset("memory://steps/table").list_indices()[0]["type"]
    'IVF_PQ'
    """

    def __init__(self, dataset: LanceDataset, column: str) -> None:
        self.dataset = dataset
        self.column = column
        kind = cast("pa.FixedSizeListType", indexed_field(dataset._snapshot, column, VECTORS).type)
        self.dimension: int = kind.list_size

    def train_ivf(
        self,
        num_partitions: int | None = None,
        *,
        distance_type: str = "l2",
        accelerator: object = None,
        sample_rate: int = _SAMPLED,
        max_iters: int = _ROUNDS,
        fragment_ids: list[int] | None = None,
    ) -> IvfModel:
        """Train the centroids of the partitions by k-means on a sample.

        Parameters
        ----------
        num_partitions
            The number of partitions; by default about the square root of the number of rows.
        distance_type
            The metric: ``"l2"``, ``"cosine"``, ``"dot"`` or ``"hamming"``.
        accelerator
            Not supported.
        sample_rate
            The number of sampled rows for each partition.
        max_iters
            The highest number of iterations.
        fragment_ids
            The ids of the fragments to sample; all by default.

        Returns
        -------
        IvfModel
            The centroids and the metric.

        Raises
        ------
        InvalidArgumentError
            There are fewer rows than the sample needs.

        Examples
        --------
        >>> import lancekit as lk, numpy as np, pyarrow as pa
        >>> values = pa.array(np.arange(64, dtype="float32"))
        >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 4)}
        >>> ds = lk.write_dataset(rows, "memory://train-ivf-example")
        >>> IndicesBuilder(ds, "v").train_ivf(2, sample_rate=8).num_partitions
        2
        """
        refuse("train_ivf", accelerator=accelerator)
        count = self._rows(fragment_ids)
        partitions = round(sqrt(count)) if num_partitions is None else num_partitions
        _check_rate(sample_rate, check_count("num_partitions", partitions, least=1), count)
        metric = metric_named(distance_type)
        centroids = train_centroids(
            self.dataset._snapshot,
            self.column,
            self._fragments(fragment_ids),
            metric,
            partitions,
            sampled=sample_rate,
            rounds=check_count("max_iters", max_iters, least=1),
        )
        return IvfModel(_lists(centroids), metric)

    def train_pq(
        self,
        ivf_model: IvfModel,
        num_subvectors: int | None = None,
        *,
        sample_rate: int = _SAMPLED,
        max_iters: int = _ROUNDS,
        num_bits: int = 8,
        fragment_ids: list[int] | None = None,
    ) -> PqModel:
        """Train the codebook of a product quantization by k-means on a sample.

        Parameters
        ----------
        ivf_model
            The partitions; their centroids are subtracted from the vectors.
        num_subvectors
            The number of subvectors of a vector; by default subvectors have 16 dimensions, or 8.
        sample_rate, max_iters, fragment_ids
            As in `train_ivf`; the rate is for each code word.
        num_bits
            The number of bits of a code, 8 or 4.

        Returns
        -------
        PqModel
            The codebook.

        Raises
        ------
        InvalidArgumentError
            There are fewer rows than the sample needs, or the subvectors would differ in length.

        Examples
        --------
        >>> import lancekit as lk, numpy as np, pyarrow as pa
        >>> values = pa.array(np.arange(256, dtype="float32"))
        >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 4)}
        >>> builder = IndicesBuilder(lk.write_dataset(rows, "memory://train-pq-example"), "v")
        >>> ivf = builder.train_ivf(2, sample_rate=8)
        >>> builder.train_pq(ivf, 2, sample_rate=2, num_bits=4).dimension
        4
        """
        parts = self._parts(num_subvectors)
        _check_rate(sample_rate, 1 << num_bits, self._rows(fragment_ids))
        words = train_words(
            self.dataset._snapshot,
            self.column,
            self._fragments(fragment_ids),
            _settings(ivf_model, parts, num_bits),
            centroids_of(ivf_model.centroids),
            sampled=sample_rate,
            rounds=check_count("max_iters", max_iters, least=1),
        )
        return PqModel(parts, _lists(words.reshape(1 << num_bits, -1)), num_bits=num_bits)

    def prepare_global_ivf_pq(
        self,
        num_partitions: int | None,
        num_subvectors: int | None,
        *,
        distance_type: str = "l2",
        accelerator: object = None,
        sample_rate: int = _SAMPLED,
        max_iters: int = _ROUNDS,
        num_bits: int = 8,
        fragment_ids: list[int] | None = None,
    ) -> dict[str, pa.FixedSizeListArray]:
        """Train both models, and return them as arguments of `create_index_uncommitted`.

        Parameters
        ----------
        num_partitions, distance_type, accelerator
            As in `train_ivf`.
        num_subvectors, num_bits
            As in `train_pq`.
        sample_rate, max_iters, fragment_ids
            As in both.

        Returns
        -------
        dict
            ``ivf_centroids`` and ``pq_codebook``.

        Raises
        ------
        InvalidArgumentError
            As in `train_ivf` and `train_pq`.

        Examples
        --------
        >>> import lancekit as lk, numpy as np, pyarrow as pa
        >>> values = pa.array(np.arange(256, dtype="float32"))
        >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 4)}
        >>> builder = IndicesBuilder(lk.write_dataset(rows, "memory://train-both-example"), "v")
        >>> sorted(builder.prepare_global_ivf_pq(2, 2, sample_rate=2, num_bits=4))
        ['ivf_centroids', 'pq_codebook']
        """
        more: dict[str, Any] = {
            "sample_rate": sample_rate,
            "max_iters": max_iters,
            "fragment_ids": fragment_ids,
        }
        ivf = self.train_ivf(
            num_partitions, distance_type=distance_type, accelerator=accelerator, **more
        )
        pq = self.train_pq(ivf, num_subvectors, num_bits=num_bits, **more)
        return {"ivf_centroids": ivf.centroids, "pq_codebook": pq.codebook}

    def transform_vectors(
        self,
        ivf: IvfModel,
        pq: PqModel,
        dest_uri: str,
        fragments: Sequence[LanceFragment] | None = None,
        partition_ds_uri: str | None = None,
    ) -> None:
        """Write a file with the partition and the code of each vector.

        Parameters
        ----------
        ivf, pq
            The models.
        dest_uri
            The file; its columns are ``_rowid``, ``__ivf_part_id`` and ``__pq_code``.
        fragments
            The fragments to read, all by default.
        partition_ds_uri
            Not supported.

        Raises
        ------
        InvalidArgumentError
            ``fragments`` is an empty list.
        StorageError
            The file cannot be written.

        Examples
        --------
        >>> import lancekit as lk, numpy as np, pyarrow as pa
        >>> values = pa.array(np.arange(256, dtype="float32"))
        >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 4)}
        >>> builder = IndicesBuilder(lk.write_dataset(rows, "memory://codes-example"), "v")
        >>> ivf = builder.train_ivf(2, sample_rate=2)
        >>> pq = builder.train_pq(ivf, 2, sample_rate=2, num_bits=4)
        >>> builder.transform_vectors(ivf, pq, "memory://codes-example-files/codes")
        """
        refuse("transform_vectors", precomputed_partition_dataset=partition_ds_uri)
        if fragments is not None and not fragments:
            raise InvalidArgumentError("fragments must be a non-empty list or None.")
        ids = None if fragments is None else [one.fragment_id for one in fragments]
        tables = transformed(
            self.dataset._snapshot, self.column, self._fragments(ids), *self._models(ivf, pq)
        )
        folder, _, name = dest_uri.rpartition("/")
        write_codes(open_store(folder or ".", None), name, tables)

    def shuffle_transformed_vectors(
        self,
        unsorted_filenames: list[str],
        dir_path: str,
        ivf: IvfModel,
        shuffle_output_root_filename: str | None = "sorted",
    ) -> list[str]:
        """Sort the output of `transform_vectors` by partition, into one new file.

        Parameters
        ----------
        unsorted_filenames
            Names of files in the folder.
        dir_path
            The folder.
        ivf
            The partitions.
        shuffle_output_root_filename
            The name of the new file, before ``_0.lance``.

        Returns
        -------
        list of str
            The name of the new file.

        Raises
        ------
        InvalidArgumentError
            There are no file names.
        NotFoundError
            A file does not exist.

        Examples
        --------
        >>> import lancekit as lk, numpy as np, pyarrow as pa
        >>> values = pa.array(np.arange(256, dtype="float32"))
        >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 4)}
        >>> builder = IndicesBuilder(lk.write_dataset(rows, "memory://shuffle-example"), "v")
        >>> ivf = builder.train_ivf(2, sample_rate=2)
        >>> pq = builder.train_pq(ivf, 2, sample_rate=2, num_bits=4)
        >>> builder.transform_vectors(ivf, pq, "memory://shuffle-files/codes")
        >>> builder.shuffle_transformed_vectors(["codes"], "memory://shuffle-files", ivf)
        ['sorted_0.lance']
        """
        table = in_order(_read(dir_path, unsorted_filenames), ivf.num_partitions)
        name = f"{shuffle_output_root_filename or 'sorted'}_0.lance"
        write_codes(open_store(dir_path, None), name, [table])
        return [name]

    def load_shuffled_vectors(
        self,
        filenames: list[str],
        dir_path: str,
        ivf: IvfModel,
        pq: PqModel,
        index_name: str | None = None,
    ) -> None:
        """Commit an index from the output of `shuffle_transformed_vectors` for all fragments.

        Parameters
        ----------
        filenames, dir_path
            The files, and their folder.
        ivf, pq
            The models that made the files.
        index_name
            The name of the index, by default the column's with ``_idx``.

        Raises
        ------
        InvalidArgumentError
            The files were made with other models.
        NotFoundError
            A file does not exist.

        Examples
        --------
        >>> import lancekit as lk, numpy as np, pyarrow as pa
        >>> values = pa.array(np.arange(256, dtype="float32"))
        >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 4)}
        >>> ds = lk.write_dataset(rows, "memory://load-vectors-example")
        >>> builder = IndicesBuilder(ds, "v")
        >>> ivf = builder.train_ivf(2, sample_rate=2)
        >>> pq = builder.train_pq(ivf, 2, sample_rate=2, num_bits=4)
        >>> builder.transform_vectors(ivf, pq, "memory://load-files/codes")
        >>> names = builder.shuffle_transformed_vectors(["codes"], "memory://load-files", ivf)
        >>> builder.load_shuffled_vectors(names, "memory://load-files", ivf, pq)
        >>> ds.index_columns
        {'v_idx': ('v',)}
        """
        parts = _read(dir_path, filenames)
        self.dataset._move(
            lambda snapshot: (
                load_vectors(snapshot, self.column, parts, *self._models(ivf, pq), index_name),
                None,
            )
        )

    def _models(self, ivf: IvfModel, pq: PqModel) -> tuple[VectorSettings, _Floats, _Floats]:
        words = codebook_of(pq.codebook, pq.num_subvectors, 1 << pq.num_bits)
        settings = _settings(ivf, pq.num_subvectors, pq.num_bits)
        return settings, centroids_of(ivf.centroids), words

    def _fragments(self, fragment_ids: list[int] | None) -> list[int]:
        known = [int(id_) for id_ in self.dataset._snapshot.manifest.fragments.ids]
        for id_ in fragment_ids or ():
            if id_ not in known:
                raise InvalidArgumentError(f"Fragment id does not exist: {id_}.")
        return known if fragment_ids is None else list(fragment_ids)

    def _rows(self, fragment_ids: list[int] | None) -> int:
        wanted = set(self._fragments(fragment_ids))
        fragments = self.dataset._snapshot.manifest.fragments
        return sum(one.num_rows for one in fragments if one.id in wanted)

    def _parts(self, requested: int | None) -> int:
        size = self.dimension
        parts = requested or next((size // one for one in (16, 8) if size % one == 0), None)
        if parts is None:
            raise InvalidArgumentError(
                f"vector dimension {size} is not divisible by 16 or 8.", hint="Pass num_subvectors."
            )
        if size % check_count("num_subvectors", parts, least=1):
            raise InvalidArgumentError(
                f"dimension ({size}) must be divisible by num_subvectors ({parts}) without "
                "remainder.",
                hint="Pass a number that divides it.",
            )
        return parts


def _settings(ivf: IvfModel, parts: int, bits: int) -> VectorSettings:
    metric = metric_named(ivf.distance_type)
    return VectorSettings(label="IVF_PQ", metric=metric, parts=parts, bits=bits)


def _check_rate(rate: int, each: int, rows: int) -> None:
    if check_count("sample_rate", rate) < 2:
        raise InvalidArgumentError(f"The sample_rate must be an int greater than 1, got {rate}.")
    if rate * each > rows:
        raise InvalidArgumentError(
            f"There are not enough rows in the dataset: a sample rate of {rate} needs "
            f"{rate * each}, got {rows}.",
            hint="Pass a lower sample_rate.",
        )


def _lists(rows: _Floats) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])


def _read(folder: str, names: object) -> list[pa.Table]:
    if not isinstance(names, list) or not names:
        raise InvalidArgumentError(
            "filenames must be a list of strings.", hint="Pass at least one file name."
        )
    readers = [LanceFileReader(f"{folder.rstrip('/')}/{name}") for name in names]
    return [reader.read_all().to_table() for reader in readers]


# ---- `VectorIndexReader`: reads the partitions of a vector index

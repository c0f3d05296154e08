"""Trained models of vector indices: centroids and codebooks.  Names follow ``lance.indices``."""

from __future__ import annotations

from enum import StrEnum
from typing import Self, cast

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api.answer import Answer
from lancekit._file.lance_file import LanceFileReader, LanceFileWriter
from lancekit._format.names import MAIN
from lancekit.errors import CorruptFileError


class IndexFileVersion(StrEnum):
    """File versions of vector indices; lancekit only writes ``V3``."""

    LEGACY = "Legacy"
    V3 = "V3"


class IvfModel:
    """The centroids of partitions.

    Parameters
    ----------
    centroids
        Fixed-size lists, one for each partition.
    distance_type
        The metric of the distances.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancekit.indices import IvfModel
    >>> two = pa.array([[0.0, 0.0], [5.0, 5.0]], pa.list_(pa.float32(), 2))
    >>> _ = IvfModel(two, "l2").save("memory://models/ivf")
    >>> IvfModel.load("memory://models/ivf").num_partitions
    2
    """

    def __init__(self, centroids: pa.FixedSizeListArray, distance_type: str) -> None:
        self.centroids = centroids
        self.distance_type = distance_type

    @property
    def num_partitions(self) -> int:
        """The number of partitions."""
        return len(self.centroids)

    def save(self, uri: str, *, storage_options: dict[str, str] | None = None) -> Answer:
        """Write the model to its own data file; replace an existing file.

        Parameters
        ----------
        uri
            The path or URI of the file.
        storage_options
            Options of the object store, as in `lancekit.dataset`.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        StorageError
            The file cannot be written.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.indices import IvfModel
        >>> one = pa.array([[0.0, 0.0]], pa.list_(pa.float32(), 2))
        >>> IvfModel(one, "cosine").save("memory://models/saved-ivf")
        saved 1 vector as centroids of a model at memory://models/saved-ivf
        """
        metadata = {"distance_type": self.distance_type}
        return _save("centroids", self.centroids, metadata, uri, storage_options)

    @classmethod
    def load(cls, uri: str, *, storage_options: dict[str, str] | None = None) -> Self:
        """Read a model that `save` wrote.

        Parameters
        ----------
        uri, storage_options
            As in `save`.

        Returns
        -------
        IvfModel
            The centroids and the metric.

        Raises
        ------
        NotFoundError
            The file does not exist.
        CorruptFileError
            The file has no such model.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.indices import IvfModel
        >>> one = pa.array([[0.0, 0.0]], pa.list_(pa.float32(), 2))
        >>> _ = IvfModel(one, "cosine").save("memory://models/loaded-ivf")
        >>> IvfModel.load("memory://models/loaded-ivf").distance_type
        'cosine'
        """
        centroids, metadata = _load("centroids", "distance_type", uri, storage_options)
        return cls(centroids, metadata["distance_type"])


class PqModel:
    """The codebook of a product quantization: code words for each subvector.

    Parameters
    ----------
    num_subvectors
        The number of subvectors of a vector.
    codebook
        ``2 ** num_bits`` fixed-size lists with the length of a vector.  Read as one array, they
        contain the words of the first subvector, then of the second, and so on.
    num_bits
        The number of bits of a code.
    """

    def __init__(
        self, num_subvectors: int, codebook: pa.FixedSizeListArray, *, num_bits: int = 8
    ) -> None:
        self.num_subvectors = num_subvectors
        self.num_bits = num_bits
        self.codebook = codebook

    @property
    def dimension(self) -> int:
        """The number of dimensions of a vector."""
        size: int = self.codebook.type.list_size
        return size

    def save(self, uri: str, *, storage_options: dict[str, str] | None = None) -> Answer:
        """Write the model to its own data file; replace an existing file.

        Parameters
        ----------
        uri, storage_options
            As in `IvfModel.save`.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        StorageError
            The file cannot be written.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.indices import PqModel
        >>> words = pa.array([[1.0, 2.0]] * 16, pa.list_(pa.float32(), 2))
        >>> PqModel(2, words, num_bits=4).save("memory://models/saved-pq")
        saved 16 vectors as codebook of a model at memory://models/saved-pq
        """
        metadata = {"num_subvectors": str(self.num_subvectors), "num_bits": str(self.num_bits)}
        return _save("codebook", self.codebook, metadata, uri, storage_options)

    @classmethod
    def load(cls, uri: str, *, storage_options: dict[str, str] | None = None) -> Self:
        """Read a model that `save` wrote.

        Parameters
        ----------
        uri, storage_options
            As in `IvfModel.save`.

        Returns
        -------
        PqModel
            The codebook and its measures.

        Raises
        ------
        NotFoundError
            The file does not exist.
        CorruptFileError
            The file has no such model.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from lancekit.indices import PqModel
        >>> words = pa.array([[1.0, 2.0]] * 16, pa.list_(pa.float32(), 2))
        >>> _ = PqModel(2, words, num_bits=4).save("memory://models/loaded-pq")
        >>> PqModel.load("memory://models/loaded-pq").num_bits
        4
        """
        codebook, metadata = _load("codebook", "num_subvectors", uri, storage_options)
        bits = int(metadata.get("num_bits", "8"))
        return cls(int(metadata["num_subvectors"]), codebook, num_bits=bits)


def _save(
    name: str,
    rows: pa.Array,
    metadata: dict[str, str],
    uri: str,
    storage_options: dict[str, str] | None,
) -> Answer:
    schema = pa.schema([pa.field(name, rows.type)], metadata)
    with LanceFileWriter(uri, schema, storage_options=storage_options) as writer:
        writer.write_batch(pa.record_batch([rows], schema=schema))
    given = {"vectors": len(rows), "part": name, "uri": uri}
    return Answer(call="save", version=0, branch=MAIN, _given=given)


def _load(
    name: str, key: str, uri: str, storage_options: dict[str, str] | None
) -> tuple[pa.FixedSizeListArray, dict[str, str]]:
    table = LanceFileReader(uri, storage_options).read_all().to_table()
    stored = table.schema.metadata or {}
    metadata = {key.decode(): value.decode() for key, value in stored.items()}
    if name not in table.column_names or key not in metadata:
        raise CorruptFileError(f"{uri} lacks the {name} of a model.", hint="Pass a file of save().")
    return cast("pa.FixedSizeListArray", ak.combine_chunks(table.column(name))), metadata

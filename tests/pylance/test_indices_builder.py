"""An index of vectors in steps: what each gives, and that pylance searches what comes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import CorruptFileError, InvalidArgumentError
from lancekit.file import LanceFileReader
from lancekit.indices import IndexFileVersion, IndicesBuilder, IvfModel, PqModel

SIZE = 8


def table(count: int, kind: str = "float32") -> pa.Table:
    values = np.random.default_rng(count).standard_normal((count, SIZE)).astype(kind)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), SIZE)
    rest = pa.concat_arrays([vectors.slice(0, 3), pa.nulls(1, vectors.type), vectors.slice(4)])
    return pa.table({"n": range(count), "v": rest})


@pytest.mark.parametrize(
    ("metric", "kind", "bits"),
    [("l2", "float32", 8), ("cosine", "float16", 8), ("dot", "float64", 4)],
)
def test_an_index_in_steps(tmp_path: Path, metric: str, kind: str, bits: int) -> None:
    uri = str(tmp_path / "t")
    ds = lk.write_dataset(table(600, kind), uri, max_rows_per_file=200)
    builder = IndicesBuilder(ds, "v")
    ivf = builder.train_ivf(3, distance_type=metric, sample_rate=100, fragment_ids=[0, 1])
    assert (ivf.num_partitions, ivf.distance_type) == (3, metric)
    pq = builder.train_pq(ivf, 4, sample_rate=2, num_bits=bits)
    assert (pq.dimension, pq.num_subvectors, len(pq.codebook)) == (SIZE, 4, 1 << bits)
    ivf.save(str(tmp_path / "ivf"))
    pq.save(str(tmp_path / "pq"))
    for one in (lk, lance):
        again = one.indices.IvfModel.load(str(tmp_path / "ivf"))
        assert (again.centroids, again.distance_type) == (ivf.centroids, metric)
        codes = one.indices.PqModel.load(str(tmp_path / "pq"))
        assert (codes.codebook, codes.num_bits) == (pq.codebook, bits)
    fragments = ds.get_fragments()
    names: list[str] = []
    for number, some in enumerate((fragments[:1], fragments[1:])):
        place = f"codes{number}"
        builder.transform_vectors(ivf, pq, str(tmp_path / place), fragments=some)
        names += builder.shuffle_transformed_vectors([place], str(tmp_path), ivf, f"in{number}")
    assert names == ["in0_0.lance", "in1_0.lance"]
    read = LanceFileReader(str(tmp_path / names[1])).read_all().to_table()
    assert read.column_names == ["_rowid", "__ivf_part_id", "__pq_code"]
    assert read.num_rows == 400
    assert (np.diff(read["__ivf_part_id"].to_numpy().astype(int)) >= 0).all()
    builder.load_shuffled_vectors(names, str(tmp_path), ivf, pq)
    q = table(9, kind)["v"].to_pylist()[0]
    nearest: dict[str, Any] = {"column": "v", "q": q, "k": 9, "metric": metric}
    for two in (ds, lance.dataset(uri)):
        exact = two.to_table(columns=["n"], nearest={**nearest, "use_index": False})
        near = {**nearest, "nprobes": 3, "refine_factor": 70}
        found = two.to_table(columns=["n"], nearest=near, fast_search=True)
        assert found["n"].to_pylist() == exact["n"].to_pylist()
    other = IvfModel(ivf.centroids.slice(0, 1), metric)
    with pytest.raises(InvalidArgumentError, match="different models"):
        builder.load_shuffled_vectors(names, str(tmp_path), other, pq)


def test_what_cannot_be(tmp_path: Path) -> None:
    ds = lk.write_dataset(table(60), tmp_path / "t")
    builder = IndicesBuilder(ds, "v")
    with pytest.raises(KeyError):
        IndicesBuilder(ds, "w")
    with pytest.raises(TypeError, match="'n' of type int64"):
        IndicesBuilder(ds, "n")
    with pytest.raises(ValueError, match="not enough rows"):
        builder.train_ivf(2)
    with pytest.raises(ValueError, match="greater than 1"):
        builder.train_ivf(2, sample_rate=1)
    with pytest.raises(ValueError, match="does not exist: 7"):
        builder.train_ivf(2, sample_rate=2, fragment_ids=[7])
    with pytest.raises(NotImplementedError, match="accelerator"):
        builder.train_ivf(2, accelerator="cuda")
    ivf = builder.train_ivf(sample_rate=2)
    assert ivf.num_partitions == round(60**0.5)
    with pytest.raises(ValueError, match=r"must be divisible by num_subvectors .* without"):
        builder.train_pq(ivf, 3, sample_rate=2)
    with pytest.raises(ValueError, match="not enough rows"):
        builder.train_pq(ivf, 2, sample_rate=2)
    pq = builder.train_pq(ivf, sample_rate=2, num_bits=4)
    assert pq.num_subvectors == 1
    with pytest.raises(ValueError, match="non-empty"):
        builder.transform_vectors(ivf, pq, str(tmp_path / "c"), fragments=[])
    with pytest.raises(ValueError, match="list of strings"):
        builder.load_shuffled_vectors([], str(tmp_path), ivf, pq)
    ivf.save(str(tmp_path / "ivf"))
    with pytest.raises(CorruptFileError, match="lacks the codebook"):
        PqModel.load(str(tmp_path / "ivf"))
    assert IndexFileVersion.V3 == "V3"

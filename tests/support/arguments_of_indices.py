"""Checks of the arguments of indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import lancekit as lk
from lancekit.dataset import VectorIndexReader
from lancekit.indices import IndexConfig
from tests.support.argument_checks import Hint, Keywords, Method, Refused, Value, fresh, place

__all__ = ["INDICES"]

UUID = "00000000-0000-4000-8000-000000000001"


def _told(ds: lk.LanceDataset) -> list[dict[str, Any]]:
    """Return what is told of the indices, without what differs from one time to the next."""
    return [
        {**index, "uuid": index["uuid"] if index["uuid"] == UUID else ""}
        for index in ds.list_indices()
    ]


def _indexed(**arguments: Any) -> Any:
    ds = fresh()
    ds.create_scalar_index("id", "BTREE")
    ds.create_scalar_index(**arguments)
    return ds.version, _told(ds)


def _of_vectors(**arguments: Any) -> Any:
    numbers = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 4)
    ds = lk.write_dataset({"id": range(60), "v": column}, place())
    ds.create_scalar_index("id", "BTREE", name="taken")
    ds.create_index(**arguments)
    nearest = {"column": "v", "q": [0.1, 0.2, 0.3, 0.4], "k": 20, "nprobes": 1}
    reader = VectorIndexReader(ds, ds.list_indices()[-1]["name"])
    codes = [
        reader.read_partition(one, with_vector=True).to_pydict()
        for one in range(reader.num_partitions())
    ]
    return ds.version, _told(ds), codes, ds.to_table(["id"], nearest=nearest).to_pydict()


def _of_two() -> lk.LanceDataset:
    numbers = np.arange(64, dtype=np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 4)
    ds = lk.write_dataset({"v": column, "w": column}, place())
    ds.create_index("v", "IVF_FLAT", name="one", num_partitions=1)
    return ds.create_index("w", "IVF_FLAT", name="two", num_partitions=2)


def _model(**arguments: Any) -> Any:
    return _of_two().get_ivf_model(**arguments).num_partitions


def _middles(**arguments: Any) -> Any:
    return _of_two().centroids(**arguments).to_pylist()


def _with_two() -> lk.LanceDataset:
    ds = fresh()
    ds.create_scalar_index("id", "BTREE", name="one")
    ds.create_scalar_index("id", "BTREE", name="two")
    return ds


def _part(**arguments: Any) -> Any:
    made = fresh().create_index_uncommitted(**arguments)
    return made.name, made.type_url, str(made.uuid) == UUID


def _merged(**arguments: Any) -> Any:
    ds = fresh()
    part = ds.create_index_uncommitted("id", "BTREE", fragment_ids=[0])
    return ds.merge_existing_index_segments(**{"segments": [part], **arguments}).name


def _staged(**arguments: Any) -> Any:
    ds = lk.write_dataset({"t": ["late snow"]}, place())
    ds.create_scalar_index("t", "INVERTED", fragment_ids=[0], index_uuid=UUID)
    ds.merge_index_metadata(**{"index_uuid": UUID, **arguments})
    return sorted(file.name for file in ds._snapshot.store.list_tree(f"_indices/{UUID}"))


def _remapped(**arguments: Any) -> Any:
    ds = lk.write_dataset({"id": range(9)}, place(), max_rows_per_file=3)
    ds.create_scalar_index("id", "BTREE")
    ds.delete("id = 4")
    ds.optimize.compact_files(defer_index_remap=True)
    moved = ds.remap_row_addrs(**arguments)
    return None if moved is None else moved.to_pylist()


def _committed(**arguments: Any) -> Any:
    ds = fresh()
    part = ds.create_index_uncommitted("id", "BTREE", fragment_ids=[0])
    return _told(ds.commit_existing_index_segments(**{"segments": [part], **arguments}))


def _statistics(**arguments: Any) -> Any:
    return {**_with_two().index_statistics(**arguments), "updated_at_timestamp_ms": None}


def _stats(**arguments: Any) -> Any:
    return {**_with_two().stats.index_stats(**arguments), "updated_at_timestamp_ms": None}


def _dropped(**arguments: Any) -> Any:
    ds = _with_two()
    ds.drop_index(**arguments)
    return _told(ds)


def _optimized(**arguments: Any) -> Any:
    ds = fresh()
    ds.create_scalar_index("id", "BTREE", index_uuid=UUID)
    ds.insert({"id": [7]})
    ds.optimize.optimize_indices(**arguments)
    covered = [list(index["fragment_ids"]) for index in ds.list_indices()]
    return covered, [index["version"] for index in ds.list_indices()]


def _prewarmed(**arguments: Any) -> Any:
    ds = fresh()
    ds.create_scalar_index("id", "BTREE", index_uuid=UUID)
    return ds.prewarm_index(**arguments)


INDICES = {
    "LanceDataset.prewarm_index": Method(
        _prewarmed,
        {
            "name": Refused("nothing", "nothing"),
            "with_position": Refused(True, "positions"),
            "index_segments": Refused(["zz"]),
        },
        {"name": "id_idx"},
    ),
    "LanceDataset.create_scalar_index": Method(
        _indexed,
        {
            "column": Refused("nothing"),
            "index_type": Value(IndexConfig("bitmap")),
            "name": Value("mine"),
            "replace": Refused(False),
            "train": Value(False),
            "fragment_ids": Refused([0]),
            "index_uuid": Value(UUID),
            "progress_callback": Refused(3),
            "format_version": Refused(3),
            "document_granularity": Refused("list_element"),
            "kwargs": Keywords("nonsense", 1),
        },
        {"column": "id", "index_type": "BTREE"},
    ),
    "LanceDataset.create_index": Method(
        _of_vectors,
        {
            "column": Refused("nothing"),
            "index_type": Refused("IVF_RQ", "IVF_RQ"),
            "name": Value("mine"),
            "metric": Value("cosine"),
            "replace": Refused("perhaps"),
            "num_partitions": Value(2),
            "ivf_centroids": Value(np.eye(4).tolist()),
            "pq_codebook": Value(
                np.arange(1024.0).reshape(2, 256, 2).tolist(), {"ivf_centroids": np.eye(4).tolist()}
            ),
            "num_sub_vectors": Value(4),
            "accelerator": Refused("cuda"),
            "index_cache_size": Hint(1, "x"),
            "shuffle_partition_batches": Hint(1, "x"),
            "shuffle_partition_concurrency": Hint(1, "x"),
            "ivf_centroids_file": Refused("file"),
            "precomputed_partition_dataset": Refused("file"),
            "storage_options": Hint({}, 1),
            "filter_nan": Hint(True, "x"),
            "train": Value(False),
            "fragment_ids": Refused([0]),
            "index_uuid": Value(UUID),
            "target_partition_size": Value(10),
            "streaming_sample_rate": Hint(1, "x"),
            "streaming_coreset_rate": Hint(1, "x"),
            "streaming_refine_passes": Hint(1, "x"),
            "skip_transpose": Hint(False, "x"),
            "progress_callback": Refused(3),
            "num_bits": Value(4),
            "max_iters": Hint(1, "x"),
            "sample_rate": Hint(1, "x"),
            "index_file_version": Hint("V3", "x"),
            "rabitq_model": Refused("model"),
        },
        {"column": "v", "index_type": "IVF_PQ", "num_sub_vectors": 2},
    ),
    "DatasetOptimizer.optimize_indices": Method(
        _optimized,
        {
            "num_indices_to_merge": Value(0),
            "index_names": Value([]),
            "retrain": Value(True),
            "kwargs": Keywords("nonsense", 1),
        },
    ),
    "LanceDataset.create_index_uncommitted": Method(
        _part,
        {
            "column": Refused("nothing"),
            "index_type": Value("BITMAP"),
            "name": Value("mine"),
            "fragment_ids": Refused([77], "no fragment 77"),
            "index_uuid": Value(UUID),
            "kwargs": Keywords("nonsense", 1),
        },
        {"column": "id", "index_type": "BTREE", "fragment_ids": [0]},
    ),
    "LanceDataset.merge_existing_index_segments": Method(_merged, {"segments": Refused([1])}),
    "LanceDataset.merge_index_metadata": Method(
        _staged,
        {
            "index_uuid": Refused("00000000-0000-4000-8000-000000000002"),
            "index_type": Refused("BTREE", "BTREE"),
            "batch_readhead": Hint(1, "x"),
            "progress_callback": Refused(print),
        },
        {"index_type": "INVERTED"},
    ),
    "LanceDataset.remap_row_addrs": Method(
        _remapped,
        {"addrs": Value(pa.array([1 << 32, 5], pa.uint64()))},
        {"addrs": pa.array([0], pa.uint64())},
    ),
    "LanceDataset.commit_existing_index_segments": Method(
        _committed,
        {
            "index_name": Value("mine"),
            "column": Refused("nothing"),
            "segments": Refused([1]),
        },
        {"index_name": "one", "column": "id"},
    ),
    "LanceDataset.index_statistics": Method(
        _statistics,
        {"index_name": Value("two")},
        {"index_name": "one"},
    ),
    "LanceStats.index_stats": Method(
        _stats,
        {"index_name": Value("two")},
        {"index_name": "one"},
    ),
    "LanceDataset.get_ivf_model": Method(
        _model, {"index_name": Value("two")}, {"index_name": "one"}
    ),
    "LanceDataset.centroids": Method(
        _middles,
        {"index_name": Value("two"), "column": Value("w", {"index_name": None})},
        {"index_name": "one"},
    ),
    "LanceDataset.drop_index": Method(_dropped, {"name": Value("two")}, {"name": "one"}),
}

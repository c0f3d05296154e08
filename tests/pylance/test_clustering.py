"""Clusters of vectors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancekit.util import KMeans


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_clusters(metric: str) -> None:
    rng = np.random.default_rng(0)
    middles = np.eye(4, dtype=np.float32) * 9
    owners = np.arange(4).repeat(50)
    rows = (middles[owners] + rng.standard_normal((200, 4)) / 9).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 4)
    clusters = KMeans(4, metric)
    assert clusters.centroids is None
    with pytest.raises(ValueError, match="no clusters yet"):
        clusters.predict(rows)
    clusters.fit(rows)
    found = clusters.predict(lists)
    assert found.type == pa.uint32()
    # rows of one middle are in one cluster
    assert len(set(zip(found.to_pylist(), owners.tolist(), strict=True))) <= 5
    assert clusters.centroids.type.shape == [4]
    again = KMeans(4, metric, centroids=clusters.centroids.storage)
    assert again.predict(rows) == found
    assert repr(again) == f"KMeans(k=4, metric_type={metric})"


def test_what_are_no_vectors() -> None:
    clusters = KMeans(2)
    for wrong, told in (
        (pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((9, 2, 2), "f4")), "1-D array"),
        (pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((9, 2))), "got: double"),
        (np.zeros((9, 2)), "2-D array of float32"),
        (np.zeros((1, 2), "f4"), "1 rows are too few for 2 clusters"),
    ):
        with pytest.raises(ValueError, match=told):
            clusters.fit(wrong)


def test_given_centroids_are_compared_by_their_direction() -> None:
    long = pa.FixedSizeListArray.from_arrays(pa.array([100.0, 0.0, 0.0, 1.0], pa.float32()), 2)
    clusters = KMeans(2, "cosine", centroids=long)
    assert clusters.predict(np.array([[1.0, 0.9], [0.1, 1.0]], np.float32)).to_pylist() == [0, 1]

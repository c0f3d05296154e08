"""How a merge on Spark finds its keys, chosen by what would come to the driver."""

from __future__ import annotations

import pytest

from lancekit._pipeline.merge_strategy import choose_match, collects_keys


@pytest.mark.parametrize(
    ("source_rows", "target_rows", "most", "lent", "strategy"),
    [
        (100_000, 10**9, 64 << 20, 0, "closure"),
        (5_000_000, 10**9, 64 << 20, 0, "file"),
        (100_000_000, 10**9, 64 << 20, 0, "shuffle"),
        (100_000_000, 1_000_000, 64 << 20, 0, "broadcast"),
        # a small table whose rows go along is not small
        (100_000_000, 1_000_000, 64 << 20, 3072, "shuffle"),
        # spark.driver.maxResultSize allows less
        (5_000_000, 10**9, 1 << 20, 0, "shuffle"),
        (5_000_000, 1_000_000, 1 << 20, 0, "shuffle"),
        (5_000_000, 10_000, 1 << 20, 0, "broadcast"),
    ],
)
def test_what_comes_to_the_driver_is_bounded(source_rows, target_rows, most, lent, strategy):
    plan = choose_match(
        engine="spark",
        source_rows=source_rows,
        key_bytes=8 * source_rows,
        target_rows=target_rows,
        most_key_bytes=most,
        update_bytes=lent,
    )
    assert plan.strategy == strategy


@pytest.mark.parametrize(
    ("width", "strategy"), [(8, "file"), (8.125, "file"), (16, "shuffle"), (44, "shuffle")]
)
def test_long_keys_stay_where_they_are(width, strategy):
    """They are in this process twice before tasks have them."""
    rows = 3_000_000
    size, most = int(width * rows), 256 << 20
    assert collects_keys(rows, size, most) == (strategy == "file")
    plan = choose_match(
        engine="spark",
        source_rows=rows,
        key_bytes=size,
        target_rows=10**9,
        most_key_bytes=most,
    )
    assert plan.strategy == strategy

"""Requests to an object store of each operation: ``python -m benchmarks.cluster_requests``.

Tables of few and of many fragments tell what an operation asks for once, and for each fragment.
The files are small: a file sends one request more for each 8 MiB, and reads one for about as much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lancekit as lk
from benchmarks.markdown import table
from tests.support.s3 import S3Server, s3_server

__all__ = ["measure"]

#: fragments of both tables, and the rows of a fragment
FEW, MANY, ROWS = 8, 24, 20_000


def _frame(spark: Any, start: int, stop: int, parts: int, value: str) -> Any:
    rows = spark.range(start, stop, 1, parts)
    return rows.selectExpr("id", f"{value} AS v", "concat('name ', id) AS name")


def _counts(spark: Any, server: S3Server, fragments: int) -> dict[str, int]:
    """Return the requests of each operation on a table of so many fragments."""
    uri = f"s3://{server.bucket}/{fragments}"
    stored, rows = {"storage_options": server.storage_options}, fragments * ROWS

    def write() -> object:
        frame = _frame(spark, 0, rows, fragments, "id")
        return lk.write_dataset(frame, uri, max_rows_per_file=ROWS, **stored)

    def merge() -> object:
        rows_of_all = _frame(spark, 0, rows, fragments, "-id").where("id % 2 = 0")
        ds = lk.dataset(uri, **stored)
        merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return merge.execute(rows_of_all)

    work: dict[str, Callable[[], object]] = {
        "write": write,
        "merge": merge,
        "compact": lambda: lk.dataset(uri, **stored).optimize.compact_files(
            target_rows_per_fragment=ROWS
        ),
        "index": lambda: lk.dataset(uri, **stored).create_scalar_index("id", "BTREE"),
        "read": lambda: lk.dataset(uri, **stored).to_spark().count(),
    }
    found = {}
    for name, run in work.items():
        server.log.clear()
        # each partition of the tests has few bytes, and is to be a fragment all the same
        with lk.options(engine="spark", target_file_bytes=0, merge_match="shuffle"):
            run()
        found[name] = len(server.log)
    return found


def measure() -> dict[str, tuple[float, float]]:
    """Return the requests of each operation: once, and for each fragment."""
    spark = lk.spark_session(master="local[2]", memory="1g")
    with s3_server("cluster") as server:
        few, many = (_counts(spark, server, number) for number in (FEW, MANY))
    lk.stop_spark()
    each = {name: (many[name] - few[name]) / (MANY - FEW) for name in few}
    return {name: (few[name] - FEW * each[name], each[name]) for name in few}


if __name__ == "__main__":
    lines = [[name, f"{once:.0f}", f"{each:.1f}"] for name, (once, each) in measure().items()]
    print(table(["", "once", "for each fragment"], lines))

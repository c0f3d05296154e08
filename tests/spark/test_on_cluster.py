"""Spark tests once more on a cluster of Spark's own: other processes, and no setting of lancekit's.

Every operation is among them; at full length (``--whole``) they are all that can run there.
"""

from __future__ import annotations

import sys

import pytest

from lancekit._spark.session.java import find_java
from tests.spark.programs import run_spark_tests

pytestmark = [pytest.mark.classic, pytest.mark.over_connect, pytest.mark.torture]

FOLDER = "tests/spark"
CHOSEN = [
    "test_equivalence.py::test_a_tour_of_all_operations",
    "test_file_sizes.py::test_a_merge_of_few_rows_adds_one_file[row-ids]",
    "test_file_sizes.py::test_spark_writes_of_the_source_are_joined_too",
]


def test_the_spark_tests_on_a_cluster(cluster: str, whole: bool) -> None:
    some = [FOLDER] if whole else [f"{FOLDER}/{name}" for name in CHOSEN]
    java = {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    run_spark_tests(some, cluster, whole=whole, PYSPARK_PYTHON=sys.executable, **java)

"""The two of the cluster, alone."""

import sys
import pytest
from lancekit.spark.session.java import find_java
from tests.spark.programs import run_spark_tests

pytestmark = [pytest.mark.classic]


@pytest.mark.parametrize(
    "one",
    [
        "tests/spark/test_bounded_batches.py",
        "tests/spark/test_equivalence.py::test_a_tour_of_all_operations",
    ],
)
def test_two(cluster, one):
    java = {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    run_spark_tests([one], cluster, whole=True, PYSPARK_PYTHON=sys.executable, **java)

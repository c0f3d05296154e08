"""Spark finds ``format("lance")`` by itself, in a session of somebody else's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lancekit._spark.session.java import find_java
from tests.spark.programs import run
from tests.support.quick_spark import INTERPRETED

pytestmark = [pytest.mark.classic, pytest.mark.spark]

SESSION = """
import json, sys, warnings
from pyspark.sql import SparkSession
warnings.simplefilter("ignore")
place = sys.argv[1]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name, value in json.loads(sys.argv[3]).items():
    builder = builder.config(name, value)
spark = builder.config("spark.sql.warehouse.dir", sys.argv[2]).getOrCreate()
spark.sparkContext.setLogLevel("OFF")

spark.range(10).write.format("lance").mode("append").save(place)
assert spark.read.format("lance").load(place).count() == 10
assert spark.newSession().read.format("lance").load(place).count() == 10
spark.sql(f"CREATE TEMPORARY VIEW v USING lance OPTIONS (path '{place}')")
assert spark.sql("SELECT sum(id) FROM v").collect()[0][0] == 45
spark.sql(f"CREATE TABLE t USING lance OPTIONS (path '{place}')")
spark.sql(f"INSERT INTO t WITH (`path` = '{place}') VALUES (10)")
rows = spark.sql(f"SELECT count(*) FROM t WITH (`path` = '{place}')").collect()
assert rows[0][0] == 11, rows
assert "lancekit" not in sys.modules

import lancekit as lk
session = lk.spark_session()
assert session.read.format("lance").option("filter", "id > 8").load(place).count() == 2
"""


def test_without_a_word_of_lancekit(tmp_path: Path) -> None:
    java = {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    root = str(Path(__file__).parents[2])
    places = str(tmp_path / "table"), str(tmp_path / "warehouse")
    run(
        SESSION,
        *places,
        json.dumps(INTERPRETED),
        PYSPARK_PYTHON=sys.executable,
        PYTHONPATH=root,
        **java,
    )


def test_who_uses_another_source_loads_no_lancekit() -> None:
    program = "import pyspark_lancekit, sys; sys.exit('lancekit' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

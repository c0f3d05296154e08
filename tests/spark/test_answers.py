"""Answers of tasks that are larger than Spark takes: in a session that allows few."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancekit as lk
from lancekit._pipeline.write_rows import WriteTarget
from lancekit._spark.jobs.collect import AnswerRoom, read_answers
from lancekit._storage.places import open_store
from lancekit.errors import CorruptFileError
from tests.spark.programs import run

pytestmark = [pytest.mark.classic, pytest.mark.spark]

#: what each task may answer is far below what the tasks of each operation have to say
PROGRAM = """
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import lancekit as lk
from lancekit.errors import EngineError
from lancekit._spark.frames.runner import SparkRunner

place, remote = sys.argv[1:3]
where = {"remote": remote} if remote else {"master": "local[2,4]"}
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
spark = lk.spark_session(
    memory="1g",
    config={"spark.driver.maxResultSize": "300k", "spark.driver.extraJavaOptions": JAVA},
    **where,
)
ROWS = 400_000
ids = np.random.default_rng(1).permutation(ROWS)
ds = lk.write_dataset({"id": ids, "v": np.zeros(ROWS, "i8")}, place, max_rows_per_file=ROWS // 2)


def upsert(rows, match):
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with lk.options(merge_match=match):
        return merge.execute(rows)


def files():
    return {path.name for path in Path(place, "data").iterdir()}


new = spark.range(0, ROWS + 1000).selectExpr("id", "1L as v")
before = files()
try:
    upsert(new, "closure")
except EngineError as error:
    assert "The keys of 401,000 rows have" in error.message, error
    assert "spark.driver.maxResultSize allows (307,200). Nothing was written." in error.message
    assert '"7m"' in error.hint, error.hint
assert (files(), ds.version) == (before, 1)
result = upsert(new, "auto")  # which leaves keys where they are that cannot come here
assert result.match.strategy == "shuffle", result.match
assert (result.num_updated_rows, result.num_inserted_rows) == (ROWS, 1000), dict(result)
assert ds.count_rows("v = 1") == ROWS + 1000
few = spark.range(0, 20).selectExpr("id", "2L as v")
assert upsert(few, "closure").num_updated_rows == 20
with lk.options(engine="spark"):
    assert ds.delete("id % 2 = 1").num_deleted_rows == (ROWS + 1000) // 2

# whatever a task says, and without a place for it
found = SparkRunner(ds._snapshot.store).map(bytes, [100_000] * 8)
assert [len(part) for part in found] == [100_000] * 8
try:
    SparkRunner().map(bytes, [100_000] * 8)
except EngineError as error:
    assert "spark.driver.maxResultSize" in str(error), error
"""


@pytest.mark.torture
@pytest.mark.parametrize("remote", ["", "local[2,4]"])
def test_large_answers_go_through_files(tmp_path: Path, remote: str, whole: bool) -> None:
    if remote and not whole:
        pytest.skip("only in a whole run: over Connect a task's answer takes the same way")
    place = str(tmp_path / "d")
    run(PROGRAM, place, remote)
    ds = lk.dataset(place)
    referred = {
        file.path
        for version in range(1, ds.version + 1)
        for fragment in lk.dataset(place, version=version).get_fragments()
        for file in fragment.data_files()
    }
    assert {path.name for path in Path(place, "data").iterdir()} == referred


def test_a_file_of_another_answer_is_not_unpickled(tmp_path: Path) -> None:
    place = WriteTarget(open_store(str(tmp_path)))
    one, other = (AnswerRoom(8, place).answer([text] * 100) for text in "ab")
    assert [*read_answers([one], place)] == [["a"] * 100]
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    file.write_bytes(file.read_bytes().replace(b"b", b"c"))
    with pytest.raises(CorruptFileError, match="was changed after a task of this call wrote"):
        list(read_answers([other], place))

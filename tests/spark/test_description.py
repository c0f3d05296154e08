"""What Spark's own pages call the jobs that lancekit starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._spark.jobs.collect import run_action

pytestmark = pytest.mark.spark


def flights(path: Path) -> lk.LanceDataset:
    rows = {"id": range(60), "x": [0.5] * 60}
    return lk.write_dataset(rows, str(path / "flights.lance"), max_rows_per_file=20)


def jobs(spark: Any) -> list[tuple[str | None, str | None]]:
    """Return the descriptions and groups of all jobs, the newest first."""
    listed = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [listed.apply(number) for number in range(listed.size())]
    return [(_or_none(job.description()), _or_none(job.jobGroup())) for job in found]


def _or_none(option: Any) -> str | None:
    return str(option.get()) if option.isDefined() else None


@pytest.mark.classic
def test_a_job_says_what_it_is_of(spark: Any, tmp_path: Path) -> None:
    ds = flights(tmp_path)
    with lk.options(engine="spark"):
        ds.delete("id = 7")
        ds.merge_insert("id").when_matched_update_all().execute({"id": [1], "x": [2.5]})
        ds.create_branch("more")
        branch = ds.checkout_version(("more", None))
        branch.create_scalar_index("id", "BTREE")
    told = [description for description, _ in jobs(spark)]
    for words in (
        "lancekit delete flights main:1: finding rows, 1 task",
        "lancekit merge_insert flights main:2: merging",
        "lancekit create_scalar_index flights more:3: indexing, 1 task",
    ):
        assert any(one and one.startswith(words) for one in told), words
    assert all(one == group for one, group in jobs(spark) if one and "flights" in one)


def test_a_frame_that_is_written_first(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, 2.5)], "id long, x double")
    assert lk.write_dataset(frame, tmp_path / "d").count_rows() == 1


@pytest.mark.classic
def test_an_explanation_starts_no_job(spark: Any, tmp_path: Path) -> None:
    ds = flights(tmp_path)
    frame = spark.createDataFrame([(1, 2.5)], "id long, x double")
    before = len(jobs(spark))
    told = ds.merge_insert("id").when_matched_update_all().explain(frame)
    ds.explain.insert(frame)
    assert len(jobs(spark)) == before
    assert told.engine == "spark"
    assert "how keys are matched depends on the number of source rows" in told.notes
    table = pa.table({"id": [1], "x": [2.5]})
    with lk.options(engine="spark"):  # as for rows that are too many for this process
        told = ds.merge_insert("id").when_matched_update_all().explain(table)
    assert len(jobs(spark)) == before
    assert told.engine == "spark"
    wrong = spark.createDataFrame([("a",)], "id string")
    with pytest.raises(lk.errors.SchemaMismatchError):
        ds.merge_insert("id").when_matched_update_all().explain(wrong)
    assert len(jobs(spark)) == before


@pytest.mark.classic
def test_the_group_of_the_user_stays(spark: Any, tmp_path: Path) -> None:
    ds = flights(tmp_path)
    spark.sparkContext.setJobGroup("mine", "my own words")
    try:
        with lk.options(engine="spark"):
            ds.delete("id = 7")
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "my own words"
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        spark.sparkContext.setLocalProperty("spark.job.description", None)
    description, group = jobs(spark)[0]
    assert description
    assert description.startswith("lancekit delete flights main:1")
    assert group == "mine"


def test_words_reach_either_kind_of_session(spark: Any) -> None:
    def words() -> Any:
        if hasattr(spark, "getTags") and ".connect." in type(spark).__module__:
            return spark.getTags()
        return [spark.sparkContext.getLocalProperty("spark.job.description")]

    assert "lancekit: working; 3 tasks" in {
        one.replace(",", ";") for one in run_action(spark, words, detail="3 tasks")
    }

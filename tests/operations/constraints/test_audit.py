"""What commits do to a table with constraints, whoever makes them."""

from __future__ import annotations

import shutil
import warnings
from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._commit.manifest.build import build_manifest
from lancekit._format.operations import Append
from lancekit._operations.checks.constraint_audit import Audit
from lancekit._operations.checks.constraints import PREFIX
from lancekit.errors import (
    ConstraintViolationError,
    InvalidArgumentError,
    PredicateError,
    UnsupportedFeatureError,
)
from tests.support.faults import Faults, injected
from tests.support.forked import at_once

ROWS = pa.table({"id": [1, 2, 3, 4], "x": [1, 2, None, 4], "s": ["a", "b", "c", "d"]})


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    made = lk.write_dataset(ROWS, tmp_path / "d.lance", max_rows_per_file=2)
    made.constraints.add("positive", "x > 0")
    return made


def files(ds: lk.LanceDataset) -> set[str]:
    return {str(path) for path in Path(ds.uri).rglob("*") if path.is_file()}


def raw_append(ds: lk.LanceDataset, rows: pa.Table, **options) -> lk.LanceDataset:
    fragments = lk.fragment.write_fragments(rows, ds.uri, mode="append")
    operation = lk.LanceOperation.Append(fragments)
    return lk.LanceDataset.commit(ds.uri, operation, read_version=ds.version, **options)


BAD = pa.table({"id": [7, 8], "x": [5, -1], "s": ["g", "h"]})
PATCH = pa.table({"id": [2], "x": [-2]})


def _merge(ds: lk.LanceDataset) -> object:
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(pa.table({"id": [1, 9], "x": [-1, 9], "s": ["A", "i"]}))


def _patch(ds: lk.LanceDataset) -> object:
    merge = ds.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
    return merge.execute(PATCH)


WRITES = {
    "append": (lambda ds: ds.insert(BAD), 1),
    "overwrite": (lambda ds: lk.write_dataset(BAD, ds, mode="overwrite"), 1),
    "update": (lambda ds: ds.update({"x": "x - 2"}), 2),
    "merge": (_merge, 1),
    "merge of columns": (_patch, 1),
    "replaced column": (lambda ds: ds.replace_columns({"x": "x - 2"}), 2),
    "raw": (lambda ds: raw_append(ds, BAD), 1),
    "detached": (lambda ds: raw_append(ds, BAD, detached=True), 1),
    "strict": (lambda ds: raw_append(ds, BAD, max_retries=0), 1),
}


@pytest.mark.parametrize("how", WRITES)
def test_rows_that_break_a_constraint_are_refused(ds: lk.LanceDataset, how: str) -> None:
    write, violations = WRITES[how]
    before = files(ds)
    with pytest.raises(ConstraintViolationError, match="'positive'") as caught:
        write(ds)
    facts = caught.value.context
    assert (facts["constraint"], facts["condition"]) == ("positive", "x > 0")
    assert facts["violations"] == violations == len(facts["sample"])
    assert all(row["x"] <= 0 and row["s"] for row in facts["sample"])
    assert lk.dataset(ds.uri).version == 2
    assert lance.dataset(ds.uri).to_table() == ROWS
    if how not in ("raw", "detached", "strict"):  # whose files are the caller's
        assert files(ds) - before == set()


@pytest.mark.parametrize("how", WRITES)
def test_with_a_warning_they_land(ds: lk.LanceDataset, how: str) -> None:
    ds.constraints.drop("positive")
    ds.constraints.add("positive", "x > 0", on_fail="warn")
    with pytest.warns(UserWarning, match="'positive'") as caught:
        WRITES[how][0](ds)
    assert len(caught) == 1
    if how != "detached":
        assert lk.dataset(ds.uri).version == ds.latest_version == 5
        run = lk.dataset(ds.uri).constraints.run()
        assert [result.violations for result in run] == [WRITES[how][1]]


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_what_meets_it_lands(tmp_path: Path, version: str) -> None:
    nested = pa.array(
        [{"q": 1, "r": "a"}, {"q": 2, "r": None}, {"q": None, "r": "c"}, {"q": 4, "r": "d"}]
    )
    rows = ROWS.append_column("p", nested)
    ds = lk.write_dataset(rows, tmp_path / "d", max_rows_per_file=3, data_storage_version=version)
    ds.constraints.add("positive", "x > 0 AND p.q < 10")
    ds.constraints.add("few", "count(*) < 8 AND coalesce(max(p.q), 0) < 10")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.insert(rows.slice(1, 2))
        ds.update({"x": "x + 1"})
        ds.delete("id = 2")
        ds.merge_insert("id").when_matched_update_all().execute(rows)
        ds.add_columns({"y": "x * 2"})
        ds.alter_columns({"path": "s", "name": "t"})
        ds.alter_columns({"path": "x", "data_type": pa.int32()})
        ds.drop_columns(["t"])
        ds.optimize.compact_files()
    assert ds.constraints.run().holds
    with pytest.raises(ConstraintViolationError, match="1 row breaks 'positive'"):
        ds.update({"x": "-1"}, where="id = 1")
    with pytest.raises(ConstraintViolationError, match=r"'few'.*count\(\*\) is 8"):
        ds.insert(rows.drop_columns(["s"]))
    assert lance.dataset(str(tmp_path / "d")).to_table() == ds.to_table()


CHANGES = {
    "drop": lambda ds: ds.drop_columns(["x"]),
    "rename": lambda ds: ds.alter_columns({"path": "x", "name": "y"}),
    "swap": lambda ds: ds.alter_columns({"path": "x", "name": "id"}, {"path": "id", "name": "x"}),
    "overwrite": lambda ds: lk.write_dataset({"id": [1]}, ds, mode="overwrite"),
    "overwrite with text": lambda ds: lk.write_dataset({"x": ["1"]}, ds, mode="overwrite"),
}


@pytest.mark.parametrize("condition", ["x > 0", "sum(x) > 0"])
@pytest.mark.parametrize("how", CHANGES)
def test_a_column_that_a_constraint_names_stays(
    ds: lk.LanceDataset, how: str, condition: str
) -> None:
    ds.constraints.drop("positive")
    ds.constraints.add("about x", condition)
    with pytest.raises(InvalidArgumentError, match=r"'about x'.*ds\.constraints\.drop"):
        CHANGES[how](ds)
    ds.constraints.drop("about x")
    CHANGES[how](ds)


def test_a_column_of_the_same_letters(ds: lk.LanceDataset) -> None:
    ds.constraints.add("large", "X < 100")
    with pytest.raises(
        InvalidArgumentError, match=r"adds a column with the name of a column of .*'large'"
    ):
        ds.add_columns({"X": "-x"})
    with pytest.raises(ConstraintViolationError, match="'large'"):
        ds.insert({"x": [100]})


def test_what_cannot_be_computed(ds: lk.LanceDataset) -> None:
    ds.constraints.add("odd", "10 / id > 0")
    before = files(ds)
    with pytest.raises(PredicateError, match=r"'odd' cannot be computed.*\n.*10 / id") as caught:
        ds.insert({"id": [0]})
    assert caught.value.context["constraint"] == "odd"
    assert files(ds) == before


def test_a_constraint_of_a_newer_release(ds: lk.LanceDataset) -> None:
    key = f"{PREFIX}of tomorrow"
    with pytest.raises(
        UnsupportedFeatureError, match="'of tomorrow' cannot be checked: it has version"
    ):
        ds.update_config({key: '{"version": 2, "condition": {"every": "x"}}'})
    table = lance.dataset(ds.uri)
    for stored in (
        '{"version": 2, "condition": {"every": "x"}}',
        '{"version": 1, "condition": "median(x) > 3", "on_fail": "refuse"}',
        '{"version": 1, "condition": "x > 3", "on_fail": "mend"}',
        '{"version": 1, "condition": 3, "on_fail": "warn"}',
        "[" * 100_000,
        "x > 3",
    ):
        table.update_config({key: stored})
        ds.checkout_latest()
        before = files(ds)
        with pytest.raises(UnsupportedFeatureError, match="'of tomorrow' cannot be checked"):
            ds.insert(ROWS)
        with pytest.raises(UnsupportedFeatureError, match=r"drop it|Drop it"):
            ds.delete("id = 1")
        assert files(ds) - before == set()
        assert ds.to_table().num_rows == 4
        ds.optimize.compact_files()
        ds.update_config({"owner": "ada"})
        (untried,) = [result for result in ds.constraints.run() if result.holds is None]
        assert untried.name == "of tomorrow"
        assert untried.problem
        table = lance.dataset(ds.uri)
    ds.constraints.drop("of tomorrow")
    ds.delete("id = 1")


def test_the_message_shows_a_row_a_line(tmp_path: Path) -> None:
    at = pa.array([datetime(2013, 9, 2, 3, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))
    columns = {f"c{i}": ["long " * 30] * 2 for i in range(9)}
    rows = pa.table({"id": [1, 2], "at": at, **columns, "note": ["a\nb", None], "delay": [-5, 3]})
    ds = lk.write_dataset(rows, tmp_path / "d", primary_key="id")
    with pytest.raises(ConstraintViolationError) as caught:
        ds.constraints.add("plausible", "delay >= 0 AND note IS NOT NULL")
    head, *told, end = str(caught.value).split("\n")
    assert head == "2 rows break 'plausible' (delay >= 0 AND note IS NOT NULL)."
    assert end.startswith("Correct the rows first")
    starts = ["  id = 1, delay = -5, note = 'a\\nb', at = 2013-09-02 03:00:00+00:00, c0 = 'long "]
    starts += ["  id = 2, delay = 3, note = null, at = 2013-09-02 03:00:00+00:00, c0 = 'long "]
    assert len(told) == 2
    assert all(line.startswith(start) for line, start in zip(told, starts, strict=True))
    assert all(len(line) <= 202 for line in told)
    with pytest.raises(ConstraintViolationError, match=r"max\(at\) is 2013-09-02 03:00:00\+00:00"):
        ds.constraints.add("old", "max(at) < TIMESTAMP '2013-01-01 00:00:00'")


def test_rows_that_are_there_may_be_allowed(ds: lk.LanceDataset) -> None:
    with pytest.raises(ConstraintViolationError, match="2 rows break 'large'") as caught:
        ds.constraints.add("large", "x > 2")
    assert caught.value.context["sample"] == ROWS.slice(0, 2).to_pylist()
    with pytest.raises(ConstraintViolationError, match=r"max\(id\) is 4"):
        ds.constraints.add("few", "max(id) < 3")
    assert [one.name for one in ds.constraints.list()] == ["positive"]
    ds.constraints.add("large", "x > 2", existing="allow")
    ds.add_columns({"y": "x"})
    ds.optimize.compact_files()
    ds.insert({"id": [5], "x": [5]})
    # other rows of the fragment, other columns, and the values that they had, are no change
    patch = ds.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
    patch.execute(pa.table({"id": [4, 1], "x": [44, 1]}))
    patch.execute(pa.table({"id": [1], "s": ["A"]}))
    with pytest.raises(ConstraintViolationError, match="1 row breaks 'large'"):
        patch.execute(pa.table({"id": [1, 2, 4], "x": [0, 2, 5]}))
    with pytest.raises(ConstraintViolationError, match="1 row breaks 'large'"):
        ds.update({"s": "'z'"}, where="id = 1")
    ds.delete("id = 1")
    assert [result.violations for result in ds.constraints.run()] == [1, 0]


def test_what_another_library_let_in_can_be_deleted_bit_by_bit(ds: lk.LanceDataset) -> None:
    ds.constraints.add("one row each", "count(DISTINCT id) = count(*)")
    lance.write_dataset(pa.table({"id": [1, 1, -1], "x": [1, 1, -7]}), ds.uri, mode="append")
    ds.checkout_latest()
    run = {result.name: result for result in ds.constraints.run()}
    assert not ds.constraints.run().holds
    assert run["positive"].violations == 1
    assert run["positive"].sample.column("x").to_pylist() == [-7]
    assert run["one row each"].sample.to_pylist() == [{"count(DISTINCT id)": 5, "count(*)": 7}]
    with pytest.raises(ConstraintViolationError, match="'one row each'"):
        ds.insert({"id": [10]})
    with pytest.warns(UserWarning, match="It was broken before"):
        ds.delete("id = -1")
    lk.dataset(ds.uri).delete("id = 1")
    ds.checkout_latest()
    ds.insert({"id": [1]})
    assert ds.constraints.run().holds


def test_a_restore_takes_constraints_along(ds: lk.LanceDataset) -> None:
    lance.write_dataset(pa.table({"id": [5], "x": [-5]}), ds.uri, mode="append")
    ds.checkout_latest()
    ds.restore()
    assert [one.name for one in ds.constraints.list()] == ["positive"]
    with pytest.warns(UserWarning, match="Version 1 did not have the constraint 'positive'"):
        ds.checkout_version(1).restore()
    assert lk.dataset(ds.uri).constraints.list() == ()
    ds.checkout_latest()
    ds.constraints.add("positive", "x > 0")
    with pytest.warns(UserWarning, match="did not have the constraint 'positive'"):
        ds.undo()


def test_branches_and_clones_have_them(ds: lk.LanceDataset, tmp_path: Path) -> None:
    branch = ds.create_branch("b")
    shallow = ds.shallow_clone(tmp_path / "shallow", ds.version)
    deep = ds.deep_clone(tmp_path / "deep", ds.version)
    for other in (branch, shallow, deep):
        assert [one.name for one in other.constraints.list()] == ["positive"]
        with pytest.raises(ConstraintViolationError, match="1 row breaks 'positive'"):
            other.insert(BAD)
        other.insert({"id": [5], "x": [5]})
    branch.constraints.drop("positive")
    branch.insert(BAD)
    run = ds.constraints.run(("b", None))
    assert (run.branch, run.version, run.holds) == ("b", branch.version, False)
    assert ds.constraints.run().holds
    with pytest.raises(ConstraintViolationError):
        ds.insert(BAD)


def test_beside_other_features(tmp_path: Path) -> None:
    """Stable row ids, base paths, a key, blobs, tags, diffs."""
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("x", pa.int64())])
    rows = pa.table({"k": [1, 2, 3], "x": [1, 2, 3]}, schema)
    (tmp_path / "other").mkdir()
    base = lk.DatasetBasePath(str(tmp_path / "other"), name="other")
    blobs = pa.table([*rows.columns, lk.blob_array([b"a", None, b"c"])], ["k", "x", "b"])
    ds = lk.write_dataset(
        blobs.cast(pa.schema([*schema, lk.blob_field("b")])),
        tmp_path / "d",
        primary_key="k",
        enable_stable_row_ids=True,
        initial_bases=[base],
        target_bases=["other"],
    )
    ds.tags.create("first", 1)
    ds.constraints.add("positive", "x > 0")
    ds.constraints.add("one row a key", "count(DISTINCT k) = count(*)")
    assert dict(ds.diff("first").counts)["unchanged"] == 3
    for mode in ("auto", "rewrite_columns"):
        merge = ds.merge_insert("k").when_matched_update_all().write_mode(mode)
        merge.execute(pa.table({"k": [2], "x": [20]}, schema))
        before = files(ds)
        with pytest.raises(ConstraintViolationError, match="1 row breaks 'positive'") as caught:
            merge.execute(pa.table({"k": [1, 2], "x": [1, -2]}, schema))
        assert caught.value.context["sample"] == [{"k": 2, "x": -2}]
        assert files(ds) - before == set()
    with pytest.raises(ConstraintViolationError, match="'one row a key'"):
        ds.insert(rows, target_bases=["other"])
    assert len(list((tmp_path / "other").rglob("*.lance"))) == 1
    lance.write_dataset(pa.table({"k": [4], "x": [-4]}, schema), ds.uri, mode="append")
    ds.checkout_latest()
    assert not ds.constraints.run().holds
    assert ds.constraints.run("first").holds
    assert ds.constraints.run("first").version == 1


def test_branches_that_come_home(tmp_path: Path) -> None:
    """The target's constraints count, whatever the branch has."""
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("x", pa.int64())])
    rows = pa.table({"k": [1, 2, 3], "x": [1, 2, 3]}, schema)
    ds = lk.write_dataset(rows, tmp_path / "d", primary_key="k", enable_stable_row_ids=True)
    branch = ds.create_branch("b")
    branch.insert(pa.table({"k": [10], "x": [-1]}, schema))
    branch.update({"x": "-7"}, where="k = 1")
    ds.constraints.add("positive", "x > 0")
    ds.constraints.add("few", "count(*) < 5")
    before = files(ds)
    for bring in (
        lambda: ds.branches.merge("b"),
        lambda: ds.branches.cherry_pick("b", branch.version),
        lambda: branch.diff(1).apply(ds),
    ):
        with pytest.raises(ConstraintViolationError, match="'positive'"):
            bring()
    assert files(ds) - before == set()
    branch.update({"x": "7"}, where="x < 0")
    ds.branches.merge("b")
    assert ds.constraints.run().holds
    assert lance.dataset(ds.uri).count_rows() == 4


def test_a_constraint_that_came_meanwhile(ds: lk.LanceDataset) -> None:
    """Each change was worked out before the other landed."""
    stale = {name: lk.dataset(ds.uri) for name in ("append", "update", "merge", "drop", "add")}
    ds.constraints.add("few", "count(*) < 7")
    ds.constraints.add("small", "x < 9")
    ds.insert({"id": [6, 7], "x": [6, 7]})
    with pytest.raises(ConstraintViolationError, match=r"'few'.*count\(\*\) is 7"):
        stale["append"].insert({"id": [8]})
    with pytest.raises(ConstraintViolationError, match="1 row breaks 'small'"):
        stale["update"].update({"x": "10"}, where="id = 1")
    merge = stale["merge"].merge_insert("id").when_matched_update_all()
    with pytest.raises(ConstraintViolationError, match="1 row breaks 'small'"):
        merge.execute({"id": [1], "x": [10], "s": ["z"]})
    with pytest.raises(InvalidArgumentError, match="'positive'"):
        stale["drop"].drop_columns(["x"])
    with pytest.raises(ConstraintViolationError, match=r"'fewer'.*count\(\*\) is 6"):
        stale["add"].constraints.add("fewer", "count(*) < 5")
    with pytest.raises(ConstraintViolationError, match="1 row breaks 'smaller'"):
        stale["add"].constraints.add("smaller", "x < 7")


def test_only_what_is_new_is_read(ds: lk.LanceDataset) -> None:
    ds.constraints.add("few", "count(*) < 100")
    old = {path.name for path in (Path(ds.uri) / "data").iterdir()}

    def read(change) -> set[str]:
        record = Faults()
        with lk.options(cache_bytes=0), injected(record):
            change(lk.dataset(ds.uri))
        names = {call.name.rpartition("/")[2] for call in record.calls if "data/" in call.name}
        assert names - old
        return names & old

    assert read(lambda found: found.insert(ROWS)) == set()
    lk.dataset(ds.uri).constraints.add("small", "max(x) < 100")
    assert read(lambda found: found.insert(ROWS)) == old


def test_an_attempt_does_not_read_again_what_it_has_read(ds: lk.LanceDataset) -> None:
    """A commit that lost a race tries the rows that are its own once."""
    fragments = lk.fragment.write_fragments(ROWS, ds.uri, mode="append")
    operation, audit = Append(tuple(fragments)), Audit()

    def attempt() -> None:
        latest = lk.dataset(ds.uri)._snapshot
        built = build_manifest(latest.manifest, operation, timestamp_ns=1)
        audit(latest, built.manifest, operation)

    attempt()
    shutil.move(Path(ds.uri) / "data" / fragments[0].files[0].path, Path(ds.uri) / "elsewhere")
    lk.clear_cache()
    ds.insert({"id": [9], "x": [9]})
    attempt()
    ds.constraints.add("new", "x < 10")
    with pytest.raises(lk.errors.CorruptFileError, match=fragments[0].files[0].path):
        attempt()


APPEND = """
import sys, lancekit as lk
uri, name = sys.argv[1:]
for turn in range(12):
    try:
        lk.write_dataset({"id": [1000 * int(name) + turn], "x": [1]}, uri, mode="append")
        print("landed")
    except lk.errors.ConstraintViolationError:
        print("refused")
"""
ADD = """
import sys, lancekit as lk
for turn in range(16):
    try:
        lk.dataset(sys.argv[1]).constraints.add(f"at most {turn}", f"count(*) <= {turn}")
        print("added")
    except lk.errors.ConstraintViolationError:
        print("refused")
"""


def test_writers_at_once_keep_a_condition_of_the_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    with lk.options(fsync=False):
        ds = lk.write_dataset(ROWS.select(["id", "x"]), uri)
    ds.constraints.add("at most", "count(*) <= 20 AND sum(x) FILTER (WHERE id >= 1000) <= 16")
    ended = at_once([(APPEND, uri, name) for name in "12"])
    assert not any(error for _, error in ended), ended
    landed = [word for said, _ in ended for word in said.split()]
    assert (landed.count("landed"), len(landed)) == (16, 24)
    found = lk.dataset(uri)
    assert (found.count_rows(), found.version) == (20, 18)
    assert found.constraints.run().holds


def test_constraints_and_rows_at_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    lk.write_dataset({"id": [1], "x": [1]}, uri)
    (landed, wrong), (there, as_well) = at_once([(APPEND, uri, "1"), (ADD, uri)])
    assert not wrong + as_well, wrong + as_well
    found = lk.dataset(uri)
    assert found.count_rows() == 1 + landed.count("landed")
    assert len(found.constraints.list()) == there.count("added")
    assert found.constraints.run().holds
    for version in found.version_refs():
        assert found.checkout_version(version["version"]).constraints.run().holds


@pytest.mark.spark
def test_writes_on_spark_and_streams(spark, tmp_path: Path) -> None:
    place = tmp_path / "d"
    lk.write_dataset({"id": [1, 2]}, place).constraints.add("small", "id < 100")
    before = files(lk.dataset(place))
    with pytest.raises(ConstraintViolationError, match="5 rows break 'small'"):
        lk.write_dataset(spark.range(95, 105), place, mode="append")
    sink = lk.stream_sink(place, query="q")
    with pytest.raises(ConstraintViolationError, match="1 row breaks 'small'"):
        sink(spark.range(100, 101), 0)
    with pytest.raises(ConstraintViolationError, match="1 row breaks 'small'"):
        lk.dataset(place).merge_insert("id").when_not_matched_insert_all().execute(
            spark.range(99, 101)
        )
    assert files(lk.dataset(place)) == before
    assert sink(spark.range(7, 8), 0)
    assert not sink(spark.range(100, 101), 0)
    with pytest.raises(Exception, match="1 row breaks 'small'"):
        spark.range(100, 101).write.format("lance").mode("append").save(str(place))
    assert lk.dataset(place).to_table().column("id").to_pylist() == [1, 2, 7]

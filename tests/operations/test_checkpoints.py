"""Functions that make columns, and the file that keeps their results until they have landed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError


class Interrupted(Exception):
    pass


class Double:
    """Doubles `x`, counts its rows, and gives up after some; neither is a part of it."""

    def __init__(self, most: int | None = None) -> None:
        self.rows = 0
        self.most = most

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __call__(self, batch: pa.RecordBatch) -> Any:
        if self.most is not None and self.rows >= self.most:
            raise Interrupted
        self.rows += batch.num_rows
        return {"y": pc.multiply(batch["x"], 2)}


class Triple(Double):
    def __call__(self, batch: pa.RecordBatch) -> Any:
        super().__call__(batch)
        return {"y": pc.multiply(batch["x"], 3)}


SCHEMA = pa.schema({"y": pa.int64()})


def make(path: Path) -> lk.LanceDataset:
    return lk.write_dataset({"x": range(1000)}, path / "t", max_rows_per_file=300)


def add(ds: lk.LanceDataset, function: Any, file: Path, version: str | None = None) -> None:
    ds.add_columns(lk.batch_udf(SCHEMA, file, version)(function), batch_size=100)


def test_a_second_attempt_goes_on(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept.sqlite"
    ds.delete("x % 7 = 3")
    with pytest.raises(Interrupted) as caught:
        add(ds, first := Double(most=400), file)
    assert any(f"results for {first.rows} rows are kept" in n for n in caught.value.__notes__)
    assert ds.version == 2
    assert file.exists()
    add(ds, second := Double(), file)
    assert first.rows + second.rows == ds.count_rows()
    assert 0 < second.rows < 600
    assert not file.exists()
    assert ds.count_rows("y = x * 2") == ds.count_rows()


def test_rows_of_a_newer_version_are_made_again(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept.sqlite"
    with pytest.raises(Interrupted):
        add(ds, Double(most=900), file)
    ds.update({"x": "x + 1000"}, where="x < 50")
    ds.delete("x = 600")
    with pytest.warns(UserWarning, match="starts again\\. It differs in the version of the data"):
        add(ds, again := Double(), file)
    assert again.rows == 999
    assert ds.count_rows("y = x * 2") == ds.count_rows() == 999


def test_rows_that_others_change_meanwhile_are_made_again(tmp_path: Path) -> None:
    """The call starts over on the newer version, with the results of rows that are the same."""
    ds, file = make(tmp_path), tmp_path / "kept.sqlite"
    asked: list[int] = []

    def double(batch: pa.RecordBatch) -> Any:
        asked.append(batch.num_rows)
        if len(asked) == 10:
            lk.dataset(ds.uri).update({"x": "x + 1000"}, where="x < 50")
        return {"y": pc.multiply(batch["x"], 2)}

    add(ds, double, file, version="1")
    assert 10 < len(asked) < 20
    assert ds.count_rows("y = x * 2") == 1000


def test_equal_rows_are_told_apart(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1] * 30}, tmp_path / "t")
    calls = iter(range(100))

    @lk.batch_udf(SCHEMA, checkpoint_file=tmp_path / "kept", version="1")
    def number(batch: pa.RecordBatch) -> Any:
        return {"y": [next(calls)] * batch.num_rows}

    ds.add_columns(number, read_columns=["x"], batch_size=10)
    assert sorted(set(ds.to_table()["y"].to_pylist())) == [0, 1, 2]


def test_without_a_schema_and_on_a_fragment(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept"
    function = lk.batch_udf(checkpoint_file=file)(Double())
    fragment, schema = ds.get_fragments()[0].merge_columns(function)
    assert [f.name() for f in schema.fields()] == ["x", "y"]
    assert len(fragment.files) == 2
    assert file.exists()  # nothing has landed
    ds.add_columns(function)
    assert not file.exists()


def test_columns_that_are_replaced(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept"
    ds.add_columns({"y": "0"})
    with pytest.raises(Interrupted):
        ds.replace_columns(lk.batch_udf(SCHEMA, file)(Double(most=400)), batch_size=100)
    ds.replace_columns(lk.batch_udf(SCHEMA, file)(second := Double()), batch_size=100)
    assert second.rows == 600
    assert not file.exists()
    assert ds.count_rows("y = x * 2") == 1000


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    ds = make(tmp_path)
    (tmp_path / "other").write_bytes(b"no database, but a text" * 100)
    for file in (tmp_path / "other", tmp_path / "nowhere" / "kept", tmp_path):
        with pytest.raises(InvalidArgumentError, match="checkpoint_file"):
            add(ds, Double(), file)
    assert ds.version == 1
    assert len(list((tmp_path / "t" / "data").iterdir())) == 4


SCRIPT = """
import os, signal, sys
import pyarrow as pa, pyarrow.compute as pc
import lancekit as lk

FACTOR = {factor}
calls = 0

def times(values):
    return pc.multiply(values, FACTOR)

def made(offset):
    def function(batch):
        global calls
        calls += 1
        if calls == int(os.environ["KILL"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return {{"y": pc.add(times(batch["x"]), offset)}}
    return function

udf = lk.batch_udf(pa.schema({{"y": pa.int64()}}), "{file}")
lk.dataset("{uri}").add_columns(udf(made({offset})), batch_size=100)
print(calls)
"""


def run(tmp_path: Path, kill: int, factor: int = 2, offset: int = 0) -> Any:
    (tmp_path / "job.py").write_text(
        SCRIPT.format(
            factor=factor,
            offset=offset,
            uri=tmp_path / "t",
            file=tmp_path / "kept",
        )
    )
    return subprocess.run(
        [sys.executable, "job.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path.cwd()), "KILL": str(kill)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_job_that_was_killed_goes_on(tmp_path: Path) -> None:
    ds = make(tmp_path)
    assert run(tmp_path, kill=5).returncode == -signal.SIGKILL
    # another place in the file, and another count, are the same function
    done = run(tmp_path, kill=-5)
    assert (done.returncode, done.stdout, done.stderr) == (0, "6\n", "")
    ds.checkout_latest()
    assert ds.count_rows("y = x * 2") == 1000


@pytest.mark.parametrize(
    ("change", "named"),
    [({"factor": 3}, "the global times"), ({"offset": 1}, "the closure's variable offset")],
)
def test_a_corrected_job_begins_again(tmp_path: Path, change: Any, named: str) -> None:
    ds = make(tmp_path)
    assert run(tmp_path, kill=5).returncode == -signal.SIGKILL
    done = run(tmp_path, kill=-5, **change)
    assert done.stdout == "10\n"
    assert f"starts again. It differs in {named}." in done.stderr
    ds.checkout_latest()
    assert ds.count_rows(f"y = x * {change.get('factor', 2)} + {change.get('offset', 0)}") == 1000


def test_another_version_begins_again(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept"
    with pytest.raises(Interrupted):
        add(ds, Double(most=400), file, version="1")
    with pytest.warns(UserWarning, match=r"It differs in version=\."):
        add(ds, again := Double(), file, version="2")
    assert again.rows == 1000


def test_results_of_an_older_release_are_not_used(tmp_path: Path) -> None:
    import sqlite3

    ds, file = make(tmp_path), tmp_path / "kept"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE results (key BLOB PRIMARY KEY, rows BLOB)")
    with pytest.warns(UserWarning, match="starts again"):
        add(ds, again := Double(), file)
    assert again.rows == 1000


def test_two_calls_with_one_file_keep_their_results_apart(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept"
    calls = iter(range(100))

    def double(batch: pa.RecordBatch) -> Any:
        match next(calls):
            case 2:  # the other call begins the file again
                with pytest.raises(Interrupted):
                    add(lk.dataset(ds.uri), Triple(most=200), file)
            case 8:
                raise Interrupted
        return {"y": pc.multiply(batch["x"], 2)}

    with pytest.warns(UserWarning, match="starts again"), pytest.raises(Interrupted):
        add(ds, double, file, version="double")
    add(ds, triple := Triple(), file)
    assert ds.count_rows("y = x * 3") == 1000
    assert triple.rows == 800


def test_a_file_that_another_call_removed_is_made_again(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept"
    calls = iter(range(100))

    def double(batch: pa.RecordBatch) -> Any:
        if next(calls) in (2, 5):
            file.unlink()
        return {"y": pc.multiply(batch["x"], 2)}

    add(ds, double, file, version="1")
    assert ds.count_rows("y = x * 2") == 1000


def test_what_cannot_be_compared_needs_a_version(tmp_path: Path) -> None:
    ds, file = make(tmp_path), tmp_path / "kept"

    def with_lock(most: int) -> Callable[[pa.RecordBatch], Any]:
        lock, double = threading.Lock(), Double(most)

        def function(batch: pa.RecordBatch) -> Any:
            with lock:
                return double(batch)

        return function

    with (
        pytest.warns(UserWarning, match=r"the closure's variable lock \(lock\) .*version="),
        pytest.raises(Interrupted),
    ):
        add(ds, with_lock(400), file)
    with (
        pytest.warns(UserWarning, match="version="),
        pytest.warns(UserWarning, match="starts again"),
        pytest.raises(Interrupted),
    ):
        add(ds, with_lock(500), file)
    with pytest.warns(UserWarning, match="starts again"), pytest.raises(Interrupted):
        add(ds, with_lock(700), file, version="1")
    add(ds, with_lock(300), file, version="1")  # and the last 300 rows are all that is left

"""Functions that make columns, and the file that keeps their results until they have landed."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError
from lancekit.pipeline.columns.function_identity import Identity, identity_of


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
    with pytest.warns(UserWarning, match=r"begins again\. It differs in the version of the data"):
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
    assert f"begins again. It differs in {named}." in done.stderr
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
    with pytest.warns(UserWarning, match="begins again"):
        add(ds, again := Double(), file)
    assert again.rows == 1000


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
        pytest.warns(UserWarning, match="begins again"),
        pytest.raises(Interrupted),
    ):
        add(ds, with_lock(500), file)
    with pytest.warns(UserWarning, match="begins again"), pytest.raises(Interrupted):
        add(ds, with_lock(700), file, version="1")
    add(ds, with_lock(300), file, version="1")  # and the last 300 rows are all that is left


# ---- what functions are made of


def of_source(text: str) -> Any:
    """Return the function `f` of a module of the user's."""
    module = types.ModuleType("__main__")
    exec(compile(text, "<cell>", "exec"), vars(module))
    function = module.f  # keeps the module's globals
    if isinstance(function, types.FunctionType):
        function.__module__ = "__main__"
    return function


def parts(text: str) -> Identity:
    return identity_of(of_source(text))


SAME = {
    "elsewhere": ("def f(b): return b", "\n\n\n# a remark\ndef f(b): return b"),
    "annotated": ("def f(b): return b", "def f(b: int) -> int: return b"),
    "counting": (
        "n = 0\ndef f(b):\n  global n\n  n += 1\n  return b",
        "n = 7\ndef f(b):\n  global n\n  n += 1\n  return b",
    ),
    "counting in a closure": tuple(
        f"def g(n):\n  def f(b):\n    nonlocal n\n    n += 1\n    return b\n  return f\nf = g({n})"
        for n in (1, 2)
    ),
    "other globals": ("def f(b): return b\nz = 1", "z = 2\ndef f(b): return b"),
    "a set": ("s = {'a', 'b', 'c'}\ndef f(b): return s", "s = {'c', 'b', 'a'}\ndef f(b): return s"),
}

UNLIKE = {
    "code": ("def f(b): return b + 1", "def f(b): return b + 2"),
    "name": ("def f(b): return b.x", "def f(b): return b.y"),
    "type of a number": ("def f(b): return 1", "def f(b): return 1.0"),
    "bool": ("K = 1\ndef f(b): return K", "K = True\ndef f(b): return K"),
    "lambda": ("f = lambda b: b * 2", "f = lambda b: b * 3"),
    "default": ("def f(b, k=1): return b * k", "def f(b, k=2): return b * k"),
    "keyword default": ("def f(b, *, k=1): return b * k", "def f(b, *, k=2): return b * k"),
    "closure": tuple(f"f = (lambda k: lambda b: b * k)({k})" for k in (1, 2)),
    "closure of a function": tuple(
        f"f = (lambda k: lambda b: k(b))(lambda b: b + {k})" for k in "12"
    ),
    "nested": tuple(f"def f(b):\n  def g(x): return x + {k}\n  return g(b)" for k in (1, 2)),
    "helper": tuple(f"def g(x): return x + {k}\ndef f(b): return g(b)" for k in (1, 2)),
    "helper's helper": tuple(
        f"def h(x): return x + {k}\ndef g(x): return h(x)\ndef f(b): return g(b)" for k in (1, 2)
    ),
    "global": tuple(f"K = {k}\ndef f(b): return b + K" for k in (1, 2)),
    "list": tuple(f"K = [[{k}]]\ndef f(b): return b + K[0][0]" for k in (1, 2)),
    "dict": tuple(f"K = {{'a': {k}}}\ndef f(b): return b + K['a']" for k in (1, 2)),
    "array": tuple(
        f"import numpy as np\nK = np.array([{k}])\ndef f(b): return b + K" for k in (1, 2)
    ),
    "callable": tuple(
        f"class C:\n  def __call__(self, b): return b + {k}\nf = C()" for k in (1, 2)
    ),
    "attribute": tuple(
        "class C:\n  def __init__(self, k): self.k = k\n  def __call__(self, b): return b\n"
        f"f = C({k})"
        for k in (1, 2)
    ),
    "slots": tuple(
        f"class C:\n  __slots__ = ('k',)\n  def __init__(self, k): self.k = k\n"
        f"  def __call__(self, b): return b\nf = C({k})"
        for k in (1, 2)
    ),
    "base class": tuple(
        f"class B:\n  def g(self): return {k}\n"
        "class C(B):\n  def __call__(self, b): return self.g()\nf = C()"
        for k in (1, 2)
    ),
    "method": tuple(
        f"class C:\n  def __init__(self, k): self.k = k\n  def g(self, b): return b\nf = C({k}).g"
        for k in (1, 2)
    ),
    "class method": tuple(
        f"class C:\n  @classmethod\n  def g(cls, b): return {k}\ndef f(b): return C.g(b)"
        for k in (1, 2)
    ),
    "partial": tuple(
        f"import functools\nf = functools.partial(lambda b, k: b + k, k={k})" for k in (1, 2)
    ),
    "partial's function": tuple(
        f"import functools\nf = functools.partial(lambda b, k: b + k + {k}, k=1)" for k in (1, 2)
    ),
    "cached": tuple(
        f"import functools\n@functools.cache\ndef g(x): return {k}\ndef f(b): return g(1)"
        for k in (1, 2)
    ),
    "decorated": tuple(
        "import functools\ndef d(g):\n  @functools.wraps(g)\n  def w(b): return g(b)\n  return w\n"
        f"@d\ndef f(b): return b + {k}"
        for k in (1, 2)
    ),
    "dataclass": tuple(
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n  k: int\n"
        f"  def __call__(self, b): return b + self.k\nf = C({k})"
        for k in (1, 2)
    ),
    "what raises": (
        "def f(b):\n  try: return b.x\n  except KeyError: return 0",
        "def f(b):\n  try: return b.x\n  except ValueError: return 0",
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_function(case: str) -> None:
    first, second = SAME[case]
    assert parts(first) == parts(second)
    assert not parts(first).opaque


@pytest.mark.parametrize("case", UNLIKE)
def test_another_function(case: str) -> None:
    first, second = UNLIKE[case]
    assert parts(first) == parts(first)
    assert parts(first) != parts(second)
    assert not parts(first).opaque


def test_functions_that_call_each_other_end() -> None:
    text = "def g(n): return f(n - 1) if n else {0}\ndef f(n): return g(n - 1) if n else {0}"
    assert parts(text.format(1)) == parts(text.format(1)) != parts(text.format(2))


def test_the_users_own_modules_count_with_their_code(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for number in (1, 1, 2):
        (tmp_path / "users_own.py").write_text(f"def embed(x):\n    return x + {number}\n")
        monkeypatch.delitem(sys.modules, "users_own", raising=False)
        importlib.invalidate_caches()
        found.append(
            [
                parts("import users_own\ndef f(b): return users_own.embed(b)"),
                parts("from users_own import embed\ndef f(b): return embed(b)"),
            ]
        )
    assert found[0] == found[1]
    assert all(a != b for a, b in zip(found[0], found[2], strict=True))


def test_packages_count_by_their_version(monkeypatch: Any) -> None:
    text = "import pyarrow as pa, pyarrow.compute as pc\ndef f(b): return pc.add(b, pa.scalar(1))"
    before = parts(text)
    monkeypatch.setattr(pa, "__version__", "0.0.0")
    assert parts(text) != before


def test_what_a_cache_remembers_is_no_part_of_it() -> None:
    @functools.cache
    def known(x: int) -> int:
        return x

    def function(batch: Any) -> int:
        return known(batch)

    before = identity_of(function)
    function(1)
    assert identity_of(function) == before

"""Records of arguments: what calls take, and where each parameter is shown."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any

import griffe
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api.optimizer import CompactionArguments
from lancekit._arguments.checks import check_count
from lancekit._arguments.index import VectorIndexArguments
from lancekit._arguments.record import Arguments, hint, refused, takes
from lancekit._arguments.scan import (
    FragmentFrameArguments,
    FragmentScanArguments,
    FrameArguments,
    ScanArguments,
    SparkArguments,
    scan_arguments,
)
from lancekit._arguments.write import (
    DatasetArguments,
    FragmentsArguments,
    HandleArguments,
    InsertArguments,
    MemWalArguments,
    ShardWriterArguments,
    StreamArguments,
    WriteArguments,
)
from lancekit._checked import checked, checked_methods
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotOfferedError
from lancekit.fragment import write_fragments

ROOT = Path(__file__).parents[2]
#: each call that takes a record
CALLS: dict[str, tuple[Callable[..., Any], type[Arguments]]] = {
    "lk.dataset": (lk.dataset, DatasetArguments),
    "lk.LanceDataset": (lk.LanceDataset, HandleArguments),
    "lk.write_dataset": (lk.write_dataset, WriteArguments),
    "lk.stream_sink": (lk.stream_sink, StreamArguments),
    "lk.fragment.write_fragments": (write_fragments, FragmentsArguments),
    "lk.LanceDataset.insert": (lk.LanceDataset.insert, InsertArguments),
    "lk.optimize.DatasetOptimizer.compact_files": (
        lk.optimize.DatasetOptimizer.compact_files,
        CompactionArguments,
    ),
    "lk.LanceDataset.create_index": (lk.LanceDataset.create_index, VectorIndexArguments),
    "lk.LanceDataset.initialize_mem_wal": (lk.LanceDataset.initialize_mem_wal, MemWalArguments),
    "lk.LanceDataset.mem_wal_writer": (lk.LanceDataset.mem_wal_writer, ShardWriterArguments),
    **{
        f"lk.LanceDataset.{name}": (getattr(lk.LanceDataset, name), ScanArguments)
        for name in ("scanner", "to_table", "to_batches")
    },
    "lk.LanceDataset.to_spark": (lk.LanceDataset.to_spark, SparkArguments),
    "lk.LanceDataset.to_pandas": (lk.LanceDataset.to_pandas, FrameArguments),
    **{
        f"lk.LanceFragment.{name}": (getattr(lk.LanceFragment, name), FragmentScanArguments)
        for name in ("scanner", "to_table", "to_batches")
    },
    "lk.LanceFragment.to_pandas": (lk.LanceFragment.to_pandas, FragmentFrameArguments),
}


class Base(Arguments):
    """What both take.

    Parameters
    ----------
    rows
        How many.
    ahead
        A hint.
    old
        Not offered.
    """

    rows: int
    _: KW_ONLY
    ahead: int | None = hint(default=None, check=check_count)
    old: str = refused(default="none", why="it is old")


class More(Base):
    """What one takes.

    Parameters
    ----------
    name
        What it is called.
    """

    name: str | None = None


@checked_methods
class Shop:
    @takes(More)
    def sell(self, arguments: More) -> More:
        """Sell rows.

        Raises
        ------
        ValueError
            There are none.
        """
        return arguments

    @takes(More, "name")
    def name_first(self, arguments: More) -> More:
        """Sell by name."""
        return arguments


@checked
@takes(Base)
def count(arguments: Base) -> int:
    """Count rows."""
    return arguments.rows


def test_a_call_gets_the_record() -> None:
    sold = Shop().sell(3, "x", ahead=2)
    assert (sold.rows, sold.name, sold.ahead, sold.old) == (3, "x", 2, "none")
    assert sold.given == {"rows": 3, "name": "x", "ahead": 2}
    assert Shop().name_first("x", rows=1).given == {"name": "x", "rows": 1}
    assert count(5) == count(rows=5) == 5


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: Shop().sell(), InvalidTypeError, r"Shop.sell\(\): missing a required argument"),
        (lambda: Shop().sell("3"), InvalidTypeError, "rows must be an integer, got '3'"),
        (
            lambda: Shop().sell(1, nam="x"),
            InvalidTypeError,
            "'nam'. Did you mean name=. It takes rows",
        ),
        (lambda: Shop().sell(1, "x", 2), InvalidTypeError, "too many positional arguments"),
        (lambda: Shop().sell(1, ahead=-1), InvalidArgumentError, "ahead must be .* got -1"),
        (lambda: Shop().sell(1, old="x"), NotOfferedError, r"sell\(old=...\) is not .*: it is old"),
        (lambda: Shop().name_first(1), InvalidTypeError, "missing a required argument: 'rows'"),
        (lambda: count("x"), InvalidTypeError, "rows must be .* got 'x'"),
        (lambda: More(rows=None), InvalidTypeError, "rows must be .* got None"),
        (lambda: scan_arguments({"none": 1}), InvalidTypeError, "has no argument 'none'"),
    ],
)
def test_arguments_are_checked(call: Callable[[], Any], error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        call()


def test_what_asks_for_nothing_is_not_refused() -> None:
    assert Shop().sell(1, old="none", ahead=None).given == {"rows": 1, "old": "none"}
    assert scan_arguments({"row_addr_allowlist": b"", "index_segments": []}).filter is None


def test_records_stay_as_they_are() -> None:
    one = More(1)
    assert one.but(name="x").given == {"rows": 1, "name": "x"}
    assert one.given == {"rows": 1}
    assert one.as_(Base).given == {"rows": 1}
    with pytest.raises(AttributeError, match="create a changed record with `but`"):
        one.rows = 2  # type: ignore[misc]
    assert repr(More(1, name="x")) == "More(rows=1, name='x')"
    for same in (copy.copy(one), pickle.loads(pickle.dumps(one))):
        assert same.given == one.given


def test_the_docstring_has_the_parameters_before_what_comes_later() -> None:
    text = inspect.getdoc(Shop.sell)
    assert text is not None
    order = ["Sell rows.", "Parameters", "rows\n    How many.", "name\n    What it", "Raises"]
    assert [text.index(part) for part in order] == sorted(map(text.index, order))


# ---- where each parameter of lancekit's own calls is shown


def names(call: str) -> set[str]:
    return set(CALLS[call][1].parameters().parameters)


@pytest.mark.parametrize("call", CALLS)
def test_each_parameter_is_shown_by_help(call: str) -> None:
    function, _ = CALLS[call]
    shown = set(inspect.signature(function).parameters) - {"self"}
    assert shown == names(call)
    text = inspect.getdoc(function.__init__ if isinstance(function, type) else function) or ""
    _, _, after = text.partition("Parameters\n----------\n")
    told = {name for line in after.splitlines() for name in line.split(", ") if line[:1] != " "}
    assert names(call) - told == set()


def test_each_parameter_is_shown_by_type_checkers(tmp_path: Path) -> None:
    """What mypy knows of a call is what an editor shows when the mouse is over it."""
    program = tmp_path / "program.py"
    lines = ["import lancekit as lk", *(f"reveal_type({call})" for call in CALLS)]
    program.write_text("\n".join(lines))
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", root / "pyproject.toml", program,
         "--cache-dir", root / ".mypy_cache"],
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    assert len(told) == len(CALLS), done.stdout
    for call, line in zip(CALLS, told, strict=True):
        missing = [name for name in names(call) if f"{name}:" not in line]
        assert missing == [], call


def test_defaults_of_scans() -> None:
    ds = lk.write_dataset(pa.table({"x": [1, 2]}), "memory://record-defaults")
    again = lk.dataset(ds.uri, default_scan_options={"limit": 1})
    assert again.to_table().num_rows == 1
    assert again.to_table(limit=2).num_rows == 2
    with pytest.raises(InvalidTypeError, match="A scan has no argument 'none'"):
        lk.dataset(ds.uri, default_scan_options={"none": 1}).to_table()


@pytest.fixture(scope="module")
def on_the_site() -> Any:
    """What the site shows of the package, which it reads as text."""
    names = griffe.load_extensions(str(ROOT / "docs/_names.py:PublicNames"))
    return griffe.load("lancekit", search_paths=[ROOT], extensions=names)


@pytest.mark.parametrize("name", CALLS)
def test_each_parameter_is_shown_on_the_site(name: str, on_the_site: Any) -> None:
    shown = on_the_site
    for part in name.removeprefix("lk.").split("."):
        shown = shown.all_members[part]
        shown = shown.final_target if shown.is_alias else shown
    shown = shown.all_members["__init__"] if shown.is_class else shown
    function, record = CALLS[name]
    own = inspect.signature(function).parameters.values()
    assert [(one.name, one.kind.value) for one in shown.parameters if one.name != "self"] == [
        (one.name, _KINDS[one.kind]) for one in own if one.name != "self"
    ]
    sections = griffe.parse_numpy(shown.docstring)
    (told,) = [one for one in sections if one.kind.value == "parameters"]
    assert {one.name for one in told.value} == set(record.parameters().parameters)


_KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional or keyword",
    inspect.Parameter.KEYWORD_ONLY: "keyword-only",
}

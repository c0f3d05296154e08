"""Bad input: the right class, the builtin that the reference raises, the facts, the next step."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.commit
import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors

ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int64()), "s": ["a", "b", "c"]})


class Place:
    """A dataset of two versions, with a tag, a branch and a clone."""

    def __init__(self, module: ModuleType, folder: Path) -> None:
        self.m = module
        self.path = str(folder / "d")
        module.write_dataset(ROWS, self.path)
        module.write_dataset(ROWS, self.path, mode="append")
        self.ds = module.dataset(self.path)
        self.ds.tags.create("t", 1)
        self.branch = self.ds.create_branch("b", 1)
        module.write_dataset(ROWS, self.branch, mode="append")
        self.ds.tags.create("on-branch", ("b", 2))
        self.clone = str(folder / "clone")
        self.ds.shallow_clone(self.clone, 1)
        self.new = str(folder / "new")

    def merge(self) -> Any:
        return self.ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()


Fault = Callable[[Place], Any]

#: what goes wrong, and the class that says so
FAULTS: dict[str, tuple[Fault, type[errors.LancekitError]]] = {
    "no dataset": (lambda p: p.m.dataset(p.new), errors.DatasetNotFoundError),
    "no version": (lambda p: p.m.dataset(p.path, version=77), errors.VersionNotFoundError),
    "no tag": (lambda p: p.m.dataset(p.path, version="zz"), errors.TagNotFoundError),
    "checkout version": (lambda p: p.ds.checkout_version(77), errors.VersionNotFoundError),
    "checkout tag": (lambda p: p.ds.checkout_version("zz"), errors.TagNotFoundError),
    "checkout branch": (lambda p: p.ds.checkout_version(("zz", None)), errors.BranchNotFoundError),
    "checkout type": (lambda p: p.ds.checkout_version(1.5), errors.InvalidTypeError),
    "create twice": (lambda p: p.m.write_dataset(ROWS, p.path), errors.DatasetExistsError),
    "mode": (lambda p: p.m.write_dataset(ROWS, p.new, mode="zz"), errors.InvalidArgumentError),
    "extra column": (
        lambda p: p.m.write_dataset(pa.table({"zz": [1]}), p.path, mode="append"),
        errors.SchemaMismatchError,
    ),
    "other type": (
        lambda p: p.m.write_dataset(ROWS.set_column(0, "k", [["x"] * 3]), p.path, mode="append"),
        errors.SchemaMismatchError,
    ),
    "not rows": (lambda p: p.m.write_dataset(42, p.new), errors.InvalidTypeError),
    "two names": (
        lambda p: p.m.write_dataset(pa.table([[1], [2]], names=["a", "a"]), p.new),
        errors.InvalidArgumentError,
    ),
    "unsupported type": (
        lambda p: p.m.write_dataset(
            pa.table({"x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}), p.new
        ),
        errors.UnsupportedTypeError,
    ),
    "column": (lambda p: p.ds.to_table(columns=["zz"]), errors.ColumnNotFoundError),
    "filter syntax": (lambda p: p.ds.to_table(filter="k >>> 3"), errors.PredicateError),
    "filter column": (lambda p: p.ds.to_table(filter="zz > 3"), errors.PredicateError),
    "filter type": (lambda p: p.ds.to_table(filter="s > 3"), errors.PredicateError),
    "filter no condition": (lambda p: p.ds.to_table(filter="k + 3"), errors.PredicateError),
    "count filter": (lambda p: p.ds.count_rows("zz > 1"), errors.PredicateError),
    "take too far": (lambda p: p.ds.take([99]), errors.RowOutOfRangeError),
    "take negative": (lambda p: p.ds.take([-1]), errors.RowOutOfRangeError),
    "limit": (lambda p: p.ds.to_table(limit=-1), errors.InvalidArgumentError),
    "tag name": (lambda p: p.ds.tags.create("a/b", 1), errors.InvalidArgumentError),
    "tag twice": (lambda p: p.ds.tags.create("t", 1), errors.RefConflictError),
    "tag version": (lambda p: p.ds.tags.create("n", 99), errors.VersionNotFoundError),
    "tag update": (lambda p: p.ds.tags.update("zz", 1), errors.TagNotFoundError),
    "tag delete": (lambda p: p.ds.tags.delete("zz"), errors.TagNotFoundError),
    "tag get": (lambda p: p.ds.tags.get_version("zz"), errors.TagNotFoundError),
    "tag order": (lambda p: p.ds.tags.list_ordered("zz"), errors.InvalidArgumentError),
    "branch name": (lambda p: p.ds.create_branch("a//b"), errors.InvalidArgumentError),
    "branch twice": (lambda p: p.ds.create_branch("b"), errors.RefConflictError),
    "branch start": (lambda p: p.ds.create_branch("n", 99), errors.VersionNotFoundError),
    "branch delete": (lambda p: p.ds.branches.delete("zz"), errors.BranchNotFoundError),
    "branch in use": (lambda p: p.ds.branches.delete("b"), errors.RefConflictError),
    "clone target": (lambda p: p.ds.shallow_clone(p.clone, 1), errors.DatasetExistsError),
    "clone version": (lambda p: p.ds.shallow_clone(p.new, 99), errors.VersionNotFoundError),
    "delete column": (lambda p: p.ds.delete("zz > 1"), errors.PredicateError),
    "delete syntax": (lambda p: p.ds.delete("k >>"), errors.PredicateError),
    "delete nothing": (lambda p: p.ds.delete(None), errors.InvalidTypeError),
    "delete empty": (lambda p: p.ds.delete(""), errors.PredicateError),
    "merge key": (lambda p: p.ds.merge_insert("zz"), errors.ColumnNotFoundError),
    "merge no key": (lambda p: p.ds.merge_insert(None), errors.InvalidArgumentError),
    "merge no clause": (
        lambda p: p.ds.merge_insert("k").execute(ROWS),
        errors.InvalidArgumentError,
    ),
    "merge extra column": (
        lambda p: p.merge().execute(ROWS.append_column("zz", [[1, 2, 3]])),
        errors.SchemaMismatchError,
    ),
    "merge duplicates": (
        lambda p: p.merge().execute(pa.table({"k": [1, 1], "s": ["x", "y"]})),
        errors.DuplicateKeysError,
    ),
    "merge fail": (
        lambda p: p.ds.merge_insert("k").when_matched_fail().when_not_matched_insert_all()
        .execute(ROWS.slice(0, 1)),
        errors.MatchedRowsError,
    ),
    "update columns type": (
        lambda p: p.ds.get_fragment(0).update_columns(pa.table({"k": [1], "s": [5]}), "k"),
        errors.SchemaMismatchError,
    ),
    "merge columns": (
        lambda p: p.ds.get_fragment(0).merge_columns({"q": "zz"}),
        errors.PredicateError,
    ),
    "blob column": (lambda p: p.ds.take_blobs("zz", indices=[0]), errors.ColumnNotFoundError),
    "asof too early": (
        lambda p: p.m.dataset(p.path, asof=datetime(2001, 1, 1)),
        errors.VersionNotFoundError,
    ),
}  # fmt: skip


def _raised(fault: Fault, place: Place) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # which one is the question
        fault(place)
    return caught.value


def _content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.filterwarnings("ignore:asof=")
@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str, tmp_path: Path) -> None:
    fault, kind = FAULTS[name]
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    ours = Place(lk, tmp_path / "ours")
    before = _content(tmp_path / "ours")
    raised = _raised(fault, ours)
    assert type(raised) is kind
    assert _content(tmp_path / "ours") == before, "something was written"
    theirs = _raised(fault, Place(lance, tmp_path / "theirs"))
    builtin = next(c for c in type(theirs).__mro__ if c.__module__ == "builtins")
    assert isinstance(raised, builtin), f"the reference raises {builtin.__name__}"
    again = pickle.loads(pickle.dumps(raised))
    assert (str(again), again.context.keys()) == (str(raised), raised.context.keys())


#: words that a caller of the reference looks for in a message
WORDS = {
    "no dataset": "Dataset at path .* was not found",
    "no version": "was not found",
    "checkout version": "was not found",
    "no tag": "does not exist",
    "tag delete": "does not exist",
    "branch delete": "does not exist",
    "tag twice": "already exists",
    "create twice": "already exists",
    "merge key": "'zz' does not exist",
}


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str, tmp_path: Path) -> None:
    for module, folder in ((lk, "ours"), (lance, "theirs")):
        (tmp_path / folder).mkdir()
        raised = _raised(FAULTS[name][0], Place(module, tmp_path / folder))
        assert re.search(WORDS[name], str(raised)), folder


@pytest.mark.parametrize("arguments", [(), ("m",), ("m", True), ("m", False)])
def test_a_conflict_that_a_custom_lock_raises(arguments: tuple[Any, ...]) -> None:
    theirs = lance.commit.CommitConflictError(*arguments)
    ours = errors.CommitConflictError(*arguments)
    assert ours.retryable == theirs.retryable == pickle.loads(pickle.dumps(ours)).retryable
    assert str(theirs) in str(ours)
    assert not errors.CommitConflictError("m", retryable=False).retryable


def _is_public(kind: Any) -> bool:
    mine = isinstance(kind, type) and kind.__module__ == errors.__name__
    return mine and not kind.__name__.startswith("_")


def test_every_class_is_a_builtin_too() -> None:
    kinds = set()
    public = {name: kind for name, kind in vars(errors).items() if _is_public(kind)}
    assert sorted(public) == sorted(errors.__all__)
    for name, kind in public.items():
        assert issubclass(kind, errors.LancekitError)
        assert kind.kind not in kinds, f"{kind.kind} names two classes"
        kinds.add(kind.kind)
        assert kind.kind.replace("_", "") == name.removesuffix("Error").lower()
        if kind is not errors.LancekitError:
            assert any(c.__module__ == "builtins" for c in kind.__mro__[1:-3]), name


def test_what_is_said_of_repeated_keys_stands_in_one_module() -> None:
    package = Path(lk.__file__).parent
    made = re.compile(r"(?<!class )DuplicateKeysError\(")
    modules = [p for p in package.rglob("*.py") if made.search(p.read_text())]
    assert modules == [package / "_pipeline/source_keys.py"]


def test_messages_hold_the_facts(tmp_path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d", primary_key="k")
    with pytest.raises(
        errors.TagNotFoundError, match=r"Tag 'x' does not exist.*The dataset has no tags"
    ):
        ds.checkout_version("x")
    with pytest.raises(errors.ColumnNotFoundError, match="Did you mean 'k'"):
        ds.to_table(columns=["K"])
    with pytest.raises(errors.DuplicateKeysError, match="k = 7") as caught:
        ds.merge_insert().when_not_matched_insert_all().execute({"k": [7, 7], "s": ["a", "b"]})
    assert caught.value.context["keys"] == [(7,)]
    rows = {"k": pa.array([8, None], pa.int64()), "s": ["a", "b"]}
    with pytest.raises(errors.NullKeyError, match=r"'k' holds 1 nulls, the first in row 1"):
        lk.write_dataset(pa.table(rows), ds, mode="append")
    with pytest.raises(errors.SchemaMismatchError) as mismatch:
        lk.write_dataset(pa.table({"k": [1.5], "s": ["x"]}), ds, mode="append")
    assert "'s'" not in str(mismatch.value)
    with pytest.raises(errors.NotOfferedError, match=r"scanner\(index_segments=.*all segments"):
        ds.scanner(index_segments=[1])
    with pytest.raises(errors.InvalidArgumentError, match=r"conflict_retries must be .* got -1"):
        ds.delete("k = 1", conflict_retries=-1)
    with pytest.raises(
        errors.InvalidArgumentError, match="retry_timeout must be a timedelta, got 3"
    ):
        ds.delete("k = 1", retry_timeout=3)
    ds.delete("k = 1", retry_timeout=timedelta(seconds=1))


def test_pinned_handles_refuse_writes(tmp_path) -> None:
    pinned = lk.write_dataset(ROWS, tmp_path / "d").at(1)
    for write in (
        lambda: pinned.delete("k = 1"),
        pinned.restore,
        lambda: pinned.insert(ROWS),
        pinned.checkout_latest,
        lambda: lk.write_dataset(ROWS, pinned, mode="append"),
        lambda: pinned.merge_insert("k").when_matched_update_all().execute(ROWS),
    ):
        with pytest.raises(errors.ReadOnlyError, match="pinned to version 1"):
            write()


@pytest.mark.filterwarnings("ignore:asof=")
@pytest.mark.parametrize("moment", [datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9))), pd.NaT])
def test_a_time_of_no_calendar_is_refused(tmp_path, moment: datetime) -> None:
    lk.write_dataset(ROWS, tmp_path / "d")
    with pytest.raises(errors.InvalidArgumentError, match="asof="):
        lk.dataset(tmp_path / "d", asof=moment)


def test_a_naive_time_is_local_and_warns(tmp_path) -> None:
    lk.write_dataset(ROWS, tmp_path / "d")
    later = datetime.now() + timedelta(hours=1)
    with pytest.warns(UserWarning, match="has no time zone and is read as local time"):
        assert lk.dataset(tmp_path / "d", asof=later).version == 1
    assert lk.dataset(tmp_path / "d", asof=later.astimezone()).version == 1
    earlier = datetime.now().astimezone() - timedelta(hours=1)
    with pytest.raises(errors.VersionNotFoundError, match="before the first remaining version"):
        lk.dataset(tmp_path / "d", asof=earlier)
    assert lk.dataset(tmp_path / "d").versions()[0].timestamp.tzinfo is not None

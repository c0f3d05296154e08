"""No argument of a public function is ignored: each changes something, or is refused."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import lancekit as lk
import lancekit._api.changes
import lancekit._api.lance_stats
import lancekit._api.sql
import lancekit.file
import lancekit.fragment
import lancekit.vector
from lancekit._defaults import COMMIT_TIMEOUT, CONFLICT_RETRIES, MAX_RETRIES, RETRY_TIMEOUT
from lancekit._operations.commit import CommitSettings
from lancekit._operations.common.retry import RetryPolicy
from tests.support.argument_checks import Method, Value, outcome, shared
from tests.support.arguments_of_branches import BRANCHES
from tests.support.arguments_of_explaining import EXPLAINED
from tests.support.arguments_of_files import FILES
from tests.support.arguments_of_indices import INDICES
from tests.support.arguments_of_merges import MERGES
from tests.support.arguments_of_others import ON_SPARK, OTHERS, SHOWN_IN
from tests.support.arguments_of_reads import READS
from tests.support.arguments_of_shard_reads import SHARD_READS
from tests.support.arguments_of_shards import SHARDS
from tests.support.arguments_of_sql import SQL
from tests.support.arguments_of_upkeep import UPKEEP
from tests.support.arguments_of_writes import WRITES

METHODS = READS | FILES | WRITES | MERGES | UPKEEP | OTHERS | EXPLAINED | BRANCHES | INDICES
METHODS |= SHARDS | SHARD_READS | SQL

#: public, and not in `lancekit.__all__`
MORE: list[Any] = [
    lancekit.fragment.write_fragments,
    lancekit.file.LanceFileReader,
    lancekit.file.LanceFileWriter,
    lancekit._api.changes.DatasetDelta,
    lancekit._api.sql.SqlQueryBuilder,
    lancekit._api.lance_stats.LanceStats,
    lk.optimize.Compaction,
    lk.optimize.CompactionPlan,
    lk.optimize.CompactionTask,
    lk.optimize.DatasetOptimizer,
    lk.optimize.RewriteResult,
    lk.schema.LanceSchema,
    lancekit.vector.vec_to_table,
]


#: which users do not construct themselves
MADE_BY_OTHERS = {
    lk.Expression,
    lk.BlobFile,
    lk.BranchComparison,
    lk.Branches,
    lk.Conflicts,
    lancekit._api.changes.DatasetDelta,
    lk.optimize.DatasetOptimizer,
    lk.History,
    lk.Version,
    lk.LanceScanner,
    lk.LsmScanner,
    lancekit._api.lance_stats.LanceStats,
    lk.MergeInsertBuilder,
    lk.ShardWriter,
    lancekit._api.sql.SqlQueryBuilder,
    lk.Tags,
}
#: which users write themselves, or never call
FOR_OTHERS = [
    lk.FragmentWriteProgress.begin,
    lk.FragmentWriteProgress.complete,
    lk.CleanupStats.of,
    lk.Conflicts.error,
]


def public() -> Iterator[Any]:
    """Yield the public functions and classes."""
    named = [getattr(lk, name) for name in lk.__all__]
    for thing in [*named, *MORE]:
        if inspect.isclass(thing) or isinstance(thing, FunctionType):
            yield thing


def arguments_of(function: Any) -> list[str]:
    names = list(inspect.signature(function).parameters)
    return [name for name in names if name not in {"self", "cls"}]


def _is_ours(member: Any) -> bool:
    return str(getattr(member, "__module__", "")).startswith("lancekit.")


def required() -> Iterator[tuple[str, str]]:
    yield "options", "values"
    for thing in public():
        if isinstance(thing, FunctionType):
            yield from ((thing.__name__, name) for name in arguments_of(thing))
            continue
        if dataclasses.is_dataclass(thing) or issubclass(thing, Exception):
            pass
        elif "__init__" in vars(thing) and thing not in MADE_BY_OTHERS:
            yield from ((thing.__name__, name) for name in arguments_of(thing))
        for member, found in inspect.getmembers(thing, inspect.isroutine):
            wanted = callable(found) and not member.startswith("_") and _is_ours(found)
            if wanted and found not in FOR_OTHERS:
                yield from ((f"{thing.__name__}.{member}", name) for name in arguments_of(found))


def explained() -> Iterator[tuple[str, str]]:
    explain = shared().explain
    for name in dir(explain):
        for argument in arguments_of(getattr(explain, name)):
            yield f"explain.{name}", argument


def cases(methods: dict[str, Method]) -> list[tuple[str, str]]:
    return [(method, name) for method, checks in methods.items() for name in checks.arguments]


def test_every_argument_has_a_check() -> None:
    listed = [*cases(METHODS | ON_SPARK), *SHOWN_IN]
    checked = {(method.strip(), name) for method, name in listed}
    wanted = {*required(), *explained()}
    assert wanted - checked == set()
    assert checked - wanted == set()


def test_what_is_shown_elsewhere_is_there() -> None:
    for place in SHOWN_IN.values():
        file, _, test = place.partition("::")
        assert f"def {test}(" in Path(__file__).parents[2].joinpath(file).read_text()


@pytest.mark.parametrize("method", METHODS)
def test_without_another_argument_the_result_is_the_same(method: str) -> None:
    checks = METHODS[method]
    besides = [{}, *(c.beside for c in checks.arguments.values() if isinstance(c, Value))]
    for beside in [b for at, b in enumerate(besides) if b not in besides[:at]]:
        assert checks.without(beside) == outcome(checks.call, {**checks.base, **beside})


@pytest.mark.parametrize(("method", "name"), cases(METHODS))
def test_an_argument_is_not_ignored(method: str, name: str) -> None:
    checks = METHODS[method]
    assert checks.arguments[name].holds(checks, name)


@pytest.mark.spark
@pytest.mark.parametrize(("method", "name"), cases(ON_SPARK))
def test_an_argument_is_not_ignored_on_spark(spark: Any, method: str, name: str) -> None:
    checks = ON_SPARK[method]
    assert checks.arguments[name].holds(checks, name)


#: arguments that have one default wherever they are, and the texts that say it
DEFAULTS: dict[str, Any] = {
    "conflict_retries": CONFLICT_RETRIES,
    "retry_timeout": RETRY_TIMEOUT,
    "max_retries": MAX_RETRIES,
    "commit_timeout": COMMIT_TIMEOUT,
}
SECONDS, MINUTES = int(RETRY_TIMEOUT.total_seconds()), int(COMMIT_TIMEOUT.total_seconds() / 60)
SAID = {
    "docs/format/operations.md": [
        f"{CONFLICT_RETRIES} times (`conflict_retries`)",
        f"for up to {SECONDS} seconds (`retry_timeout`)",
    ],
    "docs/format/table.md": [f"{MAX_RETRIES} times (`max_retries`), for up to {MINUTES} minutes"],
    "docs/stores.md": [
        f"| {MAX_RETRIES} times, {MINUTES} minutes | `lancekit/_commit/protocol.py` |",
        f"| {CONFLICT_RETRIES} times, {SECONDS} seconds | `lancekit/_operations/common/retry.py` |",
    ],
    "lancekit/_api/merge_builder.py": [f"{CONFLICT_RETRIES} by default", f"{SECONDS} seconds by"],
}


def _defaults() -> Iterator[tuple[str, str, Any]]:
    for thing in public():
        members = [] if isinstance(thing, FunctionType) else inspect.getmembers(thing, callable)
        calls = [found for name, found in members if not name.startswith("_") and _is_ours(found)]
        # what a record was not told is no setting
        for call in calls if dataclasses.is_dataclass(thing) else [thing, *calls]:
            for argument in inspect.signature(call).parameters.values():
                if argument.default is not argument.empty:
                    yield argument.name, call.__qualname__, argument.default


def test_an_argument_has_one_default_wherever_it_is() -> None:
    found: dict[str, dict[Any, list[str]]] = {}
    for argument, call, default in _defaults():
        if isinstance(default, str | int | timedelta) and not isinstance(default, bool):
            found.setdefault(argument, {}).setdefault(default, []).append(call)
    assert {name: list(found[name]) for name in DEFAULTS} == {n: [d] for n, d in DEFAULTS.items()}
    # a new dataset is made, and what takes rows for one that is there adds them
    assert [name for name, defaults in found.items() if len(defaults) > 1] == ["mode"]


def test_the_policies_and_the_texts_have_the_same_defaults() -> None:
    assert RetryPolicy() == RetryPolicy(CONFLICT_RETRIES, RETRY_TIMEOUT)
    settings = CommitSettings()
    assert (settings.max_retries, settings.timeout) == (MAX_RETRIES, COMMIT_TIMEOUT)
    for page, texts in SAID.items():
        text = " ".join((Path(__file__).parents[2] / page).read_text().split())
        assert [said for said in texts if said not in text] == [], page


RECORDS = [c for c in [*vars(lk.LanceOperation).values(), *public()] if dataclasses.is_dataclass(c)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_the_arguments_of_a_record_are_its_attributes(record: Any) -> None:
    names = list(inspect.signature(record).parameters)
    assert set(names) <= set(dir(record)) | {f.name for f in dataclasses.fields(record)}

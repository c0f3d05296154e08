"""No argument of a public function is ignored: each changes something, or is refused."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import lancekit as lk
import lancekit.api.delta
import lancekit.api.sql
import lancekit.api.stats
import lancekit.file
import lancekit.fragment
import lancekit.vector
from tests.support.argument_checks import Method, Value, outcome, shared
from tests.support.arguments_of_explaining import EXPLAINED
from tests.support.arguments_of_files import FILES
from tests.support.arguments_of_merges import MERGES
from tests.support.arguments_of_others import ON_SPARK, OTHERS, SHOWN_IN
from tests.support.arguments_of_reads import READS
from tests.support.arguments_of_upkeep import UPKEEP
from tests.support.arguments_of_writes import WRITES

METHODS = READS | FILES | WRITES | MERGES | UPKEEP | OTHERS | EXPLAINED

#: public, and not in `lancekit.__all__`
MORE: list[Any] = [
    lancekit.fragment.write_fragments,
    lancekit.file.LanceFileReader,
    lancekit.file.LanceFileWriter,
    lancekit.api.delta.DatasetDelta,
    lancekit.api.sql.SqlQueryBuilder,
    lancekit.api.stats.LanceStats,
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
    lk.BlobFile,
    lk.Branches,
    lancekit.api.delta.DatasetDelta,
    lk.optimize.DatasetOptimizer,
    lk.History,
    lk.Version,
    lk.LanceScanner,
    lancekit.api.stats.LanceStats,
    lk.MergeInsertBuilder,
    lancekit.api.sql.SqlQueryBuilder,
    lk.Tags,
}
#: which users write themselves, or never call
FOR_OTHERS = [
    lk.FragmentWriteProgress.begin,
    lk.FragmentWriteProgress.complete,
    lk.CleanupStats.of,
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
            if not member.startswith("_") and _is_ours(found) and found not in FOR_OTHERS:
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
        given = {**checks.base, **beside}
        assert outcome(checks.call, given) == outcome(checks.call, given)


@pytest.mark.parametrize(("method", "name"), cases(METHODS))
def test_an_argument_is_not_ignored(method: str, name: str) -> None:
    checks = METHODS[method]
    assert checks.arguments[name].holds(checks, name)


@pytest.mark.spark
@pytest.mark.parametrize(("method", "name"), cases(ON_SPARK))
def test_an_argument_is_not_ignored_on_spark(spark: Any, method: str, name: str) -> None:
    checks = ON_SPARK[method]
    assert checks.arguments[name].holds(checks, name)


RECORDS = [c for c in [*vars(lk.LanceOperation).values(), *public()] if dataclasses.is_dataclass(c)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_the_arguments_of_a_record_are_its_attributes(record: Any) -> None:
    names = list(inspect.signature(record).parameters)
    assert set(names) <= set(dir(record)) | {f.name for f in dataclasses.fields(record)}

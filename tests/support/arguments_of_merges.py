"""Checks of the arguments of merges."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import lancekit as lk
import lancekit.fragment
from tests.support.argument_checks import (
    Check,
    Hint,
    Method,
    Refused,
    Value,
    fresh,
)
from tests.support.arguments_of_writes import NARROW, Call

__all__ = ["MERGES"]


def _merged(*setters: str, rows: Any = None, run: str = "execute") -> Call:
    """Return a call of one setter of a merge; the others are set before."""

    def call(**arguments: Any) -> Any:
        ds = fresh()
        merge = ds.merge_insert("id")
        for setter in setters[:-1]:
            getattr(merge, setter)()
        if setters and (arguments or setters[-1].startswith("when")):
            getattr(merge, setters[-1])(**arguments)
        given = {"id": [0, 1, 100], "x": [5.0, 6.0, 7.0], "s": ["A", "B", "C"]}
        found = getattr(merge, run)(given if rows is None else rows)
        return ds, dict(found), [f.metadata.files[-1].base_id for f in ds.get_fragments()]

    return call


def _run(name: str) -> Call:
    """Return a call of one of the ways to run a merge, with its own arguments."""

    def call(**arguments: Any) -> Any:
        ds = fresh()
        merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        found = getattr(merge, name)(**arguments)
        if isinstance(found, tuple):
            found = found[1]
        if name == "interactive":
            found = found.state.plan
        counts = [getattr(found, n, None) for n in ("num_updated_rows", "num_inserted_rows")]
        text = ds.versions()[-1].message or ""
        if isinstance(found, str | lk.Explanation):
            text = str(found)
        lines = [line for line in text.splitlines() if "planned in" not in line]
        return ds, counts, lines, found if isinstance(found, dict) else None

    return call


SOURCE = {"id": [0, 100], "x": [5.0, 6.0], "s": ["A", "B"]}

RUN: dict[str, Check] = {
    "data_obj": Value({"id": [1], "x": [5.0], "s": ["A"]}),
    "schema": Value(pa.schema({"id": pa.int64(), "x": pa.float64()})),
}

BATCHES: dict[str, Check] = {"new_data": Value(pa.table({"id": [1], "x": [5.0], "s": ["A"]}))}

UPSERT = ("when_matched_update_all", "when_not_matched_insert_all")


def _merge_of(**arguments: Any) -> Any:
    ds = fresh()
    rows = {"id": [0, 0], "x": [1.0, 2.0], "s": ["A", "B"]}
    return ds.merge_insert(**arguments).when_matched_update_all().execute(rows), ds


MERGES: dict[str, Method] = {
    "LanceDataset.merge_insert": Method(
        _merge_of,
        {
            "on": Refused("none", "none"),
            "dedupe": Value("first"),
            "dedupe_by": Value("x"),
            "schema_mode": Refused("none", "schema_mode"),
        },
        {"on": "id"},
    ),
    "MergeInsertBuilder.when_matched_update_all": Method(
        _merged("when_matched_update_all"), {"condition": Value("source.x > 5")}
    ),
    "MergeInsertBuilder.when_not_matched_by_source_delete": Method(
        _merged("when_not_matched_by_source_delete"), {"expr": Value("id > 5")}
    ),
    "MergeInsertBuilder.dedupe": Method(
        _merged(*UPSERT, "dedupe", rows={"id": [0, 0], "x": [1.0, 2.0], "s": ["A", "B"]}),
        {"keep": Value("first"), "by": Value("x")},
    ),
    "MergeInsertBuilder.write_mode": Method(
        _merged("when_matched_update_all", "write_mode"), {"mode": Value("rewrite_columns")}
    ),
    "MergeInsertBuilder.conflict_retries": Method(
        _merged(*UPSERT, "conflict_retries"), {"max_retries": Refused(-1, "conflict_retries")}
    ),
    "MergeInsertBuilder.retry_timeout": Method(
        _merged(*UPSERT, "retry_timeout"), {"timeout": Refused(5)}
    ),
    "MergeInsertBuilder.use_index": Method(
        _merged(*UPSERT, "use_index"), {"use_index": Hint(False, "x")}
    ),
    "MergeInsertBuilder.mark_sstables_as_compacted": Method(
        _merged(*UPSERT, "mark_sstables_as_compacted"), {"sstables": Refused([1])}
    ),
    "MergeInsertBuilder.target_bases": Method(
        _merged(*UPSERT, "target_bases"), {"bases": Refused(["none"], "none")}
    ),
    "MergeInsertBuilder.target_all_bases": Method(
        _merged(*UPSERT, "target_all_bases"), {"include_primary": Value(False)}
    ),
    "MergeInsertBuilder.data_storage_version": Method(
        _merged(*UPSERT, "data_storage_version"), {"version": Refused("2.0", "2.0")}
    ),
    **{
        f"MergeInsertBuilder.{name}": Method(
            _run(name),
            RUN
            | (
                {"commit_message": Value("text"), "schema_mode": Refused("none", "schema_mode")}
                if name == "execute"
                else {}
            ),
            {"data_obj": SOURCE},
        )
        for name in (
            "execute",
            "execute_uncommitted",
            "preview",
            "interactive",
            "explain",
            "analyze_plan",
        )
    },
    **{
        f"MergeInsertBuilder.{name}": Method(
            lambda new_data, name=name: _run(name.removesuffix("_batches"))(data_obj=new_data),
            BATCHES,
            {"new_data": SOURCE},
        )
        for name in ("execute_batches", "execute_uncommitted_batches", "analyze_plan_batches")
    },
    "MergeInsertBuilder.explain_plan": Method(
        _run("explain_plan"), {"schema": Value(NARROW), "verbose": Hint(True, "x")}
    ),
}

"""Rules of a merge-insert as chosen by clicks, and the equivalent builder calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

from lancekit._api.merge_builder import MergeInsertBuilder
from lancekit._notebook.workbench.picks import called, chained
from lancekit._operations.common.retry import RetryPolicy


class Choice(NamedTuple):
    """The label of a rule, and its options by their labels."""

    label: str
    options: Mapping[str, str]


#: by field of `Rules`: its choices
CHOICES: Mapping[str, Choice] = {
    "matched": Choice(
        "matched rows",
        {
            "update all": "update",
            "update if …": "update if",
            "keep": "leave",
            "delete": "delete",
            "fail": "fail",
        },
    ),
    "new": Choice("new rows", {"insert all": "insert", "nothing": "nothing"}),
    "missing": Choice(
        "missing rows", {"keep": "keep", "delete": "delete", "delete if …": "delete if"}
    ),
    "dedupe": Choice(
        "duplicate keys",
        {
            "refuse": "refuse",
            "keep the first": "first",
            "keep the last": "last",
            "keep the largest …": "largest",
        },
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for matched, new, missing and duplicate rows; `CHOICES` has their options.

    `condition` and `expr` are the SQL of *update if* and *delete if*; `largest` is the source
    column of *keep the largest*.
    """

    on: tuple[str, ...]
    matched: str = "update"
    condition: str = ""
    new: str = "insert"
    missing: str = "keep"
    expr: str = ""
    dedupe: str = "refuse"
    largest: str = ""


def rules_of(builder: MergeInsertBuilder, on: tuple[str, ...]) -> Rules:
    """Return the rules of a builder; for a builder without rules, the rules of an upsert."""
    found = builder._clauses
    dedupe = "largest" if found.dedupe_by else found.dedupe or "refuse"
    rules = Rules(on=on, dedupe=dedupe, largest=found.dedupe_by or "")
    if found.matched == "keep" and not found.insert and not found.delete_by_source:
        return rules
    matched = {"keep": "leave", "update": "update if" if found.condition else "update"}
    missing = "delete if" if found.by_source else "delete" if found.delete_by_source else "keep"
    return replace(
        rules,
        matched=matched.get(found.matched, found.matched),
        condition=found.condition or "",
        new="insert" if found.insert else "nothing",
        missing=missing,
        expr=found.by_source or "",
    )


class Call(NamedTuple):
    """A call of a builder's method."""

    name: str
    arguments: tuple[object, ...] = ()
    named: Mapping[str, object] = {}


def _calls(rules: Rules) -> Iterator[Call]:
    """Yield the builder calls that set some rules."""
    calls = {
        "update": Call("when_matched_update_all"),
        "update if": Call("when_matched_update_all", (rules.condition,)),
        "delete": Call("when_matched_delete"),
        "fail": Call("when_matched_fail"),
        "insert": Call("when_not_matched_insert_all"),
        "first": Call("dedupe", ("first",)),
        "last": Call("dedupe", ("last",)),
        "largest": Call("dedupe", named={"by": rules.largest}),
    }
    missing = {
        "delete": Call("when_not_matched_by_source_delete"),
        "delete if": Call("when_not_matched_by_source_delete", (rules.expr,)),
    }
    yield from filter(None, [calls.get(rules.matched), calls.get(rules.new)])
    yield from filter(None, [missing.get(rules.missing), calls.get(rules.dedupe)])


def built(builder: MergeInsertBuilder, rules: Rules) -> MergeInsertBuilder:
    """Return a copy of a builder with other rules and the same settings.

    Raises PredicateError, InvalidArgumentError: a rule lacks its condition or column.
    """
    made = copy(builder)._with(
        on=rules.on,
        matched="keep",
        condition=None,
        insert=False,
        delete_by_source=False,
        by_source=None,
        dedupe=None,
        dedupe_by=None,
    )
    for call in _calls(rules):
        getattr(made, call.name)(*call.arguments, **call.named)
    return made


def _settings(builder: MergeInsertBuilder) -> Iterator[Call]:
    """Yield the builder calls of settings that are no rules."""
    clauses, policy, usual = builder._clauses, builder._policy, RetryPolicy()
    files = clauses.files
    if clauses.rewrite_columns:
        yield Call("write_mode", ("rewrite_columns",))
    if not clauses.use_index:
        yield Call("use_index", (False,))
    if policy.conflict_retries != usual.conflict_retries:
        yield Call("conflict_retries", (policy.conflict_retries,))
    if policy.timeout != usual.timeout:
        yield Call("retry_timeout", (policy.timeout,))
    if files.every:
        yield Call("target_all_bases", (files.primary,))
    if files.bases:
        yield Call("target_bases", (list(files.bases),))
    if files.storage_version is not None:
        yield Call("data_storage_version", (files.storage_version,))
    if clauses.compacted:
        yield Call("mark_sstables_as_compacted", (list(clauses.compacted),))


def code_of(builder: MergeInsertBuilder, rules: Rules, rows: str = "df") -> str:
    """Return the code of a merge by some rules; ``rows`` is the source's name in the code.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1]}, "memory://rules-example")
    >>> code_of(ds.merge_insert("id"), Rules(on=("id",), matched="leave"))
    "ds.merge_insert('id').when_not_matched_insert_all().execute(df)"
    """
    on = rules.on[0] if len(rules.on) == 1 else list(rules.on)
    calls = [Call("merge_insert", (on,)), *_calls(rules), *_settings(builder)]
    texts = [called(call.name, *call.arguments, **call.named) for call in calls]
    return chained("ds", [*texts, f"execute({rows})"])

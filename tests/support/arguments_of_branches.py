"""Checks of the arguments of functions that put changes of two sides together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lancekit as lk
from tests.support.argument_checks import Method, Value, fresh

__all__ = ["BRANCHES"]

Call = Callable[..., Any]


def _sides() -> lk.LanceDataset:
    """Return a dataset and its branches, which changed some rows in common."""
    ds = fresh(enable_stable_row_ids=True)
    for name in ("b", "c"):
        branch = ds.create_branch(name)
        branch.update({"x": "x + 100"}, where="id IN (1, 5, 6)" if name == "b" else "id = 5")
        branch.delete("id = 9")
    ds.update({"x": "x + 50"}, where="id < 3")
    ds.update({"x": "7"}, where="id = 1")
    ds.update({"s": "'z'"}, where="id IN (2, 6)")
    return ds


def _seen(change: Call) -> Call:
    def call(**arguments: Any) -> Any:
        ds = _sides()
        found = change(ds, **arguments)
        return found, ds.to_table().sort_by("id"), ds.version, ds.branch

    return call


def _merged(**arguments: Any) -> Any:
    ds = _sides()
    late = ds.create_branch("late")
    late.delete("id = 8")
    late.insert(late.to_table().slice(0, 1), mode="append")
    taken = ds.branches.merge("late", files=arguments.pop("files", "link")).how
    found = ds.branches.merge(**arguments)
    return taken, len(ds.base_paths()), found, ds.to_table().sort_by("id"), ds.version


def _rebased(ds: lk.LanceDataset, **arguments: Any) -> Any:
    found = ds.branches.rebase(**arguments)
    return found, found.branch, ds.checkout_version((found.branch, None)).to_table().sort_by("id")


def _sampled(**arguments: Any) -> Any:
    ds = _sides()
    try:
        ds.branches.cherry_pick("b", 3)
    except lk.errors.MergeConflictError as error:
        return [one.key for one in error.context["conflicts"].sample(**arguments)]
    return None


def _resolved(**arguments: Any) -> Any:
    plan = _sides().branches.merge("b", dry_run=True)
    return (plan.resolved(**arguments) if arguments else plan).num_unsettled


WAYS = {"on": Value(["x"]), "by": Value("row"), "conflicts": Value("theirs")}
#: by key, without a base
NONE = Value(0, {"on": ["id"]})

BRANCHES = {
    "BranchMergePlan.resolved": Method(_resolved, {"conflicts": Value("theirs")}),
    "Conflicts.sample": Method(_sampled, {"n": Value(0), "offset": Value(1)}),
    "LanceDataset.revert": Method(
        _seen(lambda ds, **kw: ds.revert(**kw)),
        {"version": Value(4), **WAYS},
        {"version": 3, "conflicts": "ours"},
    ),
    "Branches.cherry_pick": Method(
        _seen(lambda ds, **kw: ds.branches.cherry_pick(**kw)),
        {"branch": Value("c"), "version": Value(4), **WAYS},
        {"branch": "b", "version": 3, "conflicts": "ours"},
    ),
    "Branches.compare": Method(
        lambda **kw: [
            (d.theirs, dict(d.theirs_diff.counts), d.theirs_diff.key, len(d.conflicts))
            for d in [_sides().branches.compare(**kw)]
        ],
        {"branch": Value("c"), "on": WAYS["on"], "by": WAYS["by"], "base": NONE},
        {"branch": "b"},
    ),
    "Branches.merge": Method(
        _merged,
        {
            "source": Value("c"),
            "into": Value("c"),
            "dry_run": Value(True),
            "files": Value("reference"),
            "base": NONE,
            **WAYS,
        },
        {"source": "b", "conflicts": "ours"},
    ),
    "Branches.rebase": Method(
        _seen(_rebased),
        {"branch": Value("c"), "base": NONE, **WAYS},
        {"branch": "b", "conflicts": "ours"},
    ),
}

"""Explanations of what is done with indices, and of a check of all files."""

from __future__ import annotations

from lancekit.legible import plural
from lancekit.operations.explain.explanation import (
    Explanation,
    PlanNode,
    Writes,
    explanation,
    reads,
)
from lancekit.operations.explain.nodes import read_node
from lancekit.operations.index.create import IndexPlan
from lancekit.operations.index.optimize import IndexUpkeep, OptimizeRequest, plan_upkeep
from lancekit.pipeline.engine.engine import Choice, choose_engine
from lancekit.scan.fragments.source import fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = ["explain_index", "explain_optimize_indices", "explain_validate"]

_HERE = Choice("local", "indices are kept up in this process, whatever their size")
_NOTHING = "the indices cover all rows, so that no version is made"


def explain_index(plan: IndexPlan, operation: str) -> Explanation:
    """Explain how an index would be made."""
    snapshot, request, choice = plan.snapshot, plan.request, plan.choice
    node = read_node(snapshot, [plan.column.path]) if request.train else None
    return explanation(
        snapshot,
        operation,
        choice,
        plan=node,
        reads=None if node is None else node.reads,
        writes=Writes(
            what=f"the files of index {plan.name!r}, of type {request.kind.label}",
            rows=snapshot.manifest.num_rows if request.train else 0,
            exact=True,
        ),
        commits=["CreateIndex"],
        notes=[
            f"it takes the place of the index {plan.name!r} that is there" if plan.replaced else "",
            "tasks index groups of fragments, and further tasks join what these made"
            if choice.engine == "spark"
            else "",
            "" if request.train else "it covers no rows before optimize_indices() adds them",
        ],
    )


def explain_optimize_indices(snapshot: Snapshot, request: OptimizeRequest) -> Explanation:
    """Explain which rows would be put into which indices; of index files none is read.

    Raises
    ------
    IndexNotFoundError, NotOfferedError
        As `optimize_indices`.
    """
    plans = plan_upkeep(snapshot, request)
    if not plans:
        return explanation(snapshot, "optimize_indices", _HERE, notes=[_NOTHING])
    missing = {id_ for plan in plans for id_ in plan.fresh}
    sources = [one for one in fragment_sources(snapshot) if one.fragment.id in missing]
    columns = [plan.column.path for plan in plans if plan.fresh]
    segments = (
        "each index is one segment then"
        if request.retrain
        else f"the rows join the newest {plural(request.merge, 'segment')} of each index"
        if request.merge
        else "the rows become a segment of their own in each index"
    )
    amount = reads(snapshot, columns, sources)
    return explanation(
        snapshot,
        "optimize_indices",
        _HERE,
        plan=PlanNode("Read", reads=amount),
        reads=amount,
        writes=Writes(what=f"new files of {plural(len(plans), 'index', 'indices')}"),
        commits=["CreateIndex"],
        notes=[*map(_told, plans), segments],
    )


def _told(plan: IndexUpkeep) -> str:
    """Say what an index gets."""
    ids = set(plan.fresh)
    rows = sum(f.num_rows for f in plan.snapshot.manifest.fragments if f.id in ids)
    amount = f"{plural(rows, 'row')} of {plural(len(ids), 'fragment')}"
    if plan.anew:
        return f"index {plan.name!r} made anew of {amount}"
    joined = "" if len(plan.joined) < 2 else f"{len(plan.joined)} segments of it become one"
    gets = f"index {plan.name!r} gets {amount}" if ids else f"index {plan.name!r}"
    return f"{gets}: {joined}" if joined else gets


def explain_validate(snapshot: Snapshot, *, deep: bool) -> Explanation:
    """Explain a check of a version: of each file its frame, and if it is `deep` all values."""
    node = read_node(snapshot, snapshot.manifest.schema.names if deep else [])
    return explanation(
        snapshot,
        "validate",
        choose_engine(snapshot.manifest.num_rows if deep else 0),
        plan=node if deep else None,
        reads=node.reads,
        notes=[
            "every value is read, and checksums are compared where files have them"
            if deep
            else "of each file the frame is read, and no values"
        ],
    )

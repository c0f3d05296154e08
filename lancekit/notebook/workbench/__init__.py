"""Workbenches: changes that are put together by clicks, looked at, applied and taken back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancekit.api.merge_builder import MergeInsertBuilder
from lancekit.notebook.workbench.branch_bench import BranchBench
from lancekit.notebook.workbench.branch_panel import branch_panel
from lancekit.notebook.workbench.merge_bench import MergeBench
from lancekit.notebook.workbench.merge_panel import merge_panel
from lancekit.operations.lineage.branch_merge import BranchMergePlan

__all__ = ["open_branches", "open_merge"]


def open_merge(
    builder: MergeInsertBuilder, data: Any, schema: pa.Schema | None = None
) -> MergeBench:
    """Return the workbench of a merge-insert, and the first preview, unless Spark makes that."""
    return MergeBench(builder, data, schema, merge_panel)


def open_branches(plan: BranchMergePlan) -> BranchBench:
    """Return the workbench of a merge of branches."""
    return BranchBench(plan, branch_panel)

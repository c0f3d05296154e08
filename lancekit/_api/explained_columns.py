"""What `Explainer` tells of changes of columns."""

from __future__ import annotations

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_count
from lancekit._call import Arguments
from lancekit._operations.columns.add import NewColumns
from lancekit._operations.columns.alter import check_alterations, plan_alteration
from lancekit._operations.explain.columns import (
    explain_add,
    explain_alter,
    explain_drop,
    explain_join,
    explain_replacement,
)
from lancekit._operations.explain.explanation import Explanation

__all__ = ["add", "alter", "drop", "merge", "replace"]


def _new(given: Arguments) -> NewColumns:
    return NewColumns(
        transforms=given["transforms"],
        read_columns=given["read_columns"],
        schema=given["reader_schema"],
        batch_size=given["batch_size"],
        num_threads=check_count("num_threads", given["num_threads"], least=1),
    )


def add(ds: Handle, given: Arguments) -> Explanation:
    """Tell what new columns would do."""
    if given["on"] is not None:
        schema = given["reader_schema"]
        return explain_join(ds._snapshot, given["transforms"], given["on"], "add_columns", schema)
    return explain_add(ds._snapshot, _new(given))


def merge(ds: Handle, given: Arguments) -> Explanation:
    """Tell what columns of other rows that are found by a key would do."""
    data, on, schema = given["data_obj"], given["left_on"], given["schema"]
    return explain_join(ds._snapshot, data, on, "merge", schema, given["right_on"])


def replace(ds: Handle, given: Arguments) -> Explanation:
    """Tell what new values of whole columns would do."""
    return explain_replacement(ds._snapshot, _new(given))


def alter(ds: Handle, given: Arguments) -> Explanation:
    """Tell what renamed and cast columns would do."""
    return explain_alter(plan_alteration(ds._snapshot, check_alterations(given["alterations"])))


def drop(ds: Handle, given: Arguments) -> Explanation:
    """Tell what dropped columns would do."""
    return explain_drop(ds._snapshot, given["columns"])

"""What `Explainer` tells of reads, and of changes of rows."""

from __future__ import annotations

from lancekit._api._handle import Handle
from lancekit._api.frames import pandas_frame
from lancekit._api.scanner import LanceScanner, scan_of
from lancekit._arguments.checks import refuse_more
from lancekit._arguments.scan import FrameArguments, ScanArguments, scan_arguments
from lancekit._arguments.write import InsertArguments
from lancekit._call import Arguments
from lancekit._choice import check_choice
from lancekit._operations.delete import plan_delete
from lancekit._operations.explain.explanation import Explanation
from lancekit._operations.explain.rows import explain_delete, explain_update, explain_write
from lancekit._operations.explain.scans import explain_count
from lancekit._operations.update import check_updates, check_where, plan_update

__all__ = ["count", "delete", "insert", "scan", "truncate", "update"]


def scan(ds: Handle, given: Arguments) -> Explanation:
    """Tell what a read of rows would do."""
    passed = {name: value for name, value in given.items() if name not in {"kwargs", "num_rows"}}
    if "num_rows" in given:
        passed["limit"] = given["num_rows"]
    if "blob_mode" not in given:
        return _scanner(ds, scan_arguments({**passed, **given.get("kwargs", {})})).explain()
    frame = FrameArguments.of(passed, "A scan", "to_pandas()")
    scanner = _scanner(ds, frame.as_(ScanArguments))
    pandas_frame(scanner.projected_schema.empty_table(), frame.for_arrow())
    return scanner.explain()


def _scanner(ds: Handle, arguments: ScanArguments) -> LanceScanner:
    return scan_of(ds._snapshot, arguments.over(ds._scan_defaults))


def count(ds: Handle, given: Arguments) -> Explanation:
    """Tell what a count would do."""
    kwargs = given.get("kwargs", {})
    if given["filter"] is None and not kwargs:
        return explain_count(ds._snapshot, None)
    options = scan_arguments({"columns": [], "filter": given["filter"], **kwargs})
    return explain_count(ds._snapshot, scan_of(ds._snapshot, options)._scan)


def insert(ds: Handle, given: Arguments) -> Explanation:
    """Tell what rows that are appended, or take the place of all, would do."""
    mode = given["mode"]
    check_choice("mode", mode, ("append", "overwrite"))
    told = {"data", "mode", "schema"}
    kinds = InsertArguments.parameters().parameters
    others = [n for n, value in given.items() if n not in told and value != kinds[n].default]
    why = "It changes nothing of what can be told before the rows are written."
    refuse_more("explain.insert", others, why)
    return explain_write(ds._snapshot, given["data"], mode, given["schema"])


def delete(ds: Handle, given: Arguments) -> Explanation:
    """Tell what a delete would do."""
    return explain_delete(plan_delete(ds._snapshot, given["predicate"]))


def truncate(ds: Handle, _: Arguments) -> Explanation:
    """Tell what the deletion of all rows would do."""
    return explain_delete(plan_delete(ds._snapshot, "true"), "truncate_table")


def update(ds: Handle, given: Arguments) -> Explanation:
    """Tell what an update would do."""
    updates, where = check_updates(given["updates"]), check_where(given["where"])
    return explain_update(plan_update(ds._snapshot, updates, where))

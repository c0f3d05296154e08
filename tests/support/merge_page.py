"""The parts of `docs/merge.md` that are taken from the code.

``python -m tests.support.merge_page`` writes them; a test compares.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from lancekit._format.schema import LanceSchema
from lancekit._operations.merge_insert import check_rewrite
from lancekit._pipeline.merge_plan import MergeClauses
from lancekit._pipeline.merge_strategy import choose_match
from lancekit.errors import InvalidArgumentError

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[2] / "docs" / "merge.md"

#: engine, rows and key bytes of a source, and rows of a target
_SIZES = (
    ("local", 100_000, 800_000, 10_000_000),
    ("spark", 100_000, 800_000, 10_000_000),
    ("spark", 5_000_000, 40_000_000, 100_000_000),
    ("spark", 10_000_000, 80_000_000, 100_000_000),
    ("spark", 200_000_000, 1_600_000_000, 500_000),
    ("spark", 200_000_000, 1_600_000_000, 1_000_000_000),
)


def _strategies() -> str:
    lines = ["| Source | Strategy | Why |", "|-|-|-|"]
    for engine, rows, size, target in _SIZES:
        plan = choose_match(engine=engine, source_rows=rows, key_bytes=size, target_rows=target)
        where = "in this process" if engine == "local" else "on Spark"
        lines.append(f"| {rows:,} rows {where} | `{plan.strategy}` | {plan.why} |")
    return "\n".join(lines)


def _limits() -> str:
    """Ask what is refused, one limit after the other."""
    import pyarrow as pa

    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = LanceSchema.from_arrow(pa.schema([("k", pa.int64()), ("v", pa.int64()), blob]))
    fine = MergeClauses(on=("k",), matched="update", rewrite_columns=True)
    asked = [
        (replace(fine, insert=True), ["k", "v"]),
        (replace(fine, delete_by_source=True), ["k", "v"]),
        (replace(fine, matched="delete"), ["k", "v"]),
        (fine, ["k", "v", "b"]),
        (fine, ["k"]),
        (fine, ["k", "b"]),
    ]
    reasons = []
    for clauses, names in asked:
        try:
            check_rewrite(schema, clauses, names)
        except InvalidArgumentError as error:
            reasons.append(f"- {error.message.partition(': ')[2]}")
    return "\n".join(reasons)


def page(text: str) -> str:
    """Return the page with its generated parts as they have to be."""
    for name, made in (("strategies", _strategies()), ("limits", _limits())):
        block = f"<!-- {name} -->\n{made}\n<!-- end -->"
        text = re.sub(f"<!-- {name} -->.*?<!-- end -->", lambda _: block, text, flags=re.S)  # noqa: B023
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))

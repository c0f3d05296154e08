"""The page about conflicts, generated from the table of rules."""

from __future__ import annotations

from lancekit.commit.conflicts import RULES
from lancekit.commit.evidence import Outcome, Rule
from lancekit.commit.rules_rows import compatible
from lancekit.format import operations as ops

__all__ = ["document"]


def document() -> str:
    """Return `docs/conflicts.md`."""
    order = sorted(
        {rule for row in RULES.values() for rule in row.values()} - {compatible},
        key=lambda rule: rule.__name__,
    )
    lines = [
        "# How changes meet",
        "",
        "Your change was worked out on one version; meanwhile another was committed. Rows are your "
        "operation, columns the committed one. Generated from `lancekit/commit/conflicts.py`.",
        "",
        "| yours | " + " | ".join(kind.__name__ for kind in ops.OPERATIONS) + " |",
        "|---|" + "---|" * len(ops.OPERATIONS),
        *(_row(mine) for mine in RULES),
        "",
        "A rule answers one of four things:",
        "",
        *(f"- **{outcome.name.lower()}**: your change {outcome.value}." for outcome in Outcome),
        "",
        "A delete, an update and a merge are worked out again by themselves when a rule says so; "
        "other operations raise `RetryableConflictError`. An operation of a newer release counts "
        "as retryable.",
        "",
    ]
    for rule in order:
        lines += [f"### {rule.__name__}", "", " ".join((rule.__doc__ or "").split()), ""]
    return "\n".join(lines)


def _row(mine: type) -> str:
    return f"| {mine.__name__} | {' | '.join(_cell(RULES[mine][k]) for k in ops.OPERATIONS)} |"


def _cell(rule: Rule) -> str:
    name = rule.__name__
    return "lands" if rule is compatible else f"[{name}](#{name})"

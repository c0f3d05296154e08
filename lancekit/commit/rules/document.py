"""The page about conflicts, generated from the table of rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_lowercase

from lancekit.commit.rules.deviations import ALIKE_ON_PURPOSE, DIFFERENCES, FROM_SOURCE, OUTSIDE
from lancekit.commit.rules.rows import compatible, incompatible, retryable
from lancekit.commit.rules.table import RULES
from lancekit.commit.rules.verdict import Outcome, Rule
from lancekit.format import operations as ops

__all__ = ["document"]

_SIGNS: dict[Rule, str] = {compatible: "✓", retryable: "↻", incompatible: "✗"}
_OF_OUTCOMES = {
    Outcome.COMPATIBLE: "✓",
    Outcome.REBASED: "",
    Outcome.RETRYABLE: "↻",
    Outcome.INCOMPATIBLE: "✗",
}

_INTRODUCTION = """\
# How changes meet

Your change was worked out on one version; meanwhile another was committed. Rows are your
operation, columns the one that was committed. This page is generated from the table in
`lancekit/commit/rules/table.py`; a test keeps it so, others try every pair against pylance.

A change meets each version that landed since, in order. Four things can come of it:
"""

_AGAIN = """\
Deletes, updates, merges, compactions and changes of columns are worked out again by themselves
(`conflict_retries`). Others raise `RetryableConflictError` or `IncompatibleConflictError`, both a
`CommitConflictError` with `retryable`; what the two changes have in common is in
`error.context["evidence"]`, and a notebook shows the error as a card.

A version that was cleaned up before it could be looked at stops what changes rows, because nobody
can tell what it did; pylance passes over it. A change of config, metadata or base paths goes on
top of the newest version, unless that shows that what it sets was changed meanwhile.
"""

_DIFFERENCES = """\
## Where this differs from the reference

Outcomes are those of pylance 14, cell by cell, except for these. None of them can harm a writer
that uses pylance: what lands here is what it could have written itself.
"""

_KEYS = """\
[Key filters](key-filters.md) has how merges learn of each other's keys.
"""


def document() -> str:
    """Return `docs/conflicts.md`."""
    letters = _letters()
    heads = [f"{kind.__name__}{_mark(kind)}" for kind in ops.OPERATIONS]
    outcomes = (
        f"- **{outcome.name.lower()}** {_OF_OUTCOMES[outcome]}".rstrip() + f": {outcome.value}."
        for outcome in Outcome
    )
    return "\n".join(
        [
            _INTRODUCTION,
            *outcomes,
            "",
            *_table(["yours ↓", *heads], (_cells(mine, letters) for mine in RULES)),
            "",
            "A letter is a rule below. ° pylance has no such operation, or commits it only where "
            "no dataset is: these cells follow its source, the others were tried.",
            "",
            _AGAIN,
            "## The rules",
            "",
            *(_described(rule, letter) for rule, letter in letters.items()),
            "",
            _DIFFERENCES,
            *_table(["", "yours", "theirs", "the reference", "here"], map(list, _differences())),
            "",
            "Before any rule is asked:",
            "",
            *(f"- {sentence}" for sentence in OUTSIDE),
            "",
            "Alike on purpose:",
            "",
            *(f"- {sentence}" for sentence in ALIKE_ON_PURPOSE),
            "",
            _KEYS,
        ]
    )


def _mark(kind: type) -> str:
    return "°" if kind in FROM_SOURCE else ""


def _letters() -> dict[Rule, str]:
    """Give every rule but the constant ones a letter, in the order of the table."""
    found = [RULES[mine][theirs] for mine in RULES for theirs in ops.OPERATIONS]
    named = [rule for rule in dict.fromkeys(found) if rule not in _SIGNS]
    names = [*ascii_lowercase, *(f"a{letter}" for letter in ascii_lowercase)]
    return dict(zip(named, names, strict=False))


def _cells(mine: type, letters: dict[Rule, str]) -> list[str]:
    cells = []
    for theirs in ops.OPERATIONS:
        rule = RULES[mine][theirs]
        cells.append(_SIGNS.get(rule) or f"[{letters[rule]}](#{rule.__name__})")
    return [f"**{mine.__name__}**{_mark(mine)}", *cells]


def _described(rule: Rule, letter: str) -> str:
    text = " ".join((rule.__doc__ or "").split())
    return f'- <a id="{rule.__name__}"></a>**{letter}** ({rule.__name__}): {text}'


def _differences() -> Iterable[tuple[str, ...]]:
    for one in DIFFERENCES:
        theirs = ", ".join(kind.__name__ for kind in one.theirs)
        yield one.how, one.mine.__name__, theirs, one.reference, one.here


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    rows = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(row)} |" for row in rows]

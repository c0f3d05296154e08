"""The page about conflicts, generated from the table of rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from lancekit._commit.rules.rows import compatible, incompatible, retryable
from lancekit._commit.rules.table import RULES
from lancekit._commit.rules.verdict import Outcome, Rule
from lancekit._format import operations as ops

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
`lancekit/_commit/rules/table.py`; a test keeps it so, others try every pair against pylance.

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
            *(f"- {sentence}" for sentence in _OUTSIDE),
            "",
            "Alike on purpose:",
            "",
            *(f"- {sentence}" for sentence in _ALIKE_ON_PURPOSE),
            "",
            _KEYS,
        ]
    )


def _mark(kind: type) -> str:
    return "°" if kind in _FROM_SOURCE else ""


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


# ---- where the rules answer otherwise than the reference does, and why that endangers nobody

#: operations that pylance cannot commit, or not on top of a dataset: their cells follow its source
_FROM_SOURCE: tuple[type, ...] = (
    ops.ReserveFragments,
    ops.UpdateMemWalState,
    ops.Clone,
    ops.UpdateBases,
)


@dataclass(frozen=True, slots=True)
class _Difference:
    """Cells that answer otherwise: ``safer``, ``less strict`` or only ``clearer``."""

    how: str
    mine: type
    theirs: tuple[type, ...]
    reference: str
    here: str


DIFFERENCES: tuple[_Difference, ...] = (
    _Difference(
        "safer",
        ops.Append,
        (ops.Merge,),
        "Over a cast of a column, the rows land under the old field id: the column reads null.",
        "Retryable, if a column that was written is there under another id. The same for a column "
        "that was dropped and added again.",
    ),
    _Difference(
        "safer",
        ops.CreateIndex,
        (ops.Project, ops.Merge),
        "An index on a column that was dropped, cast or made anew lands; later deletes fail.",
        "Retryable.",
    ),
    _Difference(
        "safer",
        ops.CreateIndex,
        (ops.Merge,),
        "An index keeps fragments in which the merge rewrote its column.",
        "It lands without them.",
    ),
    _Difference(
        "safer",
        ops.CreateIndex,
        (ops.Update, ops.DataReplacement),
        "An index that does not say what it covers lands over a rewrite of its column.",
        "Retryable: it cannot be narrowed.",
    ),
    _Difference(
        "safer",
        ops.UpdateConfig,
        (ops.UpdateConfig, ops.Overwrite),
        "Replacing the config touches no key, so that a key set meanwhile is wiped silently.",
        "It touches every key: the two exclude each other.",
    ),
    _Difference(
        "safer",
        ops.Overwrite,
        (ops.UpdateConfig,),
        "Sets config keys over a config that was replaced meanwhile.",
        "The two exclude each other.",
    ),
    _Difference(
        "safer",
        ops.Project,
        (ops.UpdateConfig,),
        "A rename or a drop takes back metadata of the schema and of fields set meanwhile.",
        "Retryable.",
    ),
    _Difference(
        "safer",
        ops.Update,
        (ops.Update,),
        "Keys that its filters leave out (dates, times, decimals, small integers, ...) are not "
        "compared: two merges insert one key twice.",
        "Keys of every type are compared. A filter of the reference over such keys is read as one "
        "that may hold any, and ours is of a kind that the reference cannot compare, so that it "
        "does its work again.",
    ),
    _Difference(
        "safer",
        ops.Update,
        (ops.DataReplacement,),
        "Inserted keys are not compared with a key column whose values were replaced.",
        "Retryable.",
    ),
    _Difference(
        "safer",
        ops.Update,
        (ops.Update,),
        "Merging a generation of a shard twice is noticed while the manifest is built; over a "
        "merge of an earlier one it lands, though it may be made of that one's rows, too.",
        "The rule says so, with the shard; over an earlier one it is retryable.",
    ),
    _Difference(
        "clearer",
        ops.UpdateConfig,
        (ops.Project,),
        "Metadata of a field that was dropped fails while the manifest is built.",
        "Incompatible, and the field is named.",
    ),
    _Difference(
        "safer",
        ops.CreateIndex,
        (ops.Rewrite,),
        "A trimmed fragment-reuse index is merged with what a rewrite added to it, if the rewrite "
        "is known to have done so; its transaction does not say it, and then that is lost.",
        "Retryable: trim the latest one.",
    ),
    _Difference(
        "less strict",
        ops.CreateIndex,
        (ops.DataReplacement,),
        "Retryable, if a column of the index was replaced in any fragment.",
        "The index lands without the fragments in which it was.",
    ),
    _Difference(
        "less strict",
        ops.DataReplacement,
        (ops.CreateIndex,),
        "Retryable, if a new index is on a column that is replaced.",
        "It lands, and the index stops covering the fragments.",
    ),
    _Difference(
        "less strict",
        ops.Update,
        (ops.Update,),
        "Two Bloom filters conflict if any bit is set in both: with 150 new keys each, nearly "
        "always. An exact set conflicts with every Bloom filter, an empty filter with every update "
        "that has none.",
        "Bloom filters conflict if a block has a bit in common in each of its eight words; exact "
        "sets are looked up; a merge that inserted nothing, and an update that wrote neither rows "
        "nor keys, conflict with no key. None of it can miss a common key.",
    ),
    _Difference(
        "less strict",
        ops.Update,
        (ops.Append,),
        "A merge that inserted nothing conflicts with every append.",
        "It lands.",
    ),
)

#: what is noticed before any rule is asked
_OUTSIDE: tuple[str, ...] = (
    "A version between the one that was read and the newest is gone (cleaned up): what it changed "
    "cannot be told, so the change is retryable. The reference passes over it.",
    "A transaction that landed already, known by its uuid, is not committed twice, if it made the "
    "version that it now says it read, or a later one; from any other version on its rows are "
    "refused, because their data files are in the table. The reference adds its rows again.",
    "An operation of a newer release is retryable, whatever mine is.",
)

#: what looks unsafe in the reference and is the same here
_ALIKE_ON_PURPOSE: tuple[str, ...] = (
    "An append lands over a merge that inserted keys, even if it has one of them. An append does "
    "not look for its keys in the table, with or without other writers: doing it again would add "
    "the same rows. Use a merge where keys must stay unique.",
    "An append lands over a rename and over a drop, and reads null in a column that was computed "
    "meanwhile for the rows that were there.",
    "A restore lands over nearly everything: it is meant to undo it.",
)

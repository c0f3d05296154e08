"""The documentation page about conflicts, generated from the table of rules."""

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
# Conflicts between concurrent changes

Your change is based on one version, and another writer commits first. lancekit compares your change
with each version that landed meanwhile, in order. There are four outcomes:
"""

_AGAIN = """\
## Handle a conflict

Deletes, updates, merges, compactions and changes of columns are retried automatically
(`conflict_retries`). Other changes raise `RetryableConflictError` or `IncompatibleConflictError`.
Both are a `CommitConflictError`. Its `retryable` says whether the call can succeed if you repeat it
after `ds.checkout_latest()`. `error.context["evidence"]` has the parts that both changed. A
notebook shows the error as a card.

If a version was cleaned up before your change could be compared with it, a change of rows cannot
land, because the version's effect is unknown; pylance ignores it. A change of config, metadata or
base paths lands on the newest version, unless that version shows a change of the same settings.

## Which operations conflict

Rows are your operation, and columns are the committed operation. The table is generated from
`lancekit/_commit/rules/table.py`. A test checks that, and other tests try every pair in pylance.
"""

_DIFFERENCES = """\
## Differences from pylance

Outcomes are the same as in pylance 14, cell by cell, with the exceptions below. They cannot harm a
writer that uses pylance, because it could have written every version that lands here.
"""

_KEYS = """\
[Key filters](../key-filters.md) describes how merges detect each other's keys.
"""


def document() -> str:
    """Return `docs/reference/conflict-rules.md`."""
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
            _AGAIN,
            *_table(["yours ↓", *heads], (_cells(mine, letters) for mine in RULES)),
            "",
            "A letter is a rule below. ° pylance lacks the operation, or commits it only to a new "
            "dataset: these cells follow its source, and the others were tried.",
            "",
            "## The rules",
            "",
            *(_described(rule, letter) for rule, letter in letters.items()),
            "",
            _DIFFERENCES,
            *_table(["", "yours", "theirs", "the reference", "here"], map(list, _differences())),
            "",
            "Checked before the rules:",
            "",
            *(f"- {sentence}" for sentence in _OUTSIDE),
            "",
            "The same on purpose:",
            "",
            *(f"- {sentence}" for sentence in _ALIKE_ON_PURPOSE),
            "",
            _KEYS,
        ]
    )


def _mark(kind: type) -> str:
    return "°" if kind in _FROM_SOURCE else ""


def _letters() -> dict[Rule, str]:
    """Assign a letter to every rule except the constant ones, in table order."""
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


# ---- rules that differ from the reference, and why the difference is safe

#: operations that pylance cannot commit on top of a dataset: their cells follow its source
_FROM_SOURCE: tuple[type, ...] = (
    ops.ReserveFragments,
    ops.UpdateMemWalState,
    ops.Clone,
    ops.UpdateBases,
)


@dataclass(frozen=True, slots=True)
class _Difference:
    """Cells with another outcome: ``safer``, ``less strict`` or only ``clearer``."""

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
        "Retryable, if a written column now has another id. The same for a column that was dropped "
        "and added again.",
    ),
    _Difference(
        "safer",
        ops.CreateIndex,
        (ops.Project, ops.Merge),
        "An index on a column that was dropped, cast or recreated lands; later deletes fail.",
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
        "An index with unknown coverage lands over a rewrite of its column.",
        "Retryable: it cannot be narrowed.",
    ),
    _Difference(
        "safer",
        ops.UpdateConfig,
        (ops.UpdateConfig, ops.Overwrite),
        "Replacing the config counts as no key, so a key set meanwhile is lost silently.",
        "It counts as every key: the two exclude each other.",
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
        "A rename or a drop undoes changes of schema and field metadata made meanwhile.",
        "Retryable.",
    ),
    _Difference(
        "safer",
        ops.Update,
        (ops.Update,),
        "Keys that its filters omit (dates, times, decimals, small integers, ...) are not "
        "compared: two merges insert one key twice.",
        "Keys of every type are compared. A reference filter over such keys counts as a filter of "
        "any key. lancekit's filter has a type that the reference cannot compare, so the reference "
        "retries.",
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
        "Merging a generation of a shard twice is detected while the manifest is built. After a "
        "merge of an earlier generation it lands, even if it contains that generation's rows.",
        "The rule detects it, and names the shard; after an earlier generation it is retryable.",
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
        "A trimmed fragment-reuse index is merged with a rewrite's additions, if they are known. "
        "The transaction does not record them, so they can be lost.",
        "Retryable: trim the latest one.",
    ),
    _Difference(
        "less strict",
        ops.CreateIndex,
        (ops.DataReplacement,),
        "Retryable, if a column of the index was replaced in any fragment.",
        "The index lands without these fragments.",
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
        "Bloom filters conflict if a block has a bit in common in each of its eight words. Exact "
        "sets are looked up. A merge that inserted nothing, and an update that wrote neither rows "
        "nor keys, conflict with no key. No common key can be missed.",
    ),
    _Difference(
        "less strict",
        ops.Update,
        (ops.Append,),
        "A merge that inserted nothing conflicts with every append.",
        "It lands.",
    ),
)

#: checks before the rules
_OUTSIDE: tuple[str, ...] = (
    "A version between the version read and the newest one was cleaned up: its changes are "
    "unknown, so the change is retryable. The reference ignores it.",
    "A transaction is not committed twice: if its uuid made the version that it declares as read, "
    "or a later one, that version is the result. If it declares a version after its own, its rows "
    "are refused, because the table has their data files. The reference adds its rows again.",
    "An operation of a newer release is retryable, whatever mine is.",
)

#: cells that look unsafe in the reference, and are the same here
_ALIKE_ON_PURPOSE: tuple[str, ...] = (
    "An append lands over a merge that inserted keys, even if both have a key. An append never "
    "compares its keys with the table, so doing it again would add the same rows. Use a merge if "
    "keys must stay unique.",
    "An append lands over a rename and over a drop. In a column that was computed meanwhile for "
    "the existing rows, the appended rows are null.",
    "A restore lands over nearly every change, because its purpose is to undo changes.",
)

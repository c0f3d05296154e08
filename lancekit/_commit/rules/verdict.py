"""The results of conflict rules: an outcome, and the evidence for it.

Only this module makes the sentences for users from the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from lancekit._commit.rules.effects import field_names
from lancekit._commit.rules.pending import Pending
from lancekit._format.manifest import Manifest

#: the most ids, names or rows in a sentence
_SHOWN = 5


class Outcome(Enum):
    """The outcome for my transaction."""

    COMPATIBLE = "lands unchanged"
    REBASED = "lands, adapted to the other change"
    RETRYABLE = "must be computed again on the newest version"
    INCOMPATIBLE = "can never land"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The parts that both changed, as a sentence and as facts.

    sentence: for users, without a full stop.
    fragments, fields: ids.
    rows: row addresses: fragment id times 2**32, plus the row's offset.
    keys: hashes of keys that both inserted, or may have inserted; empty if no filter lists keys.
    keys_certain: True if both certainly inserted these keys.
    config_keys, indices, bases: names.
    generations: shards of a write-ahead log, and the generation of each that the other merged.
    """

    sentence: str
    fragments: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    fields: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    keys_certain: bool = False
    config_keys: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    generations: tuple[tuple[str, int], ...] = ()
    bases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome and its evidence, which an unchanged landing does not need."""

    outcome: Outcome
    evidence: Evidence | None = None

    @property
    def lands(self) -> bool:
        """True if the transaction can follow the other one."""
        return self.outcome in {Outcome.COMPATIBLE, Outcome.REBASED}


@dataclass(frozen=True, slots=True)
class Context:
    """The information for a rule besides the two operations.

    `mine` has facts that only its writer knows; `read` is the version that mine is based on.
    """

    mine: Pending
    read: Manifest

    def named(self, fields: Iterable[int]) -> str:
        """Return the paths of fields in the version that was read, separated by commas."""
        return ", ".join(field_names(self.read.schema, fields))


#: my operation, their operation, and the context; `RULES` passes only the types of each rule
Rule = Callable[[Any, Any, Context], Verdict]

COMPATIBLE = Verdict(Outcome.COMPATIBLE)


def _verdict(outcome: Outcome, sentence: str, **facts: Any) -> Verdict:
    """Return a verdict with its evidence; sets of ids and names are sorted."""
    facts |= {name: tuple(sorted(of)) for name, of in facts.items() if isinstance(of, Set)}
    return Verdict(outcome, Evidence(sentence=sentence, **facts))


#: mine lands after it is adapted
rebased = partial(_verdict, Outcome.REBASED)
#: mine must be done again
retry = partial(_verdict, Outcome.RETRYABLE)
#: the two changes exclude each other
excluded = partial(_verdict, Outcome.INCOMPATIBLE)


def listed(items: Iterable[object]) -> str:
    """Return the first few items, separated by commas."""
    items = list(items)
    return ", ".join(map(str, items[:_SHOWN])) + (", ..." if len(items) > _SHOWN else "")


def named_fragments(ids: Collection[int]) -> str:
    """Return ``fragment 3`` or ``fragments 3, 4``."""
    return f"fragment{'s' if len(ids) > 1 else ''} {listed(sorted(ids))}"

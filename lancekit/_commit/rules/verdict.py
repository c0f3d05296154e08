"""What a conflict rule answers: an outcome, and the evidence for it.

The sentences a person reads are made of the evidence here and nowhere else.
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

#: how many ids, names or rows a sentence lists
_SHOWN = 5


class Outcome(Enum):
    """What happens to my transaction."""

    COMPATIBLE = "lands as it is"
    REBASED = "lands, adapted to what the other one changed"
    RETRYABLE = "has to be worked out again on the newest version"
    INCOMPATIBLE = "can never land"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What both touched, in a sentence and as facts.

    sentence: for a person, without a full stop.
    fragments, fields: ids.
    rows: row addresses: fragment id times 2**32, plus the row's offset.
    keys: hashes of inserted keys that both have; empty where filters only tell that there may be.
    keys_certain: whether a key is shared for certain, not only possibly.
    config_keys, indices, bases: names.
    generations: regions of a write-ahead log and the generation that the other one merged.
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
    """An outcome and its evidence; what lands unchanged needs none."""

    outcome: Outcome
    evidence: Evidence | None = None

    @property
    def lands(self) -> bool:
        """Whether the transaction can go on top of the other one."""
        return self.outcome in {Outcome.COMPATIBLE, Outcome.REBASED}


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule may look at besides the two operations.

    `mine` has what only its writer knows; `read` is the version it was worked out from.
    """

    mine: Pending
    read: Manifest

    def named(self, fields: Iterable[int]) -> str:
        """Return the paths of fields in the version that was read, separated by commas."""
        return ", ".join(field_names(self.read.schema, fields))


#: my operation, theirs, and the context; `RULES` hands each rule the kinds it is for
Rule = Callable[[Any, Any, Context], Verdict]

COMPATIBLE = Verdict(Outcome.COMPATIBLE)


def _verdict(outcome: Outcome, sentence: str, **facts: Any) -> Verdict:
    """Return a verdict with its evidence; ids and names that come as a set are put in order."""
    facts |= {name: tuple(sorted(of)) for name, of in facts.items() if isinstance(of, Set)}
    return Verdict(outcome, Evidence(sentence=sentence, **facts))


#: mine lands once it is adapted
rebased = partial(_verdict, Outcome.REBASED)
#: the work has to be done again
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

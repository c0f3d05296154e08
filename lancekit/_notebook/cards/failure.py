"""Cards of errors and of commit conflicts, with the next step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from lancekit._format import row_address
from lancekit._legible import clean_line
from lancekit._notebook.cards.common import NAMES, OPERATIONS, facts, ref, when_and_age
from lancekit._notebook.render.models import Card, Fact
from lancekit._notebook.render.words import clean, listing, plural
from lancekit.errors import CommitConflictError, LancekitError

#: the context of an error by name
_Context: TypeAlias = Mapping[str, Any]
#: the longest line of an error's text on a card
_CHARACTERS = 400


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, safe to display."""
    message = error.message if isinstance(error, LancekitError) else str(error)
    return clean_line(message.strip().partition("\n")[0], _CHARACTERS)


def failure_card(error: LancekitError, _now: datetime) -> Card:
    """Return the card of an error; detail lines keep their blanks, since some point at a column."""
    details = [line.rstrip() for line in error.message.splitlines()[1:] if line.strip()]
    return Card(
        kind="Error",
        title=type(error).__name__,
        headline=(first_line(error),),
        facts=(
            *(Fact("", clean_line(line, _CHARACTERS), code=True) for line in details),
            *((Fact("next", clean_line(error.hint, _CHARACTERS)),) if error.hint else ()),
        ),
    )


# ---- the card of a conflict: writer, change, location, and the next line of code


def conflict_card(error: CommitConflictError, now: datetime) -> Card:
    """Return the card of a conflict; facts that are not in the error's context are left out."""
    context = error.context
    evidence: _Context = context.get("evidence") or {}
    code = str(context.get("code") or "")
    reason = str(context.get("reason") or error.message)
    return Card(
        kind="Conflict",
        title=_title(context),
        headline=(_ahead(error),),
        facts=facts(
            ("reason", clean(reason[:1].upper() + reason[1:]).rstrip(".")),
            ("writer", clean(str(context.get("writer") or ""))),
            ("origin", clean(str(context.get("origin") or ""))),
            ("message", clean(str(context.get("message") or ""))),
            ("committed", when_and_age(context.get("timestamp"), now)),
            *((label, show(evidence)) for label, show in _WHERE.items()),
            ("read version", _read_version(context)),
            ("next", "" if code else error.hint),
            *((Fact("next", code, code=True),) if code else ()),
        ),
    )


def _title(context: _Context) -> str:
    words = [OPERATIONS.get(str(context.get(side)), ("",))[0] for side in ("mine", "theirs")]
    if not all(words) or context.get("version") is None:
        return "another writer committed first"
    words[0] = clean(str(context.get("doing") or words[0]))
    place = ref(context.get("branch"), context["version"])
    return f"your {words[0]} conflicts with the {words[1]} of {place}"


def _ahead(error: CommitConflictError) -> str:
    if attempts := error.context.get("attempts"):
        return f"failed after {plural(attempts, 'attempt')}"
    return "can be retried on the newest version" if error.retryable else "cannot be retried"


def _read_version(context: _Context) -> str:
    version = context.get("read_version")
    return "" if version is None else ref(context.get("branch"), version)


def _names(name: str) -> Callable[[_Context], str]:
    return lambda evidence: listing(map(str, evidence.get(name, ())), NAMES)


def _rows(evidence: _Context) -> str:
    addresses: Sequence[int] = evidence.get("rows", ())
    named = (f"{offset} of fragment {id_}" for id_, offset in map(row_address.parts, addresses))
    return listing(named, NAMES)


def _keys(evidence: _Context) -> str:
    hashes: Sequence[int] = evidence.get("keys", ())
    if not hashes:
        return ""
    sure = "in both commits" if evidence.get("keys_certain") else "possibly in both commits"
    return f"{sure}: hashes {listing((f'{h:016x}' for h in hashes), NAMES)}"


def _generations(evidence: _Context) -> str:
    return listing((f"{shard}: {n}" for shard, n in evidence.get("generations", ())), NAMES)


_WHERE: Mapping[str, Callable[[_Context], str]] = {
    "fragments": _names("fragments"),
    "rows": _rows,
    "columns": _names("columns"),
    "keys": _keys,
    "config": _names("config_keys"),
    "indices": _names("indices"),
    "base paths": _names("bases"),
    "generations": _generations,
}

"""Changes from an explorer (restore, tag, branch, promote), each with a plan shown beforehand.

A change calls public methods on separate handles: the user's handle does not move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from lancekit._legible import code, shown
from lancekit._notebook.cards.common import ref
from lancekit._notebook.explorer.pages import Reader
from lancekit._notebook.explorer.state import Place
from lancekit._notebook.explorer.views import checkout_code
from lancekit._notebook.render.controls import as_html
from lancekit._notebook.render.html import render_code
from lancekit._notebook.render.models import Card, Fact
from lancekit._notebook.render.words import clean
from lancekit.errors import InvalidArgumentError, RetryableConflictError

ChangeKind = Literal["restore", "tag", "branch", "promote"]
CHANGES: tuple[ChangeKind, ...] = get_args(ChangeKind)
#: meaning of the name, for the changes that need one
NAMED: Mapping[ChangeKind, str] = {
    "tag": "the tag",
    "branch": "the new branch",
    "promote": "the branch that gets the changes",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A requested change: its kind, the selected version, and the name if the kind needs one."""

    kind: ChangeKind
    place: Place
    name: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """A planned change: its card, its code, and the state of branches and tags it is valid for.

    `heads` has the newest versions of the branches at planning time, and `tag` the version of the
    tag `name` at that time.
    """

    card: object
    code: str
    run: Callable[[], object]
    heads: Mapping[str, int] = field(default_factory=dict)
    tag: Place | None = None
    name: str = ""

    def _repr_html_(self) -> str:
        return as_html(self.card) + render_code(self.code)


def plan_change(reader: Reader, change: Change) -> Plan:
    """Return the plan of a change; nothing is written.

    Raises InvalidArgumentError: the name is missing, or the change is not possible at this version.
    Raises LancekitError: as the change itself.
    """
    if change.kind in NAMED and not change.name:
        raise InvalidArgumentError(f"Write a name first: {NAMED[change.kind]}.")
    return _PLANS[change.kind](reader, change)


def apply_plan(reader: Reader, plan: Plan) -> object:
    """Apply a plan, and return its result, an object with a card.

    Raises RetryableConflictError: another writer has committed or moved the tag since the plan.
    """
    reader.forget()
    for branch, head in plan.heads.items():
        newest = reader.newest(branch)
        if newest != head:
            raise RetryableConflictError(
                f"Branch {shown(branch)} moved from version {head} to {newest} since the preview. "
                "Nothing was changed.",
                hint="Preview the change again.",
                branch=branch,
                newest=newest,
            )
    if reader.tags is not None and reader.tags.get(plan.name) != plan.tag:
        raise RetryableConflictError(
            f"Tag {shown(plan.name)} was moved since the preview. Nothing was changed.",
            hint="Preview the change again.",
            tag=plan.name,
        )
    try:
        return plan.run()
    finally:
        reader.forget()


def _restore(reader: Reader, change: Change) -> Plan:
    handle = reader.handle(change.place)
    newest = reader.newest(change.place[0])
    if newest == change.place[1]:
        raise InvalidArgumentError(f"{ref(*change.place)} is the newest version already.")

    def run() -> object:
        own = reader.fresh(change.place)
        own.restore()
        return own.get_version()

    return Plan(
        card=handle.explain.restore(),
        code=f"{checkout_code(reader.home, change.place)}.restore()",
        heads={change.place[0]: newest},
        run=run,
    )


def _tag(reader: Reader, change: Change) -> Plan:
    if reader.tags is None:
        raise InvalidArgumentError(
            "There are too many tags to list here.", hint="Use ds.tags.create(name, version)."
        )
    old, name = reader.tags.get(change.name), change.name
    tags = reader.handle(change.place).tags

    def run() -> object:
        (tags.create if old is None else tags.update)(name, change.place)
        return tags

    way = "create" if old is None else "update"
    was = () if old is None else (Fact("current version", ref(*old)),)
    return Plan(
        card=Card(
            kind="Tag plan",
            title=f"tag {clean(name)} → {ref(*change.place)}",
            headline=("new tag" if old is None else "moved tag",),
            facts=(*was, Fact("writes", "1 tag file, no version")),
        ),
        code=f"ds.tags.{way}({code(name)}, ({code(change.place[0])}, {change.place[1]}))",
        tag=old,
        name=name,
        run=run,
    )


def _branch(reader: Reader, change: Change) -> Plan:
    handle = reader.handle(change.place)
    if change.name in reader.branches:
        raise InvalidArgumentError(
            f"Branch {shown(change.name)} exists already.", hint="Choose another name."
        )
    return Plan(
        card=handle.explain.create_branch(change.name),
        code=f"{checkout_code(reader.home, change.place)}.create_branch({code(change.name)})",
        run=lambda: handle.create_branch(change.name),
    )


def _promote(reader: Reader, change: Change) -> Plan:
    source, version = change.place
    newest = reader.newest(source)
    if version != newest:
        raise InvalidArgumentError(
            f"Only a branch's newest version, {newest}, can be promoted, got version {version}.",
            hint="Select the newest version, or create a branch here and promote it.",
        )
    plan = reader.handle(change.place).branches.merge(source, change.name, dry_run=True)
    return Plan(
        card=plan,
        code=f"ds.branches.merge({code(source)}, {code(change.name)})",
        heads={source: plan.theirs[1], change.name: plan.ours[1]},
        run=plan.apply,
    )


_PLANS: Mapping[ChangeKind, Callable[[Reader, Change], Plan]] = {
    "restore": _restore,
    "tag": _tag,
    "branch": _branch,
    "promote": _promote,
}

"""The cards of tags and of branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from lancekit._api.branches import Branches
from lancekit._api.tags import Tags
from lancekit._notebook.cards.common import REFS_READ, first_of, ref, table, when_and_age
from lancekit._notebook.render.models import Card, Column, Row
from lancekit._notebook.render.words import clean, plural
from lancekit.options import options

__all__ = ["branches_card", "tags_card"]


def tags_card(tags: Tags, now: datetime) -> Card:
    def row(name: str, tag: Mapping[str, Any]) -> Row:
        made, moved = tag.get("created_at"), tag.get("updated_at")
        cells = (ref(tag["branch"], tag["version"]), when_and_age(made, now))
        return Row((clean(name), *cells, when_and_age(moved, now) if moved != made else ""))

    columns = (Column("tag"), Column("version"), Column("created"), Column("moved"))
    return _refs_card("Tags", ("tag", "tags"), tags, columns, row)


def branches_card(branches: Branches, now: datetime) -> Card:
    def row(name: str, branch: Mapping[str, Any]) -> Row:
        made = datetime.fromtimestamp(branch["create_at"], now.tzinfo)
        fork = ref(branch["parent_branch"], branch["parent_version"])
        return Row(
            (clean(name), fork, when_and_age(made, now), f"ds.checkout_version({(name, None)!r})")
        )

    columns = (Column("branch"), Column("forked from"), Column("created"), Column("open"))
    return _refs_card("Branches", ("branch", "branches"), branches, columns, row)


def _refs_card(
    kind: str,
    noun: tuple[str, str],
    refs: Tags | Branches,
    columns: tuple[Column, ...],
    row: Callable[[str, Mapping[str, Any]], Row],
) -> Card:
    (names, pairs), most = refs._names_and_refs(REFS_READ), options.display_rows
    if pairs is None:
        rows = tuple(Row((clean(name), *[""] * (len(columns) - 1))) for name in names[:most])
    else:
        rows = tuple(row(name, ref) for name, ref in pairs[:most])
    call = f"ds.{kind.lower()}.list()"
    return Card(
        kind=kind,
        title=plural(len(names), *noun),
        headline=(),
        tables=(
            table(
                caption="By name" if pairs is None else "Newest version first",
                columns=columns,
                rows=rows,
                note=first_of(most, len(names), call),
            ),
        )
        if names
        else (),
    )

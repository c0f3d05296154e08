"""Cards of histories, versions, tags, branches, transactions and deltas."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from lancekit._api._handle import Handle
from lancekit._api.branches import Branches
from lancekit._api.changes import DatasetDelta
from lancekit._api.history import History, Version
from lancekit._api.tags import AtVersion, RefInfo, Tags
from lancekit._format.fragment import Fragment
from lancekit._format.index import IndexMetadata
from lancekit._format.key_filter import ExactKeySet, KeyFilter
from lancekit._format.manifest import BasePath
from lancekit._format.names import MAIN
from lancekit._format.operation_parts import (
    CompactedSsTable,
    DataReplacementGroup,
    RewriteGroup,
    UpdateMap,
)
from lancekit._format.operations import Operation, UnknownOperation, UpdateConfig
from lancekit._format.schema import LanceSchema
from lancekit._format.transaction import COMMIT_MESSAGE, ROW_COUNTS, Transaction
from lancekit._notebook.cards.common import (
    NAMES,
    REFS_READ,
    TOO_MANY_TAGS,
    checkout,
    data_size,
    facts,
    first_of,
    fragments,
    is_quiet,
    operation,
    operation_word,
    origin,
    ref,
    table,
    tags_by_version,
    titled,
    when_and_age,
)
from lancekit._notebook.render.models import Card, Column, Fact, Row
from lancekit._notebook.render.words import (
    age,
    clean,
    count,
    listing,
    moment,
    place,
    plural,
    signed,
)
from lancekit._provenance import PREFIX
from lancekit.options import options

_COLUMNS = titled(
    *("version", "committed", "age", "operation", "rows", "change", "message", "origin", "tags"),
    numeric=("version", "rows", "change"),
)


def history_card(history: History, now: datetime) -> Card:
    """Return the card of a history, or of a slice of one."""
    # a version takes one short line and one small read, so a page has twice as many as of rows
    page = 2 * options.display_rows
    tags = tags_by_version(history.tags, history.branch)
    whole, own = history.whole.numbers, len(history)
    shown = history[-page:] if page else history[:0]
    all_of = plural(len(whole), "version")
    return Card(
        kind="History",
        title=all_of if own == len(whole) else f"{count(own)} of {all_of}",
        headline=(f"{ref(history.branch, whole[0])} to {ref(history.branch, whole[-1])}",),
        facts=facts(("tags", TOO_MANY_TAGS if tags is None else "")),
        tables=(
            table(
                caption="Newest first",
                columns=_COLUMNS,
                rows=tuple(_line(history, v, tags or {}, now) for v in reversed(shown)),
                note=_next_page(whole, shown.numbers, page),
            ),
        ),
    )


def _next_page(whole: Sequence[int], shown: Sequence[int], page: int) -> str:
    """Return the call that shows the versions before the oldest one shown; ``""`` if none."""
    older = bisect_left(whole, shown[0]) if shown else 0
    if not older:
        return ""
    end = len(whole) - older
    start = f"-{end + page}" if older > page else ""
    return f"{count(older)} older: ds.versions()[{start}:-{end}]"


def _line(
    history: History, version: Version, tags: Mapping[int, Sequence[str]], now: datetime
) -> Row:
    return Row(
        (
            str(version.version),
            moment(version.timestamp),
            age(version.timestamp, now),
            operation(version),
            count(version.num_rows),
            _change(history, version),
            clean(version.message or ""),
            str(version.provenance or ""),
            listing(sorted(tags.get(version.version, [])), NAMES),
        ),
        quiet=is_quiet(version.operation),
    )


def _change(history: History, version: Version) -> str:
    """Return what a version changed: rows, or the number of files for a compaction."""
    known, difference = version._facts, history.row_change(version)
    if known.rows:
        inserted, updated, deleted = known.rows
        parts = (signed(inserted), f"{count(updated)} updated", f"{count(deleted)} deleted")
        return ", ".join(part for part, n in zip(parts, known.rows, strict=True) if n) or "no row"
    if known.files:
        return f"{plural(known.files[0], 'file')} to {count(known.files[1])}"
    if known.rewritten and not difference:
        return f"{count(known.rewritten)} rewritten"
    return "unknown" if difference is None else signed(difference)


def version_card(version: Version, now: datetime) -> Card:
    line, parent = checkout(version.branch, version.version), version.read_version
    numbers = (version.version - 1, version.version)
    ends = [n if version.branch == MAIN else (version.branch, n) for n in numbers]
    has_diff = numbers[0] and version.operation != "Clone"  # a clone is the first version
    return Card(
        kind="Version",
        title=ref(version.branch, version.version),
        headline=(
            operation(version),
            plural(version.num_rows, "row"),
            data_size(version),
            when_and_age(version.timestamp, now),
        ),
        facts=facts(
            ("message", clean(version.message or "")),
            ("writer", clean(version.writer or "")),
            ("origin", origin(version)),
            ("read version", count(parent) if parent else ""),
            ("columns", count(version.num_columns)),
            ("fragments", fragments(version)),
            Fact("open", line, code=True),
            Fact("diff", f"ds.diff({ends[0]!r}, {ends[1]!r})" if has_diff else "", code=True),
            Fact("restore", f"{line}.restore()", code=True),
        ),
    )


# ---- the cards of tags and of branches


def tags_card(tags: Tags[AtVersion], now: datetime) -> Card:
    def row(name: str, tag: RefInfo) -> Row:
        made, moved = tag.get("created_at"), tag.get("updated_at")
        cells = (ref(tag["branch"], tag["version"]), when_and_age(made, now))
        return Row((clean(name), *cells, when_and_age(moved, now) if moved != made else ""))

    columns = titled("tag", "version", "created", "moved")
    return refs_card("Tags", ("tag", "tags"), tags, columns, row)


def branches_card(branches: Branches[Handle], now: datetime) -> Card:
    def row(name: str, branch: RefInfo) -> Row:
        made = datetime.fromtimestamp(branch["create_at"], now.tzinfo)
        fork = ref(branch["parent_branch"], branch["parent_version"])
        return Row((clean(name), fork, when_and_age(made, now), f"ds.branches[{name!r}]"))

    columns = titled("branch", "forked from", "created", "open")
    return refs_card("Branches", ("branch", "branches"), branches, columns, row)


def refs_card(
    kind: str,
    noun: tuple[str, str],
    refs: Tags[AtVersion] | Branches[Handle],
    columns: tuple[Column, ...],
    row: Callable[[str, RefInfo], Row],
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


# ---- the cards of a transaction, and of a delta between two versions

_ROWS = ("get_inserted_rows()", "get_updated_rows()", "get_deleted_row_ids()")
_COMMITS = titled("version", "operation", "changes", "message", numeric=("version",))


def transaction_card(transaction: Transaction, _now: datetime) -> Card:
    properties = {
        key: value
        for key, value in transaction.transaction_properties.items()
        if not key.startswith(("__", PREFIX, ROW_COUNTS))
    }
    return Card(
        kind="Transaction",
        title=_word(transaction),
        headline=(f"read version {transaction.read_version}",),
        facts=facts(
            ("message", clean(transaction.transaction_properties.get(COMMIT_MESSAGE, ""))),
            ("origin", str(transaction.provenance or "")),
            *operation_facts(transaction.operation),
            ("properties", _pairs(properties)),
            ("uuid", clean(transaction.uuid)),
        ),
    )


def delta_card(delta: DatasetDelta, _now: datetime) -> Card:
    number, branch = delta.end_version - delta.begin_version, delta._dataset._location.name
    shown = delta.commits(newest=options.display_rows)
    missing = delta.missing
    older = number - len(missing) - len(shown)
    return Card(
        kind="Delta",
        title=f"delta {ref(branch, delta.begin_version)} → {ref(branch, delta.end_version)}",
        headline=(plural(number, "commit"),),
        facts=(
            Fact("rows", ", ".join(_ROWS), code=True),
            *([Fact("cleaned up", listing(map(str, missing), NAMES))] if missing else []),
        ),
        tables=(
            table(
                caption="Newest first",
                columns=_COMMITS,
                rows=tuple(_commit(version, made) for version, made in reversed(shown)),
                note=f"{count(older)} older: commits()" if older else "",
            ),
        ),
    )


def _commit(version: int, transaction: Transaction | None) -> Row:
    if transaction is None:
        return Row((str(version), "not recorded", "", ""))
    what = "; ".join(f"{label} {text}" for label, text in operation_facts(transaction.operation))
    message = transaction.transaction_properties.get(COMMIT_MESSAGE, "")
    cells = (str(version), _word(transaction), what, clean(message))
    return Row(cells, quiet=is_quiet(type(transaction.operation).__name__))


def _word(transaction: Transaction) -> str:
    operation = transaction.operation
    if isinstance(operation, UnknownOperation):
        return clean(operation.name) or "unknown operation"
    return operation_word(type(operation).__name__, first=transaction.read_version == 0)


def operation_facts(operation: Operation) -> list[tuple[str, str]]:
    """Return a label and words for each field of an operation that is not empty."""
    if isinstance(operation, UpdateConfig):
        operation = operation.normalised()
    values = ((f.name, getattr(operation, f.name)) for f in fields(operation))
    known = ((_PARTS[name], value) for name, value in values if name in _PARTS)
    return [(label, say(value)) for (label, say), value in known if value or value == 0]


def _fragments(fragments: Sequence[Fragment]) -> str:
    rows = plural(sum(f.num_rows for f in fragments), "row")
    return f"{plural(len(fragments), 'fragment')}, {rows}"


def _ids(what: str) -> Callable[[Sequence[int]], str]:
    return lambda ids: f"{what}{'s' if len(ids) > 1 else ''} {listing(map(str, ids), NAMES)}"


def _columns(schema: LanceSchema) -> str:
    names = [field.name for field in schema.fields]
    return f"{plural(len(names), 'column')}: {listing(names, NAMES)}"


def _groups(groups: Sequence[RewriteGroup]) -> str:
    old, new = (sum(len(getattr(g, side)) for g in groups) for side in _SIDES)
    return f"{plural(old, 'fragment')} into {count(new)}"


def _indices(indices: Sequence[IndexMetadata]) -> str:
    return listing(sorted({index.name for index in indices}), NAMES)


def _bases(bases: Sequence[BasePath]) -> str:
    return listing((f"{base.name or base.id}: {place(base.path)}" for base in bases), NAMES)


def _changes(update: UpdateMap) -> str:
    changed = {k: v for k, v in update.updates.items() if v is not None}
    removed = [k for k, v in update.updates.items() if v is None]
    parts = [_pairs(changed), f"removed {listing(removed, NAMES)}" if removed else ""]
    return ("replaced by " if update.replace else "") + "; ".join(filter(None, parts))


def _pairs(values: Mapping[str, str]) -> str:
    return listing((f"{key} = {value}" for key, value in sorted(values.items())), NAMES)


def _fields(updates: Mapping[int, UpdateMap]) -> str:
    return listing((f"field {key}: {_changes(update)}" for key, update in updates.items()), NAMES)


def _keys(keys: KeyFilter) -> str:
    if isinstance(keys, ExactKeySet):
        return f"exact, {plural(len(keys.hashes), 'key')}"
    return "Bloom"


def _generations(merged: Sequence[CompactedSsTable]) -> str:
    return listing((f"{m.shard_id} up to {m.generation}" for m in merged), NAMES)


def _replaced(groups: Sequence[DataReplacementGroup]) -> str:
    return _ids("fragment")(sorted({group.fragment_id for group in groups}))


_SIDES = ("old_fragments", "new_fragments")

#: by field of an operation: its label, and the function that puts its value into words
_PARTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "fragments": ("fragments", _fragments),
    "updated_fragments": ("changed", lambda changed: plural(len(changed), "fragment")),
    "new_fragments": ("added", _fragments),
    "old_fragments": ("replaced", _fragments),
    "deleted_fragment_ids": ("removed", _ids("fragment")),
    "removed_fragment_ids": ("removed", _ids("fragment")),
    "predicate": ("where", clean),
    "new_schema": ("schema", _columns),
    "schema": ("schema", _columns),
    "config_upsert_values": ("config", _pairs),
    "initial_bases": ("base paths", _bases),
    "new_bases": ("base paths", _bases),
    "new_indices": ("indices", _indices),
    "removed_indices": ("removed indices", _indices),
    "groups": ("compacted", _groups),
    "version": ("restored", lambda version: f"version {version}"),
    "num_fragments": ("reserved", lambda number: plural(number, "fragment id")),
    "fields_modified": ("rewritten", _ids("field")),
    "inserted_rows": ("key filter", _keys),
    "config_updates": ("config", _changes),
    "table_metadata_updates": ("table metadata", _changes),
    "schema_metadata_updates": ("schema metadata", _changes),
    "field_metadata_updates": ("field metadata", _fields),
    "replacements": ("replaced", _replaced),
    "compacted_sstables": ("merged", _generations),
    "ref_version": ("source version", str),
    "ref_path": ("source", lambda path: clean(place(path))),
    "branch_name": ("branch", clean),
}

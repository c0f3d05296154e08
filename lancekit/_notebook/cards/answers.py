"""Cards of the answers of calls that return nothing in pylance, and the way back from a change."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from lancekit._api.answer import Answer
from lancekit._api.history import History, Version, describe_version
from lancekit._format.mem_wal.details import details_of
from lancekit._format.names import MAIN
from lancekit._format.operations import Append, Merge, Operation
from lancekit._format.refs import Branch, Tag
from lancekit._legible import code
from lancekit._notebook.cards.common import NAMES, REFS_READ, checkout, facts, operation, ref
from lancekit._notebook.cards.versions import operation_facts
from lancekit._notebook.render.models import Card, Fact
from lancekit._notebook.render.words import clean, count, cut, listing, plural, size
from lancekit._operations.index.describe import describe_indices
from lancekit._versions import reference_files
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import LancekitError

if TYPE_CHECKING:
    from lancekit._format.fragment import Fragment
    from lancekit._format.index import IndexMetadata
    from lancekit._operations.alter_columns import Alteration

#: the most characters of changed settings in a title
_LONGEST = 80
_REMOVED = "not possible: its files are removed"
#: a title, more facts, and the call that takes the change back; empty facts are left out
Words = tuple[str, Mapping[str, str], str]
UNDO = "ds.undo()"


def answer_card(answer: Answer, _now: datetime) -> Card:
    """Return the card of an answer; it reads at most lists of versions, tags and branches."""
    kind, say = _CALLS[answer.call]
    title, details, back = say(*answer._moved, **answer._given)
    label = "redo" if answer.call in {"undo", "tags.delete"} else "undo"
    way = [Fact(label, back, code=True)] if back else []
    if back == UNDO:
        after = answer._moved[-1]
        way = undo_facts(after.location, after.branch, after.version)
    at = (ref(answer.branch, answer.version),) if answer._moved else ()
    return Card(kind=kind, title=title, headline=at, facts=facts(*details.items(), *way))


def undo_facts(
    location: BranchLocation | None, branch: str | None, version: int, *, here: bool = True
) -> list[Fact]:
    """Return the call that undoes a version, and the later versions that it would undo, too.

    ``here`` says that the handle of the call is on the branch.
    """
    # the version before, not the one that the change read: others can have committed in between
    before = version - 1
    to = checkout(branch, before) if here else f"ds.checkout_version({(branch or MAIN, before)!r})"
    line = Fact("undo", f"{to}.restore()", code=True)
    if location is None:
        return [line, Fact("also undone", "all later commits")]
    history = History(location)
    if before not in history.numbers:
        return [Fact("undo", f"not possible: version {count(before)} was cleaned up")]
    newer, names = named_versions(history, version)
    if newer:
        return [line, Fact("also undone", names)]
    return [Fact("undo", UNDO, code=True) if here else line]


def named_versions(history: History, after: int) -> tuple[int, str]:
    """Return the number of versions after ``after``, and their names in words."""
    place = bisect_right(history.numbers, after)
    newer = len(history) - place
    named = listing(map(_named, history[place : place + NAMES]), NAMES)
    more = f", and {count(newer - NAMES)} more" if newer > NAMES else ""
    return newer, f"{plural(newer, 'newer version')}: {named}{more}"


def _named(version: Version) -> str:
    message = f": {version.message}" if version.message else ""
    writer = version.writer or "an unnamed writer"
    return f"{version.version} ({operation(version)} by {writer}{message})"


# ---- what each call has done: the arguments are the versions before and after, and its facts


def _operation(after: Snapshot) -> Operation | None:
    return after.transaction.operation if after.transaction else None


def _inserted(before: Snapshot, after: Snapshot, names: Collection[str]) -> Words:
    done = _operation(after)
    new: Sequence[Fragment] = getattr(done, "fragments", ())
    if wider := isinstance(done, Merge):  # with schema_mode="merge"
        last = _predecessor(before, after).manifest
        known = set(last.fragments.ids.tolist())
        new = [fragment for fragment in after.manifest.fragments if fragment.id not in known]
    old = {field.id for field in last.schema.fields} if wider else set()
    added = [f.name for f in after.manifest.schema.fields if f.id not in old] if wider else []
    number = sum(fragment.num_rows for fragment in new)
    appended = isinstance(done, Append | Merge)
    # another writer may have renamed columns
    given = {f.id for f in before.manifest.schema.fields if f.name in names and appended}
    lacked = [f for f in after.manifest.schema.fields if f.id not in given and f.name not in names]
    nulls = listing([field.name for field in lacked], NAMES)
    written = sum(file.size_bytes or 0 for fragment in new for file in fragment.files)
    what = "inserted" if appended else "replaced all by"
    rows = f"{plural(number, 'row')} {'into' if appended else 'in'} {plural(len(new), 'fragment')}"
    return (
        f"{what} {rows}{nulls and f', null in {nulls}'}" if number else f"{what} no rows",
        {
            "null": nulls and f"{nulls}: not in the rows",
            "added columns": listing(added, NAMES),
            "rows": count(after.manifest.num_rows),
            "new data": size(written) if written else "",
        },
        UNDO,
    )


def _predecessor(before: Snapshot, after: Snapshot) -> Snapshot:
    """Return the version before ``after``: others may have committed since ``before``."""
    with suppress(LancekitError):  # it may have been cleaned up
        if after.version > before.version + 1:
            return load_snapshot(after.location, after.version - 1)
    return before


def _added(before: Snapshot, after: Snapshot) -> Words:
    before = _predecessor(before, after)
    known = {field.id for field in before.manifest.schema.fields}
    new = [field.name for field in after.manifest.schema.fields if field.id not in known]
    written = after.manifest.totals().bytes - before.manifest.totals().bytes
    return f"added {_columns(new)}", {"new data": size(written) if written > 0 else "none"}, UNDO


def _dropped(_: Snapshot, __: Snapshot, columns: Sequence[str] = (), name: str = "") -> Words:
    what = _columns(columns) if columns else f"index {clean(name)}"
    return f"dropped {what}", {"files": "unchanged: older versions need them"}, UNDO


def _columns(names: Collection[str]) -> str:
    number = "column" if len(names) == 1 else f"{plural(len(names), 'column')}:"
    return f"{number} {listing(names, NAMES)}"


def _altered(_: Snapshot, __: Snapshot, changes: tuple[Alteration, ...]) -> Words:
    def words(one: Alteration) -> str:
        new = (("name", one.name), ("type", one.data_type), ("nullable", one.nullable))
        said = (f"{label} {clean(str(value))}" for label, value in new if value is not None)
        return f"{clean(one.path)} ({', '.join(said)})"

    title = f"altered {plural(len(changes), 'column')}: {listing(map(words, changes), NAMES)}"
    return title, {}, UNDO


def _latest(before: Snapshot, after: Snapshot) -> Words:
    if before.version == after.version:
        return "already at the newest version", {}, ""
    rows = plural(after.manifest.num_rows, "row")
    return f"moved from version {count(before.version)}: now {rows}", {}, ""


def _restored(_: Snapshot, after: Snapshot, version: int) -> Words:
    rows = plural(after.manifest.num_rows, "row")
    back = f"ds.restore({after.version - 1})"  # an undo of a restore warns
    return f"restored version {count(version)}: now {rows}", {}, back


def _undone(before: Snapshot, after: Snapshot) -> Words:
    version, kept = describe_version(before), _built_on(before)
    what = f"{ref(before.branch, before.version)} ({operation(version)})"
    title = f"took back {what}: now {plural(after.manifest.num_rows, 'row')}"
    return (
        f"{title}{kept and f'; kept by {kept}'}",
        {
            "message": clean(version.message or ""),
            "built on": kept and f"{kept}: still at the undone version",
        },
        f"ds.restore({before.version})",
    )


def _built_on(undone: Snapshot) -> str:
    """Return the tags and branches that keep a version that was undone."""
    root = undone.location.root
    files = reference_files.tag_files(root), reference_files.branch_files(root)
    tags: Mapping[str, Tag] = {}
    branches: Mapping[str, Branch] = {}
    if max(map(len, files)) <= REFS_READ:
        tags = reference_files.list_tags(root, files[0]) if files[0] else tags
        branches = reference_files.list_branches(root, files[1]) if files[1] else branches
    places = {f"tag {name}": (tag.branch, tag.version) for name, tag in tags.items()} | {
        f"branch {name}": (one.parent_branch, one.parent_version) for name, one in branches.items()
    }
    at = (undone.location.branch, undone.version)
    return listing([name for name, place in places.items() if place == at], NAMES)


def _tag(name: str, new: Tag | None, old: Tag | None, here: str | None) -> Words:
    at, *was = (ref(tag.branch, tag.version) for tag in (new, old) if tag) if new or old else ("",)
    if new and not old:
        return f"tag {clean(name)} created on {at}", {}, f"ds.tags.delete({code(name)})"
    if old is None:  # it was damaged
        return f"tag {clean(name)} deleted", {}, ""
    back = f"({code(name)}, {old.version if old.branch == here else (old.branch, old.version)})"
    if new:
        return f"tag {clean(name)} moved from {was[0]} to {at}", {}, f"ds.tags.update{back}"
    return f"tag {clean(name)} deleted from {at}", {}, f"ds.tags.create{back}"


def _said(text: str, **details: str) -> Callable[..., Words]:
    """Return a function that says a text with the arguments of the call, numbers with a noun."""

    def word(name: str, one: object) -> str:
        return plural(one, name[:-1]) if isinstance(one, int) else clean(str(one))

    return lambda *_, **given: (text.format_map({n: word(n, given[n]) for n in given}), details, "")


def _gone(uri: str, rows: int | None) -> Words:
    if rows is None:
        return f"nothing to drop: there is no dataset at {clean(uri)}", {}, ""
    return f"dropped {clean(uri)} with {plural(rows, 'row')}", {"undo": _REMOVED}, ""


def _constraint(_: Snapshot, __: Snapshot, done: str, name: str, condition: str) -> Words:
    back = f"ds.constraints.drop({code(name)})" if done == "added" else UNDO
    return f"{done} constraint {clean(name)}", {"condition": clean(condition)}, back


def _configured(before: Snapshot, after: Snapshot) -> Words:
    if before.version == after.version:
        return "nothing to change", {}, ""
    parts = ("config", "table_metadata", "schema")
    if all(getattr(before.manifest, one) == getattr(after.manifest, one) for one in parts):
        return "no value changed: the keys were missing, or had these values", {}, ""
    done = _operation(after)
    changed = dict(operation_facts(done) if done else [])
    words = cut("; ".join(changed.values()), _LONGEST)
    longer = {label: text for label, text in changed.items() if len(text) > _LONGEST}
    return f"changed {', '.join(changed)}: {words}", longer, UNDO


def _segments(after: Snapshot, kind: str) -> Sequence[IndexMetadata]:
    """Return the ``"new"`` or ``"removed"`` segments of a commit."""
    found: Sequence[IndexMetadata] = getattr(_operation(after), f"{kind}_indices", ())
    return found


def _indexed(_: Snapshot, after: Snapshot, fragments: list[int] | None = None) -> Words:
    if fragments is not None:
        part = f"indexed {plural(len(fragments), 'fragment')} for an index in parts"
        return part, {"next": "ds.merge_index_metadata(), then a commit of the index"}, ""
    name = _segments(after, "new")[0].name
    index = next(one for one in describe_indices(after) if one.name == name)
    on, rows = listing(index.field_names, NAMES), plural(index.num_rows_indexed, "row")
    bytes_ = index.total_size_bytes
    back = UNDO if _segments(after, "removed") else f"ds.drop_index({code(name)})"
    title = f"indexed {on} ({clean(index.index_type)}) as {clean(name)}, {rows}"
    return title, {"size": size(bytes_) if bytes_ else ""}, back


def _optimized(before: Snapshot, after: Snapshot) -> Words:
    if before.version == after.version:
        return "nothing to do: the indices cover all rows", {}, ""
    made = sorted({index.name for index in _segments(after, "new")})
    return f"updated {plural(len(made), 'index', 'indices')}: {listing(made, NAMES)}", {}, ""


def _described(ref: str, keys: list[str]) -> Words:
    what = f"set metadata of {clean(ref)}: {listing(keys, NAMES)}"
    return what if keys else f"removed all metadata of {clean(ref)}", {}, ""


def _logs_enabled(_: Snapshot, after: Snapshot) -> Words:
    details = details_of(after.indices)
    shards = details.num_shards if details else 0
    how = plural(shards, "shard") if shards else "writers choose the shard"
    return f"enabled write-ahead logs: {how}", {"next": "ds.mem_wal_upsert(rows)"}, UNDO


def _valid(_: Snapshot, after: Snapshot, *, deep: bool) -> Words:
    files = plural(after.manifest.totals().data_files, "data file")
    how = "every value was read" if deep else "only their structure was read"
    return f"no damage in {files}: {how}", {"next": "" if deep else "ds.validate(deep=True)"}, ""


#: by call: the kind of its card, and the function that says what it has done
_CALLS: dict[str, tuple[str, Callable[..., Words]]] = {
    "insert": ("Insert", _inserted),
    "add_columns": ("Columns", _added),
    "merge": ("Columns", _added),
    "drop_columns": ("Columns", _dropped),
    "alter_columns": ("Columns", _altered),
    "checkout_latest": ("Version", _latest),
    "restore": ("Restore", _restored),
    "undo": ("Undo", _undone),
    "tags.create": ("Tag", _tag),
    "tags.update": ("Tag", _tag),
    "tags.delete": ("Tag", _tag),
    "branches.delete": ("Branch", _said("branch {branch} deleted", undo=_REMOVED)),
    "save": ("Model", _said("saved {vectors} as {part} of a model at {uri}")),
    "drop": ("Dataset", _gone),
    "writer.put": ("Shard", _said("put {rows} into shard {shard}")),
    "writer.delete": ("Shard", _said("deleted {rows} from shard {shard}")),
    "writer.close": ("Shard", _said("closed the writer of shard {shard}: {rows} flushed")),
    "constraints": ("Constraint", _constraint),
    "settings": ("Settings", _configured),
    "create_scalar_index": ("Index", _indexed),
    "drop_index": ("Index", _dropped),
    "prewarm_index": ("Index", _said("loaded {segments} of index {name}")),
    "merge_index_metadata": (
        "Index",
        _said("merged the parts of index {uuid}", next="a commit of the index"),
    ),
    "replace_metadata": ("Settings", _described),
    "initialize_mem_wal": ("Write-ahead logs", _logs_enabled),
    "migrate_manifest_paths_v2": ("Settings", _said("renamed {manifests}")),
    "optimize_indices": ("Index", _optimized),
    "validate": ("Validation", _valid),
}

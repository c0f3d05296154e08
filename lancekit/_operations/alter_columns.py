"""Drop columns, rename them, change their nullability, or cast them to other types.

See docs/format/operations.md, 6.2.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import pyarrow as pa

from lancekit._commit.rules.pending import Pending
from lancekit._format.column_names import check_column_name, column_not_found
from lancekit._format.extensions import (
    EXTENSION,
    EXTENSION_NAME,
    LANCE_JSON,
    resolved_schema,
    stored_field,
)
from lancekit._format.field_marks import BLOB_V2
from lancekit._format.fragment import Fragment
from lancekit._format.operations import Merge, Project
from lancekit._format.paths import parse_path
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import plural, shown
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._operations.common.staged_files import removed_unless_landed
from lancekit._operations.unmerged.audit import check_new_values
from lancekit._pipeline.casts.values import Conversion, can_convert
from lancekit._pipeline.engine import Choice, LocalRunner, Runner, choose_engine, runner_of
from lancekit._pipeline.udf_checkpoint import checkpoint_of
from lancekit._pipeline.write_columns import (
    ColumnsTask,
    Converted,
    Maker,
    NullsTask,
    Streamed,
    count_nulls,
    last_file,
    write_beside,
)
from lancekit._pipeline.write_rows import WriteTask
from lancekit._scan.expressions.constants import arrow_type_of
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from lancekit.options import options

# ---- finding and replacing a field


def _without(fields: Iterable[LanceField], ids: Container[int]) -> tuple[LanceField, ...]:
    """Return fields without those ids; a field that loses all its children goes, too."""
    out = []
    for field in fields:
        children = _without(field.children, ids)
        if field.id not in ids and (children or not field.children):
            out.append(replace(field, children=children))
    return tuple(out)


def find_field(schema: LanceSchema, path: str) -> LanceField:
    """Return the field at a path; raise ``ColumnNotFoundError`` if it does not exist."""
    if not isinstance(path, str):
        raise InvalidTypeError(f"A column path must be a string, got {shown(path)}.")
    below: Sequence[LanceField] = schema.fields
    for name in parse_path(path):
        named = [field for field in below if field.name == name]
        if not named:
            raise column_not_found(path, [field.name for field in below])
        found = named[0]
        below = found.children
    return found


# ---- commits


def _project(current: Snapshot, schema: LanceSchema, *, preserves: bool) -> Snapshot:
    operation = Project(schema=schema, preserves_nullability=preserves)
    return commit(current, Pending(operation=operation))


def merge_columns(
    current: Snapshot, fragments: Iterable[Fragment], schema: LanceSchema, *, preserves: bool
) -> Snapshot:
    """Commit a Merge operation: fragments with at most one new file each, and the new schema.

    preserves: True if rows of a concurrent writer, who has the old schema, still fit the new one.
    """
    new = tuple(fragments)
    pairs = zip(new, current.manifest.fragments, strict=True)
    added = [last_file(f) for f, old in pairs if len(f.files) > len(old.files)]
    with removed_unless_landed(current.store, added):
        operation = Merge(fragments=new, schema=schema, preserves_nullability=preserves)
        return commit(current, Pending(operation=operation))


def columns_choice(current: Snapshot, maker: Maker) -> Choice:
    """Choose the engine that computes columns: local for a stream or a checkpoint file."""
    why = _reason_for_local(maker)
    return Choice("local", why) if why else choose_engine(current.manifest.num_rows)


def _reason_for_local(maker: Maker) -> str:
    if isinstance(maker, Streamed):
        return "the rows are a stream and are read in order"
    has_checkpoint = checkpoint_of(maker) is not None
    return "the results are cached in a file on this machine" if has_checkpoint else ""


def columns_runner(current: Snapshot, maker: Maker) -> Runner:
    """Return the runner that computes columns.

    Fragments run one at a time for a stream, and for a function: its batches may use threads.
    """
    choice = columns_choice(current, maker)
    if choice.engine == "local" and (_reason_for_local(maker) or maker.calls):
        return LocalRunner(threads=1)
    return runner_of(choice, current.store)


def write_to_all(
    current: Snapshot, stored: LanceSchema, maker: Maker, runner: Runner | None = None
) -> list[Fragment]:
    """Write new columns for every fragment, without a commit.

    If one fragment fails, the files that other fragments wrote are removed.
    """
    tasks = [columns_task(current, s, stored, maker) for s in fragment_sources(current)]
    finish = maker.finish if isinstance(maker, Streamed) else None
    return write_beside(tasks, runner or columns_runner(current, maker), finish)


def columns_task(
    current: Snapshot,
    source: FragmentSource,
    stored: LanceSchema,
    maker: Maker,
    view: LanceSchema | None = None,
) -> ColumnsTask:
    """Return the task that writes new columns for one fragment.

    view: the schema through which the maker reads the fragment; by default blobs are descriptors.
    """
    seen = blob_view(current.manifest.schema) if view is None else view
    return ColumnsTask(
        source=replace(source, schema=seen),
        maker=maker,
        write=WriteTask(
            store=current.store,
            schema=stored,
            storage_version=current.manifest.new_file_version,
            checksums=options.checksums,
            optimize_for=options.optimize_for,
        ),
    )


# ---- drop


def drop_columns(snapshot: Snapshot, paths: Iterable[str]) -> Snapshot:
    """Drop columns from the schema; data files do not change.

    Raises ColumnNotFoundError: a column does not exist.
    Raises InvalidArgumentError: no column would be left.
    """
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        raise InvalidTypeError(f"The columns to drop must be a list of names, got {shown(paths)}.")
    wanted = list(dict.fromkeys(paths))

    def attempt(current: Snapshot) -> Snapshot:
        return _project(current, schema_without(current.manifest.schema, wanted), preserves=True)

    return retried_writing(snapshot, attempt, RetryPolicy())[0]


def schema_without(schema: LanceSchema, paths: Iterable[str]) -> LanceSchema:
    """Return a schema without some columns; errors as in `drop_columns`."""
    left = _without(schema.fields, {find_field(schema, path).id for path in paths})
    if not left:
        raise InvalidArgumentError(
            "Cannot drop all columns of a dataset.", hint="Keep at least one column."
        )
    return replace(schema, fields=left)


# ---- alter


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """Changes of one column; ``None`` leaves a property unchanged."""

    path: str
    name: str | None = None
    nullable: bool | None = None
    data_type: pa.DataType | None = None


_KINDS: Mapping[str, type] = {"path": str, "name": str, "nullable": bool, "data_type": pa.DataType}


def _meant(entry: object) -> dict[str, object]:
    """Return an alteration for the first pair of a dict that renames or casts, as pandas does."""
    path, new = next(iter(entry.items()), ("a", "b")) if isinstance(entry, Mapping) else ("a", "b")
    return {"path": path, "name" if isinstance(new, str) else "data_type": new}


def check_alterations(given: Sequence[object]) -> tuple[Alteration, ...]:
    """Check alterations that a user passed as dictionaries, and return them.

    Raises InvalidArgumentError: an unknown key, a value of the wrong type, or nothing to alter.
    """
    out = []
    for entry in given:
        if not isinstance(entry, Mapping) or "path" not in entry:
            raise InvalidArgumentError(
                f'An alteration must be a dict with "path", got {shown(entry)}.',
                hint=f"Use ds.alter_columns({_meant(entry)}).",
            )
        values = {key: value for key, value in entry.items() if value is not None}
        if "data_type" in values:
            values["data_type"] = arrow_type_of(values["data_type"])  # "float32", or float
        for key, value in values.items():
            if key not in _KINDS:
                raise InvalidArgumentError(
                    f"Unknown key in an alteration: {shown(key)}.",
                    hint="Keys: " + ", ".join(_KINDS) + ".",
                )
            if not isinstance(value, _KINDS[key]):
                raise InvalidTypeError(
                    f"{key} of an alteration must be a {_KINDS[key].__name__}, got {shown(value)}."
                )
        if len(values) == 1:
            raise InvalidArgumentError(
                f"The alteration of column {shown(entry['path'])} changes nothing.",
                hint="Set name, nullable or data_type.",
            )
        out.append(Alteration(**values))
    return tuple(out)


def alter_columns(snapshot: Snapshot, alterations: Sequence[Alteration]) -> Snapshot:
    """Rename columns, change their nullability, or cast them.

    A cast writes a new file for each fragment, under a new field id.  All other changes affect
    only the schema.

    Raises ColumnNotFoundError: a column does not exist.
    Raises InvalidArgumentError: a name is taken, a column that becomes not nullable has nulls, or
        a cast is not possible.
    """
    done = retried_writing(
        snapshot, lambda at: plan_alteration(at, alterations).run(), RetryPolicy()
    )
    return done[0]


@dataclass(frozen=True, kw_only=True)
class AlterPlan:
    """Plan of an alteration of a version's columns, to run or to explain.

    snapshot: the version.
    schema: the schema with the altered fields.
    casts: the paths of columns to cast.
    tightened: the paths of columns that become not nullable, and so must have no nulls.
    stored, maker: the fields of new files, and their conversion from the old values; ``maker`` is
        ``None`` if no column is cast.
    """

    snapshot: Snapshot
    schema: LanceSchema
    casts: tuple[str, ...]
    tightened: tuple[str, ...]
    stored: LanceSchema
    maker: Converted | None

    @property
    def choice(self) -> Choice:
        """The engine that runs the alteration, and the reason."""
        return choose_engine(self.snapshot.manifest.num_rows)

    def run(self) -> Snapshot:
        """Check for nulls, write the cast columns, and commit."""
        current = self.snapshot
        _check_no_nulls(current, self.tightened, runner_of(self.choice))
        if self.maker is None:
            return _project(current, self.schema, preserves=not self.tightened)
        check_new_values(current, self.casts[0], cast=True)
        written = write_to_all(current, self.stored, self.maker)
        return merge_columns(current, written, self.schema, preserves=False)


def plan_alteration(current: Snapshot, alterations: Sequence[Alteration]) -> AlterPlan:
    """Plan an alteration from the manifest alone; `AlterPlan.run` checks rows for nulls.

    Raises ColumnNotFoundError, InvalidArgumentError: as `alter_columns`.
    """
    schema = current.manifest.schema
    changes = _by_field(schema, alterations)
    casts = {id_ for id_, (_, a) in changes.items() if a.data_type is not None}
    edits = dict(_edits(current, changes))
    result = replace(schema, fields=tuple(_replaced(f, edits, casts) for f in schema.fields))
    _check_names(result.fields)
    parts = [(f.name, part) for f in schema.fields if (part := _cast_part(f, edits, casts))]
    return AlterPlan(
        snapshot=current,
        schema=result,
        casts=tuple(a.path for id_, (_, a) in changes.items() if id_ in casts),
        tightened=tuple(a.path for f, a in changes.values() if a.nullable is False and f.nullable),
        stored=LanceSchema(tuple(f for _, (f, _) in parts)),
        maker=Converted(tuple(n for n, _ in parts), tuple(c for _, (_, c) in parts))
        if parts
        else None,
    )


Changes: TypeAlias = Mapping[int, tuple[LanceField, Alteration]]


def _by_field(schema: LanceSchema, alterations: Sequence[Alteration]) -> Changes:
    """Return fields and their merged alterations by field id; paths are of the old schema."""
    out: dict[int, tuple[LanceField, Alteration]] = {}
    for alteration in alterations:
        field = find_field(schema, alteration.path)
        before = out[field.id][1] if field.id in out else Alteration(path=alteration.path)
        given = {f.name: getattr(alteration, f.name) for f in fields(Alteration)}
        values = {name: value for name, value in given.items() if value is not None}
        out[field.id] = (field, replace(before, **values))
    return out


def _edits(current: Snapshot, changes: Changes) -> Iterator[tuple[int, LanceField]]:
    """Yield each altered field with its old id."""
    free = (
        current.manifest.max_field_id() + 1 if any(a.data_type for _, a in changes.values()) else 0
    )
    for id_, (old, alteration) in changes.items():
        new = old
        if alteration.data_type is not None:
            _check_cast(current, old, alteration.path, alteration.data_type)
            cast = pa.schema([pa.field(old.name, alteration.data_type)])
            new = LanceSchema.from_arrow(cast, free).fields[0]
            kept = {k: v for k, v in old.metadata.items() if k.encode() not in EXTENSION}
            new = replace(
                new,
                parent_id=old.parent_id,
                metadata={**kept, **new.metadata},
                key_position=old.key_position,
            )
            free = max(f.id for f in new.walk()) + 1
        nullable = old.nullable if alteration.nullable is None else alteration.nullable
        if nullable and old.key_position is not None:
            raise InvalidArgumentError(
                f"Column {alteration.path!r} is part of the primary key and cannot be nullable.",
                hint="Leave nullable out.",
                column=alteration.path,
            )
        if alteration.name is not None:
            check_column_name(alteration.name)
        yield id_, replace(new, name=alteration.name or old.name, nullable=nullable)


def _replaced(
    field: LanceField, edits: Mapping[int, LanceField], casts: Container[int]
) -> LanceField:
    new = edits.get(field.id, field)
    if field.id in casts:
        return new
    children = tuple(_replaced(child, edits, casts) for child in field.children)
    return replace(new, children=children)


def _cast_part(
    field: LanceField, edits: Mapping[int, LanceField], casts: Container[int]
) -> tuple[LanceField, Conversion] | None:
    """Return the cast part of a field and its conversion; ``None`` if nothing in it is cast."""
    new = edits.get(field.id, field)
    if field.id in casts:
        return new, Conversion(new.to_arrow())
    parts = [
        (child.name, part) for child in field.children if (part := _cast_part(child, edits, casts))
    ]
    if not parts:
        return None
    if field.logical_type != "struct":
        raise InvalidArgumentError(
            f"Cannot cast a part of column {field.name!r} of type {field.to_arrow().type}.",
            hint="Cast the whole column.",
            column=field.name,
        )
    written = replace(new, children=tuple(f for _, (f, _) in parts))
    return written, Conversion(written.to_arrow(), tuple((n, c) for n, (_, c) in parts))


def _check_cast(current: Snapshot, old: LanceField, path: str, kind: pa.DataType) -> None:
    before, after = old.to_arrow(), stored_field(pa.field(old.name, kind))
    if current.manifest.storage_version == "2.0" and old.parent_id >= 0:
        # the reference cannot read its own output of this cast
        raise InvalidArgumentError(
            f"Column {path!r} is a field of a struct. Data files of version 2.0 store all fields "
            "of a struct in one file, so it cannot be changed alone.",
            hint="Write the dataset with data_storage_version 2.1 or later.",
            column=path,
        )
    if not (can_convert(before.type, after.type) and _keeps_form(before, after)):
        shown_as = resolved_schema(pa.schema([before])).field(0).type
        raise InvalidArgumentError(
            f"Column {path!r} cannot be cast from {shown_as} to {kind}.",
            hint="alter_columns() casts only within one kind of type. To compute other values, "
            "use add_columns() with an SQL expression, then drop_columns().",
            column=path,
        )
    ids = {f.id for f in old.walk()}
    for index in current.indices:
        if ids & set(index.fields):
            raise InvalidArgumentError(
                f"Column {path!r} has index {index.name!r}, which would not match the new values.",
                hint="Drop the index first.",
                column=path,
                index=index.name,
            )


def _keeps_form(old: pa.Field, new: pa.Field) -> bool:
    """Return True if a cast keeps the storage form of a field's values.

    JSON has its own form.  So have blobs, whose bytes are outside of the column.
    """
    one, other = ((field.metadata or {}).get(EXTENSION_NAME) for field in (old, new))
    if pa.types.is_null(old.type):
        return True
    if BLOB_V2.encode() in (one, other) or (LANCE_JSON in (one, other) and one != other):
        return False
    parts = range(min(old.type.num_fields, new.type.num_fields))
    return all(_keeps_form(old.type.field(at), new.type.field(at)) for at in parts)


def _check_no_nulls(current: Snapshot, paths: Iterable[str], runner: Runner) -> None:
    for path in paths:
        tasks = [NullsTask(source=source, path=path) for source in fragment_sources(current)]
        if nulls := sum(runner.map(count_nulls, tasks)):
            raise InvalidArgumentError(
                f"Column {path!r} has {plural(nulls, 'null')}, so it cannot be made not nullable.",
                hint="Give these rows a value first, with update().",
                column=path,
                nulls=nulls,
            )


def _check_names(siblings: Sequence[LanceField]) -> None:
    seen: set[str] = set()
    for field in siblings:
        if field.name in seen:
            raise InvalidArgumentError(
                f"Two columns would be named {field.name!r}.",
                hint="Choose another name.",
                column=field.name,
            )
        seen.add(field.name)
        _check_names(field.children if field.logical_type == "struct" else ())

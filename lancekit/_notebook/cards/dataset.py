"""The card of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.field_marks import BLOB_V2, is_blob
from lancekit._format.names import MAIN
from lancekit._format.schema import LanceField
from lancekit._notebook.cards.common import (
    NAMES,
    TOO_MANY_TAGS,
    data_size,
    facts,
    first_of,
    fragments,
    operation,
    place_of,
    ref,
    tags_by_version,
    waiting_facts,
)
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import age, clean, listing, moment, place, plural
from lancekit._operations.unmerged.counts import rows_without_logs, waiting_rows
from lancekit.errors import UnsupportedFeatureError
from lancekit.options import options


def dataset_card(ds: LanceDataset, now: datetime) -> Card:
    version = ds.get_version()
    where = place_of(ds)
    tags = tags_by_version(ds.tags, ds.branch)
    at = [] if tags is None else sorted(tags.get(ds.version, []))
    schema = ds._snapshot.manifest.schema
    key = [field.name for field in schema.primary_key]
    reference = ds.version if ds.branch == MAIN else (ds.branch, ds.version)
    return Card(
        kind="Dataset",
        title=where.name,
        headline=(
            ref(ds.branch, ds.version),
            *([f"{'tag' if len(at) == 1 else 'tags'} {listing(at, NAMES)}"] if at else []),
            f"{plural(version.num_rows, 'row')} × {plural(len(schema.fields), 'column')}",  # noqa: RUF001
            data_size(version),
            f"written {age(version.timestamp, now)}",
        ),
        facts=facts(
            ("location", where.uri),
            ("committed", f"{moment(version.timestamp)} by {operation(version)}"),
            ("message", clean(version.message or "")),
            ("tags", TOO_MANY_TAGS if tags is None else ""),
            ("primary key", listing(key, options.display_columns)),
            ("fragments", fragments(version)),
            ("indices", _indexes(ds) if ds.index_columns else ""),
            ("shared files", _bases(ds)),
            *waiting_facts(
                None
                if ds._read_only
                else rows_without_logs(ds._snapshot)
                or replace(waiting_rows(ds._snapshot), refused=ds._merge_refused)
            ),
            Fact("reproduce", f"lk.dataset({where.code}, version={reference!r})", code=True),
        ),
        tables=(_schema(schema.fields, [f.id for f in schema.primary_key]),),
    )


def _indexes(ds: LanceDataset) -> str:
    found = [one for one in ds.describe_indices() if one.name in ds.index_columns]
    on = (f"{', '.join(one.field_names)}: {one.index_type}" for one in found)
    rows = (plural(one.num_rows_indexed, "row") for one in found)
    return listing(
        (f"{one.name} ({a}, {b})" for one, a, b in zip(found, on, rows, strict=True)), NAMES
    )


def _bases(ds: LanceDataset) -> str:
    own, bases = place_of(ds).uri, ds.base_paths().values()
    origins = (
        f"{base.name or MAIN}" + ("" if place(base.path) == own else f" of {place(base.path)}")
        for base in bases
        if base.is_dataset_root
    )
    others = (place(base.path) for base in bases if not base.is_dataset_root)
    return listing([*origins, *others], NAMES)


def _schema(fields: Sequence[LanceField], key: Sequence[int]) -> Table:
    most = options.display_columns
    rows = tuple(
        Row(
            (
                clean(field.name),
                type_of(field),
                "yes" if field.nullable else "no",
                f"key {key.index(field.id) + 1}" if field.id in key else "",
            )
        )
        for field in fields[:most]
    )
    return Table(
        caption=f"Schema: {plural(len(fields), 'column')}",
        columns=(Column("column"), Column("type"), Column("nullable"), Column("key")),
        rows=rows,
        note=first_of(most, len(fields), "ds.schema"),
        folded=True,
    )


def type_of(field: LanceField) -> str:
    """Return the short name of a column's type, safe to display."""
    return clean(_type_words(field))


def _type_words(field: LanceField) -> str:
    """Return a short type name: an extension's name, lists and structs with their child types."""
    extension = field.metadata.get("ARROW:extension:name", "")
    if extension or is_blob(field.metadata):
        return _SHORT.get(extension, extension or "blob")
    parts = [_type_words(child) for child in field.children]
    kind = field.logical_type
    if kind == "struct":
        names = (child.name for child in field.children)
        return f"struct<{', '.join(f'{n}: {t}' for n, t in zip(names, parts, strict=True))}>"
    if kind == "map" and parts:
        return "map" + parts[0].removeprefix("struct")
    if parts:
        return f"{kind.removesuffix('.struct').partition(':')[0]}<{parts[0]}>"
    try:
        return str(field.to_arrow().type)
    except UnsupportedFeatureError:  # show a type of a newer release by its logical name
        return kind


_SHORT = {"lance.json": "json", BLOB_V2: "blob"}

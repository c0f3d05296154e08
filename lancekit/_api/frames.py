"""Conversion of scans to frames: pandas frames, with blobs, and Spark DataFrames."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api._handle import Handle
from lancekit._api.blob_values import BlobFile
from lancekit._api.planned_scan import planned, planned_with_shards
from lancekit._arguments.checks import check_known
from lancekit._arguments.scan import ScanArguments, SparkArguments
from lancekit._choice import check_choice
from lancekit._format.field_marks import is_blob, texts
from lancekit._format.paths import path_field, show_path
from lancekit._format.schema import LanceSchema
from lancekit._legible import warn
from lancekit._pipeline.engine import spark_engine
from lancekit._pipeline.frames import exact_frame
from lancekit._pipeline.inputs import is_spark_column
from lancekit._scan.expressions.nodes import FieldRef
from lancekit._scan.fragments.blobs import BlobPlace, blob_view, read_blobs
from lancekit._scan.fragments.reader import META_COLUMNS
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import Output
from lancekit._scan.take import blob_places
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pandas as pd


#: the conversions of blobs for pandas
_BLOB_MODES: Mapping[str, Callable[[Sequence[BlobPlace | None]], Sequence[object]]] = {
    "lazy": lambda places: [None if place is None else BlobFile(place) for place in places],
    "bytes": read_blobs,
}


def check_blob_mode(mode: str) -> None:
    """Raise ``InvalidArgumentError`` if the mode of blobs in pandas is unknown."""
    check_choice("blob_mode", mode, (*_BLOB_MODES, "descriptions"))


_TO_PANDAS_OPTIONS = frozenset(inspect.signature(pa.Table.to_pandas).parameters) - {"self"}


def pandas_frame(table: pa.Table, options: Mapping[str, object]) -> pd.DataFrame:
    """Convert a table to a pandas frame, and ignore invalid pandas metadata of its schema.

    Whole numbers that doubles would round stay exact.
    """
    check_known("to_pandas()", options, _TO_PANDAS_OPTIONS, "pyarrow.Table.to_pandas()")
    if not _is_sound(table.schema):
        warn("The pandas metadata of the schema is damaged and is ignored.")
        kept = {k: v for k, v in (table.schema.metadata or {}).items() if k != _PANDAS}
        table = table.replace_schema_metadata(kept)
    try:
        frame = exact_frame(table, options)
    except (pa.ArrowException, ValueError) as error:  # Python raises it for dates after year 9999
        why = str(error).partition("\n")[0]
        raise InvalidArgumentError(
            f"These rows cannot be converted to a pandas frame: {why}.",
            hint="Read them with to_table().",
        ) from error
    return frame


def _is_sound(schema: pa.Schema) -> bool:
    """Return True if pandas can use its metadata in the schema, or if the schema has none."""
    stored = {name: value for name, value in (schema.metadata or {}).items() if name == _PANDAS}
    if not stored:
        return True
    try:
        schema.with_metadata(stored).empty_table().to_pandas()
    except Exception:  # Arrow and pandas both read it, and raise their own errors
        return False
    return True


_PANDAS = b"pandas"
#: the column of row addresses that locate blobs, in the table or in shards
BLOB_ADDRESS = "_rowaddr of blobs"


class BlobColumn(NamedTuple):
    """A result column that contains blob descriptions, at the top or nested.

    `path` is the path of the stored column, `below` the field names from the column to each blob.
    """

    path: str
    below: tuple[tuple[str, ...], ...]


def blob_columns(outputs: Iterable[Output], schema: LanceSchema) -> dict[str, BlobColumn]:
    """Return the columns of a result that contain blob descriptions, by result name."""
    described = blob_view(schema)
    found = {}
    for output in outputs:
        field, path = output.field, _column(output)
        if path in META_COLUMNS and path not in schema:
            continue
        if output.expression is not None and path:
            stored = path_field(described, path)
            field = stored if stored.type == field.type else field
        if path and (below := tuple(_blob_paths(field))):
            found[output.field.name] = BlobColumn(path, below)
    return found


def _blob_paths(field: pa.Field) -> Iterator[tuple[str, ...]]:
    """Yield the names from a field to each blob description; ``()`` for a description itself."""
    if not pa.types.is_struct(field.type):
        return
    if is_blob(texts(field.metadata)):
        yield ()
        return
    for child in field.type:
        yield from ((child.name, *names) for names in _blob_paths(child))


def _column(output: Output) -> str:
    """Return the path of the stored column that an output is; empty for computed outputs."""
    if output.expression is None:
        return output.column
    expr, columns = output.expression.expr, output.expression.columns
    return expr.path if isinstance(expr, FieldRef) and columns == {expr.path} else ""


def _put(rows: Iterable[Any], path: Sequence[str], values: Iterable[object]) -> None:
    """Set one field in rows of nested dictionaries, where its struct is not null."""
    *above, name = path
    for row, value in zip(rows, values, strict=True):
        struct = row
        for part in above:
            struct = struct and struct[part]
        if struct is not None:
            struct[name] = value


def frame_with_blobs(
    table: pa.Table,
    names: Sequence[str],
    blobs: Mapping[str, BlobColumn],
    sources: Sequence[FragmentSource],
    mode: str,
    options: Mapping[str, object],
) -> pd.DataFrame:
    """Convert some columns of a table, which also has row addresses, to a pandas frame.

    The addresses are in the column `BLOB_ADDRESS`, because rows of shards have no `_rowaddr`.
    """
    column = table.column(BLOB_ADDRESS)
    exists = column.is_valid().to_numpy()  # a deleted row has no address
    addresses = ak.drop_null(column).to_numpy()

    def read(path: str) -> Sequence[object]:
        places = np.full(len(exists), None)
        found = blob_places(sources, path, addresses)
        places[exists] = np.array([*found, None])[:-1]  # None makes it an array of objects
        return _BLOB_MODES[mode](places.tolist())

    frame = pandas_frame(table.select([name for name in names if name not in blobs]), options)
    for place, name in enumerate(names):
        if name not in blobs:
            continue
        path, below = blobs[name]
        if below == ((),):
            frame.insert(place, name, read(path))
            continue
        values = table.column(name).to_pandas(integer_object_nulls=True).tolist()
        for names_below in below:
            _put(values, names_below, read(f"{path}.{show_path(names_below)}"))
        frame.insert(place, name, values)
    return frame


# ---- Spark DataFrames over a version


def frame_over(handle: Handle, arguments: ScanArguments) -> Any:
    """Return a DataFrame over a handle's version, with the handle's scan defaults."""
    # no others: Spark decides the order and size of batches
    known = SparkArguments.parameters().parameters.keys() - {"fragments"}
    defaults = {name: value for name, value in handle._scan_defaults.items() if name in known}
    return frame_of(handle._snapshot, arguments.over(defaults))


def frame_of(snapshot: Snapshot, arguments: ScanArguments) -> Any:
    """Return a DataFrame over a version; Spark evaluates a filter that is a ``Column``."""
    condition = arguments.filter if is_spark_column(arguments.filter) else None
    if condition is not None:
        arguments = arguments.but(filter=None)
    if arguments.include_mem_wal:
        _, scan = planned_with_shards(snapshot.location, arguments)
    else:
        scan = planned(snapshot, arguments)
    return spark_engine().frame(scan, condition)

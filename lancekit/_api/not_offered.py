"""Errors for names that lancekit does not have: reasons, and lines that do it.

`docs/pylance-coverage.md` is generated from `NOT_OFFERED`, the public names of pylance that
lancekit does not have.  `lancekit._guesses` has the names that users of other tools type.  All
errors for names are an ``AttributeError``, so ``hasattr`` returns False.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from lancekit._legible import shown
from lancekit.errors import InvalidTypeError, NotOfferedAttributeError, UnknownNameError

_SESSION = "there is no session object: the process has one cache, see cache_info()"
_ARROW = "lancekit's classes do not inherit pyarrow's Dataset; use to_table() or to_batches()"
_NEVER = "pylance refuses it, too"
_PLAN = "there is no query plan to show"

_BLOBS = "blobs are written into the data file; see blob_field() and blob_array()"
_COUNTERS = "scan_stats_callback= of scanner() reports the data that a scan read"
_MODELS = "write_dataset() takes rows, not models"
_LISTED = "lancekit's own classes describe it"


def _all(names: str, why: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), why)


NOT_OFFERED: Mapping[str, Mapping[str, str]] = {
    "lance": {
        **_all("BlobArray BlobDescriptor BlobDescriptorArrayBuilder", _BLOBS),
        **_all("DedicatedBlobWriter PackedBlobWriter", _BLOBS),
        **_all("CleanupCandidateFile CleanupReferencedBranch", _LISTED),
        **_all("bytes_read_counter io iops_counter", _COUNTERS),
        "FFILanceTableProvider": "ds.sql() runs DataFusion; for other sessions, use ds.to_table()",
        "simd_info": "NumPy and Arrow choose their instructions",
    },
    "lance.file": _all(
        "LanceBufferDescriptor LanceColumnMetadata LanceFileStatistics LancePageMetadata", _LISTED
    ),
    "lance.blob": {"BlobArray": _BLOBS, "BlobIterator": "iter() of a BlobColumn gives one"},
    "lance.sampler": dict.fromkeys(["PrioritizedItem", "T"], "it is an internal detail of pylance"),
    "lance.udf": {
        "BatchUDFCheckpoint": "a checkpoint_file is identified by its path",
        "normalize_transform": "use add_columns()",
    },
    "lance.util": {
        "HNSW": "vector indices with graphs cannot be created",
        **_all("sanitize_ts td_to_micros", "dataset(asof=...) accepts times directly"),
    },
    "LanceDataset": {
        **_all("initial_storage_options latest_storage_options storage_options_accessor", _SESSION),
        **_all("io_stats_incremental io_stats_snapshot", _SESSION),
        **_all("filter join_asof sort_by", _ARROW),
        **_all("join partition_expression", _NEVER),
        "from_pydantic_model": _MODELS,
        "replace_schema": "pylance refuses it, too; use update_schema_metadata()",
    },
    "LanceOperation": dict.fromkeys(
        ["DataOverlay", "DataOverlayFile", "DataOverlayGroup"],
        "overlays of data files come with a later release; datasets with overlays are refused",
    ),
    "LanceScanner": {
        **_all("from_batches from_dataset from_fragment take", _NEVER),
        "scan_batches": "pylance's own always raises; use to_batches()",
    },
    "ScannerBuilder": {
        "minhash_search": "lancekit has no MinHash index",
        "with_index_segments": "a search uses all segments of an index",
        "row_addr_prefilter": "use a filter on _rowaddr",
        "substrait_aggregate": _PLAN,
    },
    "LanceFragment": {"partition_expression": _NEVER},
    "MergeInsertBuilder": {},
}


def missing(owner: str, name: str, of: object = None) -> AttributeError:
    """Return the error for an unknown name of a class or of the package, with the right line.

    owner: the name of the class; ``"lance"`` is the package.
    of: the object, whose columns the line shows.
    """
    what = "module 'lancekit'" if owner == "lance" else f"{owner!r} object"
    absent = f"{what} has no attribute {name!r}"
    if name.startswith("_") or isinstance(of, BaseException):  # libraries look for them
        return AttributeError(absent)
    from lancekit._guesses import line_for

    line, item = line_for(owner, name, of), _item(owner, name, of)
    line = item or line if owner in ("Tags", "Branches", "SqlResult") else line or item
    if reason := NOT_OFFERED.get(owner, {}).get(name):
        return NotOfferedAttributeError(
            f"{owner}.{name} is not supported: {reason}.",
            hint=f"Use {line}." if line else "docs/pylance-coverage.md lists the supported calls.",
            attribute=name,
        )
    hint = f"Use {line}." if line else _hint(owner, name, of)
    if item and line != item:
        hint += f"  For the item, use {item}."
    return UnknownNameError(f"{absent}.", hint=hint, attribute=name)


def _item(owner: str, name: str, of: object) -> str:
    """Return the line for an item of a container, or an empty text."""
    if owner == "SqlResult":
        return f"lk.sql(...).to_table()[{name!r}]" if name in getattr(of, "columns", ()) else ""
    items = getattr(of, "_items_by_name", None)
    return f"{_VARIABLES[owner]}[{name!r}]" if items is not None and name in items() else ""


def _hint(owner: str, name: str, of: object) -> str:
    """Return a hint at a name that is spelled similarly, or at the handle that a call moved."""
    from lancekit._guesses import similar

    variable = _VARIABLES.get(owner, "")
    if owner == "Answer" and name in dir(sys.modules["lancekit"].LanceDataset):
        return f"Use ds.{name}: the call has moved ds, and returns no dataset."
    names = dir(of) if of is not None else sys.modules["lancekit"].__all__
    if close := similar(name, [one for one in names if not one.startswith("_")]):
        return f"Did you mean {variable or 'it'}.{close}?"
    fields = [one for one in getattr(of, "__dataclass_fields__", ()) if not one.startswith("_")]
    return f"It has {', '.join(fields[:12])}." if getattr(of, "_in_line", False) else ""


#: how users write an object of a class
_VARIABLES = {
    "lance": "lk", "LanceDataset": "ds", "DatasetColumn": "ds[...]", "DatasetDiff": "d",
    "Tags": "ds.tags", "Branches": "ds.branches", "DatasetOptimizer": "ds.optimize",
    "History": "ds.versions()", "Version": "ds.versions()[-1]", "TableIndices": "ds.indices",
    "Constraints": "ds.constraints", "SqlResult": "lk.sql(...)", "Listed": "the list",
}  # fmt: skip


def no_item(item: object, of: object) -> InvalidTypeError:
    """Return the error for an item that a dataset does not have, with the line for it."""
    from lancekit._guesses import item_line

    return InvalidTypeError(
        f"ds[...] needs a column name, a list of names or a slice, got {shown(item)}.",
        hint=f"Use {item_line(item, of)}.",
    )


def not_a_name(value: object, of: object) -> InvalidTypeError:
    """Return the error for ``value in ds``, with the line that counts the rows of a key."""
    from lancekit._guesses import fitting

    line = fitting(f"ds.count_rows('$key = {value!r}')", of)
    what = f"in looks for the name of a column, got {shown(value)}."
    return InvalidTypeError(what, hint=f"For rows, use {line}.")


def not_deleted(item: object, of: object) -> InvalidTypeError:
    """Return the error for ``del``, with the line that deletes a column or rows."""
    from lancekit._guesses import fitting

    rows = f"$key = {item!r}" if type(item) is int else "$filter"
    line = f"ds.drop_columns([{item!r}])" if isinstance(item, str) else f"ds.delete('{rows}')"
    return InvalidTypeError("del changes no dataset.", hint=f"Use {fitting(line, of)}.")


def not_assigned(name: object, value: object, of: object, *, here: bool) -> UnknownNameError:
    """Return the error for an assignment to an item or attribute, with the line that does it.

    here: True if a column has the name.

    >>> not_assigned("version", 1, None, here=False).hint
    'Use ds.checkout_version(1).'
    """
    from lancekit._guessed_names import RENAME
    from lancekit._guesses import fitting

    sql = "NULL" if value is None else value if isinstance(value, int | float) else f"'{value}'"
    line = f"ds.{'update' if here else 'add_columns'}({{{name!r}: {str(sql)!r}}})"
    if name in ("columns", "schema", "dtypes"):
        line = fitting(RENAME, of)
    elif name == "version" and not here:
        line = f"ds.checkout_version({value})"
    elif hasattr(value, "__len__") and not isinstance(value, str | bytes):  # a value for a row
        line = fitting("ds.merge_insert('$key').when_matched_update_all().execute(df)", of)
    elif not isinstance(name, str):
        line = fitting(f"ds.update({{'$number': {str(sql)!r}}}, where='$filter')", of)
    return UnknownNameError(
        f"{shown(name)} cannot be assigned: a dataset changes by its methods.",
        hint=f"Use {line}.",
        attribute=name,
    )


class NamesOfPylance(type):
    """Metaclass of namespaces that follow pylance: access to a missing name raises the reason."""

    def __getattr__(cls, name: str) -> object:
        raise missing(cls.__name__, name)

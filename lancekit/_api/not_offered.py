"""Public names of pylance that lancekit does not have, with the reasons.

`docs/pylance-coverage.md` is generated from this table.  Access to one of these names raises
``NotOfferedAttributeError``, which is an ``AttributeError``, so ``hasattr`` returns False.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancekit.errors import NotOfferedAttributeError

_SESSION = "there is no session object: the process has one cache, see cache_info()"
_ARROW = "lancekit's classes do not inherit pyarrow's Dataset; use to_table() or to_batches()"
_NEVER = "pylance refuses it, too"
_PLAN = "there is no query plan to show"

_BLOBS = "blobs are written into the data file; see blob_field() and blob_array()"
_COUNTERS = "scan_stats_callback= of scanner() reports the data that a scan read"
_MODELS = "write_dataset() takes rows, not models"
_LISTED = "lancekit's own classes describe it"

NOT_OFFERED: Mapping[str, Mapping[str, str]] = {
    "lance": {
        **dict.fromkeys(
            [
                "BlobArray",
                "BlobDescriptor",
                "BlobDescriptorArrayBuilder",
                "DedicatedBlobWriter",
                "PackedBlobWriter",
            ],
            _BLOBS,
        ),
        **dict.fromkeys(["CleanupCandidateFile", "CleanupReferencedBranch"], _LISTED),
        **dict.fromkeys(["bytes_read_counter", "io", "iops_counter"], _COUNTERS),
        "FFILanceTableProvider": "ds.sql() runs DataFusion; for other sessions, use ds.to_table()",
        "simd_info": "NumPy and Arrow choose their instructions",
    },
    "lance.file": {
        **dict.fromkeys(
            [
                "LanceBufferDescriptor",
                "LanceColumnMetadata",
                "LanceFileStatistics",
                "LancePageMetadata",
            ],
            _LISTED,
        ),
    },
    "lance.blob": {"BlobArray": _BLOBS, "BlobIterator": "iter() of a BlobColumn gives one"},
    "lance.sampler": dict.fromkeys(["PrioritizedItem", "T"], "it is an internal detail of pylance"),
    "lance.udf": {
        "BatchUDFCheckpoint": "a checkpoint_file is identified by its path",
        "normalize_transform": "use add_columns()",
    },
    "lance.util": {
        "HNSW": "vector indices with graphs cannot be created",
        **dict.fromkeys(
            ["sanitize_ts", "td_to_micros"], "dataset(asof=...) accepts times directly"
        ),
    },
    "LanceDataset": {
        **dict.fromkeys(
            [
                "initial_storage_options",
                "io_stats_incremental",
                "io_stats_snapshot",
                "latest_storage_options",
                "storage_options_accessor",
            ],
            _SESSION,
        ),
        **dict.fromkeys(["filter", "join_asof", "sort_by"], _ARROW),
        **dict.fromkeys(["join", "partition_expression"], _NEVER),
        "from_pydantic_model": _MODELS,
        "replace_schema": "pylance refuses it, too; use update_schema_metadata()",
    },
    "LanceOperation": dict.fromkeys(
        ["DataOverlay", "DataOverlayFile", "DataOverlayGroup"],
        "overlays of data files come with a later release; datasets with overlays are refused",
    ),
    "LanceScanner": {
        **dict.fromkeys(["from_batches", "from_dataset", "from_fragment", "take"], _NEVER),
        "scan_batches": "pylance's own always raises; use to_batches()",
    },
    "ScannerBuilder": {
        "minhash_search": "lancekit has no MinHash index",
        "with_index_segments": "a search uses all segments of an index",
        "row_addr_prefilter": "use a filter on _rowaddr",
        "substrait_aggregate": _PLAN,
    },
    "LanceFragment": {
        "partition_expression": _NEVER,
    },
    "MergeInsertBuilder": {},
}


def missing(owner: str, name: str) -> AttributeError:
    """Return the error for a missing name of a class or module that follows pylance."""
    reason = NOT_OFFERED.get(owner, {}).get(name)
    if reason is None:
        # Python's own message, which __getattr__ replaces
        what = "module 'lancekit'" if owner == "lance" else f"{owner!r} object"
        return AttributeError(f"{what} has no attribute {name!r}")
    return NotOfferedAttributeError(
        f"{owner}.{name} is not supported: {reason}.",
        hint="docs/pylance-coverage.md lists the supported calls.",
        attribute=name,
    )


class PartOfPylance:
    """Base of classes that follow pylance's: access to a missing name raises the reason."""

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        raise missing(type(self).__name__, name)


class NamesOfPylance(type):
    """Metaclass of namespaces that follow pylance: access to a missing name raises the reason."""

    def __getattr__(cls, name: str) -> object:
        raise missing(cls.__name__, name)

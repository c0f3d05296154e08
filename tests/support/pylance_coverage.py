"""The public names of pylance that work, differ or are not supported: `docs/pylance-coverage.md`.

``python -m tests.support.pylance_coverage`` writes the page; a test compares it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import lance.fragment
import lance.optimize

import lancekit as lk
import lancekit._api.changes
import lancekit._api.lance_stats
import lancekit._api.sql
from lancekit._api.not_offered import NOT_OFFERED

PAGE = Path(__file__).parents[2] / "docs" / "pylance-coverage.md"

_dataset = sys.modules["lance.dataset"]

#: pylance's class, and lancekit's of the same name (``None``: there is none)
CLASSES: dict[str, tuple[type, type | None]] = {
    "LanceDataset": (_dataset.LanceDataset, lk.LanceDataset),
    "LanceScanner": (_dataset.LanceScanner, lk.LanceScanner),
    "ScannerBuilder": (_dataset.ScannerBuilder, lk.ScannerBuilder),
    "LanceFragment": (lance.fragment.LanceFragment, lk.LanceFragment),
    "Tags": (_dataset.Tags, lk.Tags),
    "Branches": (_dataset.Branches, lk.Branches),
    "MergeInsertBuilder": (_dataset.MergeInsertBuilder, lk.MergeInsertBuilder),
    "DatasetOptimizer": (_dataset.DatasetOptimizer, lk.optimize.DatasetOptimizer),
    "LanceStats": (_dataset.LanceStats, lancekit._api.lance_stats.LanceStats),
    "DatasetDelta": (_dataset.DatasetDelta, lancekit._api.changes.DatasetDelta),
    "SqlQueryBuilder": (_dataset.SqlQueryBuilder, lancekit._api.sql.SqlQueryBuilder),
    "SqlQuery": (_dataset.SqlQuery, lancekit._api.sql.SqlQuery),
    "LanceOperation": (_dataset.LanceOperation, lk.LanceOperation),
    "Compaction": (lance.optimize.Compaction, lk.optimize.Compaction),
}

#: modules of pylance that have one of the same name here
MODULES = ("lance", "lance.fragment", "lance.file", "lance.optimize", "lance.progress")
MODULES += ("lance.schema", "lance.udf", "lance.arrow", "lance.debug", "lance.log")
MODULES += ("lance.sampler", "lance.util", "lance.blob")

#: how names that work differ from pylance
DIFFERENCES: dict[str, str] = {
    "Compaction.execute": "`options` is optional",
    "Compaction.plan": "`options` is optional",
    "DatasetOptimizer.disable_auto_cleanup": "keywords without an effect are refused",
    "DatasetOptimizer.enable_auto_cleanup": "further keywords, without an effect, are refused",
    "LanceScanner.explain_plan": "the text of `explain()`, not DataFusion's plan",
    "LanceScanner.analyze_plan": "lancekit's text, with the rows, time and bytes of a run",
    "MergeInsertBuilder.explain_plan": "the text of `explain()`, not DataFusion's plan",
    "MergeInsertBuilder.analyze_plan": ("the text of `preview()`; no file is written"),
    "MergeInsertBuilder.write_mode": (
        "`auto` always rewrites rows, even if the key has a scalar index"
    ),
    "LanceDataset.create_scalar_index": (
        "`RTREE` and `MINHASHLSH`, with their parameters, are refused; "
        "an unknown parameter of an `IndexConfig` is refused"
    ),
    "LanceDataset.create_index_uncommitted": (
        "`IVF_HNSW_*` and `IVF_RQ`, with their parameters, are refused"
    ),
    "LanceDataset.commit_existing_index_segments": (
        "moves the handle and returns it. Takes segments of `create_index_uncommitted`"
    ),
    "LanceDataset.prewarm_index": ("posting lists and codes of vectors are read only on first use"),
    "LanceStats.index_stats": "for full-text indices, only facts of the manifest",
    "LanceDataset.create_index": (
        "creates `IVF_FLAT`, `IVF_PQ` and `IVF_SQ` indices, with files of version V3. Lists of "
        "vectors, graphs (`IVF_HNSW_*`), `IVF_RQ`, `accelerator` and `ivf_centroids_file` are "
        "refused. Tuning arguments have no effect"
    ),
    "DatasetOptimizer.optimize_indices": (
        "an unknown name is an error. Indices with graphs and `IVF_RQ` stay unchanged, with a "
        "warning. `retrain` also rebuilds scalar indices. The record of rows that a deferred "
        "compaction moved is removed"
    ),
    "DatasetOptimizer.compact_files": (
        "indices with graphs and `IVF_RQ` lose the compacted fragments, with a warning. Zone maps "
        "and Bloom filters are updated. `force_binary_copy` is refused"
    ),
    "LanceDataset.update": (
        "the dictionary is an `UpdateResult` with more facts; all assignments see the old row"
    ),
    "LanceDataset.add_columns": (
        "columns of SQL expressions are nullable. Functions get only live rows. "
        "`on=` matches rows by a key"
    ),
    "Branches.delete": (
        "a folder in the branch's place stays if it has no versions of the branch, or is behind a "
        "link. Then only the reference is removed, with a warning"
    ),
    "LanceDataset.cleanup_old_versions": (
        "detached versions, the fork version of a branch under creation, links, and files behind "
        "links also stay. The result lists them (`left_alone`). Files beside tags and branches "
        "are removed, too"
    ),
    "LanceDataset.merge": "a null key matches nothing; Spark DataFrames too",
    "LanceDataset.base_paths": "lancekit's own `BasePath`s",
    "LanceDataset.add_bases": "any iterable of base paths",
    "LanceDataset.commit": (
        "the operation is checked before anything is written. `properties` sets the properties of "
        "the transaction"
    ),
    "LanceDataset.delta": (
        "a table without stable row ids is an error, not an empty result. `compared_against` with "
        "one of the other two arguments is an error"
    ),
    "LanceDataset.fragment_ids": "a pyroaring `BitMap`",
    "LanceDataset.get_fragments": "`filter` is refused",
    "LanceDataset.get_transactions": "operations are lancekit's dataclasses",
    "LanceDataset.get_version": "the dictionary also has attributes: more facts, times in UTC",
    "LanceDataset.head": "`num_rows` has a default",
    "LanceDataset.insert": "takes the keyword arguments of `write_dataset`",
    "LanceDataset.lance_schema": "a `LanceSchema` with the same methods and another `repr`",
    "LanceDataset.list_indices": (
        "a segment with a deferred remap (`defer_index_remap`) lists its old fragments"
    ),
    "LanceDataset.merge_insert": "duplicate keys in the source are an error that lists the keys",
    "LanceDataset.drop": (
        "the folder of a branch is refused. Foreign files in the folder stay, with a warning. On a "
        "handle, only absolute paths and URIs are accepted"
    ),
    "LanceDataset.read_transaction": "operations are lancekit's dataclasses",
    "LanceDataset.sample": "no further keyword arguments",
    "LanceDataset.take": "a negative position is a `RowOutOfRangeError`",
    "LanceDataset.validate": "`deep=True` reads every value and compares checksums",
    "LanceDataset.versions": (
        "a sequence that reads each version on first use; more attributes, as `get_version`"
    ),
    "LanceDataset.update_field_metadata": "fields are named by path or id",
    "LanceFragment.create": "takes the same kinds of rows as `write_dataset`",
    "LanceFragment.data_files": "lancekit's own `DataFile`s, with the same attributes",
    "LanceFragment.metadata": "lancekit's own `FragmentMetadata`, with the same JSON",
    **dict.fromkeys(
        [f"LanceFragment.{name}" for name in ("scanner", "to_batches", "to_pandas", "to_table")],
        "`batch_readahead` and other hints have no effect; all reads take the same arguments",
    ),
    "LanceFragment.take": "positions count live rows",
    "LanceFragment.validate": "`deep=True` reads every value and compares checksums",
    "MergeInsertBuilder.data_storage_version": (
        "a format other than the dataset's is refused, unless the dataset mixes formats already"
    ),
    "MergeInsertBuilder.execute": "the dictionary is a `MergeResult` with more facts",
    "LanceDataset.delete": "the dictionary is a `DeleteResult` with more facts",
    "LanceDataset.scanner": (
        "`index_segments`, lists of row addresses, and queries as a `filter` are refused. A "
        "pyarrow expression follows Arrow's rules for NaN and for null in `isin`. A null blob of a "
        "2.0 file is null. `include_mem_wal` also reads unmerged rows of shards"
    ),
    "LanceDataset.sql": "`include_mem_wal` also reads unmerged rows of shards",
    "LanceDataset.to_batches": "as `scanner`",
    "LanceDataset.to_pandas": "as `scanner`",
    "LanceDataset.to_table": "as `scanner`",
}

#: members whose signature is not pylance's, on purpose (see DIFFERENCES)
OTHER_SIGNATURE = frozenset(
    {
        "Compaction.execute",
        "Compaction.plan",
        "MergeInsertBuilder.execute",
        "LanceDataset.add_columns",
        "LanceDataset.commit",
        "LanceDataset.deep_clone",
        "LanceDataset.restore",
        "LanceDataset.shallow_clone",
        "LanceDataset.create_index",
        "LanceDataset.create_index_uncommitted",
        "LanceDataset.create_scalar_index",
        "DatasetOptimizer.compact_files",
        "DatasetOptimizer.optimize_indices",
        "LanceDataset.head",
        "LanceDataset.insert",
        "LanceDataset.merge_insert",
        "LanceDataset.scanner",
        "LanceDataset.sql",
        "LanceDataset.to_batches",
        "LanceDataset.to_pandas",
        "LanceDataset.to_table",
        "LanceDataset.validate",
        "LanceFragment.scanner",
        "LanceFragment.to_batches",
        "LanceFragment.to_pandas",
        "LanceFragment.to_table",
        "LanceFragment.validate",
    }
)


def public_names(kind: type) -> list[str]:
    """Return the public members of a class."""
    return sorted(name for name in dir(kind) if not name.startswith("_"))


def names_of_module(name: str) -> Iterator[tuple[str, bool]]:
    """Yield the public names of a module, and True for each that lancekit's module has."""
    theirs = importlib.import_module(name)
    ours = importlib.import_module("lancekit" + name.removeprefix("lance"))
    own = {n for n, v in vars(theirs).items() if getattr(v, "__module__", "") == name}
    for public in sorted(own.union(getattr(theirs, "__all__", ()))):
        if not public.startswith("_"):
            yield public, hasattr(ours, public)


def offers(kind: type, name: str) -> bool:
    """Return True if lancekit's class or one of its bases defines the member."""
    return any(name in vars(part) for part in kind.__mro__[:-1])


def parameters(member: Any) -> list[tuple[str, Any, Any]]:
    """Return name, kind and default of each parameter."""
    signature = inspect.signature(member)
    return [(p.name, p.kind, p.default) for p in signature.parameters.values()]


def _row(owner: str, name: str, ours: type | None) -> str:
    if ours is not None and offers(ours, name):
        note = DIFFERENCES.get(f"{owner}.{name}")
        return f"| `{name}` | works | |" if note is None else f"| `{name}` | differs | {note} |"
    return f"| `{name}` | {NOT_SUPPORTED} | {NOT_OFFERED[owner][name]} |"


#: the state of a name that lancekit does not have
NOT_SUPPORTED = "not supported"

_HEADING = ["| name | in lancekit | note |", "|---|---|---|"]

#: differences of more than one name
EVERYWHERE = (
    "**Errors** are lancekit's classes. They inherit the classes that pylance raises, and have "
    "other messages.",
    "**Descriptions** of a table (fragments, files, operations, index segments) are frozen. Change "
    "them with `dataclasses.replace`. Their lists are tuples that compare equal to lists.",
    "**Ids** of operations and index segments are `UUID`s. `str()` of an id is pylance's id, and "
    "the name of the segment's folder.",
    "**Deprecated names** of pylance work without a warning. `DataFile.path` is an attribute, not "
    "a method.",
    "**Exceptions in your functions and readers** arrive unchanged: a `KeyError` stays a "
    "`KeyError`. pylance raises an `OSError` with the same text.",
    "**`checkpoint_file`** of `batch_udf` has lancekit's format. It keeps results by the rows that "
    "the function got, and no fragments. It starts again for another function or version of the "
    "dataset.",
    "**`progress_callback=`** gets the stage `load_data`. For full-text and vector indices, "
    "pylance reports more stages.",
    "**Data files of another format** than the table's are refused, unless pylance mixed formats "
    "in the table already. Such a table accepts every format. lancekit then writes the table's "
    "format, or 2.2 if the schema has blobs of version 2.",
    "**`progress=`** reports the completion of each fragment. For the last fragment of "
    "`write_dataset`, pylance reports only the beginning.",
    "**`memory://`**: `dataset(uri)` opens the dataset that was written to the URI last. In "
    "pylance, only the handle of the writer can read it.",
    "**Modules**: `lancekit.vector` has `vec_to_table`, and no accelerators. The modules `torch` "
    "and `namespace` do not exist. `lancekit.lance` has those names of `lance.lance`, pylance's "
    "compiled part, that also have a public name.",
    "**`bfloat16` and images**: columns have the storage type, bytes and lists, until "
    "`lancekit.arrow` is imported. NumPy's `bfloat16` needs the package ml_dtypes.",
    "**`ds._ds`** is the handle itself.",
)


def page() -> str:
    """Return the page's text."""
    lines = [
        "# pylance API coverage",
        "",
        "This page lists the public names of pylance "
        f"{lance.__version__}, and how each works in lancekit. "
        "`python -m tests.support.pylance_coverage` generates it.",
        "",
        "lancekit refuses an unsupported name or argument with an error that has the reason.",
        "",
        "Differences of more than one name:",
        "",
        *(f"- {line}" for line in EVERYWHERE),
        "",
    ]
    for name in MODULES:
        there = {public: "works | " for public, offered in names_of_module(name) if offered}
        missing = NOT_OFFERED.get(name, {})
        cells = there | {public: f"{NOT_SUPPORTED} | {why} " for public, why in missing.items()}
        if not cells:
            continue
        lines += [f"## Module {name}", "", f"{len(there)} of {len(cells)} names.", ""]
        lines += [*_HEADING, *(f"| `{public}` | {cells[public]}|" for public in sorted(cells)), ""]
    for owner, (theirs, ours) in CLASSES.items():
        rows = [_row(owner, name, ours) for name in public_names(theirs)]
        working = sum(f"| {NOT_SUPPORTED} |" not in row for row in rows)
        lines += [f"## {owner}", "", f"{working} of {len(rows)} names.", ""]
        lines += [*_HEADING, *rows, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())

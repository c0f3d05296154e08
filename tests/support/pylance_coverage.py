"""What of pylance's public surface works, differs or is not offered: `docs/pylance-coverage.md`.

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
import lancekit._api.optimizer
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
    "LanceStats": (_dataset.LanceStats, lancekit._api.optimizer.LanceStats),
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

#: how what works differs from pylance
DIFFERENCES: dict[str, str] = {
    "Compaction.execute": "`options` may be left out",
    "Compaction.plan": "`options` may be left out",
    "DatasetOptimizer.disable_auto_cleanup": "keywords, which change nothing, are refused",
    "DatasetOptimizer.enable_auto_cleanup": "further keywords, which change nothing, are refused",
    "LanceScanner.explain_plan": "lancekit's own words, of what `explain()` tells",
    "LanceScanner.analyze_plan": "lancekit's own words, with the rows, time and bytes of a run",
    "MergeInsertBuilder.explain_plan": "lancekit's own words, of what `explain()` tells",
    "MergeInsertBuilder.analyze_plan": (
        "lancekit's own words, of what `preview()` tells; no file is written"
    ),
    "MergeInsertBuilder.write_mode": (
        "`auto` always rewrites rows, also if the key has a scalar index"
    ),
    "LanceDataset.create_scalar_index": (
        "`RTREE` and `MINHASHLSH` are not offered, nor what is for them alone; "
        "an unknown parameter of an `IndexConfig` is refused"
    ),
    "LanceDataset.create_index_uncommitted": (
        "`IVF_HNSW_*`, `IVF_RQ` and what is for them is refused"
    ),
    "LanceDataset.commit_existing_index_segments": (
        "moves the handle and returns it; segments are what `create_index_uncommitted` gave"
    ),
    "LanceDataset.prewarm_index": (
        "posting lists of words and codes of vectors are read where they are asked for"
    ),
    "LanceStats.index_stats": "of full-text indices only what the manifest says",
    "LanceDataset.create_index": (
        "`IVF_FLAT`, `IVF_PQ` and `IVF_SQ`; not of lists of vectors; graphs (`IVF_HNSW_*`), "
        "`IVF_RQ`, `accelerator` and `ivf_centroids_file` are refused; tuning of the work changes "
        "nothing; files are of version V3"
    ),
    "DatasetOptimizer.optimize_indices": (
        "an unknown name is an error; indices with graphs and `IVF_RQ` stay as they are, with a "
        "warning; `retrain` makes scalar indices anew, too; lets go of what a deferred compaction "
        "keeps of moved rows"
    ),
    "DatasetOptimizer.compact_files": (
        "indices with graphs and `IVF_RQ` lose what is compacted, with a warning; zone maps and "
        "Bloom filters are kept up; `force_binary_copy` is refused"
    ),
    "LanceDataset.update": (
        "the dictionary is an `UpdateResult`, which tells more; all assignments see the old row"
    ),
    "LanceDataset.add_columns": (
        "columns of SQL expressions are nullable; functions see live rows alone; "
        "`on=` finds rows by a key"
    ),
    "Branches.delete": (
        "a folder in the branch's place that holds no versions of it, or is behind a link, stays: "
        "then only the reference goes, with a warning"
    ),
    "LanceDataset.cleanup_old_versions": (
        "detached versions, the start of a branch that is being made, and whatever is a link or "
        "lies behind one, stay too, which the result tells (`left_alone`); files aside "
        "of tags and branches go too"
    ),
    "LanceDataset.merge": "a null key matches nothing; Spark DataFrames too",
    "LanceDataset.base_paths": "`BasePath`s of lancekit's own",
    "LanceDataset.add_bases": "any iterable of base paths",
    "LanceDataset.commit": "checked before anything is written; `properties` of the transaction",
    "LanceDataset.delta": (
        "a table without stable row ids is an error instead of no rows; so are "
        "`compared_against` and the other two together"
    ),
    "LanceDataset.fragment_ids": "a pyroaring `BitMap`",
    "LanceDataset.get_fragments": "`filter` is refused",
    "LanceDataset.get_transactions": "operations are lancekit's own dataclasses",
    "LanceDataset.get_version": "the dictionary has attributes too: more facts, times in UTC",
    "LanceDataset.head": "`num_rows` has a default",
    "LanceDataset.insert": "takes the keywords of `write_dataset` by name",
    "LanceDataset.lance_schema": "a `LanceSchema` with the same methods; other `repr`",
    "LanceDataset.list_indices": (
        "a segment that waits for a remap (`defer_index_remap`) names the fragments of before"
    ),
    "LanceDataset.merge_insert": "duplicate keys in the source are an error that names them",
    "LanceDataset.drop": "a branch's folder is refused; what is not the dataset's stays in its "
    "folder, with a warning; on a handle, it takes absolute paths and URIs alone",
    "LanceDataset.metadata": "read only, as in pylance",
    "LanceDataset.read_transaction": "operations are lancekit's own dataclasses",
    "LanceDataset.sample": "no further keywords",
    "LanceDataset.take": "a negative position is a `RowOutOfRangeError`",
    "LanceDataset.validate": "`deep=True` reads every value and compares checksums",
    "LanceDataset.versions": (
        "a sequence that reads each version when it is looked at; more attributes, as `get_version`"
    ),
    "LanceDataset.update_field_metadata": "fields are named by path or id",
    "LanceFragment.create": "rows as in `write_dataset`",
    "LanceFragment.data_files": "`DataFile`s of lancekit's own, with the same attributes",
    "LanceFragment.metadata": "lancekit's own `FragmentMetadata`, with the same JSON",
    **dict.fromkeys(
        [f"LanceFragment.{name}" for name in ("scanner", "to_batches", "to_pandas", "to_table")],
        "`batch_readahead` and other hints change nothing; all reads take the same arguments",
    ),
    "LanceFragment.take": "positions count live rows",
    "LanceFragment.validate": "`deep=True` reads every value and compares checksums",
    "MergeInsertBuilder.data_storage_version": (
        "another format than the dataset's is refused where formats are not mixed already"
    ),
    "MergeInsertBuilder.execute": "the dictionary is a `MergeResult`, which tells more",
    "LanceDataset.delete": "the dictionary is a `DeleteResult`, which tells more",
    "LanceDataset.scanner": (
        "index, vector and text-search arguments are refused by name; a pyarrow expression "
        "follows Arrow's rules for NaN and for null in `isin`; a null blob of a 2.0 file is null; "
        "`include_mem_wal` reads what shards hold, too"
    ),
    "LanceDataset.sql": "`include_mem_wal` reads the rows of shards, too",
    "LanceDataset.to_batches": "as `scanner`",
    "LanceDataset.to_pandas": "as `scanner`",
    "LanceDataset.to_table": "as `scanner`",
}

#: members whose signature is not pylance's, on purpose (see DIFFERENCES)
OTHER_SIGNATURE = frozenset(
    {
        "Compaction.execute",
        "Compaction.plan",
        "LanceDataset.add_columns",
        "LanceDataset.commit",
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
    """Yield the public names of a module, and whether lancekit's has each."""
    theirs = importlib.import_module(name)
    ours = importlib.import_module("lancekit" + name.removeprefix("lance"))
    own = {n for n, v in vars(theirs).items() if getattr(v, "__module__", "") == name}
    for public in sorted(own.union(getattr(theirs, "__all__", ()))):
        if not public.startswith("_"):
            yield public, hasattr(ours, public)


def offers(kind: type, name: str) -> bool:
    """Return whether lancekit's class, or one that it is made of, defines the member."""
    return any(name in vars(part) for part in kind.__mro__[:-1])


def parameters(member: Any) -> list[tuple[str, Any, Any]]:
    """Return name, kind and default of each parameter."""
    signature = inspect.signature(member)
    return [(p.name, p.kind, p.default) for p in signature.parameters.values()]


def _row(owner: str, name: str, ours: type | None) -> str:
    if ours is not None and offers(ours, name):
        note = DIFFERENCES.get(f"{owner}.{name}")
        return f"| `{name}` | {'works' if note is None else 'differs: ' + note} |"
    return f"| `{name}` | not offered: {NOT_OFFERED[owner][name]} |"


#: what differs wherever it appears
EVERYWHERE = (
    "Errors are lancekit's own classes, which inherit those that pylance raises; their words "
    "are others.",
    "What describes a table (fragments, files, operations, index segments) is frozen, and its "
    "lists are tuples that equal lists: change with `dataclasses.replace`.  Ids of operations and "
    "index segments are `UUID`s: `str()` of one is pylance's, and its folder's name.",
    "Names that pylance gave up work without a warning; `DataFile.path` is no longer a method.",
    "What a function or a reader that gives rows raises comes as it is, a `KeyError` as one; "
    "pylance makes an `OSError` of it, with the error's words.",
    "A `checkpoint_file` of `batch_udf` is lancekit's own: it keeps results by the rows that the "
    "function got, no fragments, and begins again for another function or version of the dataset.",
    "`progress_callback=` hears of one stage, `load_data`: of scalar indices, as in pylance; of "
    "text and vectors pylance has more.",
    "A data file of another format than the table's is refused, unless pylance mixed formats "
    "there already: from then on any format is taken, and lancekit writes the table's own, or 2.2 "
    "where the schema has blobs of version 2.",
    "`progress=` hears that each fragment is complete, also the last of `write_dataset`, of which "
    "pylance tells only the beginning.",
    "`dataset(uri)` finds what was written last to a place in `memory://`; in pylance its handle "
    "alone does.",
    "`lancekit.vector` has `vec_to_table`; accelerators are not asked.  There are no modules "
    "`torch` and `namespace`; of `lance.lance`, pylance's compiled part, `lancekit.lance` has what "
    "has a public name too.",
    "Columns of `bfloat16` and of images are what is stored, bytes and lists, until "
    "`lancekit.arrow` is imported; NumPy's `bfloat16` needs the package ml_dtypes.",
    "`ds._ds` is the handle itself.",
)


def page() -> str:
    """Return the page's text."""
    lines = [
        "# What of pylance works here",
        "",
        f"Generated from the public names of pylance {lance.__version__}; "
        "`python -m tests.support.pylance_coverage` writes it anew.",
        "An argument that is not offered is refused with an error that names it and says why.",
        "",
        "Everywhere:",
        "",
        *(f"- {line}" for line in EVERYWHERE),
        "",
    ]
    for name in MODULES:
        there = {public: "works" for public, offered in names_of_module(name) if offered}
        missing = NOT_OFFERED.get(name, {})
        told = there | {public: f"not offered: {why}" for public, why in missing.items()}
        lines += [f"## Module {name}", "", f"{len(there)} of {len(told)} names.", ""]
        lines += ["| name | in lancekit |", "|---|---|"]
        lines += [*(f"| `{public}` | {told[public]} |" for public in sorted(told)), ""]
    for owner, (theirs, ours) in CLASSES.items():
        rows = [_row(owner, name, ours) for name in public_names(theirs)]
        working = sum("not offered" not in row for row in rows)
        lines += [f"## {owner}", "", f"{working} of {len(rows)} names.", ""]
        lines += ["| name | in lancekit |", "|---|---|", *rows, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())

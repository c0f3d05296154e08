"""`Explainer`: a dataset's operations, told and not done.

Each method takes the arguments of the operation of its name, checks and plans with what the
operation itself checks and plans with, and returns an `Explanation`.  A scan or a merge that is
set up already explains itself: `LanceScanner.explain`, `MergeInsertBuilder.explain`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lancekit._api._handle import Handle
from lancekit._api.frames import check_blob_mode
from lancekit._arguments.checks import check_count, check_flag
from lancekit._call import Call
from lancekit._checked import check_arguments
from lancekit._format.storage_version import check_storage_version
from lancekit._lazy import loaded
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.explain.explanation import Explanation
from lancekit._storage.uris import check_options
from lancekit.errors import InvalidTypeError

__all__ = ["Explainer"]


def _at_least_one(name: str, value: object) -> None:
    check_count(name, value, least=1)


#: checks of arguments that say how an operation is run, and so change nothing of what is told
_HOW: Mapping[str, Callable[[str, Any], object]] = {
    "batch_size": _at_least_one,
    "blob_mode": lambda _, mode: check_blob_mode(mode),
    "conflict_retries": lambda _, number: RetryPolicy(conflict_retries=number),
    "data_storage_version": check_storage_version,
    "delete_concurrency": _at_least_one,
    "delete_rate_limit": _at_least_one,
    "delete_unverified": check_flag,
    "error_if_tagged_old_versions": check_flag,
    "retry_timeout": lambda _, timeout: RetryPolicy(timeout=timeout),
    "storage_options": lambda _, given: check_options(given),
}


#: what tells of each operation, by the name of its method
_EXPLAINED: Mapping[str, str] = {
    **dict.fromkeys(["scanner", "to_table", "to_batches", "to_pandas", "head"], "rows.scan"),
    "count_rows": "rows.count",
    "insert": "rows.insert",
    "delete": "rows.delete",
    "truncate_table": "rows.truncate",
    "update": "rows.update",
    "add_columns": "columns.add",
    "merge": "columns.merge",
    "replace_columns": "columns.replace",
    "alter_columns": "columns.alter",
    "drop_columns": "columns.drop",
    "compact_files": "upkeep.compact",
    "cleanup_old_versions": "upkeep.cleanup",
    "create_scalar_index": "upkeep.scalar_index",
    "create_index": "upkeep.vector_index",
    "optimize_indices": "upkeep.optimize_indices",
    "validate": "upkeep.validate",
    "merge_mem_wal": "upkeep.merge_mem_wal",
    "restore": "upkeep.restore",
    "create_branch": "upkeep.branch",
    "shallow_clone": "upkeep.shallow_clone",
    "deep_clone": "upkeep.deep_clone",
}


class Explainer:
    """Tells what an operation on a dataset would do, where it would run, and why; nothing is done.

    Methods have the names and arguments of the dataset's own, those of `DatasetOptimizer`
    among them.  Made by `LanceDataset.explain`.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://explainer-example")
    >>> told = ds.explain.update({"x": "x + 1"}, where="x > 1")
    >>> told.engine, told.reads.rows, told.commits
    ('local', 3, ('Update',))
    >>> ds.version
    1
    """

    __slots__ = ("_dataset",)

    def __init__(self, dataset: Handle) -> None:
        self._dataset: Any = dataset

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _EXPLAINED:
            raise AttributeError(
                f"there is nothing to explain of {name!r}; there is {', '.join(dir(self))}"
            )
        dataset, work = self._dataset, f"_api.explained_{_EXPLAINED[name]}"
        where: Any = dataset if hasattr(type(dataset), name) else dataset.optimize
        method = getattr(type(where), name)
        full = inspect.signature(method)
        signature = full.replace(parameters=list(full.parameters.values())[1:])

        def explain(*args: object, **kwargs: object) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise InvalidTypeError(f"explain.{name}(): {error}.") from None
            bound.apply_defaults()
            for argument, value in bound.arguments.items():
                if value is not None and argument in _HOW:
                    _HOW[argument](argument, value)
            check_arguments(signature, bound.arguments)
            told = loaded(work)(dataset, bound.arguments)
            return replace(told, _call=Call(getattr(where, name), *args, **kwargs))

        explain.__name__ = explain.__qualname__ = name
        explain.__doc__ = f"Tell what `{name}` would do with these arguments.\n\n{method.__doc__}"
        explain.__signature__ = signature.replace(  # type: ignore[attr-defined]  # inspect asks
            return_annotation=Explanation
        )
        return explain

    def filter(self, condition: str) -> Explanation:
        """Tell what the rows of a filter would cost to find, and which index would help.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": range(100_000)}, "memory://explain-filter-example")
        >>> notes = " ".join(ds.explain.filter("id = 7").notes)
        >>> "ds.create_scalar_index('id', 'BTREE') reads" in notes
        True
        """
        told: Explanation = self.to_table(filter=condition)
        return told

    def __dir__(self) -> list[str]:
        return sorted([*_EXPLAINED, "filter"])

    def __repr__(self) -> str:
        return f"Explainer({', '.join(dir(self))})"

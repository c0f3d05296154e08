"""Exceptions that lancekit raises on purpose.

The classes form one tree: a base class groups the errors that a handler treats alike.  Each class
has a stable ``kind`` code.  Each error has facts in ``context``, and a ``hint``: the next step.  A
class also inherits the builtins that pylance raises in the same place, so ``except`` clauses for
pylance still work.
pylance raises ``ValueError`` from some methods and ``OSError`` from others for the same fault.  For
example, a missing version is a ``ValueError`` in ``dataset()`` and an ``OSError`` in
``checkout_version()``.  The classes for such faults inherit both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from lancekit._display import TEXT, Displayed, render_failure
from lancekit._legible import clean_line

__all__ = [
    "BranchNotFoundError",
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitUnknownError",
    "ConstraintViolationError",
    "CorruptFileError",
    "DatasetExistsError",
    "DatasetNotFoundError",
    "DuplicateKeysError",
    "EngineError",
    "FencedError",
    "FormatError",
    "IncompatibleConflictError",
    "IndexExistsError",
    "IndexNotFoundError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "JavaNotFoundError",
    "LancekitError",
    "MatchedRowsError",
    "MemoryLimitError",
    "MergeConflictError",
    "NotFoundError",
    "NotOfferedAttributeError",
    "NotOfferedError",
    "NullKeyError",
    "PartitionOutOfRangeError",
    "PredicateError",
    "ReadOnlyError",
    "RefConflictError",
    "RetriesExhaustedError",
    "RetryableConflictError",
    "RowNotFoundError",
    "RowOutOfRangeError",
    "SchemaMismatchError",
    "SessionError",
    "ShardError",
    "SourceChangedError",
    "StorageError",
    "TagNotFoundError",
    "UnknownNameError",
    "UnsupportedFeatureError",
    "UnsupportedTypeError",
    "UntrustedBaseError",
    "VersionNotFoundError",
]

#: maximum length of a line in an error's text, and maximum number of lines
_CHARACTERS = 2000
_LINES = 200


class LancekitError(Displayed, Exception):
    """Base class: ``str(error)`` states the problem, then the next step.

    The text is safe to print (`lancekit._legible`), whatever names and values it contains; the
    facts in ``context`` are unchanged.  IPython and notebooks show a short card instead of the
    traceback, which ``%lance tb`` prints in full.  Scripts and tests show the usual traceback.

    Parameters
    ----------
    message
        What happened, with the wrong value; one line.
    details
        Further lines.
    hint
        The next step, as a full sentence; empty without one.
    **context
        The facts of the failure by name, for handlers: ``error.context["version"]``.

    Examples
    --------
    >>> VersionNotFoundError("no version 7", hint="The newest is 3.", version=7).context["version"]
    7
    """

    #: the class's name in lower case without "Error", such as "row_not_found"
    kind: ClassVar[str] = "lancekit"

    def __init_subclass__(cls) -> None:
        if "kind" not in vars(cls):
            words = re.findall("[A-Z][a-z]+", cls.__name__.removesuffix("Error"))
            cls.kind = "_".join(words).lower()

    def __init__(
        self, message: str, /, *, details: Sequence[str] = (), hint: str = "", **context: object
    ) -> None:
        if len(details) > _LINES:
            left_out = len(details) - _LINES + 1
            details = [*details[: _LINES - 1], f"  and {left_out} more."]
        lines = [clean_line(line, _CHARACTERS) for line in (message, *details)]
        super().__init__("\n".join(lines))
        self._lines = lines
        self.message: str = "\n".join(lines)
        self.hint: str = clean_line(hint, _CHARACTERS)
        self.context: dict[str, Any] = context

    def __str__(self) -> str:
        gap = "" if self.message.endswith("\n") else " "
        return f"{self.message}{gap}{self.hint}".strip()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self._lines, self.hint, self.context))

    def __repr__(self) -> str:
        # one line in tracebacks, logs and terminals; the card is for notebooks
        return BaseException.__repr__(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {**super()._repr_mimebundle_(include, exclude), TEXT: repr(self)}

    def _render_traceback_(self) -> list[str]:
        return render_failure(self)


def _rebuild(
    cls: type[LancekitError], lines: list[str], hint: str, context: dict[str, object]
) -> LancekitError:
    return cls(lines[0], details=lines[1:], hint=hint, **context)


def type_name(value: object) -> str:
    """Return the name of a value's type for a message; with its module unless it is built in.

    Examples
    --------
    >>> from decimal import Decimal
    >>> type_name(1), type_name(Decimal(1))
    ('int', 'decimal.Decimal')
    """
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


# ---- requested objects that do not exist


class NotFoundError(LancekitError, KeyError, ValueError, OSError):
    """A dataset, version, tag, branch or column that does not exist."""


class DatasetNotFoundError(NotFoundError):
    """There is no Lance dataset at this location."""


class VersionNotFoundError(NotFoundError):
    """The dataset does not have the version: it never did, or a cleanup removed it."""


class TagNotFoundError(NotFoundError):
    """There is no tag with this name."""


class BranchNotFoundError(NotFoundError):
    """There is no branch with this name."""


class ColumnNotFoundError(NotFoundError, RuntimeError):
    """The schema has no column with this name."""


class IndexNotFoundError(NotFoundError, RuntimeError):
    """There is no index with this name."""


# ---- arguments


class InvalidArgumentError(LancekitError, ValueError, OSError):
    """An argument whose value cannot be used."""


class InvalidTypeError(InvalidArgumentError, TypeError):
    """An argument of the wrong Python type."""


class PredicateError(InvalidArgumentError, RuntimeError):
    """A filter expression that does not parse or does not fit the schema.

    ``context`` has the expression (``sql``) and the place of the mistake: ``position`` counts from
    0, ``line`` and its ``character`` from 1.  ``column`` is the name of a column, as in all errors.
    """


class RowOutOfRangeError(InvalidArgumentError, IndexError, OverflowError):
    """A position outside of the rows of a dataset, or of a list of versions."""


class RowNotFoundError(RowOutOfRangeError, NotImplementedError):
    """No row has this id or address; a deleted row is "not supported" in pylance."""


class PartitionOutOfRangeError(InvalidArgumentError, IndexError):
    """A partition that an index does not have."""


class NotOfferedError(InvalidArgumentError, NotImplementedError):
    """An argument or a method of pylance that lancekit does not support."""


class UnknownNameError(LancekitError, AttributeError):
    """An object or the package has no attribute of this name; the hint has the right line."""


class NotOfferedAttributeError(LancekitError, AttributeError):
    """A public name of pylance that lancekit does not have."""


class SchemaMismatchError(InvalidArgumentError, RuntimeError):
    """Rows that do not fit the dataset's schema; the message shows only the difference."""


class UnsupportedTypeError(InvalidArgumentError):
    """An Arrow type that a Lance file, or lancekit, cannot store."""


class NullKeyError(InvalidArgumentError):
    """A null in a primary-key column."""


class DuplicateKeysError(InvalidArgumentError):
    """The source of a merge has one key more than once."""


class MatchedRowsError(InvalidArgumentError):
    """``when_matched_fail`` found a match."""


class MergeConflictError(InvalidArgumentError):
    """Both sides changed the same rows, and no resolution was chosen.

    ``context["conflicts"]`` has these rows on both sides and in the merge base.
    """


class ConstraintViolationError(InvalidArgumentError):
    """Rows, or a table, that violate a constraint of `ds.constraints`.

    ``context`` has ``constraint`` (its name), ``condition``, ``violations`` (number of rows,
    ``None`` for a condition on the table) and ``sample``: some of the rows, or the aggregates.
    """


class IndexExistsError(InvalidArgumentError, RuntimeError):
    """The name of the index is already in use."""


class ReadOnlyError(InvalidArgumentError):
    """A write through a handle that is pinned to a version."""


class DatasetExistsError(LancekitError, FileExistsError, ValueError):
    """``mode="create"``, or a clone, at a location that already has a dataset."""


class RefConflictError(LancekitError, ValueError, OSError):
    """A tag or branch that already exists, or that is still needed."""


# ---- commits


class CommitConflictError(LancekitError, OSError):
    """A conflicting commit of another writer.

    ``context`` names both operations, the read version, the version that was committed first and
    its writer, the evidence (what both touched: fragments, rows, columns, keys, ...) and the next
    line of code.  A notebook shows a card:
    ``except lk.errors.CommitConflictError as conflict: ...``.
    """

    retryable: bool = True

    def __init__(
        self,
        message: str = "Another writer was faster.",
        retryable: bool | None = None,
        /,
        **context: Any,
    ) -> None:
        if retryable is not None:  # pylance's second argument: a custom lock may raise the error
            context["retryable"] = retryable
        self.retryable = context.get("retryable", self.retryable)
        super().__init__(message, **context)


class RetryableConflictError(CommitConflictError):
    """A conflict that a retry on the newest version is expected to resolve."""


class IncompatibleConflictError(CommitConflictError):
    """The two changes exclude each other; a retry cannot help."""

    retryable = False


class RetriesExhaustedError(CommitConflictError):
    """Every allowed attempt lost to another writer; a later attempt may succeed."""


class CommitUnknownError(LancekitError, OSError):
    """The storage failed during a commit, which may or may not have landed."""


# ---- shards of a table


class ShardError(LancekitError, OSError, RuntimeError):
    """A shard or its writer does not accept rows: it is sealed, closed, or in an unknown state."""


class FencedError(ShardError):
    """A newer writer has claimed the shard, or its log ended: this writer cannot write any more.

    Rows that this writer acknowledged before are kept.  Open a new writer to claim the shard again.
    """


# ---- damaged or unknown bytes


class FormatError(LancekitError, ValueError, OSError):
    """A file that does not follow the format."""


#: path segments of write-ahead log files, and of log files that a repair moved
_LOGS, _SET_ASIDE = "/_mem_wal/", "/set_aside/"


class CorruptFileError(FormatError):
    """Damaged or truncated bytes.

    Readers of write-ahead log files may not know that a file belongs to a log.  So this class adds
    the repair to the hint of every such error.
    """

    def __init__(
        self, message: str, /, *, details: Sequence[str] = (), hint: str = "", **context: object
    ) -> None:
        of_logs = _LOGS in message and _SET_ASIDE not in message
        if of_logs and "ds.repair_mem_wal()" not in hint:
            way_out = "ds.repair_mem_wal() moves damaged files aside and reports the lost rows."
            hint = f"{hint} {way_out}".strip()
        super().__init__(message, details=details, hint=hint, **context)


class UnsupportedFeatureError(FormatError, NotImplementedError):
    """A format feature, version or encoding that this release does not support."""


class MemoryLimitError(FormatError):
    """A page or value that needs more memory than ``options.page_memory_bytes`` allows.

    It may be genuine, or made to do harm: the file alone does not show which.
    """


# ---- storage, Spark, Java


class StorageError(LancekitError, OSError):
    """The storage refused or failed: disk full, permission denied, network error."""


class UntrustedBaseError(StorageError):
    """A base path in another store that ``lk.options.trusted_bases`` does not list."""


class SessionError(LancekitError, RuntimeError):
    """Spark could not be started, or its session has ended."""


class JavaNotFoundError(SessionError):
    """No Java runtime that Spark can use."""


class EngineError(LancekitError, RuntimeError):
    """A Spark job failed; the message is the last line of the worker's traceback."""


class SourceChangedError(EngineError):
    """Spark lost cached rows of a source, and recomputing them gave different rows."""

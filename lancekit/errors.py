"""Every exception that lancekit raises on purpose.

One tree, cut by what a handler would do.  Each class carries a stable ``kind`` code, the facts as
attributes of ``context``, and a ``hint``: the next thing to do.  Each class also inherits the
builtins that pylance raises in the same place, so ``except`` clauses written for it still catch.
pylance raises ``ValueError`` from some methods and ``OSError`` from others for one and the same
fault (a missing version is a ``ValueError`` in ``dataset()`` and an ``OSError`` in
``checkout_version()``), so the classes for such faults inherit both.
"""

from __future__ import annotations

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
    "UnsupportedFeatureError",
    "UnsupportedTypeError",
    "UntrustedBaseError",
    "VersionNotFoundError",
]

#: the longest line of an error's text, and its most lines
_CHARACTERS = 2000
_LINES = 200


class LancekitError(Displayed, Exception):
    """The common parent: ``str(error)`` is what happened, then what to do next.

    The text is safe to print (`lancekit._legible`), whatever names and values are in it; the facts
    are as they were.  IPython and notebooks show a short card in the place of the traceback, which
    ``%lance tb`` prints as a whole; scripts and tests get it as of any exception.

    Parameters
    ----------
    message
        What happened, with the value at fault; one line.
    details
        Further lines.
    hint
        The next step, a full sentence; empty where there is none.
    **context
        The facts of the failure by name, for a handler to read: ``error.context["version"]``.

    Examples
    --------
    >>> VersionNotFoundError("no version 7", hint="The newest is 3.", version=7).context["version"]
    7
    """

    kind: ClassVar[str] = "lancekit"

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
    """Return the name of a value's type for a message, with its module unless it is built in.

    Examples
    --------
    >>> from decimal import Decimal
    >>> type_name(1), type_name(Decimal(1))
    ('int', 'decimal.Decimal')
    """
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


# ---- something asked for is not there


class NotFoundError(LancekitError, KeyError, ValueError, OSError):
    """A dataset, version, tag, branch or column that does not exist."""

    kind = "not_found"


class DatasetNotFoundError(NotFoundError):
    """No Lance dataset at this place."""

    kind = "dataset_not_found"


class VersionNotFoundError(NotFoundError):
    """The dataset has no such version (never had, or it was cleaned up)."""

    kind = "version_not_found"


class TagNotFoundError(NotFoundError):
    """No tag of this name."""

    kind = "tag_not_found"


class BranchNotFoundError(NotFoundError):
    """No branch of this name."""

    kind = "branch_not_found"


class ColumnNotFoundError(NotFoundError):
    """No column of this name in the schema."""

    kind = "column_not_found"


class IndexNotFoundError(NotFoundError, RuntimeError):
    """No index of this name."""

    kind = "index_not_found"


# ---- the caller's input


class InvalidArgumentError(LancekitError, ValueError, OSError):
    """An argument whose value cannot be used."""

    kind = "invalid_argument"


class InvalidTypeError(InvalidArgumentError, TypeError):
    """An argument of the wrong Python type."""

    kind = "invalid_type"


class PredicateError(InvalidArgumentError):
    """A filter expression that does not parse, or does not fit the schema."""

    kind = "predicate"


class RowOutOfRangeError(InvalidArgumentError, IndexError, OverflowError):
    """A row position outside of the dataset."""

    kind = "row_out_of_range"


class RowNotFoundError(RowOutOfRangeError, NotImplementedError):
    """No row has that id or address; it may be deleted, of which pylance says "not supported"."""

    kind = "row_not_found"


class PartitionOutOfRangeError(InvalidArgumentError, IndexError):
    """A partition that an index does not have."""

    kind = "partition_out_of_range"


class NotOfferedError(InvalidArgumentError, NotImplementedError):
    """An argument or a method of pylance that lancekit does not offer (yet)."""

    kind = "not_offered"


class NotOfferedAttributeError(LancekitError, AttributeError):
    """A public name of pylance that lancekit does not have."""

    kind = "not_offered_attribute"


class SchemaMismatchError(InvalidArgumentError):
    """Rows that do not fit the dataset's schema; only the difference is shown."""

    kind = "schema_mismatch"


class UnsupportedTypeError(InvalidArgumentError):
    """An Arrow type that a Lance file, or lancekit, cannot store."""

    kind = "unsupported_type"


class NullKeyError(InvalidArgumentError):
    """A null in a primary-key column."""

    kind = "null_key"


class DuplicateKeysError(InvalidArgumentError):
    """The source of a merge holds one key more than once."""

    kind = "duplicate_keys"


class MatchedRowsError(InvalidArgumentError):
    """``when_matched_fail`` found a match."""

    kind = "matched_rows"


class MergeConflictError(InvalidArgumentError):
    """Two sides changed the same rows, and nobody said whose values count.

    ``context["conflicts"]`` has the rows of both sides and of the version that they come from.
    """

    kind = "merge_conflict"


class ConstraintViolationError(InvalidArgumentError):
    """Rows, or a table, that break a constraint of `ds.constraints`.

    ``context`` has ``constraint`` (its name), ``condition``, ``violations`` (how many rows,
    ``None`` for a condition of the table) and ``sample``: some of them, or the aggregates.
    """

    kind = "constraint_violation"


class IndexExistsError(InvalidArgumentError, RuntimeError):
    """The name of an index that is taken."""

    kind = "index_exists"


class ReadOnlyError(InvalidArgumentError):
    """A write through a handle that is pinned to one version."""

    kind = "read_only"


class DatasetExistsError(LancekitError, FileExistsError, ValueError):
    """``mode="create"``, or a clone, where a dataset already is."""

    kind = "dataset_exists"


class RefConflictError(LancekitError, ValueError, OSError):
    """A tag or branch that already exists, or that something else still needs."""

    kind = "ref_conflict"


# ---- commits


class CommitConflictError(LancekitError, OSError):
    """Another writer committed something that this transaction cannot be put on top of.

    ``context`` names both operations, the read version, the version that won and its writer, the
    evidence (what both touched: fragments, rows, columns, keys, ...) and the next line of code.
    A notebook shows it as a card: ``except lk.errors.CommitConflictError as conflict: ...``.
    """

    kind = "commit_conflict"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str = "Another writer was first.", /, **context: Any) -> None:
        super().__init__(message, **context)  # the text that a lock may leave out


class RetryableConflictError(CommitConflictError):
    """Read the newest version and do the work again: it is expected to succeed."""

    kind = "retryable_conflict"
    retryable = True


class IncompatibleConflictError(CommitConflictError):
    """The two changes exclude each other; trying again cannot help."""

    kind = "incompatible_conflict"


class RetriesExhaustedError(CommitConflictError):
    """Every allowed attempt lost against another writer; a later one may not."""

    kind = "retries_exhausted"
    retryable = True


class CommitUnknownError(LancekitError, OSError):
    """The storage failed while committing: the commit may or may not have landed."""

    kind = "commit_unknown"


# ---- shards of a table


class ShardError(LancekitError, OSError, RuntimeError):
    """A shard, or its writer, that takes no rows: it is sealed, closed, or in an unknown state."""

    kind = "shard"


class FencedError(ShardError):
    """A newer writer has the shard, or the log of the shard ended: this one cannot write any more.

    What the writer acknowledged before a newer writer came is kept.  Open a new writer, which takes
    the shard back.
    """

    kind = "fenced"


# ---- bytes


class FormatError(LancekitError, ValueError, OSError):
    """A file that is not what the format says."""

    kind = "format"


#: parts of paths that tell files of write-ahead logs, and those of them that a repair moved
_LOGS, _SET_ASIDE = "/_mem_wal/", "/set_aside/"


class CorruptFileError(FormatError):
    """Damaged or truncated bytes.

    Whoever reads a file of a write-ahead log, and finds damage, may not know that it is one.  So
    the way out is added here to every hint.
    """

    kind = "corrupt_file"

    def __init__(
        self, message: str, /, *, details: Sequence[str] = (), hint: str = "", **context: object
    ) -> None:
        of_logs = _LOGS in message and _SET_ASIDE not in message
        if of_logs and "ds.repair_mem_wal()" not in hint:
            way_out = "ds.repair_mem_wal() moves what is damaged aside, and names what is lost."
            hint = f"{hint} {way_out}".strip()
        super().__init__(message, details=details, hint=hint, **context)


class UnsupportedFeatureError(FormatError, NotImplementedError):
    """A format feature, version or encoding that this release does not know."""

    kind = "unsupported_feature"


class MemoryLimitError(FormatError):
    """A page or value that asks for more memory than ``options.page_memory_bytes`` allows.

    It may be as large as it says, or made to do harm: the file alone does not tell.
    """

    kind = "memory_limit"


# ---- the world outside


class StorageError(LancekitError, OSError):
    """The storage refused or failed: disk full, permission, network."""

    kind = "storage"


class UntrustedBaseError(StorageError):
    """A base path in another store that ``lk.options.trusted_bases`` does not list."""

    kind = "untrusted_base"


class SessionError(LancekitError, RuntimeError):
    """Spark could not be started, or its session is gone."""

    kind = "session"


class JavaNotFoundError(SessionError):
    """No Java runtime that Spark can use."""

    kind = "java_not_found"


class EngineError(LancekitError, RuntimeError):
    """A Spark job failed; the message is the last line of the worker's own traceback."""

    kind = "engine"


class SourceChangedError(EngineError):
    """Rows of a source that Spark held were lost, and came out different when worked out anew."""

    kind = "source_changed"

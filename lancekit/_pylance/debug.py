"""Text forms of manifests and transactions (``lance.debug``), and pylance's logger settings.

The layout of the text follows the reference; the names come from lancekit's records.  The text
is for people: no program should parse it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from textwrap import indent
from typing import Any

from lancekit._api.lance_dataset import LanceDataset
from lancekit._arguments.checks import check_count
from lancekit._checked import checked
from lancekit._format.fragment import Fragment
from lancekit._format.manifest import Manifest
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import clean, shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, StorageError

#: names of records and members that differ in the reference
_NAMES = {
    "LanceSchema": "Schema",
    "LanceField": "Field",
    "timestamp_ns": "timestamp_nanos",
    "reader_flags": "reader_feature_flags",
    "writer_flags": "writer_feature_flags",
    "writer": "writer_version",
}
#: members that are printed first, in this order
_FIRST: Mapping[type, Sequence[str]] = {
    LanceField: ("name", "id", "parent_id", "logical_type"),
    Manifest: ("schema", "version", "branch", "writer", "fragments"),
}


@checked
def format_schema(dataset: LanceDataset) -> str:
    """Return the complete stored schema of a dataset as text.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1]}, "memory://debug-example")
    >>> print(*format_schema(ds).splitlines()[:4], sep=chr(10))
    Schema {
        fields: [
            Field {
                name: "x",
    """
    return _text(dataset._snapshot.manifest.schema)


@checked
def format_manifest(dataset: LanceDataset) -> str:
    """Return the complete manifest of the handle's version as text."""
    return _text(dataset._snapshot.manifest)


@checked
def format_fragment(fragment: Fragment, dataset: LanceDataset) -> str:
    """Return a complete fragment as text, with the fields of its files.

    Parameters
    ----------
    fragment
        The fragment (`LanceFragment.metadata`).
    dataset
        Its dataset, which has the schema.

    Returns
    -------
    str
        The text, in several lines.

    Raises
    ------
    InvalidTypeError
        ``fragment`` or ``dataset`` has another type.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://format-fragment-example")
    >>> format_fragment(ds.get_fragments()[0].metadata, ds).splitlines()[0]
    'PrettyPrintableFragment {'
    """
    if not isinstance(fragment, Fragment):
        raise InvalidTypeError(
            f"fragment must be a FragmentMetadata, got {shown(fragment)}.",
            hint="Pass the metadata of a fragment: fragment.metadata.",
        )
    schema = dataset._snapshot.manifest.schema
    files = []
    for file in fragment.files:
        schema_of = LanceSchema(_pruned(schema.fields, frozenset(file.fields)))
        members: list[tuple[str, object]] = [("path", file.path), ("fields", file.fields)]
        members += [("column_indices", file.column_indices), ("schema", schema_of)]
        members += [("major_version", file.file_major_version)]
        members += [("minor_version", file.file_minor_version)]
        files.append(_record("PrettyPrintableDataFile", [(n, _text(v)) for n, v in members]))
    rest = {name: text for name, text in _members(fragment) if name not in ("id", "files")}
    whole = {"id": str(fragment.id), "files": _listed(files), **rest}
    return _record("PrettyPrintableFragment", whole.items())


@checked
def list_transactions(dataset: LanceDataset, max_transactions: int = 10) -> list[str]:
    """Return the transactions of the latest commits as text, the newest first.

    Versions without a recorded transaction are left out.  A removed version ends the list.

    Parameters
    ----------
    dataset
        The dataset, read from the handle's version back.
    max_transactions
        The most versions to read.

    Returns
    -------
    list of str
        One text for each transaction.

    Raises
    ------
    InvalidArgumentError
        ``max_transactions`` is negative.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://list-transactions-example")
    >>> list_transactions(ds)[0].splitlines()[0]
    'Transaction {'
    """
    count = check_count("max_transactions", max_transactions)
    return [_text(one) for one in dataset.get_transactions(count) if one is not None]


@checked
def manifest_needs_migration(dataset: LanceDataset) -> bool:
    """Return True if the next commit must add data that an old release left out."""
    manifest = dataset._snapshot.manifest
    if manifest.writer is None:
        return True
    if any(index.fragment_ids is None for index in dataset._snapshot.indices):
        return True
    deletions = (fragment.deletion_file for fragment in manifest.fragments)
    return any(file is not None and not file.num_deleted_rows for file in deletions)


def _pruned(children: Sequence[LanceField], ids: AbstractSet[int]) -> tuple[LanceField, ...]:
    """Return the fields with the given ids, and their parents."""
    below = [replace(child, children=_pruned(child.children, ids)) for child in children]
    return tuple(child for child in below if child.id in ids or child.children)


def _text(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return _lines("{}", [f"{_text(key)}: {_text(one)}" for key, one in value.items()])
    if is_dataclass(value):
        return _record(type(value).__name__, _members(value))
    if isinstance(value, Sequence | AbstractSet) and not isinstance(value, str):
        return _listed(map(_text, value))
    return str(value) if isinstance(value, int | float) else f'"{clean(str(value))}"'


def _members(record: Any) -> Iterator[tuple[str, str]]:
    """Yield the names of a record's members, with the text of each."""
    first = _FIRST.get(type(record), ())
    kinds = {one.name: str(one.type) for one in fields(record)}
    for name in [*first, *(name for name in kinds if name not in first)]:
        value = getattr(record, name)
        text = _text(value)
        if name == "logical_type":
            text = f"LogicalType{_lines('()', [text])}"
        elif value is not None and "None" in kinds[name]:
            text = f"Some{_lines('()', [text])}"
        if name != "unknown" or value:
            yield name, text


def _record(name: str, members: Iterable[tuple[str, str]]) -> str:
    lines = [f"{_NAMES.get(member, member)}: {text}" for member, text in members]
    return f"{_NAMES.get(name, name)} {_lines('{}', lines)}"


def _listed(texts: Iterable[str]) -> str:
    return _lines("[]", [*texts])


def _lines(brackets: str, texts: list[str]) -> str:
    if not texts:
        return brackets
    inner = indent("\n".join(f"{text}," for text in texts), "    ")
    return f"{brackets[0]}\n{inner}\n{brackets[1]}"


# ---- the logger of pylance's interface; lancekit itself only logs the reads of samplers

ENV_NAME_PYLANCE_LOGGING_LEVEL = "LANCE_LOG"

_FORMAT = "%(asctime)s %(name)s [%(levelname)s] %(filename)s:%(lineno)d %(funcName)s : %(message)s"


@checked
def get_python_log_level(rust_log_level: str) -> str:
    """Convert a Rust log level to Python's name; Python has no ``"trace"``.

    Examples
    --------
    >>> get_python_log_level("trace")
    'DEBUG'
    """
    return "DEBUG" if rust_log_level.lower() == "trace" else rust_log_level


def get_log_level() -> str:
    """Return the first level without a module name in the environment variable ``LANCE_LOG``."""
    levels = os.environ.get(ENV_NAME_PYLANCE_LOGGING_LEVEL, "").upper().split(",")
    general = [level for level in levels if level and "=" not in level]
    return get_python_log_level(general[0]) if general else "INFO"


LOGGER = logging.getLogger("lancekit")
_level = get_log_level()
LOGGER.setLevel(_level if _level in logging.getLevelNamesMapping() else "INFO")


@checked
def set_logger(
    file_path: str | os.PathLike[str] | None = "lancekit.log",
    name: str = "lancekit",
    level: int | str = logging.INFO,
    format_string: str | None = None,
    log_handler: logging.Handler | None = None,
) -> None:
    """Send log messages to a file or a handler.

    Parameters
    ----------
    file_path
        The file, to which lines are appended; ignored if there is a handler.
    name
        The name of the logger, as for `logging.getLogger`.
    level
        The lowest level that is logged.
    format_string
        The format of a line, as for `logging.Formatter`.
    log_handler
        A handler to use instead of the file.

    Raises
    ------
    StorageError
        The file cannot be written.
    InvalidArgumentError, InvalidTypeError
        ``level`` or ``format_string`` is invalid, or ``log_handler`` is no handler.

    Examples
    --------
    >>> set_logger(name="lancekit.example", log_handler=logging.NullHandler())
    """
    if not isinstance(log_handler, logging.Handler | None):
        raise InvalidTypeError(f"log_handler must be a logging.Handler, got {shown(log_handler)}.")
    try:
        form = logging.Formatter(format_string or _FORMAT)
        logging.Handler(level)  # check the level before a file is opened
        handler = log_handler or logging.FileHandler(os.fspath(file_path or "lancekit.log"))
        handler.setLevel(level)
        logger = logging.getLogger(name)
        logger.setLevel(level)
    except OSError as error:
        raise StorageError(f"{shown(file_path)} cannot be written: {error}.") from error
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"Invalid level or format_string: {error}.") from error
    handler.setFormatter(form)
    logger.addHandler(handler)

"""Tags and branches: small JSON files below `_refs` of the main root (docs/format/table.md, 6)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lancekit._format.names import BRANCHES, MAIN, TAGS
from lancekit._legible import shown
from lancekit.errors import CorruptFileError, InvalidArgumentError

REFERENCE_BYTES = 1 << 20
"""Maximum bytes of a tag's or branch's file: it has a name, some numbers, and metadata."""

_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """Name for a version of a branch; `branch` is ``None`` for main."""

    version: int
    branch: str | None = None
    manifest_size: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Encode the tag as the bytes of its file."""
        record: dict[str, object] = {"branch": self.branch, "version": self.version}
        if self.created_at:
            record["createdAt"] = _rfc3339(self.created_at)
        if self.updated_at:
            record["updatedAt"] = _rfc3339(self.updated_at)
        record["manifestSize"] = self.manifest_size
        record["metadata"] = dict(self.metadata)
        return _encoded(record)

    @classmethod
    def from_json(cls, data: bytes | pa.Buffer, where: str) -> Tag:
        """Parse a tag's file; raise ``CorruptFileError`` if a required key is missing."""
        with _checked(where):
            record = _load(data, required=("version", "manifestSize"))
            return cls(
                version=int(record["version"]),
                branch=_branch(record.get("branch")),
                manifest_size=int(record["manifestSize"]),
                created_at=_parse_time(record.get("createdAt")),
                updated_at=_parse_time(record.get("updatedAt")),
                metadata=dict(record.get("metadata") or {}),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Branch of versions that forked from `parent_branch` (``None``: main) at `parent_version`.

    `identifier` has (fork version, random hexadecimal id) for each step from main to the branch.
    """

    parent_version: int
    parent_branch: str | None = None
    identifier: tuple[tuple[int, str], ...] = ()
    create_at: int = 0
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def created_at(self) -> datetime:
        """Time of creation, with time zone UTC, in whole seconds."""
        return datetime.fromtimestamp(self.create_at, UTC)

    def to_json(self) -> bytes:
        """Encode the branch as the bytes of its file."""
        record = {
            "parentBranch": self.parent_branch,
            "identifier": {"version_mapping": [list(step) for step in self.identifier]},
            "parentVersion": self.parent_version,
            "createAt": self.create_at,
            "manifestSize": self.manifest_size,
            "metadata": dict(self.metadata),
        }
        return _encoded(record)

    @classmethod
    def from_json(cls, data: bytes | pa.Buffer, where: str) -> Branch:
        """Parse a branch's file; raise ``CorruptFileError`` if a required key is missing."""
        with _checked(where):
            record = _load(data, required=("parentVersion", "createAt", "manifestSize"))
            mapping = (record.get("identifier") or {}).get("version_mapping", [])
            return cls(
                parent_version=int(record["parentVersion"]),
                parent_branch=_branch(record.get("parentBranch")),
                identifier=tuple((int(version), str(unique)) for version, unique in mapping),
                create_at=int(record["createAt"]),
                manifest_size=int(record["manifestSize"]),
                metadata=dict(record.get("metadata") or {}),
            )


def tag_file(name: str) -> str:
    """Return the path of a tag's file, relative to the main root."""
    return f"{TAGS}/{name}.json"


def branch_file(name: str) -> str:
    """Return the path of a branch's file, relative to the main root."""
    return f"{BRANCHES}/{name.replace('/', '%2F')}.json"


def check_tag_name(name: str) -> None:
    """Raise ``InvalidArgumentError`` if a tag cannot have this name.

    ASCII only: the reference accepts other letters, but then cannot list its tags.
    """
    if problem := _segment_problem(name):
        raise InvalidArgumentError(
            f"Tag name {name!r} cannot be used: {problem}.",
            hint="Use letters, digits, '.', '-' and '_'.",
            tag=name,
        )


def check_branch_name(name: str) -> None:
    """Raise ``InvalidArgumentError`` if a branch cannot have this name."""
    problem = "main is reserved for the main branch" if name == MAIN else ""
    for segment in name.split("/"):
        problem = problem or _segment_problem(segment, in_branch=True)
    if problem:
        raise InvalidArgumentError(
            f"Branch name {name!r} cannot be used: {problem}.",
            hint="Use segments of letters, digits, '.', '-' and '_', joined by single '/'.",
            branch=name,
        )


def _segment_problem(text: str, *, in_branch: bool = False) -> str:
    if not text:
        return "it has an empty segment" if in_branch else "it is empty"
    if not _SEGMENT.fullmatch(text):
        return "it has a character that is not allowed"
    if ".." in text:
        return "it contains '..'"
    if text.endswith(".lock"):
        return "it ends in '.lock'"
    if not in_branch and (text.startswith(".") or text.endswith(".")):
        return "it starts or ends with '.'"
    return ""


@contextmanager
def _checked(where: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CorruptFileError(
            f"Reference file {where} is damaged: {error}.",
            hint="Delete the reference and create it again.",
            file=where,
        ) from error


def _encoded(record: Mapping[str, object]) -> bytes:
    data = json.dumps(record, indent=2).encode()
    if len(data) > REFERENCE_BYTES:
        raise InvalidArgumentError(
            f"A tag or branch must have at most {REFERENCE_BYTES:,} bytes, got {len(data):,}.",
            hint="Use less metadata: store long texts in a column or a file.",
            size=len(data),
        )
    return data


def _load(data: bytes | pa.Buffer, required: tuple[str, ...]) -> dict[str, Any]:
    record = dict(json.loads(bytes(data)))
    missing = [key for key in required if key not in record]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    return record


def _branch(value: object) -> str | None:
    """Return a branch name from a file; it becomes a folder, so it must not leave the root."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{shown(value)} is not a name")
    if value is not None and not all(map(_is_folder, value.split("/"))):
        raise ValueError(f"{value!r} cannot be a branch")
    return value


def _is_folder(segment: str) -> bool:
    return segment not in {"", ".", ".."} and not {"\\", "\0"} & set(segment)


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


def _parse_time(text: str | None) -> datetime | None:
    # files have nine fractional digits; datetime supports six
    if text is None:
        return None
    head, dot, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(head + dot + fraction[:6].ljust(6, "0") * bool(dot)).replace(
        tzinfo=UTC
    )

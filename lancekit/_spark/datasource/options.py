"""The options of ``format("lance")``, which Spark passes as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from lancekit._spark.jobs.shipment import spark_bytes
from lancekit._versions.branch_location import BranchLocation, open_location
from lancekit._versions.listing import list_versions, version_as_of
from lancekit._versions.references import Reference, resolve
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError
from lancekit.options import Options, options

_STORAGE = "storage."

#: options that Spark's catalogs add to a table
_CATALOG_OPTIONS = frozenset(
    {"collation", "comment", "external", "is_managed_location", "location", "owner", "provider"}
)
#: prefix under which a catalog repeats the options of a table
_AGAIN = "option."

#: the starting version that skips all existing rows
LATEST = -1


def _text(_: str, text: str) -> str:
    return text


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InvalidArgumentError(
            f"{name} must be an integer of 1 or more, got {text!r}.", option=name
        )
    return int(text)


def _bytes(name: str, text: str) -> int:
    size = spark_bytes(text)
    if size is None or size < 1:
        raise InvalidArgumentError(
            f"{name} must be a number of bytes, got {text!r}.",
            hint='For example "512m".',
            option=name,
        )
    return size


def _version(_: str, text: str) -> int:
    if not text.isdecimal():
        raise InvalidArgumentError(
            f"The version must be a number, got {text!r}.", hint='For a tag, use the option "tag".'
        )
    return int(text)


def _start(name: str, text: str) -> int:
    return LATEST if text.lower() == "latest" else _version(name, text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise InvalidArgumentError(f'{name} must be "true" or "false", got {text!r}.', option=name)
    return text.lower() == "true"


def _json_list(name: str, text: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{name} must be a JSON list, got {text!r}.", option=name
        ) from error
    if not isinstance(found, list):
        raise InvalidArgumentError(f"{name} must be a JSON list, got {text!r}.", option=name)
    return tuple(map(str, found))


def _names(name: str, text: str) -> tuple[str, ...]:
    if text.lstrip().startswith("["):
        return _json_list(name, text)
    return tuple(part.strip() for part in text.split(","))


def _moment(name: str, text: str) -> datetime:
    hint = 'Write it like "2026-03-01 12:00:00+00:00".'
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{name}={text!r} is not a time.", hint=hint) from error
    if moment.tzinfo is None:
        # Local time would be the workers', and nobody sees a warning in a worker.
        raise InvalidArgumentError(f"{name}={text!r} has no time zone.", hint=hint)
    return moment.astimezone(UTC)


def _option(parse: Callable[[str, str], object], default: object = None, *, only: str = "") -> Any:
    return field(default=default, metadata={"parse": parse, "only": only})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The parsed options; `only` limits an option to reads, writes or streams.

    Names ignore case and underscores, so that ``startingVersion`` is ``starting_version``.
    """

    path: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    branch: str | None = _option(_text)
    trusted_bases: tuple[str, ...] = _option(_json_list, ())
    version: int | None = _option(_version, only="read")
    tag: str | None = _option(_text, only="read")
    asof: datetime | None = _option(_moment, only="read")  # noqa: RUF009  # it makes a field
    columns: tuple[str, ...] | None = _option(_names, only="read stream")
    filter: str | None = _option(_text, only="read stream")
    batch_size: int | None = _option(_count, only="read stream")
    with_row_id: bool = _option(_flag, False, only="read stream")
    with_row_address: bool = _option(_flag, False, only="read stream")
    starting_version: int = _option(_start, 0, only="stream")
    max_versions_per_batch: int | None = _option(_count, only="stream")
    max_files_per_trigger: int | None = _option(_count, only="stream")
    max_bytes_per_trigger: int | None = _option(_bytes, only="stream")
    skip_rewrites: bool = _option(_flag, False, only="stream")
    max_rows_per_file: int | None = _option(_count, only="write")
    max_bytes_per_file: int | None = _option(_count, only="write")
    data_storage_version: str | None = _option(_text, only="write")
    enable_stable_row_ids: bool = _option(_flag, False, only="write")
    commit_message: str | None = _option(_text, only="write")

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        """Parse options from their texts.

        Raises InvalidArgumentError: an option is unknown, a value is invalid, or no dataset is
            named.
        """
        known = {option.name: option for option in fields(cls) if "parse" in option.metadata}
        by_key = {name.replace("_", ""): name for name in known}
        by_key |= {"versionasof": "version", "timestampasof": "asof"}  # Delta's names
        values: dict[str, Any] = {}
        for key, text in given.items():
            if key in _CATALOG_OPTIONS or key == "path" or key.startswith((_STORAGE, _AGAIN)):
                continue
            name = by_key.get(key.lower().replace("_", ""))
            if name is None:
                raise InvalidArgumentError(
                    f'format("lance") has no option {key!r}.',
                    hint=f"The options are {', '.join(known)} and {_STORAGE}<name>.",
                    option=key,
                )
            values[name] = known[name].metadata["parse"](name, text)
        storage = {
            key.removeprefix(_STORAGE): text
            for key, text in given.items()
            if key.startswith(_STORAGE)
        }
        uri = given.get("path") or given.get("location")
        if not uri:
            raise InvalidArgumentError(
                "The dataset is missing.",
                hint="Call load(uri) or save(uri). Spark does not pass on the options of a "
                "catalog's table: read with ds.create_temp_view(name), and write with INSERT INTO "
                "t WITH (`path` = 'uri') VALUES ...",
            )
        if uri.startswith("memory:"):
            raise InvalidArgumentError(
                f"{uri} is in the memory of one process, but Spark works in other processes.",
                hint="Use a dataset on a disk or in an object store.",
            )
        return cls(path=uri, storage=storage, **values)

    def check_use(self, use: str) -> None:
        """Refuse the options that do not apply to a ``"read"``, ``"write"`` or ``"stream"``."""
        for option in fields(self):
            uses = option.metadata.get("only", "").split()
            if uses and use not in uses and getattr(self, option.name) != option.default:
                raise InvalidArgumentError(
                    f"The option {option.name!r} is not for a {use}.",
                    hint=f"It is for a {' or a '.join(uses)}; leave it out.",
                    option=option.name,
                )

    def in_force(self) -> Options:
        """Return lancekit's options for the worker processes of this data source.

        Spark reuses its processes, so the base paths that an earlier query trusted must not remain.
        """
        return Options(trusted_bases=self.trusted_bases, engine="local")

    def on_this(self) -> Any:
        """Return a context manager that applies the options of `in_force`."""
        return options(**asdict(self.in_force()))

    def location(self) -> BranchLocation:
        """Return the location of the branch; nothing is read."""
        location = open_location(self.path, self.storage or None)
        return location if self.branch is None else location.on(self.branch)

    def snapshot(self) -> Snapshot:
        """Open the version that the options select.

        Raises InvalidArgumentError: options exclude each other.
        Raises NotFoundError: the dataset, branch, tag or version does not exist.
        """
        chosen = [name for name in ("version", "tag", "asof") if getattr(self, name) is not None]
        if len(chosen) > 1 or (self.tag is not None and self.branch is not None):
            named = chosen if len(chosen) > 1 else ["tag", "branch"]
            raise InvalidArgumentError(
                f"The options {' and '.join(named)} exclude each other.",
                hint="Pass one of the two.",
            )
        location = self.location()
        if self.asof is None:
            return resolve(
                location.on(None),
                Reference(version=self.version, branch=location.branch, tag=self.tag),
            )
        listing = list_versions(location)
        return version_as_of(
            listing, self.asof, lambda v: load_snapshot(location, v, listing.naming)
        )

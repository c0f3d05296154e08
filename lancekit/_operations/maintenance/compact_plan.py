"""Plan of a compaction: groups of adjacent fragments to merge (docs/format/operations.md, 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from lancekit._defaults import MAX_BYTES_PER_FILE
from lancekit._file.columns.categories import Categories
from lancekit._format.data_file import check_storage_version
from lancekit._format.fragment import Fragment
from lancekit._format.index import IndexMetadata
from lancekit._legible import shown
from lancekit._operations.index.remap import blocks_compaction
from lancekit._operations.index.segments import covered_fragments
from lancekit._scan.fragment_rows import ScanRequest, scan_fragment
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, NotOfferedError

#: prefix of config keys with a table's default options
_CONFIG = "lance.compaction."
Value = TypeVar("Value")


def _count(name: str, value: Any, least: int = 0) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise InvalidArgumentError(
            f"{name} must be an integer of {least} or more, got {shown(value)}.", argument=name
        )
    return number


def _positive(name: str, value: object) -> int:
    return _count(name, value, 1)


def _share(name: str, value: Any) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not share >= 0:
        raise InvalidArgumentError(
            f"{name} must be a number of 0 or more, got {shown(value)}.",
            hint="Pass a share of deleted rows, such as 0.1; with 1, no fragment qualifies.",
            argument=name,
        )
    return share


def _flag(name: str, value: object) -> bool:
    known = {"true": True, "false": False}.get(str(value).lower())
    if known is None:
        raise InvalidArgumentError(f"{name} must be True or False, got {shown(value)}.")
    return known


def _mode(name: str, value: object) -> str:
    if value in ("reencode", "try_binary_copy"):
        return str(value)
    if value == "force_binary_copy":
        raise NotOfferedError(
            f"{name}={shown(value)} is not supported: some small pages must be re-encoded.",
            hint="Pass 'try_binary_copy', or leave it out: large pages are always copied.",
            argument=name,
        )
    raise InvalidArgumentError(
        f"{name} must be 'reencode', 'try_binary_copy' or 'force_binary_copy', got {shown(value)}.",
        argument=name,
    )


def _ids(name: str, value: object) -> frozenset[int]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidArgumentError(f"{name} must be a list of fragment ids, got {shown(value)}.")
    return frozenset(_count(name, id_) for id_ in value)


#: options that only pylance has, and that it requires in the JSON
_ONLY_PYLANCE: Mapping[str, object] = {
    "index_remap_mode": "Direct",
    "enable_binary_copy": False,
    "enable_binary_copy_force": False,
    "max_overlays_per_fragment": 10,
    "has_eager_remappable_index": None,
}


def _option(check: Callable[[str, object], object], *, default: Value) -> Value:
    return field(metadata={"check": check}, default=default)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """Options of a compaction, as pylance's; ``drop_index_coverage`` lets indices lose fragments.

    Group, batch and thread sizes are hints, which do not change the result.
    """

    target_rows_per_fragment: int = _option(_count, default=1 << 20)
    max_rows_per_group: int = _option(_count, default=1024)
    max_bytes_per_file: int = _option(_positive, default=MAX_BYTES_PER_FILE)
    materialize_deletions: bool = _option(_flag, default=True)
    materialize_deletions_threshold: float = _option(_share, default=0.1)
    num_threads: int | None = _option(_count, default=None)
    batch_size: int | None = _option(_positive, default=None)
    io_buffer_size: int | None = _option(_positive, default=None)
    compaction_mode: str | None = _option(_mode, default=None)
    binary_copy_read_batch_bytes: int | None = _option(_positive, default=None)
    defer_index_remap: bool = _option(_flag, default=False)
    max_source_fragments: int | None = _option(_positive, default=None)
    max_source_rows: int | None = _option(_positive, default=None)
    max_source_bytes: int | None = _option(_positive, default=None)
    excluded_fragment_ids: frozenset[int] = _option(_ids, default=frozenset())
    data_storage_version: str | None = _option(check_storage_version, default=None)
    drop_index_coverage: bool = _option(_flag, default=False)

    @classmethod
    def parse(
        cls, given: Mapping[str, object], config: Mapping[str, str] | None = None
    ) -> CompactionOptions:
        """Check options; the table's config has defaults for options that are not given.

        Parameters
        ----------
        given
            The options by name; ``None`` counts as not given.
        config
            The table's config.

        Returns
        -------
        CompactionOptions
            All options.

        Raises
        ------
        InvalidArgumentError
            An option is unknown, or its value is invalid.
        NotOfferedError
            An option requires a feature that lancekit does not support.

        Examples
        --------
        >>> defaults = {"lance.compaction.target_rows_per_fragment": "7"}
        >>> CompactionOptions.parse({}, defaults).target_rows_per_fragment
        7
        """
        checks = {f.name: f.metadata["check"] for f in fields(cls)}
        for name in given:
            if name not in checks:
                raise InvalidArgumentError(
                    f"There is no compaction option {name!r}.",
                    hint="Options: " + ", ".join(checks) + ".",
                    argument=name,
                )
        values: dict[str, object] = {
            name: config[_CONFIG + name] for name in checks if config and _CONFIG + name in config
        }
        values.update({name: value for name, value in given.items() if value is not None})
        return cls(**{name: checks[name](name, value) for name, value in values.items()})

    def to_json(self) -> dict[str, object]:
        """Return the options as a dictionary for JSON; pylance can read it, too."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        excluded = sorted(self.excluded_fragment_ids)
        modes = {"compaction_mode": None, "excluded_fragment_ids": excluded}
        return {**_ONLY_PYLANCE, **own, **modes}

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> CompactionOptions:
        """Return the options from a dictionary of JSON, of lancekit or pylance."""
        known = {f.name for f in fields(cls)} - {"compaction_mode"}
        given = {name: value for name, value in values.items() if name in known}
        mode = "force_binary_copy" if values.get("enable_binary_copy_force") else None
        return cls.parse({**given, "compaction_mode": mode})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """Adjacent fragments of one version to rewrite together."""

    read_version: int
    fragments: tuple[Fragment, ...]
    options: CompactionOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Fragments that are not compacted because an index covers them."""

    index: str
    fragment_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """Plan of a compaction: the tasks, and fragments that are skipped because of indices."""

    read_version: int
    tasks: tuple[CompactionTask, ...]
    left_to_indices: tuple[Covered, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A fragment as candidate for a compaction.

    alone: the fragment is worth rewriting on its own.
    bin: only neighbours with the same bin are merged; ``None`` to leave the fragment unchanged.
    """

    fragment: Fragment
    alone: bool
    bin: frozenset[UUID] | None


def plan_compaction(snapshot: Snapshot, options: CompactionOptions) -> CompactionPlan:
    """Plan a compaction by the reference's rules: runs of small fragments, and of deleted rows.

    options: with `drop_index_coverage`, the plan includes fragments whose index lancekit cannot
        remap.
    """
    indices = [
        replace(index, fragment_ids=covered_fragments(index, snapshot))
        for index in snapshot.indices
        if not index.is_system
    ]
    if options.defer_index_remap and snapshot.manifest.has_stable_row_ids:
        raise NotOfferedError(
            "defer_index_remap=True is not supported for tables with stable row ids.",
            hint="Leave it out: indices by row id do not change when rows move.",
            argument="defer_index_remap",
        )
    blocking = {
        index.uuid
        for index in snapshot.indices
        if index.fragment_ids is None
        or (not options.defer_index_remap and blocks_compaction(index, snapshot))
    }
    blockers = [index for index in indices if index.uuid in blocking]
    fragments = snapshot.manifest.fragments
    version = options.data_storage_version or snapshot.manifest.new_file_version
    split = _dictionary_splitter(snapshot, version)
    candidates = [_candidate(f, _covering(f, indices), options) for f in fragments]
    wanted = _tasks(candidates, options, split)
    groups = wanted
    if blockers and not options.drop_index_coverage:
        bare = [
            _Candidate(f, False, None)
            if _covering(f, blockers)
            else _candidate(f, _covering(f, indices), options)
            for f in fragments
        ]
        groups = _tasks(bare, options, split)
    tasks = tuple(
        CompactionTask(read_version=snapshot.version, fragments=group, options=options)
        for group in _within_limits(groups, options)
    )
    return CompactionPlan(
        read_version=snapshot.version,
        tasks=tasks,
        left_to_indices=() if options.drop_index_coverage else _skipped(wanted, blockers),
    )


def _covering(fragment: Fragment, indices: Sequence[IndexMetadata]) -> frozenset[UUID]:
    """Return the segments that cover a fragment; a segment without a list may cover any."""
    return frozenset(
        index.uuid
        for index in indices
        if index.fragment_ids is None or fragment.id in index.fragment_ids
    )


def _candidate(
    fragment: Fragment, covering: frozenset[UUID], options: CompactionOptions
) -> _Candidate:
    share = fragment.num_deletions / max(fragment.physical_rows, 1)
    alone = options.materialize_deletions and share > options.materialize_deletions_threshold
    small = fragment.physical_rows < options.target_rows_per_fragment
    wanted = (alone or small) and fragment.id not in options.excluded_fragment_ids
    return _Candidate(fragment, alone, covering if wanted else None)


def _tasks(
    candidates: Sequence[_Candidate], options: CompactionOptions, split: _Splitter
) -> list[tuple[Fragment, ...]]:
    out: list[tuple[Fragment, ...]] = []
    for covering, run in groupby(candidates, key=lambda c: c.bin):
        found = list(run)
        if covering is not None and (len(found) > 1 or found[0].alone):
            together = [c.fragment for c in found]
            alone = {c.fragment.id for c in found if c.alone}
            for group in _cut(together, max(options.target_rows_per_fragment, 1)):
                parts = list(split(group))
                out.extend(p for p in parts if len(parts) == 1 or len(p) > 1 or p[0].id in alone)
    return out


def _cut(fragments: Sequence[Fragment], target: int) -> Iterator[tuple[Fragment, ...]]:
    """Cut a run of fragments into parts of at least ``target`` rows, if the rest is as large."""
    rest = sum(f.num_rows for f in fragments)
    start = rows = 0
    for place, fragment in enumerate(fragments):
        rows += fragment.num_rows
        rest -= fragment.num_rows
        if rows >= target and rest >= target:
            yield tuple(fragments[start : place + 1])
            start, rows = place + 1, 0
    yield tuple(fragments[start:])


def _within_limits(
    tasks: Sequence[tuple[Fragment, ...]], options: CompactionOptions
) -> Iterator[tuple[Fragment, ...]]:
    """Yield groups, the oldest fragments first, until the totals exceed a limit."""
    limits = (options.max_source_fragments, options.max_source_rows, options.max_source_bytes)
    totals = [0, 0, 0]
    for group in tasks:
        sizes = (
            len(group),
            sum(f.num_rows for f in group),
            sum(file.size_bytes for f in group for file in f.files),
        )
        totals = [total + size for total, size in zip(totals, sizes, strict=True)]
        if any(limit is not None and t > limit for t, limit in zip(totals, limits, strict=True)):
            return
        yield group


def _skipped(
    wanted: Sequence[tuple[Fragment, ...]], indices: Sequence[IndexMetadata]
) -> tuple[Covered, ...]:
    names = {index.uuid: index.name for index in indices}
    found: dict[str, list[int]] = {}
    for group in wanted:
        for fragment in group:
            for name in {names[uuid] for uuid in _covering(fragment, indices)}:
                found.setdefault(name, []).append(fragment.id)
    return tuple(
        Covered(index=name, fragment_ids=tuple(ids)) for name, ids in sorted(found.items())
    )


# ---- fragments that stay apart, because their dictionaries together exceed the type of their keys

#: the number of fragments whose dictionary values are cached
_CACHED_FRAGMENTS = 1024

#: cuts a run of fragments into groups that may be merged
_Splitter: TypeAlias = Callable[[Sequence[Fragment]], Iterable[tuple[Fragment, ...]]]


def _dictionary_splitter(snapshot: Snapshot, version: str) -> _Splitter:
    """Return a function that cuts runs of fragments where dictionaries would be too large.

    version: the format version of the new files.

    It reads only columns of dictionaries with small keys, if the table has any.
    """
    schema = snapshot.manifest.schema
    places = sorted(Categories(schema.to_arrow(), version).columns)
    if not places:
        return lambda fragments: [tuple(fragments)]
    narrow = replace(schema, fields=tuple(schema.fields[place] for place in places))
    request = ScanRequest(outputs=plan_columns(narrow, None))
    sources = {source.fragment.id: source for source in fragment_sources(snapshot, narrow)}

    @lru_cache(maxsize=_CACHED_FRAGMENTS)
    def of(number: int) -> Categories | None:
        """Return a fragment's dictionary values; ``None`` if they alone are too many."""
        found = Categories(narrow.to_arrow(), version)
        tables = scan_fragment(sources[number], request)
        return found if all(found.add_all(table.to_batches()) for table in tables) else None

    def split(fragments: Sequence[Fragment]) -> Iterator[tuple[Fragment, ...]]:
        seen = Categories(narrow.to_arrow(), version)
        group: list[Fragment] = []
        for fragment in fragments:
            own = of(fragment.id)
            if own is None or seen.join(own) is not None:
                if group:
                    yield tuple(group)
                seen, group = Categories(narrow.to_arrow(), version), []
                if own is None:
                    yield (fragment,)
                    continue
                seen.join(own)
            group.append(fragment)
        if group:
            yield tuple(group)

    return split

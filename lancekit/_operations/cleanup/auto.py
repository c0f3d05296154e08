"""Automatic cleanup: every so many versions, a commit removes old versions by the table's config.

The settings are pylance's, whose commits follow them, too.  lancekit follows them only with the
user's consent.  Unlike pylance, it requires a bound: an interval alone would leave two versions,
so lancekit then removes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lancekit._commit.protocol import commit as commit_only
from lancekit._commit.put_version import create_first_version
from lancekit._commit.rules.pending import Pending
from lancekit._format.manifest import Manifest
from lancekit._format.names import is_detached
from lancekit._format.operations import Operation, Overwrite, UpdateConfig
from lancekit._legible import clean, shown, warn
from lancekit._operations.checks.constraints import has_constraints
from lancekit._operations.unmerged.audit import check_shards
from lancekit._storage.places import is_below
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    CommitUnknownError,
    InvalidArgumentError,
    InvalidTypeError,
    LancekitError,
    RetriesExhaustedError,
    RetryableConflictError,
)
from lancekit.options import options

if TYPE_CHECKING:
    from lancekit._operations.checks.constraint_audit import Audit

# ---- consent to an automatic cleanup
#
# A table's config is data from whoever wrote it, and these settings remove versions at the next
# commit of any user.  So lancekit follows settings that this user's lancekit wrote at this place,
# or that the user agreed to once (`options.trusted_cleanup`).  It records the consent outside of
# datasets, where nobody else can write: in one small file for each dataset and its settings.

_PREFIX = "lance.auto_cleanup."

#: consents and warnings of this process, also for datasets in memory
_consents: set[str] = set()
_warned: set[str] = set()


def _record_consent(snapshot: Snapshot) -> None:
    """Record the user's consent to the settings of a dataset."""
    key = _consent_key(snapshot)
    if key in _consents:
        return
    _consents.add(key)
    file = _consent_file(key)
    if file is None or snapshot.location.root.uri.startswith("memory:"):
        return
    with suppress(OSError):  # without the file, the next process warns again
        file.parent.parent.mkdir(parents=True, exist_ok=True)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.write_text(key + "\n", encoding="utf-8")


def _has_consent(snapshot: Snapshot) -> bool:
    """Return True if the user consented to the settings of a dataset; else warn once.

    Consent by ``options.trusted_cleanup`` is recorded.
    """
    key, uri = _consent_key(snapshot), snapshot.location.root.uri
    if key in _consents:
        return True
    file = _consent_file(key)
    if file is not None and file.is_file():
        _consents.add(key)
        return True
    if any(is_below(place, prefix) for place in _places(uri) for prefix in options.trusted_cleanup):
        _record_consent(snapshot)
        return True
    if key not in _warned:
        _warned.add(key)
        given = clean(", ".join(f"{name}={text!r}" for name, text in _settings(snapshot).items()))
        warn(
            f"{clean(uri)} is configured to clean up its old versions automatically ({given}). "
            "lancekit removed nothing, because you did not enable this with lancekit on this "
            f"machine. To allow the cleanup: lancekit.options.trusted_cleanup = [{uri!r}]. To "
            "turn it off: ds.optimize.disable_auto_cleanup()."
        )
    return False


def _settings(snapshot: Snapshot) -> dict[str, str]:
    found = snapshot.manifest.config.items()
    return {
        key.removeprefix(_PREFIX): text for key, text in sorted(found) if key.startswith(_PREFIX)
    }


def _consent_key(snapshot: Snapshot) -> str:
    """Return the key of a consent: JSON of the dataset's place and its settings."""
    uri = snapshot.location.root.uri
    key = {"place": _places(uri)[-1], "folder": _inode(uri), "settings": _settings(snapshot)}
    return json.dumps(key, sort_keys=True)


def _places(uri: str) -> tuple[str, ...]:
    """Return a place as given, and for a path also with its links resolved."""
    return (uri,) if "://" in uri else (uri, os.path.realpath(uri))


def _inode(uri: str) -> int:
    """Return the inode of a folder, which a later folder at the path lacks; 0 if unknown."""
    try:
        return 0 if "://" in uri else Path(uri).stat().st_ino
    except OSError:
        return 0


def _consent_file(key: str) -> Path | None:
    """Return the file that records a consent; ``None`` if the user has no home folder."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        # the XDG specification says to ignore a relative path
        state = given if given.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return state / "lancekit" / "cleanup" / hashlib.sha256(key.encode()).hexdigest()


#: the keys of all settings in a table's config
SETTINGS = tuple(
    _PREFIX + name
    for name in (
        "interval",
        "older_than",
        "retain_versions",
        "delete_rate_limit",
        "referenced_branch",
    )
)

_DAY = 86400.0
#: seconds by unit of a duration
_UNITS: Mapping[str, float] = {
    unit: seconds
    for units, seconds in (
        ("nanos nsec ns", 1e-9),
        ("usec us µs", 1e-6),
        ("millis msec ms", 1e-3),
        ("seconds second secs sec s", 1.0),
        ("minutes minute mins min m", 60.0),
        ("hours hour hrs hr h", 3600.0),
        ("days day d", _DAY),
        ("weeks week wks wk w", 7 * _DAY),
        ("months month M", 30.44 * _DAY),
        ("years year yrs yr y", 365.25 * _DAY),
    )
    for unit in units.split()
}
_PART = re.compile(r"\s*(\d+)\s*([a-zA-Zµ]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCleanup:
    """Settings of automatic cleanup: the interval in versions, and the limits of the removal."""

    interval: int
    older_than: timedelta | None = None
    retain_versions: int | None = None
    delete_rate_limit: int | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> AutoCleanup | None:
        """Parse a table's config; return ``None`` if it has no automatic cleanup.

        Raises InvalidArgumentError: a setting is invalid, or no setting bounds the removal.
        """
        interval = _number(config, "interval", least=0)
        if not interval:
            return None
        age = config.get(_PREFIX + "older_than")
        found = cls(
            interval=interval,
            older_than=None if age is None else _duration(age),
            retain_versions=_number(config, "retain_versions", least=1),
            delete_rate_limit=_number(config, "delete_rate_limit", least=1),
        )
        if found.older_than is None and found.retain_versions is None:
            raise InvalidArgumentError(
                f"{_PREFIX}interval is set without older_than or retain_versions.",
                hint="Set one of them: without a bound, nearly all versions would be removed.",
            )
        return found


def commit_next(read: Snapshot, pending: Pending, why: str, *, hint: str = "") -> Snapshot:
    """Commit an operation as the version after ``read``, as `commit` does.

    why: what runs, for the error: "<branch> changed while <why>."

    Raises RetryableConflictError: another writer landed first.
    """
    try:
        return commit(read, pending, strict=True)
    except RetriesExhaustedError as error:
        raise RetryableConflictError(
            f"{read.location.name} changed while {why}.", hint=hint, read_version=read.version
        ) from error


def commit(
    read: Snapshot, pending: Pending, *, owns_deletions: bool = True, **settings: Any
) -> Snapshot:
    """Commit an operation after a check of the table's constraints, then clean up if it is due.

    Arguments, results and errors are as in `lancekit._commit.protocol.commit`, with the errors
    of `Audit` and `check_shards`.  A failed cleanup is only a warning: the version has landed.

    owns_deletions: remove the operation's new deletion files if it certainly did not land.
    """
    audits: list[Audit] = []  # one for all attempts, if the table has constraints

    def check(latest: Snapshot, manifest: Manifest, operation: Operation) -> None:
        check_shards(latest, manifest, operation)
        if not audits and any(has_constraints(of.config) for of in (manifest, latest.manifest)):
            from lancekit._operations.checks.constraint_audit import Audit

            audits.append(Audit())
        for audit in audits:
            audit(latest, manifest, operation)

    try:
        landed = commit_only(read, pending, audit=check, **settings)
    except LancekitError as error:
        if owns_deletions and not isinstance(error, CommitUnknownError):
            _remove_deletions(read, pending.operation)
        raise
    for audit in audits:
        audit.landed()
    if _PREFIX + "interval" in landed.manifest.config and not is_detached(landed.version):
        if _sets(pending.operation) & set(SETTINGS):
            _record_consent(landed)
        try:
            _clean_after(landed)
        except (LancekitError, OSError) as error:
            text = error.message if isinstance(error, LancekitError) else str(error)
            warn(
                f"Version {landed.version} was committed, but its automatic cleanup failed: {text}"
            )
    return landed


def _remove_deletions(read: Snapshot, operation: Operation) -> None:
    """Remove the deletion files that an operation wrote for fragments of a version, if possible."""
    old = {fragment.id: fragment.deletion_file for fragment in read.manifest.fragments}
    for fragment in getattr(operation, "updated_fragments", ()):
        file = fragment.deletion_file
        # files of older versions stay: a branch that restored one brings its files home
        if file is not None and file.read_version == read.version and file != old.get(fragment.id):
            with suppress(OSError):  # a cleanup removes the orphan later
                read.store.delete(file.name(fragment.id))


def create(
    location: BranchLocation,
    operation: Overwrite,
    pending: Pending,
    storage_version: str,
    **settings: Any,
) -> Snapshot:
    """Create a dataset; settings of automatic cleanup that come with it count as consent.

    Arguments, results and errors are as in `lancekit._commit.put_version.create_first_version`.
    """
    created = create_first_version(location, operation, pending, storage_version, **settings)
    if _PREFIX + "interval" in created.manifest.config:
        _record_consent(created)
    return created


def _sets(operation: Operation) -> Set[str]:
    """Return the config keys that an operation sets."""
    if isinstance(operation, UpdateConfig):
        return operation.config_keys
    return operation.config_upsert_values.keys() if isinstance(operation, Overwrite) else set()


def _clean_after(landed: Snapshot) -> None:
    settings = AutoCleanup.of(landed.manifest.config)
    if settings is None or landed.version % settings.interval or not _has_consent(landed):
        return
    from lancekit._operations.cleanup.plan import CleanupRequest
    from lancekit._operations.cleanup.run import clean_up

    request = CleanupRequest(
        older_than=settings.older_than,
        retain_versions=settings.retain_versions,
        error_if_tagged_old_versions=False,
        # the version before this commit stays for its current readers
        keep_from=landed.version - 1,
    )
    done = clean_up(landed, request, per_second=settings.delete_rate_limit)
    if done.left_alone:
        warn(
            f"The automatic cleanup of {landed.location.uri} kept {', '.join(done.left_alone)}: "
            "explain_cleanup_old_versions() says why."
        )


def auto_cleanup_config(wanted: object) -> dict[str, str]:
    """Return the table's config for pylance's ``AutoCleanupConfig``.

    wanted: ``interval`` (versions), ``older_than_seconds``, and lancekit's ``retain_versions``.

    Raises InvalidArgumentError: a value is invalid, or no setting bounds the removal.
    """
    keys = {"interval": "", "older_than_seconds": "s", "retain_versions": ""}
    if not isinstance(wanted, Mapping):
        raise InvalidTypeError(
            f"The automatic cleanup settings must be a dict, got {shown(wanted)}.",
            hint='Pass a dict such as {"interval": 20, "older_than_seconds": 14 * 86400}.',
        )
    if not wanted:
        return {}
    unknown = sorted(map(str, wanted.keys() - keys))
    if unknown or "interval" not in wanted:
        problem = f"have no {unknown[0]!r}" if unknown else "need an interval"
        raise InvalidArgumentError(
            f"Automatic cleanup settings {problem}.",
            hint="Pass interval, and older_than_seconds or retain_versions.",
        )
    config = {
        _PREFIX + key.removesuffix("_seconds"): f"{value}{keys[key]}"
        for key, value in wanted.items()
        if value is not None
    }
    AutoCleanup.of(config)
    return config


def _number(config: Mapping[str, str], key: str, *, least: int) -> int | None:
    text = config.get(_PREFIX + key)
    if text is None:
        return None
    if not re.fullmatch(r"\+?0*[0-9]{1,19}", text) or int(text) < least:
        raise InvalidArgumentError(
            f"{_PREFIX}{key} must be an integer of {least} or more, got {text!r}."
        )
    return int(text)


def _duration(text: str) -> timedelta:
    """Parse a duration such as ``14d``, ``3600s`` or ``1h 30m``."""
    parts = _PART.findall(text)
    whole = "".join(match.group() for match in _PART.finditer(text)).strip() == text.strip()
    known = all(unit in _UNITS for _, unit in parts)
    if text.strip() == "0":
        return timedelta(0)
    if not (parts and whole and known):
        raise InvalidArgumentError(
            f"{_PREFIX}older_than must be a duration, got {text!r}.",
            hint="Set it to a duration such as '14d', '3600s' or '1h 30m'.",
        )
    # float() takes any number of digits; the result may be infinite
    seconds = sum(float(count) * _UNITS[unit] for count, unit in parts)
    return timedelta(seconds=min(seconds, timedelta.max.total_seconds() / 2))

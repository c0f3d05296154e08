"""Time travel: resolution of user-supplied versions and times to snapshots."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from lancekit._api._handle import Handle
from lancekit._legible import shown, warn
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import list_versions, version_as_of
from lancekit._versions.references import Ref, parse_reference, resolve
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["Ref", "snapshot_as_of", "snapshot_at", "snapshot_to_restore"]


def snapshot_at(location: BranchLocation, reference: object) -> Snapshot:
    """Load the version of a reference: a number, a tag, a pair, a time, or a handle."""
    if isinstance(reference, Handle):
        return reference._snapshot
    if isinstance(reference, date | timedelta):  # a datetime is a date
        return snapshot_as_of(location, reference)
    return resolve(location, parse_reference(reference, location))


def snapshot_to_restore(handle: Handle, version: object) -> Snapshot:
    """Load the version that a restore commits again, by default the handle's version."""
    old = handle._snapshot if version is None else snapshot_at(handle._location, version)
    if old.location.root.uri != handle._location.root.uri:
        raise InvalidArgumentError(
            f"{old.called} is a version of another dataset.",
            hint=f"Use lk.write_dataset(other, {handle._uri!r}, mode='overwrite') for its rows.",
        )
    branch = old.location.name
    if branch != handle._location.name:
        raise InvalidArgumentError(
            f"{shown(version)} is a version of {branch}, not of {handle._location.name}.",
            hint=f"Use ds.branches[{branch!r}].restore({old.version}).",
        )
    return old


def snapshot_as_of(location: BranchLocation, moment: object) -> Snapshot:
    """Load the newest version committed at or before a moment.

    moment: a datetime, a date, a pandas Timestamp or ISO text.  Local time if it has no zone, with
    a warning.  Or a timedelta of 0 or less, relative to now.
    """
    listing = list_versions(location)
    when = _aware(moment)
    return version_as_of(
        listing, when, lambda version: load_snapshot(location, version, listing.naming)
    )


def _aware(moment: object) -> datetime:
    if isinstance(moment, timedelta):
        return _ago(moment)
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = moment.isoformat()
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise InvalidArgumentError(
                f"asof={shown(moment)} is not a time.",
                hint='Write it like "2026-03-01 12:00:00+00:00".',
                asof=moment,
            ) from error
    elif hasattr(moment, "to_pydatetime"):  # a pandas Timestamp
        moment = moment.to_pydatetime(warn=False)
    if not isinstance(moment, datetime):
        raise InvalidTypeError(
            f"asof must be a datetime, a timedelta or text, got {shown(moment)}.",
            hint="Pass a datetime with a time zone, or a timedelta such as timedelta(hours=-2).",
            asof=moment,
        )
    if moment.tzinfo is None:
        warn(
            f"asof={moment.isoformat(' ')} has no time zone and is read as local time. Pass an "
            "aware datetime, such as datetime(2026, 3, 1, tzinfo=timezone.utc)."
        )
    try:
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:  # pandas' NaT, and hours before the year 1
        raise InvalidArgumentError(
            f"asof={shown(moment)} is out of range for UTC.",
            hint='Write it like "2026-03-01 12:00:00+00:00".',
            asof=moment,
        ) from error


def _ago(distance: timedelta) -> datetime:
    if distance > timedelta(0):
        raise InvalidArgumentError(
            f"asof={shown(distance)} is in the future.",
            hint="Past times are negative: two hours ago is timedelta(hours=-2).",
            asof=distance,
        )
    try:
        return datetime.now(UTC) + distance
    except OverflowError as error:
        raise InvalidArgumentError(
            f"asof={shown(distance)} is before year 1.",
            hint="Two hours ago is timedelta(hours=-2).",
            asof=distance,
        ) from error

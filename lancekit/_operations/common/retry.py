"""Retries of an operation on the newest version after a conflict.

See docs/format/operations.md, 0.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from lancekit._commit.clock import Clock
from lancekit._commit.protocol import check_not_replaced, check_writable
from lancekit._defaults import CONFLICT_RETRIES, RETRY_TIMEOUT
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    CorruptFileError,
    InvalidArgumentError,
    RetriesExhaustedError,
    RetryableConflictError,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of retries after conflicts: their number, and the time for all attempts.

    Raises InvalidArgumentError: the number of retries is negative, or the timeout is not a
        `timedelta`.
    """

    conflict_retries: int = CONFLICT_RETRIES
    timeout: timedelta = RETRY_TIMEOUT

    def __post_init__(self) -> None:
        number = self.conflict_retries
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise InvalidArgumentError(
                f"conflict_retries must be an integer of 0 or more, got {number!r}."
            )
        if not isinstance(self.timeout, timedelta):
            raise InvalidArgumentError(
                f"retry_timeout must be a timedelta, got {self.timeout!r}.",
                hint="Pass a datetime.timedelta such as timedelta(seconds=30).",
            )


def retried(
    snapshot: Snapshot, attempt: Callable[[Snapshot], T], policy: RetryPolicy
) -> tuple[T, int]:
    """Run ``attempt`` on ``snapshot``, and again on the newest version after each conflict.

    Returns
    -------
    tuple
        The result of the last attempt, and the number of attempts.

    Raises RetriesExhaustedError: all attempts had a conflict, or the time is up.
    """
    clock = Clock()
    started = clock.elapsed()
    deadline = started + policy.timeout.total_seconds()
    unit = 0.0
    for number in range(policy.conflict_retries + 1):
        try:
            return attempt(snapshot), number + 1
        except CorruptFileError:
            # another dataset may have replaced this one: its files are then gone, not damaged
            check_not_replaced(snapshot)
            raise
        except RetryableConflictError as conflict:
            unit = unit or 1.1 * (clock.elapsed() - started)
            pause = min(unit * clock.random.uniform(0, 2 ** (number + 1)), 2.0)
            out_of_time = clock.elapsed() + pause > deadline
            if number == policy.conflict_retries or out_of_time:
                raise _exhausted(snapshot, number + 1, out_of_time, policy, conflict) from conflict
            clock.sleep(pause)
            snapshot = latest_snapshot(snapshot.location)
    raise AssertionError("the loop returns or raises")


def retried_writing(
    snapshot: Snapshot, attempt: Callable[[Snapshot], T], policy: RetryPolicy
) -> tuple[T, int]:
    """Run ``attempt`` as `retried` does, after a check that this release can write the version.

    Raises UnsupportedFeatureError: a version has features that this release does not know.
    """

    def checked(current: Snapshot) -> T:
        check_writable(current)
        return attempt(current)

    return retried(snapshot, checked, policy)


def _exhausted(
    snapshot: Snapshot,
    attempts: int,
    out_of_time: bool,
    policy: RetryPolicy,
    conflict: RetryableConflictError,
) -> RetriesExhaustedError:
    limit = f"within {policy.timeout.total_seconds():g} s" if out_of_time else "allowed"
    return RetriesExhaustedError(
        f"Too many concurrent writers: all {attempts} attempts {limit} had a conflict. The last "
        f"one: {conflict.message}",
        hint="Try again when fewer writers are active, or allow more retries.",
        **{**conflict.context, "attempts": attempts, "read_version": snapshot.version},
    )

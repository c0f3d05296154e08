"""Binary search for the first version that makes a condition false."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from lancekit._api.diff import DatasetDiff, diff_of
from lancekit._api.history import describe_version
from lancekit._checked import is_flag
from lancekit._display import Displayed
from lancekit._lazy import cached_property
from lancekit._legible import clean, shown
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError, LancekitError
from lancekit.progress import tracking


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of a condition for one version: `good` is ``None`` if it raised `error`."""

    version: int
    good: bool | None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Flip:
    """A change of a condition's result between two versions.

    Attributes
    ----------
    before, version
        The last version with the old result, and the first with the new one.
    good
        The new result.
    timestamp, operation, message
        The commit that made `version`.
    gone, untested
        Versions in between that were cleaned up, and those in which the condition raised.  Any such
        version may have made the change.
    """

    before: int
    version: int
    good: bool
    timestamp: datetime
    operation: str | None
    message: str | None
    gone: tuple[int, ...] = ()
    untested: tuple[int, ...] = ()
    _location: BranchLocation = field(repr=False, compare=False)

    @property
    def is_certain(self) -> bool:
        """True if `version` is certain to have made the change."""
        return not self.gone and not self.untested

    @cached_property
    def diff(self) -> DatasetDiff:
        """The changes from `before` to `version`; rows are only read when a result needs them."""
        ends = (load_snapshot(self._location, number) for number in (self.before, self.version))
        return diff_of(*ends, on=None, condition=None, columns=None)

    @property
    def undo(self) -> str:
        """The line of code that reverts the row changes of `version`, or that restores `before`.

        It restores `before` if another version may have made the change, if `version` changed
        columns, or if there is no key that identifies rows.
        """
        diff = self.diff
        if self.is_certain and not diff.schema and diff.matched_by != "whole rows":
            return f"ds.revert({self.version})"
        branch = self._location.branch
        reference = self.before if branch is None else (branch, self.before)
        return f"ds.checkout_version({reference!r}).restore()"


@dataclass(frozen=True, repr=False, kw_only=True)
class Bisection(Displayed):
    """The result of `LanceDataset.bisect`: the place where a condition became false.

    Attributes
    ----------
    branch
        The branch of the versions.
    flips
        The changes of the result, oldest first: one change, or with ``all=True`` all changes.
    evaluations
        The results of the condition in evaluation order, one for each tested version.
    """

    branch: str
    flips: tuple[Flip, ...]
    evaluations: tuple[Evaluation, ...]

    @property
    def first_bad(self) -> Flip | None:
        """The first change from good to bad; ``None`` if ``all=True`` found no such change."""
        return next((flip for flip in self.flips if not flip.good), None)

    @property
    def version(self) -> int | None:
        """The first bad version."""
        return None if self.first_bad is None else self.first_bad.version

    @property
    def timestamp(self) -> datetime | None:
        """The commit time of the first bad version, with time zone UTC."""
        return None if self.first_bad is None else self.first_bad.timestamp

    @property
    def operation(self) -> str | None:
        """The operation of the first bad version."""
        return None if self.first_bad is None else self.first_bad.operation

    @property
    def message(self) -> str | None:
        """The commit message of the first bad version."""
        return None if self.first_bad is None else self.first_bad.message

    @property
    def diff(self) -> DatasetDiff:
        """The changes from the last good version to the first bad one.

        Raises
        ------
        InvalidArgumentError
            No version turned bad.
        """
        return self._found.diff

    @property
    def undo(self) -> str:
        """The line of code that reverts the first bad version; errors as in `diff`."""
        return self._found.undo

    @property
    def _found(self) -> Flip:
        if self.first_bad is None:
            raise InvalidArgumentError(
                "No version turned bad.", hint="`evaluations` has the result for each version."
            )
        return self.first_bad

    def _plain(self) -> str:
        found = "no version turned bad" if self.version is None else f"version {self.version}"
        return f"Bisection({found}, {len(self.evaluations)} evaluations)"


def bisect_versions(
    condition: Callable[[Snapshot], object], good: Snapshot | None, bad: Snapshot, *, sweep: bool
) -> Bisection:
    """Find the change of a condition; see `LanceDataset.bisect`.

    condition: returns True if a version is good.
    good: ``None`` for the oldest readable version.
    sweep: evaluate every version, as with ``all=True``.
    """
    location = bad.location
    numbers = list_versions(location).versions
    if good is None:
        good = _oldest(location, numbers, bad)
    least = good.version if sweep else good.version + 1
    if good.location != location or bad.version < least:
        raise InvalidArgumentError(
            f"The good version {good.version} of {good.location.name} does not come before the "
            f"bad {bad.called}.",
            hint="Both versions must be on one branch, the good one older.",
            good=good.reference,
            bad=bad.reference,
        )
    ends = (good.version, bad.version)
    wanted = sorted({*ends, *(number for number in numbers if ends[0] < number < ends[1])})
    evaluator = _Evaluator(condition, location, {good.version: good, bad.version: bad})
    total = len(wanted) if sweep else 2 + max(len(wanted) - 2, 0).bit_length()
    with tracking("bisecting", total) as tracker:

        def answer(version: int) -> bool | None:
            found = evaluator(version)
            tracker.set(len(evaluator.known), max(total, len(evaluator.known)))
            tracker.draw()
            return found

        if sweep:
            known = [version for version in wanted if answer(version) is not None]
            turns = [(a, b) for a, b in pairwise(known) if evaluator(a) is not evaluator(b)]
        else:
            evaluator.check_end(good.version, True)
            evaluator.check_end(bad.version, False)
            turns = [turning_point(wanted, answer)]
    return Bisection(
        branch=location.name,
        flips=tuple(_flip(location, before, after, wanted, evaluator) for before, after in turns),
        evaluations=tuple(evaluator.known.values()),
    )


class _Evaluator:
    """Evaluates a condition, once for each version."""

    def __init__(
        self,
        condition: Callable[[Snapshot], object],
        location: BranchLocation,
        loaded: dict[int, Snapshot],
    ) -> None:
        self.known: dict[int, Evaluation] = {}
        self._errors: dict[int, Exception] = {}
        self._location = location
        self._loaded = loaded
        self._condition = condition

    def __call__(self, version: int) -> bool | None:
        if version not in self.known:
            self.known[version] = self._evaluated(version)
        return self.known[version].good

    def _evaluated(self, version: int) -> Evaluation:
        try:
            snapshot = self._loaded.get(version) or load_snapshot(self._location, version)
            result = self._condition(snapshot)
        except Exception as error:  # user code can raise anything
            self._errors[version] = error
            return Evaluation(version, None, clean(f"{type(error).__name__}: {error}"))
        if not is_flag(result):
            raise InvalidTypeError(
                f"The condition must return True or False, got {shown(result)} at {version}.",
                hint="Return True for a good version, and False for a bad one.",
                version=version,
            )
        return Evaluation(version, bool(result))

    def check_end(self, version: int, wanted: bool) -> None:
        """Raise unless the condition has the `wanted` result for an end of the range."""
        found = self(version)
        if found is wanted:
            return
        if found is None:
            raise InvalidArgumentError(
                f"The condition failed for version {version}: {self.known[version].error}.",
                hint="Pass `good` and `bad` versions where the condition returns a result.",
                version=version,
            ) from self._errors[version]
        side, why = "good", "No version is good at the start"
        if not wanted:
            side, why = "bad", "No version turned bad"
        raise InvalidArgumentError(
            f"{why}: the condition is {found} for version {version}, the {side} end of the search.",
            hint=f"If another version is {side}, pass it in `{side}`: the condition is True for "
            "good versions. `all=True` shows every change of the result.",
            version=version,
        )


def _oldest(location: BranchLocation, numbers: Sequence[int], bad: Snapshot) -> Snapshot:
    for number in numbers:
        if number >= bad.version:
            break
        try:
            return load_snapshot(location, number)
        except LancekitError:  # removed meanwhile, or damaged
            continue
    return bad


def _flip(
    location: BranchLocation, before: int, after: int, wanted: Sequence[int], evaluator: _Evaluator
) -> Flip:
    commit = describe_version(load_snapshot(location, after))
    untested = tuple(number for number in wanted if before < number < after)
    return Flip(
        before=before,
        version=after,
        good=evaluator(after) is True,
        timestamp=commit.timestamp,
        operation=commit.operation,
        message=commit.message,
        gone=tuple(n for n in range(before + 1, after) if n not in untested),
        untested=untested,
        _location=location,
    )


# ---- binary search for the change of a result


def turning_point(versions: Sequence[int], answer: Callable[[int], bool | None]) -> tuple[int, int]:
    """Return the last version known to be good, and the first version known to be bad.

    Parameters
    ----------
    versions
        Ascending; the first is good, the last is bad, and neither is tested.
    answer
        Returns True if a version is good, and ``None`` if that is unknown.  Then other versions are
        tested, far away at first, because a neighbour may have the same fault.  All versions
        between the two results are unknown.

    Examples
    --------
    >>> turning_point(range(1, 1001), lambda version: version < 700)
    (699, 700)
    >>> turning_point(range(1, 9), lambda version: version < 5 if version not in {4, 5} else None)
    (3, 6)
    """
    low, high = 0, len(versions) - 1
    unknown: set[int] = set()
    while (place := _middle(low, high, unknown)) is not None:
        match answer(versions[place]):
            case None:
                unknown.add(place)
            case True:
                low = place
            case False:
                high = place
    return versions[low], versions[high]


def _middle(low: int, high: int, unknown: Collection[int]) -> int | None:
    """Return the middle of the longest untested gap between two positions."""
    edges = sorted({low, high, *(place for place in unknown if low < place < high)})
    first, last = max(pairwise(edges), key=lambda ends: ends[1] - ends[0], default=(low, high))
    return (first + last) // 2 if last - first > 1 else None

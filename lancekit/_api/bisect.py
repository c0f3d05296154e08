"""`Bisection`: the version from which on something is no longer so."""

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
    """What a condition said of a version: `good` is ``None`` where it raised `error`."""

    version: int
    good: bool | None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Flip:
    """Where the answer changed.

    Attributes
    ----------
    before, version
        The last version with the old answer, and the first with the new one.
    good
        The new answer.
    timestamp, operation, message
        The commit that made `version`.
    gone, untested
        Versions between the two: that were cleaned up, and at which the condition raised.  Where
        there are any, the change may have come with one of them.
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
        """Whether it is known that `version` made the change, and no other."""
        return not self.gone and not self.untested

    @cached_property
    def diff(self) -> DatasetDiff:
        """What changed from `before` to `version`; no rows are read before they are asked for."""
        ends = (load_snapshot(self._location, number) for number in (self.before, self.version))
        return diff_of(*ends, on=None, condition=None, columns=None)

    @property
    def undo(self) -> str:
        """The line of code that takes it back: its rows alone, where these can be told.

        Else all that came after `before`: where another version may have made the change, where
        it changed columns, or nothing tells which rows are the same.
        """
        diff = self.diff
        if self.is_certain and not diff.schema and diff.matched_by != "whole rows":
            return f"ds.revert({self.version})"
        branch = self._location.branch
        reference = self.before if branch is None else (branch, self.before)
        return f"ds.checkout_version({reference!r}).restore()"


@dataclass(frozen=True, repr=False, kw_only=True)
class Bisection(Displayed):
    """Where a condition turned from true to false; `LanceDataset.bisect` makes it.

    Attributes
    ----------
    branch
        The branch of the versions.
    flips
        Where the answer changed, oldest first: one place, or with ``all=True`` every one.
    evaluations
        What the condition said, in the order in which it was asked: once for a version.
    """

    branch: str
    flips: tuple[Flip, ...]
    evaluations: tuple[Evaluation, ...]

    @property
    def first_bad(self) -> Flip | None:
        """The first change from good to bad; ``None`` if a sweep found none."""
        return next((flip for flip in self.flips if not flip.good), None)

    @property
    def version(self) -> int | None:
        """The first bad version."""
        return None if self.first_bad is None else self.first_bad.version

    @property
    def timestamp(self) -> datetime | None:
        """When that was committed; aware, UTC."""
        return None if self.first_bad is None else self.first_bad.timestamp

    @property
    def operation(self) -> str | None:
        """What that commit did."""
        return None if self.first_bad is None else self.first_bad.operation

    @property
    def message(self) -> str | None:
        """What the committer said of it."""
        return None if self.first_bad is None else self.first_bad.message

    @property
    def diff(self) -> DatasetDiff:
        """What changed from the last good version to the first bad one.

        Raises
        ------
        InvalidArgumentError
            No version turned bad.
        """
        return self._found.diff

    @property
    def undo(self) -> str:
        """The line of code that takes the first bad version back; errors as of `diff`."""
        return self._found.undo

    @property
    def _found(self) -> Flip:
        if self.first_bad is None:
            raise InvalidArgumentError(
                "No version turned bad.", hint="`evaluations` has what the condition said of each."
            )
        return self.first_bad

    def _plain(self) -> str:
        found = "no version turned bad" if self.version is None else f"version {self.version}"
        return f"Bisection({found}, {len(self.evaluations)} evaluations)"


def bisect_versions(
    ask: Callable[[Snapshot], object], good: Snapshot | None, bad: Snapshot, *, sweep: bool
) -> Bisection:
    """Find where a condition turns; see `LanceDataset.bisect`.

    Parameters
    ----------
    ask
        Says whether a version is good.
    good
        ``None`` for the oldest version that can be read.
    """
    location = bad.location
    numbers = list_versions(location).versions
    if good is None:
        good = _oldest(location, numbers, bad)
    least = good.version if sweep else good.version + 1
    if good.location != location or bad.version < least:
        raise _not_before(good, bad)
    ends = (good.version, bad.version)
    wanted = sorted({*ends, *(number for number in numbers if ends[0] < number < ends[1])})
    asked = _Asked(ask, location, {good.version: good, bad.version: bad})
    total = len(wanted) if sweep else 2 + max(len(wanted) - 2, 0).bit_length()
    with tracking("bisecting", total) as tracker:

        def answer(version: int) -> bool | None:
            found = asked(version)
            tracker.set(len(asked.known), max(total, len(asked.known)))
            tracker.draw()
            return found

        if sweep:
            told = [version for version in wanted if answer(version) is not None]
            turns = [(a, b) for a, b in pairwise(told) if asked(a) is not asked(b)]
        else:
            asked.demand(good.version, True)
            asked.demand(bad.version, False)
            turns = [turning_point(wanted, answer)]
    return Bisection(
        branch=location.name,
        flips=tuple(_flip(location, before, after, wanted, asked) for before, after in turns),
        evaluations=tuple(asked.known.values()),
    )


class _Asked:
    """What a condition said, each version asked once."""

    def __init__(
        self,
        ask: Callable[[Snapshot], object],
        location: BranchLocation,
        loaded: dict[int, Snapshot],
    ) -> None:
        self.known: dict[int, Evaluation] = {}
        self._errors: dict[int, Exception] = {}
        self._location = location
        self._loaded = loaded
        self._ask = ask

    def __call__(self, version: int) -> bool | None:
        if version not in self.known:
            self.known[version] = self._evaluated(version)
        return self.known[version].good

    def _evaluated(self, version: int) -> Evaluation:
        try:
            snapshot = self._loaded.get(version) or load_snapshot(self._location, version)
            said = self._ask(snapshot)
        except Exception as error:  # of the user's own code, which may raise anything
            self._errors[version] = error
            return Evaluation(version, None, clean(f"{type(error).__name__}: {error}"))
        if not is_flag(said):
            raise InvalidTypeError(
                f"The condition returned {shown(said)} at version {version}.",
                hint="Return True where the version is good, and False where it is bad.",
                version=version,
            )
        return Evaluation(version, bool(said))

    def demand(self, version: int, wanted: bool) -> None:
        """Check that the condition says of an end what is said of it."""
        found = self(version)
        if found is wanted:
            return
        if found is None:
            raise InvalidArgumentError(
                f"The condition raised at version {version}: {self.known[version].error}",
                hint="Name ends in `good` and `bad` at which it can be told.",
                version=version,
            ) from self._errors[version]
        words = ("good", "bad") if wanted else ("bad", "good")
        raise InvalidArgumentError(
            f"Version {version} was to be {words[0]}, and is {words[1]}: the condition is {found} "
            "there.",
            hint=f"Name a version in `{words[0]}` that is; the condition is True for good ones. "
            "`all=True` shows every change of the answer.",
            version=version,
        )


def _oldest(location: BranchLocation, numbers: Sequence[int], bad: Snapshot) -> Snapshot:
    for number in numbers:
        if number >= bad.version:
            break
        try:
            return load_snapshot(location, number)
        except LancekitError:  # it went meanwhile, or is damaged
            continue
    return bad


def _not_before(good: Snapshot, bad: Snapshot) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Version {good.version} of {good.location.name}, which is good, does not come before "
        f"{bad.called}, which is bad.",
        hint="Both have to be of one branch, the good one older.",
        good=good.reference,
        bad=bad.reference,
    )


def _flip(
    location: BranchLocation, before: int, after: int, wanted: Sequence[int], asked: _Asked
) -> Flip:
    commit = describe_version(load_snapshot(location, after))
    untested = tuple(number for number in wanted if before < number < after)
    return Flip(
        before=before,
        version=after,
        good=asked(after) is True,
        timestamp=commit.timestamp,
        operation=commit.operation,
        message=commit.message,
        gone=tuple(n for n in range(before + 1, after) if n not in untested),
        untested=untested,
        _location=location,
    )


# ---- between which two of many versions an answer changes: found by halves


def turning_point(versions: Sequence[int], answer: Callable[[int], bool | None]) -> tuple[int, int]:
    """Return the last version that is known to be good, and the first that is known to be bad.

    Parameters
    ----------
    versions
        Ascending; the first is good, the last is bad, and neither is asked about.
    answer
        Whether a version is good; ``None`` where nobody can tell: then others are asked, far from
        it at first, because what is beside it may have the same fault.  Between the two versions
        that are returned are none but such.

    Examples
    --------
    >>> turning_point(range(1, 1001), lambda version: version < 700)
    (699, 700)
    >>> turning_point(range(1, 9), lambda version: version < 5 if version not in {4, 5} else None)
    (3, 6)
    """
    low, high = 0, len(versions) - 1
    silent: set[int] = set()
    while (place := _middle(low, high, silent)) is not None:
        match answer(versions[place]):
            case None:
                silent.add(place)
            case True:
                low = place
            case False:
                high = place
    return versions[low], versions[high]


def _middle(low: int, high: int, silent: Collection[int]) -> int | None:
    """Return the middle of the longest stretch between two places that has not been asked about."""
    edges = sorted({low, high, *(place for place in silent if low < place < high)})
    first, last = max(pairwise(edges), key=lambda ends: ends[1] - ends[0], default=(low, high))
    return (first + last) // 2 if last - first > 1 else None

"""The part of a handle that knows since when something is as it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Self

from lancekit.api._handle import Handle
from lancekit.api.bisect import Bisection, bisect_versions
from lancekit.api.time_travel import Ref, snapshot_at
from lancekit.checked import checked_methods
from lancekit.errors import InvalidTypeError
from lancekit.legible import shown
from lancekit.operations.constraints.evaluate import holds
from lancekit.versions.snapshot import Snapshot

__all__ = ["Lineage"]


@checked_methods
class Lineage(Handle):
    """The history of what a dataset holds."""

    def bisect(
        self,
        condition: str | Callable[[Self], Any],
        good: Ref | datetime | timedelta | Handle | None = None,
        bad: Ref | datetime | timedelta | Handle | None = None,
        *,
        all: bool = False,  # noqa: A002
    ) -> Bisection:
        """Find the first version that is bad: between a good one and a bad one, by halves.

        Of a thousand versions ten are asked about, each once.

        Parameters
        ----------
        condition
            A function of a handle, read-only and at one version, that returns True if the version
            is good; or text, a filter that all rows of a good version meet, such as
            ``"delay >= -120"``, or a condition of aggregates: ``"count(DISTINCT id) = count(*)"``.
            Where it raises, nobody can tell: other versions are asked instead, and the result
            names those that leave it in doubt.
        good, bad
            Versions of one branch, by number, tag, time or handle; the oldest that can be read,
            and this handle's.
        all
            Ask about every version between them, and give each change of the answer: for what came
            and went more than once.

        Returns
        -------
        Bisection
            `version`, the first bad one, with its `operation`, `message` and `timestamp`; `diff`,
            what it changed; `undo`, the line of code that takes it back; `evaluations`; `flips`.

        Raises
        ------
        InvalidArgumentError
            The good version is bad, the bad one good, or the condition raises at one of them; they
            are of two branches, or the wrong way round.
        InvalidTypeError
            The condition is no function, or returns neither True nor False.
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            There is no such version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"delay": [5, 7]}, "memory://bisect-example")
        >>> ds.insert({"delay": [3]})
        >>> ds.insert({"delay": [-999]})
        >>> ds.insert({"delay": [4]})
        >>> found = ds.bisect("delay >= -120")
        >>> found.version, found.operation, found.diff.counts.inserted
        (3, 'Append', 1)
        >>> ds.bisect(lambda past: past.count_rows() < 4).version
        3
        """
        return bisect_versions(
            self._asked(condition),
            None if good is None else snapshot_at(self._line, good),
            self._snapshot if bad is None else snapshot_at(self._line, bad),
            sweep=all,
        )

    def _asked(self, condition: str | Callable[[Self], Any]) -> Callable[[Snapshot], Any]:
        if isinstance(condition, str):
            return lambda snapshot: holds(snapshot, condition)
        if callable(condition):
            return lambda snapshot: condition(self._other(snapshot, read_only=True))
        raise InvalidTypeError(
            f"condition is {shown(condition)}.",
            hint="Pass a filter that all rows meet, or a function of a handle that returns True if "
            "the version is good.",
        )

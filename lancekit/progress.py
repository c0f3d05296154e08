"""How far a long operation has come: work tells it here, and the roof says how that is shown.

Whoever maps work over tasks does so within `tracking`.  After a second the first bar is drawn, so
short operations show none; `lancekit.options.progress` turns bars off, or names a function that is
told instead.  `FragmentWriteProgress` is pylance's way to be told of each fragment of a write, and
`IndexProgress` what its ``progress_callback`` gets of an index.
"""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, TypeAlias

from lancekit.legible import warn
from lancekit.options import options

__all__ = [
    "POLL_SECONDS",
    "FileSystemFragmentWriteProgress",
    "FragmentWriteProgress",
    "IndexProgress",
    "NoopFragmentWriteProgress",
    "Progress",
    "Show",
    "Tracker",
    "register_bars",
    "told_of_rows",
    "tracking",
    "what_is",
]

PATIENCE_SECONDS = 1.0
"""How long an operation runs before it shows a bar."""

POLL_SECONDS = 0.2
"""How often a bar is drawn anew, at most."""

#: what a person calls it, by the module of the work
WORDS = {
    "operations.cleanup.plan": "reading versions",
    "operations.index.groups": "indexing",
    "operations.maintenance.clone": "copying files",
    "operations.maintenance.compact": "compacting",
    "operations.maintenance.validate": "checking",
    "operations.mem_wal.merge": "opening generations",
    "operations.mem_wal.newest_rows": "reading keys",
    "operations.update": "updating",
    "operations.write": "writing",
    "pipeline.columns.replace": "replacing columns",
    "pipeline.columns.write": "making columns",
    "pipeline.diff.tasks": "comparing rows",
    "pipeline.keys.probe": "matching keys",
    "pipeline.merge.plan": "merging",
    "pipeline.merge.strategy": "matching keys",
    "pipeline.rows.compact": "compacting",
    "pipeline.rows.delete": "looking for rows",
    "pipeline.rows.update": "updating",
    "pipeline.rows.write": "writing",
    "pipeline.source": "writing",
    "spark.columns": "making columns",
    "spark.merge.merge": "merging",
    "spark.merge.merge_task": "merging",
    "spark.source": "writing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of a running operation, as a function in ``options.progress`` gets it."""

    what: str
    """What is going on, such as ``"merging"``."""
    done: int
    """Tasks that are finished."""
    total: int | None
    """All tasks, where that is known yet."""
    seconds: float
    """How long it has been running."""
    finished: bool = False
    """Whether this is the last that is heard of it."""


Show: TypeAlias = Callable[[Progress], None]

_bars: list[Callable[[bool], Show | None]] = []
_inside: ContextVar[bool] = ContextVar("lancekit_progress", default=False)


def register_bars(make: Callable[[bool], Show | None]) -> None:
    """Say how bars are drawn; called once, by the package's roof.

    ``make`` is told whether a bar is wanted where nobody may be looking, and returns what draws
    one, if anything does.
    """
    _bars[:] = [make]


def what_is(work: Any) -> str:
    """Return in a word what a function does that is mapped over tasks.

    Examples
    --------
    >>> what_is(len)
    'working'
    """
    while hasattr(work, "func"):  # a partial of it
        work = work.func
    module = getattr(work, "__module__", None) or type(work).__module__
    return WORDS.get(module.removeprefix("lancekit."), "working")


class Tracker:
    """What a running operation tells its progress to."""

    def __init__(self, what: str, total: int | None, *, silent: bool) -> None:
        self._what = what
        self._done = 0
        self._total = total
        self._started = monotonic()
        self._drawn = 0.0
        self._lock = threading.Lock()
        choice = "silent" if silent else options.progress
        self._show: Show | None = choice if callable(choice) else None
        # Finding out where to draw takes a while, so it waits until there is something to draw.
        self._undecided = choice is True or (choice == "auto" and bool(_bars))
        self._wanted = choice is True

    @property
    def patient(self) -> bool:
        """Whether nothing would be drawn yet, so that nobody need ask how far it is."""
        if self._show is not None:
            return False
        return not self._undecided or monotonic() - self._started < PATIENCE_SECONDS

    def advance(self) -> None:
        """Count one more task; safe in any thread."""
        with self._lock:
            self._done += 1

    def set(self, done: int, total: int | None) -> None:
        """Say how far it is."""
        self._done, self._total = done, total

    def draw(self) -> None:
        """Show the state, if it is time to; called in the thread that waits."""
        now = monotonic()
        if self.patient or now - self._drawn < POLL_SECONDS:
            return
        if self._undecided:
            self._undecided = False
            self._show = _bars[0](self._wanted) if _bars else None
        self._drawn = now
        self._tell(finished=False)

    def finish(self) -> None:
        """Show that it is over."""
        self._tell(finished=True)
        self._show = None

    def _tell(self, *, finished: bool) -> None:
        if self._show is None:
            return
        progress = Progress(
            what=self._what,
            done=self._done,
            total=self._total,
            seconds=monotonic() - self._started,
            finished=finished,
        )
        try:
            self._show(progress)
        except Exception as error:  # what is shown must not break what is done
            self._show = None
            warn(f"progress is not shown any more: {type(error).__name__}: {error}")


@contextmanager
def tracking(what: str, total: int | None = None) -> Iterator[Tracker]:
    """Track an operation; one that runs inside of another shows nothing of its own.

    Parameters
    ----------
    what
        What is going on, such as ``"merging"``.
    total
        How many tasks there are, where that is known.

    Examples
    --------
    >>> with options(progress=lambda p: print(p.what, p.done, p.total, p.finished)):
    ...     with tracking("counting", 2) as tracker:
    ...         tracker.advance()
    ...         tracker.draw()
    counting 1 2 False
    counting 1 2 True
    """
    tracker = Tracker(what, total, silent=_inside.get())
    token = _inside.set(True)
    try:
        yield tracker
    finally:
        _inside.reset(token)
        tracker.finish()


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """What a ``progress_callback`` is told of an index that is made.

    Parameters
    ----------
    event
        ``"start"`` or ``"complete"`` of a stage; pylance has ``"progress"`` too.
    stage
        Which, such as ``"load_data"``.
    completed, total
        How much is done, and of how much, in ``unit``; ``None`` if that is not known.
    unit
        Of these numbers, such as ``"rows"``.

    Examples
    --------
    >>> IndexProgress("complete", "load_data", 3, 4, "rows").fraction
    0.75
    """

    event: Literal["start", "progress", "complete"]
    stage: str
    completed: int | None = None
    total: int | None = None
    unit: str = ""

    @property
    def fraction(self) -> float | None:
        """How much of the whole is done, from 0 to 1; ``None`` if that is not known."""
        if self.completed is None or not self.total:
            return None
        return min(self.completed / self.total, 1.0)


@contextmanager
def told_of_rows(callback: Callable[[IndexProgress], Any] | None) -> Iterator[None]:
    """Tell a function when rows begin to be indexed, and when they are; its errors are warnings."""

    def tell(event: Literal["start", "complete"]) -> None:
        if callback is None:
            return
        try:
            callback(IndexProgress(event, "load_data", 0, None, "rows"))
        except Exception as error:
            warn(f"the progress callback failed: {type(error).__name__}: {error}")

    tell("start")
    yield
    tell("complete")


class FragmentWriteProgress(ABC):
    """Is told of each fragment that a write begins and completes; ``progress=`` of writes.

    Any object with these two methods will do; they are given a `FragmentMetadata`.  What they
    raise ends the write, and nothing of it stays.  Of a write on Spark both are called for each
    fragment, in this process, when all are written.

    Examples
    --------
    >>> import lancekit as lk
    >>> class Told(lk.FragmentWriteProgress):
    ...     def begin(self, fragment, **kwargs):
    ...         print("begin")
    ...
    ...     def complete(self, fragment, **kwargs):
    ...         print("complete", fragment.physical_rows)
    >>> _ = lk.write_dataset({"x": [1, 2]}, "memory://told-example", progress=Told())
    begin
    complete 2
    """

    @abstractmethod
    def begin(self, fragment: Any, **kwargs: Any) -> None:
        """Hear of a fragment whose file is about to be written: it has no rows yet."""

    @abstractmethod
    def complete(self, fragment: Any, **kwargs: Any) -> None:
        """Hear of a fragment whose file is written; a commit may still give it another id."""


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """Does nothing."""

    def begin(self, fragment: Any, **kwargs: Any) -> None:
        """Do nothing."""

    def complete(self, fragment: Any, **kwargs: Any) -> None:
        """Do nothing."""


class FileSystemFragmentWriteProgress(FragmentWriteProgress):
    """Keeps a file ``fragment_<id>.in_progress`` while a fragment is written.

    A file ``fragment_<id>.json`` with its metadata, as it was at the beginning, stays.  Fragments
    have different ids only if `LanceFragment.create` is given them.

    Parameters
    ----------
    base_uri
        The folder of these files, as a URI that Arrow's file systems know, or an absolute path.
    metadata
        Kept in the first file, to tell workers apart.
    """

    PROGRESS_EXT = ".in_progress"

    def __init__(self, base_uri: str, metadata: dict[str, str] | None = None) -> None:
        from pyarrow.fs import FileSystem

        self._files, self._folder = FileSystem.from_uri(os.fspath(base_uri))
        self._metadata = dict(metadata or {})

    def begin(self, fragment: Any, **kwargs: Any) -> None:  # noqa: ARG002  # for subclasses
        """Write both files."""
        self._files.create_dir(self._folder, recursive=True)
        about = {"fragment_id": fragment.id, "metadata": self._metadata}
        self._put(self._name(fragment, self.PROGRESS_EXT), about)
        self._put(self._name(fragment, ".json"), fragment.to_json())

    def complete(self, fragment: Any, **kwargs: Any) -> None:  # noqa: ARG002  # for subclasses
        """Remove the first file."""
        self._files.delete_file(self._name(fragment, self.PROGRESS_EXT))

    def _name(self, fragment: Any, suffix: str) -> str:
        return f"{self._folder}/fragment_{fragment.id}{suffix}"

    def _put(self, name: str, content: Any) -> None:
        with self._files.open_output_stream(name) as out:
            out.write(json.dumps(content).encode())

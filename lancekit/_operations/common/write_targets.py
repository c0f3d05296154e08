"""Which folders new data files go to: the dataset's own, or those of base paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lancekit._commit.manifest.draft import with_bases
from lancekit._format.manifest import BasePath
from lancekit._format.names import DATA
from lancekit._legible import shown
from lancekit._pipeline.rows.write import WriteTarget
from lancekit._versions.line import Line
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

__all__ = ["bases_of", "chosen_places"]


def bases_of(current: Snapshot | None, new: Sequence[BasePath]) -> tuple[BasePath, ...]:
    """Return the base paths of a dataset that is there, or those of one that is made.

    Raises
    ------
    InvalidArgumentError
        New ones for a dataset that is there, or a name, a path or an id twice.
    """
    if current is None:
        return with_bases((), new)
    if new:
        raise InvalidArgumentError(
            "Cannot register new bases in Append mode, nor when overwriting: initial_bases are "
            "for a new dataset.",
            hint="Add them with add_bases().",
        )
    return current.manifest.base_paths


def chosen_places(
    line: Line,
    bases: Sequence[BasePath],
    wanted: Sequence[str],
    *,
    every: bool,
    primary: bool = True,
) -> tuple[WriteTarget, ...]:
    """Return where to write files in turn; nothing if that is the dataset's own folder alone.

    Parameters
    ----------
    line
        Where the dataset is.
    bases
        Its base paths.
    wanted
        The names or paths of those to write to; the dataset's own place is its folder.
    every, primary
        Write to all base paths, and to the dataset's folder unless ``primary`` is false.

    Raises
    ------
    InvalidArgumentError
        No base path has such a name, both were asked for, or there is nowhere to write to.
    UntrustedBaseError
        A base path is in a store that is not trusted.
    """
    if every and wanted:
        raise InvalidArgumentError(
            "target_bases and target_all_bases were given.", hint="Pass one of the two."
        )
    if every:
        ordered = sorted(bases, key=lambda base: base.id)
        if not (ordered or primary):
            raise InvalidArgumentError(
                "The dataset has no base paths to write to.",
                hint="Add some with add_bases(), or write to the dataset's own folder too.",
            )
        own = (WriteTarget(line.store),) if primary and ordered else ()
        return (*own, *(_place(line, base) for base in ordered))
    return tuple(
        WriteTarget(line.store) if _is_own(line, text) else _place(line, _named(bases, text))
        for text in wanted
    )


def _is_own(line: Line, text: str) -> bool:
    place = text.removeprefix("file://")
    if "://" in place:
        return place.rstrip("/") == line.uri
    return "://" not in line.uri and str(Path(place).absolute()) == line.uri


def _named(bases: Sequence[BasePath], text: str) -> BasePath:
    for base in bases:
        if text in (base.name, base.path):
            return base
    known = ", ".join(repr(base.name or base.path) for base in bases)
    raise InvalidArgumentError(
        f"Base path {shown(text)} was not found.",
        hint=f"There are {known}." if known else "The dataset has none: see add_bases().",
        base=text,
    )


def _place(line: Line, base: BasePath) -> WriteTarget:
    return WriteTarget(line.base(base.path), DATA if base.is_dataset_root else "", base.id)

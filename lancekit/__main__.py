"""``python -m lancekit COMMAND PATH``: histories and upkeep of a dataset without a notebook."""

from __future__ import annotations

import argparse
import io
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from lancekit import LanceDataset, dataset
from lancekit.dataset import DatasetDiff
from lancekit.errors import InvalidArgumentError, LancekitError

Flags = Mapping[str, Mapping[str, object]]
Reference = int | str | tuple[str, int | None]


def _log(ds: LanceDataset, given: argparse.Namespace) -> None:
    print(ds.versions()[-given.number :])


def _show(ds: LanceDataset, given: argparse.Namespace) -> None:
    print(ds)
    if given.rows:
        print(ds.to_pandas(limit=given.rows).to_string(index=False))


def _diff(ds: LanceDataset, given: argparse.Namespace) -> None:
    print(_compared(ds, given.old, given.new))


def _compared(ds: LanceDataset, old: Reference | None, new: Reference | None) -> DatasetDiff:
    before = [number for number in ds.versions().numbers if number < ds.version]
    if old is None and not before:
        raise InvalidArgumentError(f"There is no version before {ds.version}.")
    found = ds.diff(before[-1] if old is None else old, new)
    _ = found.counts  # reads the rows, for the table
    return found


def _tags(ds: LanceDataset, _: argparse.Namespace) -> None:
    print(ds.tags)


def _branches(ds: LanceDataset, _: argparse.Namespace) -> None:
    print(ds.branches)


def _undo(ds: LanceDataset, given: argparse.Namespace) -> None:
    print(_compared(ds, None, None))
    _confirm("Commit the version before again, as the newest?", given)
    ds.undo()
    print(ds.versions()[-1])


def _cleanup(ds: LanceDataset, given: argparse.Namespace) -> None:
    older, retain = given.days, given.retain
    plan = ds.explain_cleanup_old_versions(older, retain, error_if_tagged_old_versions=False)
    print(plan)
    if not plan.stats.old_versions and not plan.stats.bytes_removed:
        return
    _confirm("Remove these versions and files for ever?", given)
    print(ds.cleanup_old_versions(older, retain, error_if_tagged_old_versions=False))


def _check(ds: LanceDataset, given: argparse.Namespace) -> None:
    ds.validate(deep=given.deep, sources=True)
    print(f"{given.path}: version {ds.version} is whole")


def _confirm(question: str, given: argparse.Namespace) -> None:
    if given.yes:
        return
    if not sys.stdin.isatty():
        raise InvalidArgumentError(
            "Nothing was changed: this needs an answer, and the input is not a terminal.",
            hint="Pass --yes to go on without a question.",
        )
    if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise InvalidArgumentError("Nothing was changed.")


def version(text: str) -> Reference:
    """Return a version: a number, a tag, or ``branch:number`` (``branch:`` is its newest)."""
    branch, colon, number = text.rpartition(":")
    if colon:
        return branch, int(number) if number else None
    return int(text) if text.isdigit() else text


def count(text: str) -> int:
    """Return a number of 1 or more."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def days(text: str) -> timedelta:
    """Return a number of days, for example 0.5."""
    try:
        return timedelta(days=float(text))
    except OverflowError as error:
        raise ValueError from error


@dataclass(frozen=True, slots=True)
class _Command:
    """A command: its function, its help, and its arguments after the path."""

    run: Callable[[LanceDataset, argparse.Namespace], None]
    about: str
    flags: Flags


_VERSION = "a number, a tag, or branch:number"
_YES: Flags = {"--yes": {"action": "store_true", "help": "do not ask"}}
_COMMANDS: Mapping[str, _Command] = {
    "log": _Command(
        _log,
        "show the versions, newest first",
        {"-n": {"dest": "number", "type": count, "default": 20, "help": "how many (20)"}},
    ),
    "show": _Command(
        _show,
        "show schema, rows and size of a version",
        {"--rows": {"type": count, "help": "also print this many rows"}},
    ),
    "diff": _Command(
        _diff,
        "show the rows that differ between two versions",
        {
            "old": {"nargs": "?", "type": version, "help": f"{_VERSION}; else the one before"},
            "new": {"nargs": "?", "type": version, "help": f"{_VERSION}; else the newest"},
        },
    ),
    "tags": _Command(_tags, "show the tags", {}),
    "branches": _Command(_branches, "show the branches", {}),
    "undo": _Command(_undo, "take the newest change back, in a new version", _YES),
    "cleanup": _Command(
        _cleanup,
        "remove old versions, and files that no version needs",
        {
            "--days": {"type": days, "help": "versions older than this (14)"},
            "--retain": {"type": count, "help": "keep this many of the newest versions"},
            **_YES,
        },
    ),
    "check": _Command(
        _check,
        "check that all files exist and can be read",
        {"--deep": {"action": "store_true", "help": "read every value"}},
    ),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m lancekit",
        description="Histories and upkeep of a Lance dataset.",
        epilog="Exit status: 0, 1 after an error or if nothing was changed, 2 for a wrong command.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in _COMMANDS.items():
        one = commands.add_parser(name, help=command.about, description=command.about)
        one.add_argument("path", metavar="PATH", help="the path or URI of the dataset")
        for flag, options in command.flags.items():
            one.add_argument(flag, **options)  # type: ignore[arg-type]
        one.add_argument("--version", type=version, help=f"the version to open: {_VERSION}")
    return parser


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status."""
    given = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without these characters
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            _COMMANDS[given.command].run(dataset(given.path, version=given.version), given)
        sys.stdout.flush()
    except LancekitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (BrokenPipeError, KeyboardInterrupt):
        with suppress(OSError):
            sys.stdout.close()
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

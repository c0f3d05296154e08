"""``python -m lancekit COMMAND PATH``: histories and upkeep of a dataset without a notebook."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import warnings
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, NoReturn

from lancekit import CleanupExplanation, LanceDataset, __version__, dataset
from lancekit.dataset import DatasetDiff
from lancekit.errors import InvalidArgumentError, LancekitError

Flags = Mapping[str, Mapping[str, object]]
Reference = int | str | tuple[str, int | None]


def _log(ds: LanceDataset, given: argparse.Namespace) -> None:
    history = ds.versions()
    end = bisect_right(history.numbers, ds.version)
    print(history[max(end - given.number, 0) : end])


def _show(ds: LanceDataset, given: argparse.Namespace) -> None:
    print(ds)
    if given.rows:
        print(ds.to_pandas(limit=given.rows).to_string(index=False))


def _diff(ds: LanceDataset, given: argparse.Namespace) -> None:
    old, new = given.old, given.new
    if isinstance(old, str) and ".." in old:  # as in git: 1..2
        ends = re.split(r"\.\.+", old, maxsplit=1)
        old, new = (version(part) if part else ds.version for part in ends)
    print(_compared(ds, _branch_or(old, ds), _branch_or(new, ds)))


def _branch_or(at: Reference | None, ds: LanceDataset) -> Reference | None:
    """Return the newest version of the branch of this name, unless a tag has the name."""
    is_branch = isinstance(at, str) and at not in ds.tags and (at == "main" or at in ds.branches)
    return (str(at), None) if is_branch else at


def _compared(ds: LanceDataset, old: Reference | None, new: Reference | None) -> DatasetDiff:
    found = ds.diff(old, new)
    _ = found.counts  # reads the rows, for the table
    return found


def _undo(ds: LanceDataset, given: argparse.Namespace) -> None:
    if ds.version != ds.latest_version:
        raise InvalidArgumentError(
            f"undo takes back the newest version, {ds.latest_version}, and not {ds.version}.",
            hint=f"ds.revert({ds.version}) takes back one older version.",
        )
    print(_compared(ds, None, None))
    _confirm("Commit the version before again, as the newest?", given)
    if ds.latest_version != ds.version:
        raise _changed("undo", given)
    ds.undo()
    print(ds.versions()[-1])


def _cleanup(ds: LanceDataset, given: argparse.Namespace) -> None:
    plan = _cleanup_plan(ds, given)
    print(plan)
    if not plan.stats.old_versions and not plan.stats.bytes_removed:
        return
    _confirm("Remove these versions and files for ever?", given)
    if _cleanup_plan(ds, given).candidate_files != plan.candidate_files:
        raise _changed("cleanup", given)
    print(plan.apply())


def _cleanup_plan(ds: LanceDataset, given: argparse.Namespace) -> CleanupExplanation:
    return ds.explain_cleanup_old_versions(
        given.days,
        given.retain,
        error_if_tagged_old_versions=False,
        include_files=True,
        max_files=sys.maxsize,
    )


def _changed(command: str, given: argparse.Namespace) -> InvalidArgumentError:
    return InvalidArgumentError(
        "Nothing was changed: the dataset has changed since the plan was shown.",
        hint=f"See the new plan: {_PROGRAM} {command} {given.path}",
    )


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
    with suppress(EOFError):  # the end of the input is no answer
        if input(f"{question} [y/N] ").strip().lower() in ("y", "yes"):
            return
    raise InvalidArgumentError("Nothing was changed.")


def version(text: str) -> Reference:
    """Return a version: a number, a tag, or ``branch:number`` (``branch:`` is its newest)."""
    if re.fullmatch(r"-\d+", text):  # as in `git log -5`
        raise argparse.ArgumentTypeError(
            f"no version: {text} (log PATH -n {text[1:]} shows so many)"
        )
    branch, colon, number = text.rpartition(":")
    if colon:
        return branch, int(number) if number else None
    return int(text) if text.isdigit() else text


def count(text: str) -> int:
    """Return a number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of 1 or more, got {text!r}")
    return int(text)


def days(text: str) -> timedelta:
    """Return a number of days of 0 or more, for example 0.5."""
    if not 0 <= float(text) < 1e9:
        raise ValueError
    return timedelta(days=float(text))


@dataclass(frozen=True, slots=True)
class _Command:
    """A command: its function, its help, and its arguments after the path."""

    run: Callable[[LanceDataset, argparse.Namespace], None]
    about: str
    flags: Flags
    example: str = ""


_PROGRAM = "python -m lancekit"
_VERSION = "a number, a tag, a branch, or branch:number"
_YES: Flags = {"-y --yes": {"action": "store_true", "help": "do not ask"}}
_AT: Flags = {
    "version": {"nargs": "?", "type": version, "default": argparse.SUPPRESS, "help": _VERSION}
}
_COMMANDS: Mapping[str, _Command] = {
    "log": _Command(_log, "show the versions up to one, newest first", {
        "-n": {"dest": "number", "type": count, "default": 20, "help": "how many (20)"}, **_AT,
    }, "-n 5"),
    "show": _Command(_show, "show schema, rows and size of a version", {
        "--rows": {"type": count, "help": "also print this many rows"}, **_AT,
    }, "jan --rows 5"),
    "diff": _Command(_diff, "show the rows that differ between two versions", {
        "old": {"nargs": "?", "type": version, "help": f"{_VERSION}; else the one before"},
        "new": {"nargs": "?", "type": version, "help": f"{_VERSION}; else the newest"},
    }, "1 2"),
    "tags": _Command(lambda ds, _: print(ds.tags), "show the tags", {}),
    "branches": _Command(lambda ds, _: print(ds.branches), "show the branches", {}),
    "undo": _Command(_undo, "take the newest change back, in a new version", {
        **_YES, **_AT,
    }, "--yes"),
    "cleanup": _Command(_cleanup, "remove old versions, and files that no version needs", {
        "--days": {"type": days, "help": "versions older than this (14)"},
        "--retain": {"type": count, "help": "keep this many of the newest versions"}, **_YES,
    }, "--days 7 --retain 3"),
    "check": _Command(_check, "check that all files exist and can be read", {
        "--deep": {"action": "store_true", "help": "read every value"}, **_AT,
    }, "--deep"),
}  # fmt: skip
#: the line for words that users of other tools type: the line, and the words
_HINTS: Mapping[str, str] = {
    "diff PATH": "status changes compare",
    "log PATH": "history versions reflog snapshots list-versions describe-history",
    "log PATH -n 5": "--limit --max-count -l --oneline --number --tail",
    "show PATH": "ls info describe schema stat cat inspect count",
    "show PATH --rows 5": "head preview sample select query tail --head --limit-rows",
    "show PATH --version 1": "checkout --as-of --asof --ref --revision --at",
    "log PATH --branch b": "switch --branches -b",
    "branches PATH": "branch list-branches",
    "tags PATH": "tag list-tags",
    "undo PATH": "revert rollback reset",
    "ds.versions().to_pandas() in Python": "--json --format --output -o",
    "ds.restore(1) in Python": "restore",
    "cleanup PATH": "vacuum gc prune clean expire expire-snapshots rm remove delete",
    "cleanup PATH --days 7": "--older-than --older_than --retention --retention-hours --keep-days",
    "cleanup PATH --retain 3": "--keep --keep-last --retain-versions --retain-last",
    "cleanup PATH, which shows the plan and asks": "--dry-run --dryrun --plan -n",
    "undo PATH --yes": "--force -f --no-confirm --assume-yes",
    "check PATH --deep": "verify validate fsck --full --all",
    "ds.optimize.compact_files() in Python": "compact optimize compaction",
    "ds.branches.merge('x') in Python": "merge rebase cherry-pick",
    "lk.write_dataset(df, 'new.lance') in Python": "init create write import commit add",
    "ds.deep_clone('copy.lance') in Python": "clone copy cp push pull fetch",
    "ds.export('x.csv') in Python": "export dump convert",
}
#: the next command after an error, by class
_NEXT: Mapping[str, str] = {
    "DatasetNotFoundError": "Pass the folder or URI of a dataset, such as prices.lance.",
    "VersionNotFoundError": "{program} log {path} shows the versions.",
    "TagNotFoundError": "{program} tags {path} shows the tags, and branches {path} the branches.",
    "BranchNotFoundError": "{program} branches {path} shows the branches.",
}


class _Parser(argparse.ArgumentParser):
    command: ClassVar = ""
    path: ClassVar = "PATH"

    def error(self, message: str) -> NoReturn:
        """Print the usage, and the line for a word of another tool; exit with 2."""
        self.print_usage(sys.stderr)
        words = [word.partition("=")[0] for word in re.findall(r"[\w./=-]+", message)]
        lines = {word: line for line, known in _HINTS.items() for word in known.split()}
        line = next((lines[word] for word in words if word in lines), "")
        if re.match("argument (?!COMMAND)", message):  # a value, not a word of another tool
            line = ""
        line = line or f"{self.command} --help".strip()
        if choice := re.search(r"invalid choice: '(.*[./].*?)'", message):  # a path comes first
            line = f"show {choice[1]}"
        use = line if " Python" in line else f"{_PROGRAM} {line}".replace("PATH", self.path)
        self.exit(2, f"error: {message}\nUse {use}.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        _PROGRAM,
        description="Histories and upkeep of a Lance dataset.",
        epilog="Exit status: 0, 1 after an error or if nothing was changed, 2 for a wrong command.",
    )
    parser.add_argument("--version", action="version", version=f"lancekit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in _COMMANDS.items():
        example = f"Example: {_PROGRAM} {name} prices.lance {command.example}"
        one = commands.add_parser(
            name, help=command.about, description=command.about, epilog=example, allow_abbrev=False
        )
        one.add_argument("path", metavar="PATH", help="the path or URI of the dataset")
        at = one.add_mutually_exclusive_group()
        for flag, options in command.flags.items():
            to = at if flag == "version" else one
            to.add_argument(*flag.split(), **options)  # type: ignore[arg-type]
        at.add_argument("--version", "--tag", type=version, help=f"open a version: {_VERSION}")
        one.add_argument("--branch", help="open a branch")
    return parser


def _opened(path: str, at: Reference | None, branch: str | None) -> LanceDataset:
    ds = dataset(path, branch=branch)
    found = _branch_or(at, ds)
    return ds if found is None else ds.checkout_version(found)


def _failure(error: LancekitError, path: str) -> str:
    """Return the error with the next command, in place of the hint for Python."""
    line = _NEXT.get(type(error).__name__, "").format(program=_PROGRAM, path=path)
    hint = error.hint or ""
    code = "In Python: " if re.search(r"\b(ds|lk)\.|\w\(.*\)", hint) else ""
    return f"error: {error.message} {line or code + hint}".rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status."""
    parser = _parser()
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(2)
    _Parser.command = words[0] if words[0] in _COMMANDS else ""
    _Parser.path = next((one for one in words[1:] if not one.startswith("-")), "PATH")
    given = parser.parse_args(words)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without these characters
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda text, *_, **__: print(f"warning: {text}", file=sys.stderr)
            _COMMANDS[given.command].run(_opened(given.path, given.version, given.branch), given)
        if sys.stdout is not None:
            sys.stdout.flush()
    except LancekitError as error:
        print(_failure(error, given.path), file=sys.stderr)
        return 1
    except OSError as error:  # of the output: its rest is dropped
        is_cut = isinstance(error, BrokenPipeError)  # by `log | head -1`
        if not is_cut:  # but the disk is full, for example
            print(f"error: {error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141 if is_cut else 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m lancekit``: each command, its exit status, and what it asks before it removes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit.__main__ import _COMMANDS, _HINTS, main


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "x.lance")
    ds = lk.write_dataset({"id": [1, 2, 3], "p": [1.0, 2.0, 3.0]}, place, primary_key="id")
    ds.update({"p": "p * 2"}, where="id = 2")
    ds.tags.create("first", 1)
    ds.create_branch("trial", 1)
    return place


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["log"], ["2 versions", "update", "first"]),
        (["log", "-n", "1"], ["1 of 2 versions"]),
        (["log", "--version", "trial:"], ["trial"]),
        (["show"], ["main:2", "primary key", "double"]),
        (["show", "--rows", "2", "--version", "first"], ["main:1", "id", "2.0"]),
        (["diff"], ["1 updated", "2   update  2.0 → 4.0"]),
        (["diff", "1", "trial:"], ["0 updated"]),
        (["diff", "first"], ["1 updated"]),
        (["tags"], ["first", "main:1"]),
        (["diff", "1..2"], ["1 updated"]),
        (["log", "trial"], ["trial:1"]),
        (["log", "1"], ["1 of 2 versions", "create"]),
        (["log", "first"], ["1 of 2 versions", "first"]),
        (["diff", "trial"], ["diff trial:1 → main:2", "1 updated"]),
        (["diff", "main..trial"], ["diff main:2 → trial:1"]),
        (["diff", "1.."], ["diff main:1 → main:2"]),
        (["diff", "main", "--branch", "trial"], ["diff main:2 → trial:1"]),
        (["log", "--branch", "trial"], ["trial:1"]),
        (["show", "first"], ["main:1"]),
        (["show", "--tag", "first"], ["main:1"]),
        (["show", "--branch", "trial", "--version", "1"], ["trial:1"]),
        (["branches"], ["trial", "main:1"]),
        (["check", "--deep"], ["version 2 is whole"]),
    ],
)
def test_what_a_command_shows(
    path: str, command: list[str], shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    name, *others = command
    assert main([name, path, *others]) == 0
    found = capsys.readouterr()
    assert [text for text in shown if text not in found.out] == []
    assert found.err == ""


def test_an_undo_and_a_cleanup_ask_first(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lk.dataset(path).tags.delete("first")
    lk.dataset(path).branches.delete("trial")
    for command, before, after in (("undo", [1, 2], [1, 2, 3]), ("cleanup", [1, 2, 3], [3])):
        flags = ["--days", "0"] if command == "cleanup" else []
        for answer in ("", "n", "nonsense"):
            monkeypatch.setattr(sys, "stdin", _Terminal(f"{answer}\n"))
            assert main([command, path, *flags]) == 1
            assert "Nothing was changed" in capsys.readouterr().err
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))  # no terminal
        assert main([command, path, *flags]) == 1
        found = capsys.readouterr()
        assert "Pass --yes" in found.err
        assert ("1 updated" if command == "undo" else "2 old versions to remove") in found.out
        assert list(lk.dataset(path).versions().numbers) == before
        monkeypatch.setattr(sys, "stdin", _Terminal("y\n"))
        assert main([command, path, *flags]) == 0
        assert list(lk.dataset(path).versions().numbers) == after
    assert main(["cleanup", path, "--days", "0", "--retain", "1"]) == 0  # nothing to ask for
    assert lance.dataset(path).to_table()["p"].to_pylist() == [1.0, 2.0, 3.0]


def test_yes_answers_the_question(path: str) -> None:
    assert main(["undo", path, "--yes"]) == 0
    assert lk.dataset(path).version == 3
    assert main(["cleanup", path, "--days", "0", "--yes"]) == 0
    assert list(lk.dataset(path).versions().numbers) == [1, 3]  # a tag and a branch keep 1


def test_errors_have_no_traceback(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, why in (
        (["show", str(tmp_path / "none")], "was not found. Pass the folder or URI of a dataset"),
        (
            ["show", path, "--version", "none"],
            f"tags {path} shows the tags, and branches {path}",
        ),
        (["show", path, "--branch", "none"], f"python -m lancekit branches {path} shows"),
        (["diff", path, "77"], f"python -m lancekit log {path} shows the versions."),
        (["diff", path, "--version", "1"], "main:1 is the first version"),
        (
            ["undo", path, "1", "--yes"],
            "the newest version, 2, and not 1. In Python: ds.revert(1) takes",
        ),
    ):
        assert main(command) == 1
        found = capsys.readouterr().err
        assert found.startswith("error: ")
        assert why in found
        assert "Traceback" not in found
    next((tmp_path / "x.lance" / "data").iterdir()).unlink()
    assert main(["check", path]) == 1


@pytest.mark.parametrize(
    "wrong",
    [[], ["frob"], ["log"], ["log", "x", "-n", "0"], ["cleanup", "x", "--days", "1e99"],
     ["diff", "x", "a:b"], ["cleanup", "x", "--days", "-1"], ["show", "x", "--rows", "-1"]],
)  # fmt: skip
def test_wrong_commands(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(wrong)
    assert stop.value.code == 2
    assert "usage: python -m lancekit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (["status", "x"], "Use python -m lancekit diff x."),
        (["history", "x"], "Use python -m lancekit log x."),
        (["vacuum", "x"], "Use python -m lancekit cleanup x."),
        (["optimize", "x"], "Use ds.optimize.compact_files() in Python."),
        (["compact", "x"], "Use ds.optimize.compact_files() in Python."),
        (["restore", "x", "1"], "Use ds.restore(1) in Python."),
        (["ls", "x"], "Use python -m lancekit show x."),
        (["head", "x"], "Use python -m lancekit show x --rows 5."),
        (["cleanup", "x", "--older-than", "7d"], "Use python -m lancekit cleanup x --days 7."),
        (["cleanup", "x", "--keep=3"], "Use python -m lancekit cleanup x --retain 3."),
        (["log", "x", "--limit", "3"], "Use python -m lancekit log x -n 5."),
        (["checkout", "x"], "Use python -m lancekit show x --version 1."),
        (["./x.lance", "log"], "Use python -m lancekit show ./x.lance."),
        (["tags", "x", "jan"], "Use python -m lancekit tags --help."),
        (["help"], "Use python -m lancekit --help."),
        (["log", "x", "--json"], "Use ds.versions().to_pandas() in Python."),
        (
            ["show", "x", "1", "--version", "2"],
            "--version/--tag: not allowed with argument version",
        ),
        (["log", "x", "-5"], "no version: -5 (log PATH -n 5 shows so many)"),
    ],
)
def test_words_of_other_tools_are_answered(
    wrong: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(wrong)
    assert stop.value.code == 2
    assert line in capsys.readouterr().err


def test_each_word_has_one_line() -> None:
    words = [word for line in _HINTS.values() for word in line.split()]
    assert len(words) == len({*words})
    assert not {*words} & {*_COMMANDS}


def test_only_what_was_shown_is_removed(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lk.dataset(path).tags.delete("first")
    lk.dataset(path).branches.delete("trial")
    for command in ("cleanup", "undo"):
        flags = ["--days", "0"] if command == "cleanup" else []

        def answered(_: str) -> str:
            ds = lk.dataset(path)  # another writer, before the answer
            ds.update({"p": "p + 1"})
            ds.tags.create(f"needed-{ds.version}", 1)
            return "y"

        monkeypatch.setattr(sys, "stdin", _Terminal())
        monkeypatch.setattr("builtins.input", answered)
        before = list(lk.dataset(path).versions().numbers)
        assert main([command, path, *flags]) == 1
        assert "has changed since the plan was shown" in capsys.readouterr().err
        assert list(lk.dataset(path).versions().numbers) == [*before, before[-1] + 1]


def test_exit_statuses_of_processes(path: str) -> None:
    command = f"{sys.executable} -m lancekit"
    for line, status in (
        (f"{command} log {path}", 0),
        (f"{command} show {path}-none", 1),
        (f"{command}", 2),
        (f"{command} history {path}", 2),
        (f"set -o pipefail; {command} show {path} --rows 3 | head -c 1 > /dev/null", None),
        (f"set -o pipefail; ({command} log {path}; echo $? >&2) | true", None),
    ):
        ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert "Traceback" not in ran.stderr
        assert "Exception ignored" not in ran.stderr
        assert ran.returncode in ((0, 141) if status is None else (status,)), line
        if line.endswith("| true"):
            assert ran.stderr.strip() in {"0", "141"}


def test_it_runs_as_a_module(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "lancekit"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(
        [*command, "show", path], capture_output=True, text=True, check=True, env=environment
    )
    assert "main:2" in shown.stdout
    told = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert [name for name in _COMMANDS if name not in told.stdout] == []
    for name in _COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        assert f"Example: python -m lancekit {name} prices.lance" in capsys.readouterr().out
    nobody = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    failed = subprocess.run([*command, "undo", path], check=False, **nobody)
    assert (failed.returncode, "Traceback" in failed.stderr) == (1, False)


def test_the_end_of_the_input_changes_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", _Terminal())
    assert main(["undo", path]) == 1
    assert "Nothing was changed" in capsys.readouterr().err
    assert lk.dataset(path).version == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
def test_an_output_that_takes_nothing_is_an_error(path: str) -> None:
    run = [sys.executable, "-m", "lancekit", "log", path]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5"])
def test_a_wrong_number_is_named(path: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["log", path, f"-n={text}"])
    said = capsys.readouterr().err
    assert "must be a number of 1 or more" in said
    assert "cleanup" not in said

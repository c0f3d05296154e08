"""``%%lance`` and ``%lance``, in a shell of IPython."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError, PredicateError
from lancekit.notebook.magics import _USAGE, _WORDS
from tests.support.shells import ipython


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Any]:
    ds = lk.write_dataset({"id": [1, 2, 3]}, tmp_path / "ds")
    ds.delete("id = 3")
    with ipython() as shell:
        shell.run_line_magic("load_ext", "lancekit")
        shell.user_ns |= {"ds": ds, "least": 2}
        yield shell


def test_a_cell_is_sql_over_variables(shell: Any) -> None:
    found = shell.run_cell_magic("lance", "", "SELECT id\nFROM ds WHERE id >= $least")
    assert found.to_table().to_pylist() == [{"id": 2}]
    assert "1 row" in repr(found)
    assert "<table" in found._repr_html_()
    named = shell.run_cell_magic("lance", "", "kept << SELECT sum(id) AS s FROM ds VERSION AS OF 1")
    assert shell.user_ns["kept"] is named
    again = shell.run_cell_magic("lance", "", "SELECT s FROM kept")
    assert again.to_table().to_pylist() == [{"s": named.to_table()["s"][0].as_py()}]


def test_a_preview_changes_nothing(shell: Any) -> None:
    ds = shell.user_ns["ds"]
    version = ds.version
    told = shell.run_cell_magic("lance", "--preview", "DELETE FROM ds WHERE id = 1")
    assert told.commits == ("Delete",)
    assert ds.version == version
    done = shell.run_cell_magic("lance", "", "DELETE FROM ds WHERE id = 1")
    assert (done.num_deleted_rows, ds.version) == (1, version + 1)


def test_the_line_shows_cards(shell: Any) -> None:
    ds = shell.user_ns["ds"]
    ds.tags.create("first", 1)
    shown = {word: shell.run_line_magic("lance", f"{word} ds") for word in ("history", "tags")}
    assert len(shown["history"]) == len(ds.versions())
    assert "first" in repr(shown["tags"])
    ds.create_branch("try/out")
    assert "try/out" in repr(shell.run_line_magic("lance", "branches ds@main"))
    ds.insert({"id": [9]})
    assert shell.run_line_magic("lance", "diff ds").counts.inserted == 1
    assert shell.run_line_magic("lance", "diff ds first").counts.deleted == 1
    blamed = shell.run_line_magic("lance", "blame ds id = 9")
    assert blamed.to_table()["_changed_in"].to_pylist() == [ds.version]
    told = shell.run_line_magic("lance", "explain ds id > 1 AND id < 9")
    assert isinstance(told, lk.Explanation)
    assert len(shell.run_line_magic("lance", "SELECT id FROM ds")) == 3


def test_mistakes_and_help(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for line, cell in (("--nosuch", "SELECT 1"), ("history", None), ("explain ds", None)):
        with pytest.raises(InvalidArgumentError):
            _magic(shell, line, cell)
    with pytest.raises(PredicateError) as caught:
        shell.run_cell_magic("lance", "", "kept << SELECT nosuch FROM ds")
    assert caught.value.context["position"] == len("kept << SELECT ")
    shell.run_line_magic("lance", "help")
    said = capsys.readouterr().out
    assert all(f"%lance {word} " in said for word in _WORDS)
    assert said.strip() == _USAGE
    shell.run_cell("lk_nosuch_name")
    capsys.readouterr()
    shell.run_line_magic("lance", "tb")
    assert "NameError" in capsys.readouterr().out


def _magic(shell: Any, line: str, cell: str | None) -> Any:
    if cell is None:
        return shell.run_line_magic("lance", line)
    return shell.run_cell_magic("lance", line, cell)


def test_the_extension_is_taken_back_and_loaded_anew(shell: Any, capsys: Any) -> None:
    shell.run_line_magic("unload_ext", "lancekit")
    assert "lance" not in shell.magics_manager.magics["line"]
    assert shell.Completer.custom_matchers == []
    for _ in range(2):
        shell.run_line_magic("load_ext", "lancekit")
        shell.run_line_magic("unload_ext", "lancekit")
    shell.run_line_magic("load_ext", "lancekit")
    assert len(shell.Completer.custom_matchers) == 1
    assert shell.run_line_magic("lance", "history ds") is not None
    again = "import importlib, lancekit; importlib.reload(lancekit); print(lancekit.dataset)"
    done = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, check=True)
    assert "function dataset" in done.stdout


def test_paths_go_without_quotes(shell: Any) -> None:
    ds = shell.user_ns["ds"]
    assert len(shell.run_line_magic("lance", f"history {ds.uri}")) == len(ds.versions())


@pytest.mark.parametrize("text", ["SELEC * FROM ds", "SHOW TABLES", "SELECT 1; DROP TABLE ds"])
def test_statements_that_are_not_there_are_named(shell: Any, text: str, capsys: Any) -> None:
    with pytest.raises(PredicateError, match=r"no statement '(SELEC|SHOW|DROP)'[^?]*MERGE INTO"):
        shell.run_cell_magic("lance", "", text)
    assert capsys.readouterr() == ("", "")

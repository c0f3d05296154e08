"""``%%lance`` and ``%lance``, in a shell of IPython."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from lancekit._notebook.magics import _SUBCOMMANDS, _USAGE, SUBCOMMANDS
from lancekit.errors import InvalidArgumentError, PredicateError
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


def test_a_preview_is_of_one_change(shell: Any) -> None:
    text = "DELETE FROM ds WHERE id = 1; SELECT id FROM ds; UPDATE ds SET id = 5"
    with pytest.raises(PredicateError, match="a preview is for a single change") as caught:
        shell.run_cell_magic("lance", "--preview", text)
    assert text[caught.value.context["position"] :].startswith("ds SET")
    told = shell.run_cell_magic("lance", "--preview", "SELECT id FROM ds; DELETE FROM ds")
    assert told.commits == ("Delete",)


@pytest.mark.parametrize(
    ("name", "said"),
    [("nosuch", "no table 'nosuch'"), ("low", "no table 'low'"), ("%", "parse")],
)
def test_a_name_that_is_no_dataset_is_shown_in_its_line(shell: Any, name: str, said: str) -> None:
    shell.user_ns["low"] = 3
    with pytest.raises(PredicateError, match=said) as caught:
        shell.run_line_magic("lance", f"history {name}")
    line, place = (caught.value.context[known] for known in ("sql", "position"))
    assert line == f"%lance history {name}"
    assert line[place:] == ("" if name == "%" else name)
    assert "DESCRIBE" not in str(caught.value)


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
    assert all(f"%lance {word} " in said for word in _SUBCOMMANDS)
    assert said.strip() == _USAGE
    shell.run_cell("lk_nosuch_name")
    capsys.readouterr()
    shell.run_line_magic("lance", "tb")
    assert "NameError" in capsys.readouterr().out


def test_flags_name_cut_and_date_the_result(shell: Any) -> None:
    ds = shell.user_ns["ds"]
    ds.tags.create("first", 1)
    text = "SELECT id FROM ds ORDER BY id DESC"
    for flags, ids in {
        "": [2, 1],
        "--at 1": [3, 2, 1],
        "--at 'first' --limit 2": [3, 2],
        "--limit=1": [2],
        "--limit 0": [],
        "-o kept --at=1": [3, 2, 1],
    }.items():
        found = shell.run_cell_magic("lance", flags, text)
        assert found.to_table()["id"].to_pylist() == ids
    assert shell.user_ns["kept"].num_rows == 3
    shell.user_ns["rows"] = {"id": [3, 4]}
    both = "SELECT id, b.id AS old FROM ds VERSION AS OF 2 JOIN ds b USING (id) "
    both += "UNION SELECT id, 0 FROM rows LIMIT 9"
    found = shell.run_cell_magic("lance", "--at 1 --limit 3", both)
    assert found.num_rows == 3
    (part,) = shell.run_cell_magic("lance", "--limit 7", "SELECT id FROM ds LIMIT 8").reads
    assert part.limit == 7
    (part,) = shell.run_cell_magic("lance", "--include-mem-wal", "SELECT id FROM ds").reads
    assert part.from_shards == 0
    done = shell.run_cell_magic("lance", "-o done", "DELETE FROM ds WHERE id = 2")
    assert shell.user_ns["done"] is done


WRONG = {
    "-o 1x": "-o needs the name of a variable, got",
    "-o": "-o needs the name of a variable, got",
    "--limit -1": "--limit needs a number of rows, got",
    "--limit many": "--limit needs a number of rows, got",
    "--at ''": "--at needs a version or a tag, got",
    "--limit 1 --limit 2": "Repeated %%lance flag: --limit",
    "--preview=1": "--preview takes no value, got '1'",
    "--include-mem-wal=1": "--include-mem-wal takes no value, got '1'",
    "--at '1": "unclosed quote",
    "\u202enosuch": "Unknown %%lance flag",
}


@pytest.mark.parametrize("flags", WRONG)
def test_flags_that_are_none(shell: Any, flags: str) -> None:
    with pytest.raises(InvalidArgumentError, match=WRONG[flags]) as caught:
        _magic(shell, flags, "SELECT id FROM ds")
    assert "%%lance --limit N" in str(caught.value)
    assert "\u202e" not in str(caught.value)


def test_flags_are_for_queries(shell: Any) -> None:
    ds = shell.user_ns["ds"]
    for flags in ("--at 1", "--limit 1", "--include-mem-wal"):
        with pytest.raises(PredicateError, match="for queries"):
            shell.run_cell_magic("lance", flags, "DELETE FROM ds")
    with pytest.raises(InvalidArgumentError, match=r"two names: a .* and b"):
        shell.run_cell_magic("lance", "-o a", "b << SELECT id FROM ds")
    assert ds.latest_version == 2


def test_a_word_that_is_none_tells_which_there_are(shell: Any, capsys: Any) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"statement: 'hystory'.*Did you mean history"
    ) as one:
        shell.run_line_magic("lance", "hystory ds")
    with pytest.raises(InvalidArgumentError, match="statement: 'nonsense'"):
        shell.run_line_magic("lance", "nonsense")
    shell.run_line_magic("lance", "")
    said = capsys.readouterr().out
    for word in SUBCOMMANDS:
        (line,) = (line for line in said.splitlines() if line.startswith(f"%lance {word} "))
        assert line in str(one.value)
        assert len(line.split("  ")[-1]) > 3


def _magic(shell: Any, line: str, cell: str | None) -> Any:
    if cell is None:
        return shell.run_line_magic("lance", line)
    return shell.run_cell_magic("lance", line, cell)


def test_every_statement_of_a_cell_shows_its_result(shell: Any, capsys: Any) -> None:
    text = "SELECT id FROM ds; DELETE FROM ds WHERE id = 1; last << SELECT id FROM ds"
    with pytest.raises(PredicateError):
        shell.run_cell_magic("lance", "", text)
    assert capsys.readouterr().out == ""
    text = "SELECT id FROM ds; DELETE FROM ds WHERE id = 1; SHOW TABLES"
    found = shell.run_cell_magic("lance", "-o last", text)
    said = capsys.readouterr().out
    assert said.index("2 rows · 1 column") < said.index("deleted 1 row")
    assert "SHOW" not in said
    assert found is shell.user_ns["last"]
    assert "ds" in found.to_table()["name"].to_pylist()
    with pytest.raises(PredicateError, match="no column 'nosuch'"):
        shell.run_cell_magic("lance", "", "SHOW TAGS IN ds; SELECT nosuch FROM ds")
    assert "0 tags" in capsys.readouterr().out


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


@pytest.mark.parametrize("text", ["SELEC * FROM ds", "GRANT", "SELECT 1; GRANT x"])
def test_statements_that_are_not_there_are_named(shell: Any, text: str, capsys: Any) -> None:
    with pytest.raises(PredicateError, match=r"no statement '(SELEC|GRANT)'[^?]*MERGE INTO"):
        shell.run_cell_magic("lance", "", text)
    assert capsys.readouterr() == ("", "")

"""Errors in cells: short, with the user's own line, and the same errors as everywhere."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from lancekit._display import HTML
from lancekit._notebook import failures
from lancekit.errors import EngineError, LancekitError, SchemaMismatchError
from tests.support.shells import ipython

END = ["where", "next", "cause", "cause", "cause", "traceback"]
CODE = """\
def load():
    ds.insert({"nosuch": [1]})

load()
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Any]:
    with ipython() as shell:
        shell.user_ns |= {"ds": lk.write_dataset({"id": [1, 2, 3]}, tmp_path / "ds"), "lk": lk}
        yield shell


def shown(shell: Any, code: str, capsys: pytest.CaptureFixture[str]) -> tuple[Any, list[str]]:
    """Run a cell; return its error, and the lines that were printed of it."""
    capsys.readouterr()
    error = shell.run_cell(code, store_history=True).error_in_exec
    return error, capsys.readouterr().out.splitlines()


def facts(lines: list[str]) -> dict[str, str]:
    pairs = (line.split(maxsplit=1) for line in lines[1:])
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def test_what_where_and_what_next(shell: Any, capsys: Any) -> None:
    error, lines = shown(shell, CODE, capsys)
    assert type(error) is SchemaMismatchError
    assert lines[0] == "SchemaMismatchError: the rows do not fit the dataset's schema:"
    said = facts(lines)
    assert said["+"] == "nosuch: int64, not in the dataset."
    assert said["where"] == 'Cell In[1], line 2: ds.insert({"nosuch": [1]})'
    assert said["next"] == error.hint
    assert said["traceback"].startswith("%load_ext lancekit, then %lance tb (")
    shell.run_line_magic("load_ext", "lancekit")
    _, lines = shown(shell, "%lance tb", capsys)
    assert len(lines) > 12
    assert any(line.startswith("lancekit.errors.SchemaMismatchError: ") for line in lines)
    _, again = shown(shell, CODE, capsys)
    assert facts(again)["traceback"].startswith("%lance tb (")


def test_it_is_the_error_of_a_script(shell: Any, capsys: Any) -> None:
    bad = 'ds.merge_insert("id").when_matched_update_all("nosuch(1").execute({"id": [1]})'
    in_cell, _ = shown(shell, bad, capsys)
    with pytest.raises(LancekitError) as in_script:
        exec(bad, {"ds": shell.user_ns["ds"]})

    def chain(error: BaseException | None) -> list[tuple[type, str]]:
        if error is None:
            return []
        return [(type(error), str(error)), *chain(error.__cause__ or error.__context__)]

    assert chain(in_cell) == chain(in_script.value)
    plain = "".join(traceback.format_exception(in_script.value))
    assert plain.startswith("Traceback (most recent call last):")
    assert str(in_script.value).splitlines()[0] in plain


def test_errors_of_others_stay_theirs(shell: Any, capsys: Any) -> None:
    shell.run_line_magic("load_ext", "lancekit")
    for code in ("import pyarrow as pa; pa.array([1, 'a'])", "ds.to_table().column('nosuch')"):
        _, lines = shown(shell, code, capsys)
        assert "Traceback (most recent call last)" in lines[1]


def test_never_more_than_twelve_lines(shell: Any, capsys: Any) -> None:
    code = """
try:
    try:
        try:
            1 / 0
        except ZeroDivisionError as first:
            raise ValueError("b\\nat all") from first
    except ValueError:
        raise RuntimeError("c\\u202e")
except RuntimeError as third:
    try:
        raise KeyError("d") from third
    except KeyError as fourth:
        text = "x" * 3000
        details = [f"  {i}{text}" for i in range(300)]
        raise lk.errors.EngineError("many", details=details, hint="Go on.") from fourth
"""
    _, lines = shown(shell, code, capsys)
    assert len(lines) == 12
    assert max(map(len, lines)) < 500
    assert [line.split()[0] for line in lines[-6:]] == END
    assert "KeyError: 'd' (Cell In[1], line 11)" in lines[-4]
    assert "2 more" in lines[-2]
    assert "lines more" in lines[-7]


def test_the_jvm_is_folded(shell: Any) -> None:
    java = "java.io.IOException: disk\n" + "\tat org.apache.spark.Task.run(Task.scala:1)\n" * 80
    try:
        try:
            exec("raise RuntimeError(java)", {"java": java})
        except RuntimeError as error:
            raise EngineError("A Spark job failed.") from error
    except EngineError as error:
        (text,) = failures.render(error)
    lines = text.splitlines()
    cause = facts(lines)["cause"]
    assert cause == "RuntimeError: java.io.IOException: disk (80 lines of the JVM omitted)"


def test_magics_and_modules_on_the_way(shell: Any, capsys: Any, tmp_path: Path) -> None:
    shell.run_line_magic("load_ext", "lancekit")
    _, lines = shown(shell, "%%lance\nSELECT nosuch FROM ds", capsys)
    assert facts(lines)["where"].endswith("line 2: SELECT nosuch FROM ds")
    _, lines = shown(shell, "%%lance --limit 2\nx << SELECT id\n  , nosuch\nFROM ds", capsys)
    assert facts(lines)["where"].endswith("line 3: , nosuch")
    _, lines = shown(shell, "%%lance --at nosuch\nSELECT id FROM ds", capsys)
    assert facts(lines)["where"].endswith("line 1: %%lance --at nosuch")
    helper = tmp_path / "helper_of_mine.py"
    helper.write_text("def load(ds):\n    ds.to_table(['nosuch'])\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport helper_of_mine as h\nh.load(ds)"
    )
    _, lines = shown(shell, code, capsys)
    assert facts(lines)["where"].endswith("line 3: h.load(ds)")
    assert facts(lines)["module"] == "helper_of_mine.py, line 2: ds.to_table(['nosuch'])"


def test_interrupts_say_what_is_there(shell: Any, capsys: Any) -> None:
    code = """
def stop(batch):
    raise KeyboardInterrupt
ds.add_columns(stop, read_columns=["id"])
"""
    error, lines = shown(shell, code, capsys)
    assert type(error) is KeyboardInterrupt
    assert lines[0].startswith("KeyboardInterrupt: before the interrupt nothing was committed")
    assert facts(lines)["where"].endswith('line 3: ds.add_columns(stop, read_columns=["id"])')
    _, lines = shown(shell, "raise KeyboardInterrupt", capsys)
    assert "Traceback" in lines[1]  # none of lancekit's


def test_a_notebook_shows_html_and_one_line(shell: Any, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(type(shell), "kernel", object(), raising=False)
    displayed: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: displayed.append(bundle))
    shell.run_line_magic("load_ext", "lancekit")
    error, lines = shown(shell, CODE, capsys)
    assert lines == ["SchemaMismatchError"]  # the card has said the rest
    assert sys.last_value is error
    (bundle,) = displayed
    assert "<dt>where</dt>" in bundle[HTML]
    assert len(bundle["text/plain"].splitlines()) <= 12
    monkeypatch.setattr(failures, "publish", lambda *_: 1 / 0)
    _, lines = shown(shell, CODE, capsys)
    assert "where" in facts(lines)  # the card could not be shown, so the text says it all


def test_a_notebook_shows_an_interrupt_as_html(shell: Any, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(type(shell), "kernel", object(), raising=False)
    displayed: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: displayed.append(bundle))
    shell.run_line_magic("load_ext", "lancekit")
    code = "def stop(batch):\n    raise KeyboardInterrupt\nds.add_columns(stop, ['id'])"
    error, lines = shown(shell, code, capsys)
    assert type(error) is KeyboardInterrupt
    assert lines == ["KeyboardInterrupt"]
    (bundle,) = displayed
    assert "before the interrupt nothing was committed" in bundle[HTML]
    assert "<dt>where</dt>" in bundle[HTML]
    error, lines = shown(shell, "raise KeyboardInterrupt", capsys)
    assert type(error) is KeyboardInterrupt
    assert "Traceback" in lines[1]  # none of lancekit's
    assert len(displayed) == 1
    shell.run_line_magic("unload_ext", "lancekit")
    assert not shell.custom_exceptions


def test_another_handler_is_left_alone(shell: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(type(shell), "kernel", object(), raising=False)
    shell.set_custom_exc((LookupError,), lambda *_, **__: None)
    shell.run_line_magic("load_ext", "lancekit")
    assert shell.custom_exceptions == (LookupError,)


def test_a_card_that_fails_is_a_traceback(monkeypatch: Any) -> None:
    monkeypatch.setattr(failures, "_card", lambda *_: 1 / 0)
    error = LancekitError("plain")
    assert error._render_traceback_() == ["lancekit.errors.LancekitError: plain"]


@pytest.mark.parametrize("mode", ["Minimal", "Plain", "Verbose"])
def test_modes_of_tracebacks_leave_the_lines(shell: Any, capsys: Any, mode: str) -> None:
    shell.run_line_magic("xmode", mode)
    _, lines = shown(shell, CODE, capsys)
    assert "where" in facts(lines)


def test_parsers_do_not_speak(shell: Any, capsys: Any) -> None:
    _, lines = shown(shell, "ds.count_rows('id >')", capsys)
    assert "something is missing after '>'" in lines[0]
    assert "cause" not in facts(lines)

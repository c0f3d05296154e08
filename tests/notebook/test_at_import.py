"""What `import lancekit` does in IPython, and how it is turned off."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from traitlets.config import Config

import lancekit as lk
from lancekit import _ipython
from tests.support.patience import HANG_SECONDS
from tests.support.shells import ipython


@pytest.fixture
def shell() -> Iterator[Any]:
    with ipython() as shell:
        yield shell
    _ipython._waiting.clear()


def _registered(shell: Any) -> list[bool]:
    return [
        "lance" in shell.magics_manager.magics["cell"],
        bool(shell.Completer.custom_matchers),
        pa.Table in shell.display_formatter.formatters["text/html"].type_printers,
        pa.Table in shell.display_formatter.formatters["text/plain"].type_printers,
    ]


def test_the_import_registers_all_parts_and_the_extension_goes_on_working(shell: Any) -> None:
    _ipython.at_import()
    assert _registered(shell) == [True] * 4
    for _ in range(2):
        shell.run_line_magic("load_ext", "lancekit")
        assert _registered(shell) == [True] * 4
        assert len(shell.Completer.custom_matchers) == 1
    shell.run_line_magic("unload_ext", "lancekit")
    assert _registered(shell) == [False] * 4
    shell.run_line_magic("load_ext", "lancekit")
    assert _registered(shell) == [True] * 4


@pytest.mark.parametrize("value", [False, "False", "0"])
def test_the_configuration_turns_it_off(shell: Any, value: object) -> None:
    shell.config = Config({"LancekitExtension": {"enabled": value}})
    _ipython.at_import()
    assert _registered(shell) == [False] * 4


def test_the_environment_turns_it_off(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_ipython.SWITCH, "0")
    _ipython.at_import()
    assert _registered(shell) == [False] * 4


def test_what_others_registered_stays(shell: Any) -> None:
    html = shell.display_formatter.formatters["text/html"]
    html.for_type(pa.Table, lambda _: "mine")
    _ipython.at_import()
    shell.run_line_magic("unload_ext", "lancekit")
    assert html(pa.table({"x": [1]})) == "mine"


def test_a_shell_that_fails_does_not_fail_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ipython, "active_shell", object)
    _ipython.at_import()


def test_the_thread_waits_for_a_rest(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[str]()
    monkeypatch.setattr(_ipython, "loaded", begun.append)
    monkeypatch.setattr(_ipython, "_AFTER_CELL", 3600.0)
    _ipython.at_import()
    (warm_up,) = _ipython._waiting
    shell.run_cell("1")
    first = warm_up._timer
    shell.run_cell("2")
    assert first is not None
    assert first.finished.is_set()
    assert begun == []
    monkeypatch.setattr(_ipython, "_AFTER_CELL", 0.0)
    shell.run_cell("3")
    assert warm_up._timer is not None
    warm_up._timer.join(HANG_SECONDS)
    assert begun == [f"_notebook.{name}" for name in _ipython._WARM]
    assert _ipython._waiting == []
    shell.run_cell("4")
    assert threading.active_count() >= 1  # no further timer: the callbacks are gone
    assert warm_up._timer.finished.is_set()


def test_plain_python_loads_nothing_more() -> None:
    program = "import sys, lancekit; print('lancekit._ipython' in sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


@pytest.mark.notebook
def test_a_kernel_completes_and_shows_tables_without_a_call(tmp_path: Path) -> None:
    from jupyter_client.manager import start_new_kernel

    ds = lk.write_dataset({"dep_delay": [1], "day": [2]}, tmp_path / "d.lance")
    ds.tags.create("jan", 1)
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        said = _run(client, f"import lancekit as lk\nds = lk.dataset({ds.uri!r})")
        assert said == []
        begun = time.monotonic()
        assert _tab(client, 'ds.to_table(columns=["d') == ["dep_delay", "day"]
        # tags are listed by a thread, which a Tab waits for only a moment
        while (tags := _tab(client, 'ds.checkout_version("')) != ["jan"]:
            assert time.monotonic() - begun < HANG_SECONDS, tags
        assert _tab(client, "lk.options.engine = 'l") == ["local"]
        assert time.monotonic() - begun < HANG_SECONDS
        (table,) = _run(client, "ds.to_table()")
        assert "<table" in table["text/html"]
        assert "1 of 1 row" in table["text/plain"]
        assert "1 of 1 row" in _run(client, "%%lance\nSELECT day FROM ds")[0]["text/plain"]
        (plain,) = _run(client, "lk.options.show_tables = False\nds.to_table()")
        assert list(plain) == ["text/plain"]
        assert plain["text/plain"].startswith("pyarrow.Table\n")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _run(client: Any, code: str) -> list[dict[str, str]]:
    shown = list[dict[str, str]]()

    def take(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] in {"execute_result", "display_data"}:
            shown.append(content["data"])
        assert message["msg_type"] not in {"error", "stream"}, content

    client.execute_interactive(code, timeout=HANG_SECONDS, output_hook=take)
    return shown


def _tab(client: Any, text: str) -> list[str]:
    answer = client.complete(text, len(text), reply=True, timeout=HANG_SECONDS)
    matches: list[str] = answer["content"]["matches"]
    return matches

"""JupyterLab for tests: a server with a home of its own, a notebook in it, and its page."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Notebook", "lab", "write_notebook"]

_ROOT = Path(__file__).parents[2]
#: what would ask the network, stand in the way of a click, or leave out what is not in view
_SETTINGS = {
    "apputils-extension/notification": {
        "fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True,
    },
    "notebook-extension/tracker": {"windowingMode": "none"},
}  # fmt: skip
_SECONDS = 60
#: whether what is run would be: the indicator says idle before
_READY = """() => {
    const kernel = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
_THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """Write a notebook of cells with code."""
    import nbformat

    kernel = {"name": "python3", "display_name": "Python", "language": "python"}
    made = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": kernel}), path)


class Notebook:
    """The page of a notebook in JupyterLab.

    Parameters
    ----------
    page
        A page of playwright's.
    url
        The notebook's address.
    """

    def __init__(self, page: Any, url: str) -> None:
        self.page, self._url = page, url
        self.cells = page.locator(".jp-Notebook .jp-CodeCell")
        page.goto(url, wait_until="domcontentloaded")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell .cm-content")
        page.wait_for_function(_READY)

    def reopen(self) -> None:
        """Save the notebook, end its kernel, and open it with another one."""
        self.command("docmanager:save")
        self.command("application:close")
        self.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
        self.command("docmanager:open", path=self._url.rpartition("/")[2])
        self.page.wait_for_function(_READY)

    def command(self, name: str, **how: Any) -> None:
        """Execute a command of the application, and wait until that is done."""
        self.page.evaluate(
            "([name, how]) => window.jupyterapp.commands.execute(name, how).then(() => null)",
            [name, how],
        )

    def run(self, number: int) -> Any:
        """Run a cell, and return its output."""
        cell = self.cells.nth(number)
        cell.locator(".cm-content").click()
        self.command("notebook:run-cell")
        return cell.locator(".jp-OutputArea").first

    def panel(self, number: int) -> Any:
        """Run a cell with a widget, and return that."""
        return self.run(number).locator(".lancekit-panel").first

    def pick(self, box: Any, places: int) -> None:
        """Pick from a list by keys, so many places below what is picked.

        While a list is closed, arrow keys are the notebook's, which moves between cells by them.
        """
        box.focus()
        for key in ("Space", *["ArrowDown"] * places, "Enter"):
            self.page.keyboard.press(key)

    @contextmanager
    def looks(self, theme: str, width: int) -> Iterator[None]:
        """Give it a theme and a width."""
        self.command("apputils:change-theme", theme=_THEMES[theme])
        self.page.wait_for_selector(
            f"body[data-jp-theme-light={str(theme == 'light').lower()}]", state="attached"
        )
        self.page.set_viewport_size({"width": width, "height": 1200})
        yield
        self.page.set_viewport_size({"width": 1400, "height": 1200})


@contextmanager
def lab(folder: Path) -> Iterator[str]:
    """Serve a folder by JupyterLab, and give its address; nothing of the user's is read or kept."""
    home = folder.with_name(f"{folder.name}-home")
    for name, values in _SETTINGS.items():
        settings = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps(values))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "IPYTHONDIR": "ipython",
              "JUPYTER_RUNTIME_DIR": "runtime", "JUPYTERLAB_SETTINGS_DIR": "settings",
              "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}  # fmt: skip
    environment = {
        **os.environ,
        **{name: str(home / place) for name, place in places.items()},
        "HOME": str(home),
        "PYTHONPATH": str(_ROOT),
    }
    told = (
        "--no-browser", "--allow-root", f"--port={port}", "--ServerApp.port_retries=0",
        "--ServerApp.ip=127.0.0.1", "--IdentityProvider.token=", "--ServerApp.log_level=ERROR",
        "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None",
        "--ServerApp.jpserver_extensions={'jupyter_lsp': False, 'jupyter_server_terminals': False}",
    )  # fmt: skip
    log = (home / "log").open("wb")
    with log, subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *told],
        cwd=folder, env=environment, stdout=log, stderr=log,
    ) as server:  # fmt: skip
        try:
            _wait(f"http://127.0.0.1:{port}/api", server, home / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()  # its kernels end with it


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"JupyterLab did not start: {log.read_text()}")

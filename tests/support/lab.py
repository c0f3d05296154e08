"""JupyterLab for tests: a server with a home of its own, and a notebook in it."""

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

__all__ = ["lab", "write_notebook"]

_ROOT = Path(__file__).parents[2]
#: what would ask the network, or stand in the way of a click
_SETTINGS = {
    "notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
}
_SECONDS = 60


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """Write a notebook of cells with code."""
    import nbformat

    kernel = {"name": "python3", "display_name": "Python", "language": "python"}
    made = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": kernel}), path)


@contextmanager
def lab(folder: Path) -> Iterator[str]:
    """Serve a folder by JupyterLab, and give its address; nothing of the user's is read or kept."""
    home = folder.with_name(f"{folder.name}-home")
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    for name, values in _SETTINGS.items():
        (settings / f"{name}.jupyterlab-settings").write_text(json.dumps(values))
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

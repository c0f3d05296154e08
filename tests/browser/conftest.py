"""What a browser makes of what is shown: Chromium, and pages as notebooks make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.conftest import ds, shown  # noqa: F401  # fixtures
from tests.support.chromium import program

_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")

#: what JupyterLab sets around an output, in its own themes
JUPYTER = {
    "light": {
        "--jp-layout-color0": "#ffffff",
        "--jp-content-font-color1": "rgba(0, 0, 0, 0.87)",
        "--jp-content-font-color2": "rgba(0, 0, 0, 0.54)",
        "--jp-content-link-color": "#1976d2",
        "--jp-border-color2": "#e0e0e0",
    },
    "dark": {
        "--jp-layout-color0": "#111111",
        "--jp-content-font-color1": "rgba(255, 255, 255, 1)",
        "--jp-content-font-color2": "rgba(255, 255, 255, 0.7)",
        "--jp-content-link-color": "#64b5f6",
        "--jp-border-color2": "#616161",
    },
}
#: what VS Code sets around an output, in its modern themes
VSCODE = {
    "light": {
        "--vscode-editor-background": "#ffffff",
        "--vscode-editor-foreground": "#3b3b3b",
        "--vscode-descriptionForeground": "#3b3b3b",
        "--vscode-textLink-foreground": "#005fb8",
        "--vscode-panel-border": "#e5e5e5",
        "--vscode-font-family": "sans-serif",
    },
    "dark": {
        "--vscode-editor-background": "#1f1f1f",
        "--vscode-editor-foreground": "#cccccc",
        "--vscode-descriptionForeground": "#9d9d9d",
        "--vscode-textLink-foreground": "#4daafc",
        "--vscode-panel-border": "#2b2b2b",
        "--vscode-font-family": "sans-serif",
    },
}
#: what marimo says of its themes, in names of its own
MARIMO = {"light": {"--marimo-ground": "#ffffff"}, "dark": {"--marimo-ground": "#181c1a"}}
#: a page that sets nothing: nbconvert, a mail, GitHub
BARE: dict[str, dict[str, str]] = {"light": {}, "dark": {}}
#: how each says on its body whether it is light or dark, which need not be as the system is
_BODY = {
    "--jp": {"light": 'data-jp-theme-light="true"', "dark": 'data-jp-theme-light="false"'},
    "--vscode": {"light": 'class="vscode-light"', "dark": 'class="vscode-dark"'},
    "--marimo": {"light": 'class="light light-theme"', "dark": 'class="dark dark-theme"'},
}
_GROUND = {"light": "#ffffff", "dark": "#111111"}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser without a window; tests are skipped where none is installed."""
    found = program()
    if found is None:
        pytest.skip("there is no Chromium: run `make browser`")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session", autouse=True)
def _skips_first(chromium: Any) -> None:
    """Have a test be skipped before what it would show is made."""


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Callable[..., Any]:
    """Open some HTML as a page of a theme and a width; close it afterwards."""

    @contextmanager
    def open_page(
        body: str, theme: str = "light", width: int = 1400, around: dict[str, Any] = JUPYTER
    ) -> Iterator[Any]:
        variables = "".join(f"{name}: {value}; " for name, value in around[theme].items())
        kind = next((kind for kind in _BODY if variables.startswith(kind)), "")
        body_tag = f"<body {_BODY[kind][theme] if kind else ''}>"
        ground = around[theme].get("--vscode-editor-background") or _GROUND[theme]
        file = tmp_path / "page.html"
        file.write_text(
            f'<!DOCTYPE html><html lang="en"><head><title>cells</title><meta charset="utf-8">'
            f"<style>:root {{{variables} color-scheme: {theme};}} body {{background: {ground};}}"
            f"</style></head>{body_tag}<main>{body}</main></body></html>",
            encoding="utf-8",
        )
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        try:
            page.goto(file.as_uri())
            yield page
        finally:
            page.close()

    return open_page


def violations(page: Any, *, inside: str = ".lancekit") -> list[str]:
    """Return what axe finds wrong in an element, a line each."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page, context=inside).response["violations"]
    return [
        f"{one['id']}: {node['html'][:160]}: {node['failureSummary']}"
        for one in found
        for node in one["nodes"]
    ]


def asked_by(html: str, opened: Callable[..., Any]) -> list[str]:
    """Return what a page asks for when some HTML is put into it."""
    asked: list[str] = []
    with opened("") as page:
        page.on("request", lambda request: asked.append(request.url))
        page.set_content(html)
        page.wait_for_load_state("networkidle")
    return asked

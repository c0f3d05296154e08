"""Where Chromium is on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["program"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def program() -> str | None:
    """Return the browser's program: the machine's own, or the one that playwright has fetched."""
    if found := next(filter(None, map(shutil.which, _NAMES)), None):
        return found
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None

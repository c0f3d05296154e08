"""Where Chromium is on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

__all__ = ["program"]

_OWN = ("~/.cache/ms-playwright", "~/Library/Caches/ms-playwright")
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def program() -> str | None:
    """Return the browser's program: the machine's own, or the one that playwright has fetched."""
    if found := next(filter(None, map(shutil.which, _NAMES)), None):
        return found
    fetched = [Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", place)) for place in _OWN]
    if not any(place.expanduser().is_dir() for place in fetched):
        return None  # without starting playwright to be told so
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None

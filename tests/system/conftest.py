"""Releases of the reference that tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.support.releases import Release


@pytest.fixture(scope="session")
def release() -> Iterator[Callable[[str], Release]]:
    """A release by its name: one process does all its jobs."""
    with ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(Release(name)))

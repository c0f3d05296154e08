"""Which modules hold kernels: the roof tells."""

from __future__ import annotations

__all__ = ["homes", "register"]

_homes: tuple[str, ...] = ()


def register(modules: tuple[str, ...]) -> None:
    """Tell which modules hold kernels."""
    global _homes  # noqa: PLW0603  # set once, by the roof
    _homes = modules


def homes() -> tuple[str, ...]:
    """Return the modules that hold kernels."""
    return _homes

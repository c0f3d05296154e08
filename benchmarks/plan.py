"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """A trial with next to no rows; growth to the largest sizes; cases whose names hold a word."""

    quick: bool = False
    large: bool = False
    words: tuple[str, ...] = ()

    def wants(self, name: str) -> bool:
        """Tell whether a case is to be measured."""
        return not self.words or any(word in name for word in self.words)

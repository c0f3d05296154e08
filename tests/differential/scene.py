"""A table and its calls: what is drawn depends on the seed alone, never on what a call gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import lancekit as lk
from tests.differential.filters import condition

__all__ = ["Maker", "Rows", "Scene", "Step", "handle", "maybe", "some"]

Maker = Callable[[Random, "Scene"], "Step"]


@dataclass(frozen=True)
class Rows:
    """Rows to write, which a record names by their seed."""

    seed: int
    count: int
    columns: tuple[str, ...] | None = None
    first: int = 0


@dataclass
class Scene:
    """A table, the place for it, and the rows that calls write to it."""

    folder: Path
    rows: Callable[[Random, int, int], pa.Table]
    columns: tuple[str, ...]
    filters: Callable[[Random], str] = condition
    #: rows of a batch at the least, for tables that would be very many batches
    least_batch: int = 1
    dataset: Any = None
    frames: dict[str, Any] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return str(self.folder / "table")

    def made(self, of: Rows) -> pa.Table:
        table = self.rows(Random(of.seed), of.count, of.first)
        return table.select(
            [c for c in of.columns if c in table.column_names] if of.columns else table.column_names
        )


@dataclass(frozen=True)
class Step:
    """One call: a name, its arguments, and how to make it."""

    name: str
    arguments: Mapping[str, Any]
    run: Callable[[Scene, dict[str, Any]], Any]
    #: False if a thread polls files meanwhile, as often as there is time
    counted: bool = True

    def having(self, **changes: Any) -> Step:
        return replace(self, arguments={**self.arguments, **changes})

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.name}({given})"


def handle(scene: Scene, at: Any) -> Any:
    """Return the scene's handle, a fresh one (""), or one of a version, a tag or a branch."""
    if at is None:
        return scene.dataset
    return lk.dataset(scene.uri) if at == "" else lk.dataset(scene.uri, version=at)


def maybe(draw: Random, share: float, make: Callable[[], Any]) -> Any:
    """Return a value in a share of the cases, and None otherwise."""
    return make() if draw.random() < share else None


def some(draw: Random, names: tuple[str, ...], most: int = 5) -> list[str]:
    """Return a few of the names, in any order."""
    return draw.sample(names, min(len(names), draw.randint(1, most)))

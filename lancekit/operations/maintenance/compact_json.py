"""Plans, tasks and results of a compaction as JSON: the text that pylance makes and takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lancekit.format.fragment import Fragment
from lancekit.operations.maintenance.compact_plan import CompactionOptions, CompactionTask

__all__ = ["parsed_fragments", "parsed_task", "shown_fragments", "shown_task"]


def shown_fragments(fragments: Iterable[Fragment]) -> list[dict[str, Any]]:
    """Return fragments as JSON has them."""
    return [fragment.to_json() for fragment in fragments]


def parsed_fragments(values: Iterable[Any]) -> tuple[Fragment, ...]:
    """Return the fragments of JSON."""
    return tuple(map(Fragment.from_dict, values))


def shown_task(task: CompactionTask) -> dict[str, Any]:
    """Return a task as JSON has it."""
    return {
        "task": {"fragments": shown_fragments(task.fragments)},
        "read_version": task.read_version,
        "options": task.options.to_json(),
    }


def parsed_task(values: Any) -> CompactionTask:
    """Return the task of JSON."""
    return CompactionTask(
        read_version=int(values["read_version"]),
        fragments=parsed_fragments(values["task"]["fragments"]),
        options=CompactionOptions.from_json(values["options"]),
    )

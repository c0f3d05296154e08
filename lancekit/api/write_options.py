"""Arguments that say how rows are written, checked once for all functions that take them."""

from __future__ import annotations

from typing import Any

from lancekit.api.pylance.arguments import check_count, check_list
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from lancekit.format.storage_version import check_storage_version
from lancekit.legible import shown
from lancekit.operations.write import WriteSettings

__all__ = ["check_told", "write_settings"]

_MODES = ("create", "append", "overwrite")


def write_settings(
    *,
    mode: str,
    max_rows_per_file: int,
    max_bytes_per_file: int,
    max_page_bytes: int | None,
    data_storage_version: str | None,
    initial_bases: Any = None,
    target_bases: Any = None,
    target_all_bases: bool | None = None,
    progress: Any = None,
    **others: Any,
) -> WriteSettings:
    """Check what a caller passes; ``others`` are fields of `WriteSettings` as they are."""
    if mode not in _MODES:
        raise InvalidArgumentError(
            f"Invalid mode {shown(mode)}.",
            hint="Choose " + ", ".join(map(repr, _MODES)) + ".",
            mode=mode,
        )
    return WriteSettings(
        mode=mode,
        max_rows_per_file=check_count("max_rows_per_file", max_rows_per_file, least=1),
        max_bytes_per_file=check_count("max_bytes_per_file", max_bytes_per_file, least=1),
        max_page_bytes=(
            None
            if max_page_bytes is None
            else check_count("max_page_bytes", max_page_bytes, least=1)
        ),
        storage_version=check_storage_version("data_storage_version", data_storage_version),
        new_bases=tuple(check_list("initial_bases", initial_bases or (), "DatasetBasePath")),
        target_bases=tuple(check_list("target_bases", target_bases or (), "names or paths")),
        target_all_bases=bool(target_all_bases),
        progress=check_told(progress),
        **others,
    )


def check_told(progress: Any) -> Any:
    """Return what is told of fragments: anything that can be."""
    for name in () if progress is None else ("begin", "complete"):
        if not callable(getattr(progress, name, None)):
            raise InvalidTypeError(
                f"progress is {shown(progress)}, which has no {name}().",
                hint="Pass an object with begin(fragment) and complete(fragment), such as one of a "
                "FragmentWriteProgress.",
                argument="progress",
            )
    return progress

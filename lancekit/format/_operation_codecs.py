"""How the parts that several operations hold are read, written and accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np

from lancekit.errors import InvalidArgumentError
from lancekit.format import _codecs as c
from lancekit.format._codecs import Codec
from lancekit.format.data_file import DataFile, data_file_from_pb, data_file_to_pb
from lancekit.format.fragment import Fragment, fragment_from_pb, fragment_to_pb
from lancekit.format.index import IndexMetadata, index_from_pb, index_to_pb
from lancekit.format.key_filter import BloomKeyFilter, ExactKeySet, KeyFilter
from lancekit.format.manifest import BasePath, base_path_from_pb, base_path_to_pb
from lancekit.legible import shown

__all__ = [
    "BASES",
    "DATA_FILE",
    "FRAGMENTS",
    "INDICES",
    "KEY_FILTER",
    "MODE",
    "NUMBERS_BY_ID",
    "UpdateMode",
]


def _get_key_filter(message: Any, name: str) -> KeyFilter | None:
    if not message.HasField(name):
        return None
    stored = getattr(message, name)
    ids = tuple(stored.field_ids)
    if stored.WhichOneof("data") == "exact":
        hashes = np.unique(np.array(stored.exact.key_hashes, dtype=np.uint64))
        return ExactKeySet(field_ids=ids, hashes=hashes)
    bloom = stored.bloom  # unset reads as an empty bitmap, which conflicts with everything
    return BloomKeyFilter(
        field_ids=ids,
        bitmap=bloom.bitmap,
        num_bits=bloom.num_bits,
        number_of_items=bloom.number_of_items or 8192,
        probability=bloom.probability or 0.00057,
    )


def _put_key_filter(message: Any, name: str, value: KeyFilter | None) -> None:
    if value is None:
        return
    stored = getattr(message, name)
    stored.field_ids.extend(value.field_ids)
    if isinstance(value, ExactKeySet):
        stored.exact.SetInParent()
        stored.exact.key_hashes.extend(value.hashes.tolist())
    else:
        stored.bloom.bitmap = value.bitmap
        stored.bloom.num_bits = value.num_bits
        stored.bloom.number_of_items = value.number_of_items
        stored.bloom.probability = value.probability


def _accept_key_filter(value: Any, what: str) -> KeyFilter | None:
    if value is None or isinstance(value, ExactKeySet | BloomKeyFilter):
        return value
    raise c.wrong_type(value, what, "a key filter or None")


class UpdateMode(StrEnum):
    """How an update stored changed rows: as new rows, or in place as new column files."""

    REWRITE_ROWS = "rewrite_rows"
    REWRITE_COLUMNS = "rewrite_columns"


_MODES = tuple(UpdateMode)


def _accept_mode(value: Any, what: str) -> UpdateMode:
    try:
        return UpdateMode(value or UpdateMode.REWRITE_ROWS)
    except ValueError:
        raise InvalidArgumentError(
            f"{what} is {shown(value)}; it has to be one of {', '.join(_MODES)}.", value=value
        ) from None


def _get_mode(message: Any, name: str) -> UpdateMode:
    stored: int = getattr(message, name)
    # a mode of a newer release: as new columns, which makes every rule look at the fields too
    return _MODES[min(stored, len(_MODES) - 1)]


def _get_numbers(message: Any, name: str) -> dict[int, tuple[int, ...]]:
    return {key: tuple(value.values) for key, value in getattr(message, name).items()}


def _put_numbers(message: Any, name: str, lists: Mapping[int, tuple[int, ...]]) -> None:
    for key, values in lists.items():
        getattr(message, name)[key].values.extend(values)


FRAGMENTS = c.messages(
    Fragment, fragment_from_pb, fragment_to_pb, "a FragmentMetadata", ("id", "physical_rows")
)
INDICES = c.messages(IndexMetadata, index_from_pb, index_to_pb, "an IndexMetadata")
_BASES = c.messages(BasePath, base_path_from_pb, base_path_to_pb, "a base path")
# pylance says with None that there are none
BASES = replace(
    _BASES, accept=lambda given, what: _BASES.accept(() if given is None else given, what)
)
DATA_FILE = c.one_message(DataFile, data_file_from_pb, data_file_to_pb, "a DataFile")
KEY_FILTER = Codec(_get_key_filter, _put_key_filter, _accept_key_filter)
MODE = Codec(_get_mode, lambda m, name, value: setattr(m, name, _MODES.index(value)), _accept_mode)
NUMBERS_BY_ID = Codec(_get_numbers, _put_numbers, c.mapping_of_numbers)

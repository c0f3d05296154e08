"""`IndexConfig` and `IndexSegment`: what is asked of an index, and parts of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lancekit.checked import checked_methods
from lancekit.errors import InvalidTypeError, NotOfferedError
from lancekit.index.kinds import INVERTED, KINDS, IndexKind
from lancekit.legible import shown

__all__ = ["IndexConfig", "kind_named"]

_CREATED: Mapping[str, IndexKind] = {**KINDS, INVERTED.name: INVERTED, "FTS": INVERTED}


@checked_methods
@dataclass(frozen=True, slots=True)
class IndexConfig:
    """A type of index with its parameters; an argument of `LanceDataset.create_scalar_index`.

    Parameters
    ----------
    index_type
        ``"btree"``, ``"zonemap"``, ...
    parameters
        By name: ``zone_size`` (B-trees), ``rows_per_zone`` (zone maps), ``number_of_items`` and
        ``probability`` (Bloom filters).

    Examples
    --------
    >>> import lancekit as lk
    >>> from lancekit.indices import IndexConfig
    >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://index-config-example")
    >>> ds.create_scalar_index("x", IndexConfig("zonemap", {"rows_per_zone": 1000}))
    >>> ds.list_indices()[0]["type"]
    'ZoneMap'
    """

    index_type: str
    parameters: dict[str, Any] = field(default_factory=dict)


def kind_named(index_type: str | IndexConfig) -> tuple[IndexKind, Mapping[str, Any]]:
    """Return the kind of index that is asked for, and its parameters.

    Raises
    ------
    NotOfferedError
        There is no such kind.
    """
    if not isinstance(index_type, str | IndexConfig):
        raise InvalidTypeError(
            f"index_type is {shown(index_type)}.", hint="Pass a name, or an IndexConfig."
        )
    name = index_type if isinstance(index_type, str) else index_type.index_type
    kind = _CREATED.get(name.upper())
    if kind is None:
        raise NotOfferedError(
            f"Indices of type {shown(name)} are not offered.",
            hint="There are " + ", ".join(_CREATED) + ".",
            argument="index_type",
        )
    return kind, {} if isinstance(index_type, str) else index_type.parameters

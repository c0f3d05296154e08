"""`IndexConfig` and `IndexSegment`: what is asked of an index, and parts of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from lancekit._api.vector_indices import vector_parameters
from lancekit._arguments.checks import check_flag, check_hints, refuse, refuse_more
from lancekit._arguments.index import VectorIndexArguments
from lancekit._checked import checked_methods
from lancekit._index.build.full_text import text_parameters
from lancekit._index.inverted.settings import checked_settings
from lancekit._index.kinds import INVERTED, KINDS, VECTORS, IndexKind
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotOfferedError

#: how many documents a block of postings has, and cannot but have
_BLOCK_SIZE = 128

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


def kind_named(index_type: str | IndexConfig) -> tuple[IndexKind, Mapping[str, object]]:
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


def index_parameters(
    index_type: str | IndexConfig, more: dict[str, Any], method: str
) -> tuple[IndexKind, dict[str, object]]:
    """Return the kind of an index that is asked for, and what it is to be made with, checked."""
    if isinstance(index_type, str) and index_type.upper().startswith("IVF_"):
        refuse(method, progress_callback=more.pop("progress_callback", None))
        given = {"column": "", "index_type": index_type, **more}
        asked = VectorIndexArguments.of(given, f"{method}()", "create_index()")
        return VECTORS, vector_parameters(asked)
    kind, parameters = kind_named(index_type)
    if kind is not INVERTED:
        refuse_more(method, more)
        return kind, dict(parameters)
    given = {**parameters, **more}
    check_hints(**{name: given.pop(name, None) for name in ("memory_limit", "num_workers")})
    if given.get("block_size") == _BLOCK_SIZE:
        del given["block_size"]
    with_position = check_flag("with_position", given.pop("with_position", False))
    return kind, text_parameters(checked_settings(given), with_position=with_position)


def no_fragments(method: str) -> InvalidArgumentError:
    """Return the error of a method that indexes all rows at once."""
    return InvalidArgumentError(
        f"{method} takes no fragment_ids: an index is of all rows.",
        hint="Use create_index_uncommitted for some fragments at a time.",
        argument="fragment_ids",
    )


def one_column(column: str | Sequence[str]) -> str:
    """Return the name of the column; ``NotOfferedError`` for several."""
    names = [column] if isinstance(column, str) else list(column)
    if len(names) != 1:
        raise NotOfferedError(
            f"An index of {len(names)} columns is not offered.", hint="Pass one column."
        )
    return names[0]


def uuid_of(text: str | None) -> UUID | None:
    """Return the UUID that a text says, if there is one."""
    return None if text is None else parsed_uuid(text)


def parsed_uuid(text: str, argument: str = "index_uuid") -> UUID:
    """Return the UUID that a text says; ``InvalidArgumentError`` if that is none."""
    try:
        return UUID(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{argument} is {shown(text)}.", hint="Pass the text of a UUID.", argument=argument
        ) from error

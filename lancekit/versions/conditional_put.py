"""How a store with a conditional put decides which of several writers wins a version number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lancekit.storage.base import Bytes, Store

__all__ = ["ConditionalPut"]


class ConditionalPut:
    """The store decides: the `Committer` of all datasets that name no other way."""

    __slots__ = ()

    def put(self, store: Store, name: str, version: int, data: Bytes) -> bool:  # noqa: ARG002
        """Put a manifest if its name is free."""
        return store.put_if_absent(name, data)

    def settle(self, store: Store, version: int | None = None) -> bool:  # noqa: ARG002
        """Return ``False``: one call of the store decides and finishes."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConditionalPut)

    def __hash__(self) -> int:
        return hash(ConditionalPut)

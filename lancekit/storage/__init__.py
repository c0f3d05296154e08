"""Where bytes live: local folders (own, durable), object stores and memory (obstore)."""

from lancekit.storage.base import Listing, ObjectInfo, RandomAccess, Sink, Store
from lancekit.storage.folders import leads_away
from lancekit.storage.local import LocalStore
from lancekit.storage.objects import ObstoreStore
from lancekit.storage.places import (
    begun_anew,
    check_trusted_file,
    is_below,
    is_in_memory,
    is_trusted_base,
    open_base,
    open_store,
    same_store,
)

__all__ = [
    "Listing",
    "LocalStore",
    "ObjectInfo",
    "ObstoreStore",
    "RandomAccess",
    "Sink",
    "Store",
    "begun_anew",
    "check_trusted_file",
    "is_below",
    "is_in_memory",
    "is_trusted_base",
    "leads_away",
    "open_base",
    "open_store",
    "same_store",
]

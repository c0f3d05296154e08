"""What tells an object from all others that were or will be under its name.

On a local disk: device, inode, size, and the times of the last change of its content and of its
inode, in nanoseconds, of the file *as it is opened* (of its descriptor, not of its name).  Who
writes a file anew changes its inode or its times; ``os.utime`` sets the first time, but the second
cannot be set.  What is left is a clock that stands still: a disk stamps files by ticks of some
milliseconds, the coarsest of two seconds (FAT), and within one tick two contents, of one size, may
lie under one inode with equal times.  So a file whose times are younger than `SETTLED_SECONDS` has
no identity: by when it has one, any later change is stamped later.  The same goes for times that
lie in the future, of which nothing can be said.  (Who changes a data file through a mapping of his
own memory, at once and behind the back of the disk's clock, is not seen; nothing does that.)

On an object store: the client, which stands for place and credentials, so that nothing is shared
between two of them and no secret is kept; the key, and the entity tag, where a request or a
listing that was made anyhow brought it.  Where none did, only objects with a random id in their
names have an identity, with their sizes, or what a manifest says of a deletion file: no such name
is given twice.  No request is made for it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Hashable

from lancekit._cache import is_wanted

__all__ = ["SETTLED_SECONDS", "file_identity", "object_identity"]

SETTLED_SECONDS = 2.0
"""How old the times of a file or a folder must be to tell one state of it from the next.

The coarsest clock of a disk in use ticks every two seconds (FAT), others every few milliseconds.
"""

#: 128 random bits, written as a UUID, as hexadecimal digits, or as the reference writes them: the
#: first 24 bits in binary
_RANDOM = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[01]{24}[0-9a-f]{26}"
)


def file_identity(status: os.stat_result) -> Hashable | None:
    """Return what a file on a local disk is known by, ``None`` if it cannot be relied on (yet)."""
    if not is_wanted():
        return None
    newest = max(status.st_mtime, status.st_ctime)
    if time.time() - newest < SETTLED_SECONDS:
        return None
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def object_identity(
    client: int, key: str, size: int | None, tag: str | None = None
) -> Hashable | None:
    """Return what an object of a store is known by, ``None`` if there is nothing to know it by.

    Parameters
    ----------
    client
        The number of the client that reads it: another one may have other credentials.
    size
        Its bytes, if they are known.
    tag
        The entity tag that came with the bytes, or in a listing.
    """
    if not is_wanted():
        return None
    if tag is not None:
        return client, key, tag
    if size is not None and _RANDOM.search(key.rpartition("/")[2]):
        return client, key, size
    return None

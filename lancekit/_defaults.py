"""Defaults of public arguments.

They are in a separate module, so that signatures load no operation.
"""

from __future__ import annotations

from datetime import timedelta

#: maximum rows and bytes of a data file: the reference's defaults
MAX_ROWS_PER_FILE = 1 << 20
MAX_BYTES_PER_FILE = 90 << 30

#: bytes that a `BlobFile` reads in advance
READ_AHEAD = 512 * 1024

#: maximum retries for a version number, and the time limit
MAX_RETRIES = 20
COMMIT_TIMEOUT = timedelta(minutes=30)

#: maximum retries of a change on a newer version, and the time limit
CONFLICT_RETRIES = 10
RETRY_TIMEOUT = timedelta(seconds=30)

#: time limit for claiming a shard that other writers claim, too
CLAIM_TIMEOUT = timedelta(seconds=30)

#: time limit of a put that waits for memory
PUT_TIMEOUT = timedelta(minutes=2)

#: approximate rows that one commit merges; at least one generation
ROWS_PER_COMMIT = 1_000_000

#: how long readers can read shard files after planning
GRACE = timedelta(hours=1)

"""Defaults of public arguments, which signatures name.

They are beside nothing that uses them, so that a signature loads no operation.
"""

from __future__ import annotations

from datetime import timedelta

#: rows and bytes of a data file: the reference's defaults
MAX_ROWS_PER_FILE = 1 << 20
MAX_BYTES_PER_FILE = 90 << 30

#: bytes that a `BlobFile` reads ahead
READ_AHEAD = 512 * 1024

#: how often the race for a version number may be lost, and how long it is run
MAX_RETRIES = 20
COMMIT_TIMEOUT = timedelta(minutes=30)

#: how often, and for how long, a change is computed again on a newer version
CONFLICT_RETRIES = 10
RETRY_TIMEOUT = timedelta(seconds=30)

#: how long a writer tries to take a shard that other writers take
CLAIM_TIMEOUT = timedelta(seconds=30)

#: how long a put waits for memory
PUT_TIMEOUT = timedelta(minutes=2)

#: rows of generations that one commit merges, about; one generation at least
ROWS_PER_COMMIT = 1_000_000

#: how long readers can read the files of shards that they have planned to read
GRACE = timedelta(hours=1)

"""Fixtures that several rooms' tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.s3 import S3Server, s3_server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server with one bucket, for the whole session; use a prefix of your own."""
    with s3_server() as server:
        yield server

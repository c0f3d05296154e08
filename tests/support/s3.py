"""An S3 server of one's own: moto behind a single-threaded HTTP server on the loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import obstore
from obstore.store import S3Store
from werkzeug.serving import WSGIRequestHandler, make_server

__all__ = ["S3Server", "s3_server"]


@dataclass(frozen=True)
class S3Server:
    """Where the server listens, how to connect to it, and what it was asked (method and path)."""

    endpoint: str
    bucket: str
    log: list[tuple[str, str]]

    @property
    def storage_options(self) -> dict[str, str]:
        return {
            "aws_access_key_id": "AKIATESTINGKEY",
            "aws_secret_access_key": "a-secret-of-the-tests",
            "aws_region": "us-east-1",
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
        }

    def client(self, prefix: str = "") -> S3Store:
        return S3Store(
            self.bucket,
            prefix=prefix or None,
            access_key_id="AKIATESTINGKEY",
            secret_access_key="a-secret-of-the-tests",
            region="us-east-1",
            endpoint=self.endpoint,
            client_options={"allow_http": True},
        )


@contextmanager
def s3_server(bucket: str = "lancekit-tests") -> Iterator[S3Server]:
    """Serve one empty bucket until the block ends.

    One thread: moto's own check of ``If-None-Match`` is not atomic across threads.
    """
    from moto.server import create_backend_app

    log: list[tuple[str, str]] = []

    class Logged(WSGIRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            log.append((self.command, self.path))

    server = make_server(
        "127.0.0.1",
        0,
        create_backend_app("s3"),
        threaded=False,
        request_handler=Logged,
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        running = S3Server(f"http://127.0.0.1:{server.server_port}", bucket, log)
        # The tests' client creates objects only; a bucket is a plain PUT on its name.
        import urllib.request

        request = urllib.request.Request(f"{running.endpoint}/{bucket}", method="PUT")
        urllib.request.urlopen(request).close()
        obstore.put(running.client(), "ready", b"")
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

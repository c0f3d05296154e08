import pickle
import re
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import obstore
import pytest

from lancekit._storage.base import check_options
from lancekit._storage.clients import client_for, redacted, translated
from lancekit._storage.objects import ObstoreStore
from lancekit._storage.places import open_store
from lancekit.errors import InvalidArgumentError, InvalidTypeError, StorageError
from tests.storage.contract import StoreContract


class TestS3(StoreContract):
    @pytest.fixture
    def store(self, s3):
        store = open_store(f"s3://{s3.bucket}/{uuid.uuid4()}", s3.storage_options)
        yield store
        store.delete_tree("")


@pytest.fixture
def store(s3):
    return ObstoreStore(f"s3://{s3.bucket}/{uuid.uuid4()}/t.lance/", s3.storage_options)


def test_an_aborted_upload_keeps_no_parts(s3, store):
    import xml.etree.ElementTree as ET
    from urllib.request import urlopen

    sink = store.create("data/half.lance")
    sink.write(bytes(20_000_000))
    sink.abort()
    with urlopen(f"{s3.endpoint}/{s3.bucket}?uploads") as answer:
        uploads = ET.fromstring(answer.read())
    assert not [element for element in uploads.iter() if element.tag.endswith("Upload")]


def test_keys_that_lead_elsewhere_are_refused(s3, store):
    """To the server they are names like others; a gateway before it may think otherwise."""
    import boto3

    names = s3.storage_options
    server = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        aws_access_key_id=names["aws_access_key_id"],
        aws_secret_access_key=names["aws_secret_access_key"],
        region_name=names["aws_region"],
    )
    place = store.uri.removeprefix(f"s3://{s3.bucket}/")
    keys = [f"{place}/data/{name}" for name in ("ok", "../../victim", "a/../../../victim")]
    for key in keys:
        server.put_object(Bucket=s3.bucket, Key=key, Body=b"1")
    for work in (store.list_tree, store.delete_tree, store.child("data").delete_tree):
        with pytest.raises(StorageError, match="invalid path"):
            work("")
    listed = server.list_objects_v2(Bucket=s3.bucket, Prefix=place)["Contents"]
    assert sorted(entry["Key"] for entry in listed) == sorted(keys)
    server.delete_objects(Bucket=s3.bucket, Delete={"Objects": [{"Key": key} for key in keys]})


def test_nothing_is_there_before_close(store):
    sink = store.create("data/new.lance")
    sink.write(bytes(20_000_000))
    assert not store.exists("data/new.lance")
    sink.close()
    assert store.exists("data/new.lance")


def test_a_known_size_saves_the_request(s3, store, monkeypatch):
    store.put("f", b"0123456789")
    heads = []
    ask = obstore.head
    monkeypatch.setattr(obstore, "head", lambda *args: heads.append(args) or ask(*args))
    assert store.open("f", size=10).read(2, 3).to_pybytes() == b"234"
    assert not heads
    assert store.open("f").size() == 10
    assert len(heads) == 1


def test_credentials_are_never_shown(s3):
    options = {**s3.storage_options, "aws_session_token": "a-session-token"}
    store = open_store(f"s3://{s3.bucket}/x", options)
    assert repr(store) == f"ObstoreStore('s3://{s3.bucket}/x')"
    again = pickle.loads(pickle.dumps(store))
    assert again.storage_options == options
    assert again == store
    with pytest.raises(InvalidArgumentError) as caught:
        open_store("s3://key:secret-word@bucket/x")
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    "echo",
    [
        "refused: <Error><AWSAccessKeyId>SECRET</AWSAccessKeyId><Token-0>SECRET</Token-0></Error>",
        "bad <StringToSign>AWS4\nSECRET\n</StringToSign>",
        "GET https://account.blob/x?sv=1&sig=SECRET&se=2 failed",
        "GET https://b.s3/x?X-Amz-Credential=SECRET&X-Amz-Signature=SECRET failed",
        "cannot reach http://user:SECRET@proxy:8080/",
        "short\n\nDebug source:\nGeneric { token: SECRET }",
    ],
)
def test_what_a_server_echoes_is_redacted(echo):
    assert "SECRET" not in redacted(echo)
    assert "\n" not in redacted(echo)


def test_a_bucket_that_is_not_there(s3):
    store = open_store("s3://no-such-bucket/x", s3.storage_options)
    writes = (lambda: store.put("a", b""), lambda: store.put_if_absent("a", b""))
    for write in (*writes, store.create("a").close):
        with pytest.raises(StorageError) as caught:
            write()
        assert "s3://no-such-bucket/x/a" in caught.value.message
        assert "name of the bucket" in caught.value.hint
        assert len(str(caught.value)) < 600
    with pytest.raises(FileNotFoundError):
        store.read("a")


def test_a_server_that_does_not_answer(s3):
    options = {
        **s3.storage_options,
        "aws_endpoint": "http://127.0.0.1:9",
        "client_max_retries": "0",
        "client_retry_timeout": "1",
        "connect_timeout": "1s",
    }
    store = open_store("s3://bucket/x", options)
    for call in (
        store.read,
        store.exists,
        store.list_names,
        store.create("b").close and store.open,
    ):
        with pytest.raises(StorageError) as caught:
            call("a")
        assert "s3://bucket/x/a" in caught.value.message
        assert "network" in caught.value.hint
        assert "a-secret-of-the-tests" not in str(caught.value)


@contextmanager
def failing():
    """Yield the address of a server that cannot do anything, and the list of what it is asked."""
    asked = []

    class Failing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.command)
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


def test_a_server_that_fails_is_asked_no_more_than_its_retries(s3):
    with failing() as (address, asked):
        options = {**s3.storage_options, "aws_endpoint": address, "client_max_retries": "1"}
        file = open_store("s3://bucket/x", options).open("a", 100)
        with pytest.raises(StorageError, match="after 1 retries"):
            file.read(0, 10)
    assert asked == ["GET", "GET"]


@pytest.mark.parametrize(
    ("given", "other"),
    [("client_retry_timeout", "max_retries: "), ("client_max_retries", "retry_timeout: ")],
)
def test_what_the_options_leave_out_is_what_the_page_says(s3, given, other):
    page = (Path(__file__).parents[2] / "docs/stores.md").read_text()
    said = re.search(rf"(?m)^\| `client_{other[:-2]}` \|.*\| (\d+) \|$", page)
    with failing() as (address, _):
        options = {**s3.storage_options, "aws_endpoint": address, given: "0"}
        client, _ = client_for("s3://bucket/x", check_options(options))
        with pytest.raises(obstore.exceptions.BaseError, match=rf"{other}{said[1]}\D"):
            client.get_range("a", start=0, end=10)


def test_refused_credentials_say_so():
    with pytest.raises(StorageError) as caught, translated("read", "s3://b/x"):
        raise obstore.exceptions.PermissionDeniedError("no")
    assert "credentials" in caught.value.hint


@pytest.mark.parametrize(
    ("uri", "options", "expected"),
    [
        ("s3://b/x", {"no_such_option": "1"}, InvalidArgumentError),
        ("s3://b/x", {"allow_http": "perhaps"}, InvalidArgumentError),
        ("s3://b/x", {"client_max_retries": "many"}, InvalidArgumentError),
        ("s3://b/x", {"aws_access_key_id": "only half"}, InvalidArgumentError),
        ("s3://b/x", {"timeout": 30}, InvalidTypeError),
        ("az://container/x", None, InvalidArgumentError),
        ("s3://b/x?y=1", None, InvalidArgumentError),
        ("s3://b/a/../x", None, InvalidArgumentError),
        ("s3://b/a/%2e%2E/x", None, InvalidArgumentError),
        ("s3:///x", None, InvalidArgumentError),
    ],
)
def test_unusable_addresses_and_options(uri, options, expected):
    with pytest.raises(expected):
        open_store(uri, options)


def test_options_are_named_in_any_case(s3):
    options = {name.upper(): value for name, value in s3.storage_options.items()}
    assert open_store(f"s3://{s3.bucket}/x", options).exists("nope") is False


def test_used_in_another_process(s3, store):
    program = "import pickle, sys; pickle.load(sys.stdin.buffer).put('there', b'x')"
    subprocess.run([sys.executable, "-c", program], input=pickle.dumps(store), check=True)
    assert store.read("there").to_pybytes() == b"x"

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


# ---- profiles of AWS

_ENVIRONMENT = [
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT", "AWS_ENDPOINT_URL"),
]


@pytest.fixture
def profiles(s3, tmp_path, monkeypatch):
    """Write AWS's files for the tests' server; ``research`` has keys, other profiles have none."""
    for name in _ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    client_for.cache_clear()
    keys = s3.storage_options
    (tmp_path / "credentials").write_text(
        f"[research]\naws_access_key_id = {keys['aws_access_key_id']}\n"
        f"aws_secret_access_key = {keys['aws_secret_access_key']}\naws_session_token = 100%tok\n"
    )
    (tmp_path / "config").write_text(
        f"[profile research]\nregion = eu-west-3\nendpoint_url = {s3.endpoint}\n"
        "s3 =\n  max_concurrent_requests = 5\n"
        f"[profile program]\nendpoint_url = {s3.endpoint}\n"
        'credential_process = echo \'{"Version": 1, "AccessKeyId": "AKIAPROGRAM",'
        ' "SecretAccessKey": "s"}\'\n'
        "[profile sso]\nsso_start_url = https://example.org\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    yield tmp_path
    client_for.cache_clear()


@pytest.fixture
def sent(s3, monkeypatch):
    """Return the Authorization and token of each request to the server."""
    from moto.core.responses import BaseResponse

    found = []
    kept = BaseResponse.setup_class

    def noted(self, request, *args, **more):
        found.append(
            (request.headers.get("Authorization", ""), request.headers.get("x-amz-security-token"))
        )
        return kept(self, request, *args, **more)

    monkeypatch.setattr(BaseResponse, "setup_class", noted)
    return found


def _put(s3, options=None):
    store = open_store(f"s3://{s3.bucket}/{uuid.uuid4()}", options)
    store.put("a", b"1")
    assert bytes(store.read("a")) == b"1"


@pytest.mark.parametrize("way", ["aws_profile", "profile", "AWS_PROFILE", "default"])
def test_keys_region_and_endpoint_of_a_profile(s3, profiles, sent, monkeypatch, way):
    if way == "AWS_PROFILE":
        monkeypatch.setenv(way, "research")
    elif way == "default":
        for name in ("config", "credentials"):
            text = (profiles / name).read_text().replace("profile research", "research")
            (profiles / name).write_text(text.replace("[research]", "[default]"))
    else:  # keys of others are not mixed in
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "other")
        monkeypatch.setenv("AWS_REGION", "us-west-2")
    _put(s3, {way: "research"} if way.endswith("profile") else None)
    assert all("AKIATESTINGKEY/" in header for header, _ in sent)
    assert all("/eu-west-3/" in header and token == "100%tok" for header, token in sent)


def test_options_and_keys_come_before_a_profile(s3, profiles, sent, monkeypatch):
    _put(s3, {"profile": "research", "region": "us-east-2"})
    assert all("/us-east-2/" in header for header, _ in sent)
    sent.clear()
    monkeypatch.setenv("AWS_PROFILE", "research")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    client_for.cache_clear()
    _put(s3)
    assert all("AKIAOTHER/" in header and token is None for header, token in sent)
    monkeypatch.setenv("AWS_PROFILE", "nosuch")
    _put(s3, s3.storage_options)


def test_credentials_of_a_program(s3, profiles, sent):
    _put(s3, {"aws_profile": "program"})
    assert all("AKIAPROGRAM/" in header for header, _ in sent)


def test_profiles_that_cannot_be_used(s3, profiles, monkeypatch):
    with pytest.raises(
        InvalidArgumentError, match=r"^There is no AWS profile 'nosuch' in .*config or "
    ):
        _put(s3, {"aws_profile": "nosuch"})
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "obstore.auth.boto3", raising=False)
    with pytest.raises(InvalidArgumentError, match=r"'sso' has no keys.* Install boto3"):
        _put(s3, {"aws_profile": "sso"})
    (profiles / "config").write_text("no section\n")
    with pytest.raises(InvalidArgumentError, match="config cannot be read"):
        _put(s3, {"aws_profile": "sso"})

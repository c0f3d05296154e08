import subprocess
import sys

import pytest

from lancekit._storage.local import LocalStore
from lancekit._storage.places import (
    check_trusted_file,
    is_below,
    is_trusted_base,
    open_base,
    open_store,
    same_store,
)
from lancekit.errors import InvalidArgumentError, InvalidTypeError, UntrustedBaseError
from lancekit.options import options


@pytest.mark.parametrize(
    ("uri", "expected", "words"),
    [
        ("", InvalidArgumentError, "not a path"),
        ("a\0b", InvalidArgumentError, "not a path"),
        (b"/bytes", InvalidTypeError, "bytes"),
        (None, InvalidTypeError, "NoneType"),
        (7, InvalidTypeError, "int"),
        ("ftp://host/x", InvalidArgumentError, "ftp://"),
        ("file://host/x", InvalidArgumentError, "host"),
    ],
)
def test_places_that_cannot_be_opened(uri, expected, words):
    with pytest.raises(expected, match=words):
        open_store(uri)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("/a", "/b", True),
        ("/a", "file:///b", True),
        ("relative", "/b", True),
        ("FILE:///a", "/b", True),
        ("s3://one/a", "s3://one/b", True),
        ("s3://one/a", "s3a://one/b", True),
        ("s3://one/a", "s3://two/a", False),
        ("s3://one/a", "gs://one/a", False),
        ("s3://one/a", "/one/a", False),
        ("memory://a", "memory://b", True),
        ("memory://a", "/a", False),
        ("http://169.254.169.254/", "/a", False),
    ],
)
def test_same_store(first, second, same):
    assert same_store(first, second) is same
    assert same_store(second, first) is same


@pytest.mark.parametrize(
    ("trusted", "path", "opens"),
    [
        ((), "s3://shared/a", False),
        (("s3://shared",), "s3://shared/a", True),
        (("s3://shared/",), "s3://shared", True),
        (("s3://shared/a",), "s3://shared/a/b", True),
        (("s3://shared/a",), "s3://shared/ab", False),
        (("s3://shared/a",), "s3://shared/a/../secret", False),
        (("s3://shared/a",), "s3://shared/a/%2e%2e/secret", False),
        (("s3://shared/a",), "s3://shared/a/%2e%2e%2fsecret", False),
        (("s3://shared/a",), "s3://shared.evil/a", False),
        (("s3://shared/a",), "s3://x@shared/a", False),
        (("s3://other", "s3a://shared/a"), "s3://shared/a", True),
        (("/data",), "s3://data", False),
        (("https://host/",), "https://host/x", True),
    ],
)
def test_a_base_in_another_store_opens_only_when_it_is_listed(trusted, path, opens):
    with options(trusted_bases=trusted):
        assert is_trusted_base(path, LocalStore("/data/t.lance")) is opens


def test_local_files_are_another_store_for_a_remote_dataset():
    own = open_store("memory://t.lance")
    assert not is_trusted_base("/etc", own)
    assert is_trusted_base("memory://other", own)
    with options(trusted_bases=["file:///data/shared"]):
        assert is_trusted_base("/data/shared/x.lance", own)
        assert is_trusted_base("/data/shared", own)
        assert not is_trusted_base("/data/shared/../secret", own)
        assert not is_trusted_base("/data/sharedx", own)


def test_the_refusal_says_how_to_trust(tmp_path):
    with pytest.raises(UntrustedBaseError) as caught:
        open_base("s3://shared/a", LocalStore(tmp_path))
    assert caught.value.context == {"path": "s3://shared/a", "dataset": str(tmp_path)}
    assert "lancekit.options.trusted_bases = ['s3://shared/a']" in caught.value.hint


def test_bases_in_the_same_store_open(tmp_path, monkeypatch):
    own = LocalStore(tmp_path / "clone.lance")
    assert open_base(f"{tmp_path}/source.lance/", own).uri == f"{tmp_path}/source.lance"
    monkeypatch.chdir(tmp_path)
    assert open_base("source.lance", own).uri == f"{tmp_path}/source.lance"


def test_options_go_only_to_a_store_of_the_same_kind():
    secret = {"aws_access_key_id": "AKIA", "aws_secret_access_key": "s", "aws_region": "r"}
    own = open_store("s3://one/t.lance", secret)
    assert open_base("s3://one/u.lance", own, secret).storage_options == secret
    with options(trusted_bases=["memory://", "s3://two"]):
        assert open_base("memory://x", own, secret).storage_options == {}
        assert open_base("s3://two/u.lance", own, secret).storage_options == secret


def test_places_in_memory_are_told_apart():
    assert is_below("memory://a/b", "memory://a")
    assert is_below("memory://a/b", "memory://")
    assert not is_below("memory://b/x", "memory://a")


def test_a_file_is_trusted_where_it_really_is(tmp_path):
    own = LocalStore(tmp_path / "d")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/in").touch()
    (tmp_path / "out").touch()
    (tmp_path / "d/link").symlink_to("../out")
    (tmp_path / "d/inner").symlink_to("in")
    for name in ("in", "inner", "not there"):
        check_trusted_file(f"{tmp_path}/d/{name}", own)
    for path in (f"{tmp_path}/d/link", f"file://{tmp_path}/out", "s3://bucket/x", "memory://x"):
        with pytest.raises(UntrustedBaseError, match="outside of the dataset"):
            check_trusted_file(path, own)
    with options(trusted_bases=[f"file://{tmp_path}", "s3://bucket"]):
        for path in (f"{tmp_path}/d/link", "s3://bucket/x"):
            check_trusted_file(path, own)


@pytest.mark.parametrize("place", ["memory://a[1]/x", "s3://[::zz]/a", "file://[x]/a"])
def test_brackets_that_hold_no_address(place, tmp_path):
    with pytest.raises(InvalidArgumentError, match="is not a URI"):
        open_store(place)
    with pytest.raises((InvalidArgumentError, UntrustedBaseError)):
        open_base(place, LocalStore(tmp_path))


def test_a_system_without_folders_in_calls_of_files() -> None:
    """Windows has none of these: all modules load there, and tables in memory work."""
    program = """
import importlib, os, pkgutil, sys
for name in ("O_DIRECTORY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_TMPFILE"):
    delattr(os, name)
for name in ("fork", "getuid", "geteuid", "sched_getaffinity"):
    delattr(os, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
os.supports_dir_fd = set()
import lancekit as lk
for module in pkgutil.walk_packages(lk.__path__, "lancekit."):
    importlib.import_module(module.name)
ds = lk.write_dataset({"id": [1, 2]}, "memory://elsewhere")
ds.delete("id = 1")
assert ds.to_table().to_pydict() == {"id": [2]}
try:
    lk.dataset("x.lance")
except lk.errors.StorageError as error:
    print(error.hint)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith("On Windows, use the Windows Subsystem for Linux")

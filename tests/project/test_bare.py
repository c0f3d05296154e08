"""`.ci/bare`: what CI runs in sees the machine as a fresh one, and finds the packages as before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "CI": "true",
    "LANG": "C.UTF-8",
    "PIP_INDEX_URL": "https://packages.example/simple",
    "https_proxy": "http://proxy.example:3128",
    "SSL_CERT_FILE": "/etc/ssl/cert.pem",
}
PRIVATE = {
    "AWS_PROFILE": "mine",
    "JAVA_HOME": "/opt/java",
    "JDK_JAVA_OPTIONS": "-Xmx1g",
    "PYTHONPATH": "/opt/python",
    "SPARK_HOME": "/opt/spark",
    "XDG_CACHE_HOME": "",
}


def bare(
    home: Path, *command: str, code: int = 0, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a command by `.ci/bare` for a user with that HOME, without an input, as CI does."""
    done = subprocess.run(
        [ROOT / ".ci/bare", *command],
        env={"HOME": str(home), "PATH": os.environ["PATH"], "PYTHON": sys.executable, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def variables(home: Path, **environ: str) -> dict[str, str]:
    lines = bare(home, "env", **environ).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in (".config/pip/pip.conf", ".netrc", ".bashrc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in (".cache/ms-playwright", ".cache/pip"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_the_environment_has_nothing_but_what_packages_and_the_browser_need(home: Path) -> None:
    found = variables(home, **SETTINGS, **PRIVATE)
    folder = Path(found.pop("HOME")).parent
    assert not folder.exists()  # removed at the end
    assert found.pop("PATH") == str(folder / "bin")
    assert Path(found.pop("PYTHON")).samefile(sys.executable)
    for name in ("PWD", "SHLVL", "_"):  # what a shell sets
        found.pop(name, None)
    assert found == {
        **SETTINGS,
        "NETRC": str(home / ".netrc"),
        "PIP_CACHE_DIR": str(home / ".cache/pip"),
        "PIP_CONFIG_FILE": str(home / ".config/pip/pip.conf"),
        "PLAYWRIGHT_BROWSERS_PATH": str(home / ".cache/ms-playwright"),
    }


def test_what_is_set_already_stays(home: Path, tmp_path: Path) -> None:
    given = {
        "PIP_CACHE_DIR": str(tmp_path / "wheels"),
        "PIP_CONFIG_FILE": os.devnull,
        "PLAYWRIGHT_BROWSERS_PATH": "/opt/browsers",
        "XDG_CONFIG_DIRS": "/opt/etc",
    }
    assert given.items() <= variables(home, **given).items()


def test_settings_of_pip_lie_where_the_user_keeps_settings(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine/pip").mkdir(parents=True)
    (tmp_path / "mine/pip/pip.conf").touch()
    found = variables(home, XDG_CONFIG_HOME=str(tmp_path / "mine"))
    assert found["PIP_CONFIG_FILE"] == str(tmp_path / "mine/pip/pip.conf")
    assert "XDG_CONFIG_HOME" not in found


def test_java_is_hidden_and_tools_are_not(home: Path) -> None:
    looked = 'ls -A "$HOME"; command -v java; command -v node; command -v make; exit 3'
    done = bare(home, "sh", "-c", looked, code=3)
    (make,) = done.stdout.splitlines()
    assert make.endswith("/bin/make")
    assert done.stderr == ""

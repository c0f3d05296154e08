"""The repository itself: what a fresh checkout and CI rely on."""

import ast
import json
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import Counter
from contextlib import suppress
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import lancekit
from lancekit._spark.session.java import MINIMUM_JAVA
from tests.support.matrix import BROUGHT, VERSIONS
from tests.support.releases import NEWEST, OLDEST_KEPT, RELEASES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("name", [".ci/run", ".ci/bare", ".ci/find-python", "binder/postBuild"])
def test_scripts_can_be_run(name):
    assert os.access(ROOT / name, os.X_OK)
    shell = "bash" if "bash" in (ROOT / name).read_text().splitlines()[0] else "sh"
    subprocess.run([shell, "-n", str(ROOT / name)], check=True)


def test_ci_runs_the_test_command_of_the_readme():
    assert "exec .ci/bare make test\n" in (ROOT / ".ci/run").read_text()
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme


def test_licence():
    text = (ROOT / "LICENSE").read_text()
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_guide_for_contributors_names_what_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = set(re.findall(r"`((?:lancekit|tests|docs|proto)/[\w./*]+)`", text))
    assert [path for path in paths if not list(ROOT.glob(path))] == []
    steps = re.findall(r"(?m)^\| (`.+) \| `(lancekit/[\w/]+\.py)` \|", text)
    walks = text.split("## The tour: five walks\n")[1].split("\n## ")[0].split("\n### ")[1:]
    rows = [re.findall(r"(?m)^\| `.+", walk) for walk in walks]
    assert len(walks) == 5
    assert min(map(len, rows)) >= 10
    assert sum(map(len, rows)) == len(steps)  # each row names a module, and so is looked at below
    for names, path in steps:
        code = (ROOT / path).read_text()
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"(?m)^\s*(?:def|class) {name}\b", code), (name, path)


def test_the_page_on_the_rooms_names_what_is_there():
    text = (ROOT / "docs/architecture.md").read_text()
    paths = set(re.findall(r"`(_\w+(?:/\w+)+)(?:/|\.py)?`", text))
    package = ROOT / "lancekit"
    assert len(paths) > 50
    assert [
        path
        for path in sorted(paths)
        if not (package / path).is_dir() and not (package / f"{path}.py").is_file()
    ] == []


def test_docstrings_name_what_is_there():
    gone = []
    for path in sorted((ROOT / "lancekit").rglob("*.py")):
        for name in re.findall(r"`(lancekit\._\w+(?:\.\w+)*)", path.read_text(encoding="utf-8")):
            found = lancekit
            for part in name.split(".")[1:]:
                with suppress(ImportError):
                    import_module(f"{found.__name__}.{part}")
                found = getattr(found, part, None)
                if not isinstance(found, ModuleType):
                    break
            if found is None:
                gone.append(f"{path.relative_to(ROOT)}: {name}")
    assert gone == []


def test_make_lists_its_targets():
    done = subprocess.run(
        ["make", "-s", "-C", str(ROOT)], capture_output=True, text=True, check=False
    )
    listed = {line.split()[0] for line in done.stdout.splitlines()}
    assert {
        "bare",
        "binder",
        "pins",
        "newest",
        "demo",
        "test",
        "lab",
        "bench",
        "docs",
        "lint",
        "matrix",
        "torture",
    } <= listed


def test_workers_run_the_tests_that_share_a_session_together(request):
    """Else each worker starts Spark, and executes the notebooks again."""
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("only among several workers")
    shared = [item for item in request.session.items if "spark" in item.fixturenames]
    assert not [item.nodeid for item in shared if not item.nodeid.endswith("@spark")]


def test_the_matrix_has_every_extra_and_version():
    extras = PROJECT["optional-dependencies"].keys() - {"dev", "docs"}
    assert BROUGHT.keys() == extras
    assert all((ROOT / path).exists() for _, paths in BROUGHT.values() for path in paths)
    named = {
        re.match("[a-z0-9-]+", name)[0] for packages, _ in BROUGHT.values() for name in packages
    }
    ours = {re.match("[a-z0-9-]+", name)[0] for name in PROJECT["dependencies"]}
    assert not named & ours
    assert VERSIONS[0] == PROJECT["requires-python"].removeprefix(">=")


def test_the_reference_is_not_a_dependency():
    assert not [name for name in PROJECT["dependencies"] if "lance" in name]


# ---- the pages about the format


FORMAT = ROOT / "docs/format"
PAGES = sorted(FORMAT.glob("*.md"))
CITED = re.compile(r"docs/format/([\w-]+\.md)((?:,? (?:and )?\d+(?:\.\d+)*)*)")


def headings(page):
    return re.findall(r"(?m)^#+ (.+)$", page.read_text())


def sections(page):
    """Return the numbers of a page's sections."""
    numbers = (re.match(r"\d+(?:\.\d+)*", title) for title in headings(page))
    return [number[0] for number in numbers if number]


def anchors(page):
    """Return what links can lead to in a page, as GitHub makes it of headings."""
    slugs = (re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings(page))
    return {*slugs, *re.findall(r'<a id="([^"]+)"', page.read_text())}


def citations():
    """Return (module, page, section) of every citation; the section is empty if none is named."""
    for module in sorted((ROOT / "lancekit").rglob("*.py")):
        for page, numbers in CITED.findall(module.read_text()):
            for number in re.findall(r"\d+(?:\.\d+)*", numbers) or [""]:
                yield str(module.relative_to(ROOT)), page, number


def test_every_citation_of_the_format_names_a_section_that_is_there():
    known = {page.name: sections(page) for page in PAGES}
    found = list(citations())
    assert [cited for cited in found if cited[2] not in known.get(cited[1], ())] == []
    assert len(found) > 50


def test_the_format_is_cited_in_one_form():
    other = re.compile(r"\((?:file|table) format, |\(operations, \d|\bsections? \d")
    modules = (ROOT / "lancekit").rglob("*.py")
    assert [str(m) for m in modules if other.search(m.read_text())] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sections_of_the_format_are_numbered_once_and_in_order(page):
    numbers = [tuple(map(int, number.split("."))) for number in sections(page)]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_modules_in_pages_about_the_format_are_there(page):
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert links
    lost = []
    for link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    named = re.findall(r"`((?:lancekit|tests)/[\w/]+\.\w+)`", text)
    assert lost + [name for name in named if not (ROOT / name).is_file()] == []
    assert max(map(len, text.splitlines())) <= 100


# ---- the interpreter to build with


def fake_python(folder, name, sabotage):
    """Make an interpreter that runs ``sabotage`` before anything else."""
    site = folder / f"site-{name}"
    site.mkdir()
    (site / "sitecustomize.py").write_text(sabotage)
    path = folder / name
    path.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


def find_python(folder, **environ):
    done = subprocess.run(
        ["/bin/sh", str(ROOT / ".ci/find-python")],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(folder), **environ},
    )
    return done.stdout.strip(), done.stderr.splitlines()


NO_VENV = "import sys; sys.modules['ensurepip'] = None"
OLD = "import sys; sys.version_info = (3, 9, 2)"


def test_a_whole_python_is_found(tmp_path):
    good = fake_python(tmp_path, "python3.12", "")
    fake_python(tmp_path, "python3", OLD)
    fake_python(tmp_path, "python3.11", NO_VENV)
    assert find_python(tmp_path) == (str(good), [])


def test_a_python_without_venv_gets_one_sentence(tmp_path):
    path = fake_python(tmp_path, "python3", NO_VENV)
    found, (sentence,) = find_python(tmp_path)
    assert found == ""
    assert sentence.startswith(f"{path} cannot make virtual environments")
    assert "apt-get install python3-venv" in sentence


def test_an_old_python_gets_one_sentence(tmp_path):
    path = fake_python(tmp_path, "python3", OLD)
    found, (sentence,) = find_python(tmp_path)
    assert found == ""
    assert "needs Python 3.11 or newer" in sentence
    assert f"{path} is 3.9" in sentence


def test_no_python_gets_one_sentence(tmp_path):
    found, (sentence,) = find_python(tmp_path)
    assert found == ""
    assert "none on PATH" in sentence


def test_python_can_be_named(tmp_path):
    named = fake_python(tmp_path, "mine", "")
    fake_python(tmp_path, "python3", "")
    assert find_python(tmp_path, PYTHON=str(named)) == (str(named), [])
    (sentence,) = find_python(tmp_path, PYTHON="/no/such/python")[1]
    assert "PYTHON=/no/such/python cannot be run" in sentence


# ---- the site that `make docs` builds


def described():
    """Return how often the pages of the reference describe each name."""
    pages = sorted((ROOT / "docs/reference").glob("*.md"))
    return Counter(
        name for page in pages for name in re.findall(r"(?m)^::: (\S+)$", page.read_text())
    )


def public_names():
    """Yield the public names; of a module that is not described as a whole, those in it."""
    whole = described()
    for name in lancekit.__all__:
        value = getattr(lancekit, name)
        if isinstance(value, ModuleType) and f"lancekit.{name}" not in whole:
            inside = set(value.__all__) - set(lancekit.__all__)
            yield from (f"lancekit.{name}.{inner}" for inner in inside)
        else:
            yield f"lancekit.{name}"
    for name in dir(lancekit.LanceDataset):
        if not name.startswith("_"):
            yield f"lancekit.LanceDataset.{name}"


def test_the_reference_has_every_public_name_on_one_page():
    names = described()
    assert {name for name, times in names.items() if times > 1} == set()
    assert set(public_names()) - names.keys() == set()


@pytest.mark.parametrize("name", described())
def test_what_the_reference_names_is_there(name):
    pkgutil.resolve_name(name)


def docstrings():
    """Yield the docstrings of the package, each with its place."""
    for path in sorted((ROOT / "lancekit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", ast.get_docstring(node) or ""


def test_parameters_and_errors_come_last_in_docstrings():
    # text after them would be read as further names, which `make docs` refuses
    listed = re.compile(r"\n(?:Parameters|Raises)\n---+\n(.*?)(?=\n\n\w+\n---|\Z)", re.DOTALL)
    names = re.compile(r"\*{0,2}\w+(, \*{0,2}\w+)*")
    wrong = [
        (place, line)
        for place, text in docstrings()
        for section in listed.findall(text)
        for line in section.splitlines()
        if line and not line.startswith(" ") and not names.fullmatch(line)
    ]
    assert wrong == []


def test_the_site_has_every_page_in_its_navigation():
    entries = re.findall(r"(?m)^ +- [^:]+: (\S+)$", (ROOT / "mkdocs.yml").read_text())
    pages = [str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")]
    assert sorted(entries) == sorted(pages)


def test_the_search_of_the_site_weighs_pages_that_are_there():
    weights = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["extra"]["search_boost"]
    pages = [str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")]
    assert [one for one in weights if not any(page.startswith(one) for page in pages)] == []
    assert weights["reference/"] < 1 < weights["how-to.md"]  # guides come before symbols


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md"])
def test_links_of_pages_beside_the_site_are_there(name):
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text(encoding="utf-8"))
    lost = []
    for link in links:
        path, _, anchor = link.partition("#")
        target = ROOT / path
        there = "://" in link or target.exists()
        if not there or (target.suffix == ".md" and anchor and anchor not in anchors(target)):
            lost.append(link)
    assert len(links) > 20
    assert lost == []


def test_links_of_the_site_lead_to_files():
    """Also of pages that `make docs` alone would check."""
    lost = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = re.sub(r"(?s)```.*?```", "", page.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path = link.partition("#")[0]
            if "://" not in link and path and not (page.parent / path).exists():
                lost.append((page.name, link))
    assert lost == []


def test_the_page_on_stability_has_the_versions_of_the_package():
    text = (ROOT / "docs/stability.md").read_text(encoding="utf-8")
    oldest = dict(re.match(r"([a-z]+)>=([\d.]+)", one).groups() for one in PROJECT["dependencies"])
    for name in ("NumPy", "pandas", "pyarrow", "PySpark"):
        assert f"| {name} | {oldest[name.lower()]} and newer" in text
    assert f"| Python | {PROJECT['requires-python'].removeprefix('>=')} and newer" in text
    assert f"| Java, for Spark | {MINIMUM_JAVA} and newer" in text
    assert f"Python {VERSIONS[0]} to {VERSIONS[-1]}" in text
    assert f"pylance {OLDEST_KEPT} and {NEWEST}" in text
    assert f"{len(RELEASES)} releases, from {min(RELEASES)} on" in text


def test_no_folder_of_tests_is_passed_over(pytestconfig):
    files = [file for place in ("lancekit", "tests") for file in (ROOT / place).rglob("*.py")]
    folders = {part for file in files for part in file.relative_to(ROOT).parent.parts}
    patterns = pytestconfig.getini("norecursedirs")
    assert [one for one in folders if any(fnmatch(one, pattern) for pattern in patterns)] == []


def shown_code():
    """Yield what users read, as they see it: pages, modules with their docstrings, notebooks."""
    for pattern in ("README.md", "docs/**/*.md", "lancekit/**/*.py"):
        yield from ((path, path.read_text()) for path in sorted(ROOT.glob(pattern)))
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        yield path, "\n".join("".join(cell["source"]) for cell in cells)


def test_no_text_shows_a_cleanup_that_keeps_nothing():
    # beside other writers it takes their files, and nobody is told of the tagged versions
    call = re.compile(r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
    parts = (
        re.compile(r"older_than\s*=\s*[\w.]*timedelta\((\w+=)?0*\)"),
        re.compile(r"error_if_tagged_old_versions\s*=\s*False"),
    )
    shown = [(path, found) for path, text in shown_code() for found in call.findall(text)]
    assert len(shown) > 1000
    assert [one for one in shown if all(part.search(one[1]) for part in parts)] == []
    example = "(older_than=dt.timedelta(days=0), error_if_tagged_old_versions=False)"
    assert all(part.search(example) for part in parts)

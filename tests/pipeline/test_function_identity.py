"""What functions are made of: equal parts mean that a checkpoint's results may be used."""

from __future__ import annotations

import functools
import importlib
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lancekit._pipeline import function_identity
from lancekit._pipeline.function_identity import Identity, identity_of


def of_source(text: str) -> Any:
    """Return the function `f` of a module of the user's."""
    module = types.ModuleType("__main__")
    exec(compile(text, "<cell>", "exec"), vars(module))
    function = module.f  # keeps the module's globals
    if isinstance(function, types.FunctionType):
        function.__module__ = "__main__"
    return function


def parts(text: str) -> Identity:
    return identity_of(of_source(text))


SAME = {
    "elsewhere": ("def f(b): return b", "\n\n\n# a remark\ndef f(b): return b"),
    "annotated": ("def f(b): return b", "def f(b: int) -> int: return b"),
    "counting": (
        "n = 0\ndef f(b):\n  global n\n  n += 1\n  return b",
        "n = 7\ndef f(b):\n  global n\n  n += 1\n  return b",
    ),
    "counting in a closure": tuple(
        f"def g(n):\n  def f(b):\n    nonlocal n\n    n += 1\n    return b\n  return f\nf = g({n})"
        for n in (1, 2)
    ),
    "other globals": ("def f(b): return b\nz = 1", "z = 2\ndef f(b): return b"),
    "a set": ("s = {'a', 'b', 'c'}\ndef f(b): return s", "s = {'c', 'b', 'a'}\ndef f(b): return s"),
}

UNLIKE = {
    "code": ("def f(b): return b + 1", "def f(b): return b + 2"),
    "name": ("def f(b): return b.x", "def f(b): return b.y"),
    "type of a number": ("def f(b): return 1", "def f(b): return 1.0"),
    "bool": ("K = 1\ndef f(b): return K", "K = True\ndef f(b): return K"),
    "lambda": ("f = lambda b: b * 2", "f = lambda b: b * 3"),
    "default": ("def f(b, k=1): return b * k", "def f(b, k=2): return b * k"),
    "keyword default": ("def f(b, *, k=1): return b * k", "def f(b, *, k=2): return b * k"),
    "closure": tuple(f"f = (lambda k: lambda b: b * k)({k})" for k in (1, 2)),
    "closure of a function": tuple(
        f"f = (lambda k: lambda b: k(b))(lambda b: b + {k})" for k in "12"
    ),
    "nested": tuple(f"def f(b):\n  def g(x): return x + {k}\n  return g(b)" for k in (1, 2)),
    "helper": tuple(f"def g(x): return x + {k}\ndef f(b): return g(b)" for k in (1, 2)),
    "helper's helper": tuple(
        f"def h(x): return x + {k}\ndef g(x): return h(x)\ndef f(b): return g(b)" for k in (1, 2)
    ),
    "global": tuple(f"K = {k}\ndef f(b): return b + K" for k in (1, 2)),
    "list": tuple(f"K = [[{k}]]\ndef f(b): return b + K[0][0]" for k in (1, 2)),
    "dict": tuple(f"K = {{'a': {k}}}\ndef f(b): return b + K['a']" for k in (1, 2)),
    "array": tuple(
        f"import numpy as np\nK = np.array([{k}])\ndef f(b): return b + K" for k in (1, 2)
    ),
    "callable": tuple(
        f"class C:\n  def __call__(self, b): return b + {k}\nf = C()" for k in (1, 2)
    ),
    "attribute": tuple(
        "class C:\n  def __init__(self, k): self.k = k\n  def __call__(self, b): return b\n"
        f"f = C({k})"
        for k in (1, 2)
    ),
    "slots": tuple(
        f"class C:\n  __slots__ = ('k',)\n  def __init__(self, k): self.k = k\n"
        f"  def __call__(self, b): return b\nf = C({k})"
        for k in (1, 2)
    ),
    "base class": tuple(
        f"class B:\n  def g(self): return {k}\n"
        "class C(B):\n  def __call__(self, b): return self.g()\nf = C()"
        for k in (1, 2)
    ),
    "method": tuple(
        f"class C:\n  def __init__(self, k): self.k = k\n  def g(self, b): return b\nf = C({k}).g"
        for k in (1, 2)
    ),
    "class method": tuple(
        f"class C:\n  @classmethod\n  def g(cls, b): return {k}\ndef f(b): return C.g(b)"
        for k in (1, 2)
    ),
    "partial": tuple(
        f"import functools\nf = functools.partial(lambda b, k: b + k, k={k})" for k in (1, 2)
    ),
    "partial's function": tuple(
        f"import functools\nf = functools.partial(lambda b, k: b + k + {k}, k=1)" for k in (1, 2)
    ),
    "cached": tuple(
        f"import functools\n@functools.cache\ndef g(x): return {k}\ndef f(b): return g(1)"
        for k in (1, 2)
    ),
    "decorated": tuple(
        "import functools\ndef d(g):\n  @functools.wraps(g)\n  def w(b): return g(b)\n  return w\n"
        f"@d\ndef f(b): return b + {k}"
        for k in (1, 2)
    ),
    "dataclass": tuple(
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n  k: int\n"
        f"  def __call__(self, b): return b + self.k\nf = C({k})"
        for k in (1, 2)
    ),
    "attribute of a function": tuple(f"def f(b): return b * f.k\nf.k = {k}" for k in (1, 2)),
    "attribute of a helper": tuple(
        f"def g(b): return b * g.k\ng.k = {k}\ndef f(b): return g(b)" for k in (1, 2)
    ),
    "metaclass": tuple(
        f"class M(type):\n  def k(cls): return {k}\nclass C(metaclass=M): pass\n"
        "def f(b): return b * C.k()"
        for k in (1, 2)
    ),
    "class attribute with a name like Python's": tuple(
        f"class C:\n  __k__ = {k}\ndef f(b): return b * C.__k__" for k in (1, 2)
    ),
    "kind of set": tuple(f"s = {kind}([1])\ndef f(b): return s" for kind in ("set", "frozenset")),
    "class of a set": tuple(
        f"class S(set):\n  def k(self): return {k}\ns = S()\ndef f(b): return s.k()" for k in (1, 2)
    ),
    "cached property": tuple(
        f"import functools\nclass C:\n  @functools.cached_property\n  def k(self): return {k}\n"
        "c = C()\ndef f(b): return c.k"
        for k in (1, 2)
    ),
    "mapping": tuple(
        f"import types\nM = types.MappingProxyType({{1: {k}}})\ndef f(b): return M[1]"
        for k in (1, 2)
    ),
    "class that is called": tuple(
        f"class f:\n  def __init__(self, b): self.k = {k}" for k in (1, 2)
    ),
    "variable of a name that another function assigns": tuple(
        "def g(x):\n  def f(b):\n    def h():\n      x = 0\n      def i():\n        nonlocal x\n"
        f"        x += 1\n      i()\n    return b + x\n  return f\nf = g({k})"
        for k in (1, 2)
    ),
    "large array": tuple(
        f"import numpy as np\nK = np.full(100_000, {k})\ndef f(b): return b + K" for k in (1, 2)
    ),
    "object that holds itself": tuple(
        f"class C:\n  def __init__(self): self.k, self.me = {k}, self\nc = C()\n"
        "def f(b): return c.me.k"
        for k in (1, 2)
    ),
    "what raises": (
        "def f(b):\n  try: return b.x\n  except KeyError: return 0",
        "def f(b):\n  try: return b.x\n  except ValueError: return 0",
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_function(case: str) -> None:
    first, second = SAME[case]
    assert parts(first) == parts(second)
    assert not parts(first).opaque


@pytest.mark.parametrize("case", UNLIKE)
def test_another_function(case: str) -> None:
    first, second = UNLIKE[case]
    assert parts(first) == parts(first)
    assert parts(first) != parts(second)
    assert not parts(first).opaque


def test_functions_that_call_each_other_end() -> None:
    text = "def g(n): return f(n - 1) if n else {0}\ndef f(n): return g(n - 1) if n else {0}"
    assert parts(text.format(1)) == parts(text.format(1)) != parts(text.format(2))


#: what a function may take of a module of the user's, `@`, and how
WAYS = {
    "name": "import @\ndef f(b): return @.embed(b)",
    "its function": "from @ import embed\ndef f(b): return embed(b)",
    "its number": "import @\ndef f(b): return b + @.NUMBER",
    "import within": "def f(b):\n  import @\n  return @.embed(b)",
    "import of a function within": "def f(b):\n  from @ import embed as e\n  return e(b)",
    "a name that is worked out": "import @\ndef f(b): return getattr(@, 'em' + 'bed')(b)",
    "in a list": "import @\nmodules = [@]\ndef f(b): return modules[0].embed(b)",
    "in a class": "import @\nclass C:\n  module = @\ndef f(b): return C.module.embed(b)",
}
MODULE = "NUMBER = {}\ndef embed(x):\n    return helper(x)\ndef helper(x):\n    return x + NUMBER\n"


@pytest.mark.parametrize("name", ["users_own", "users_package.within", "users_folder.within"])
def test_the_users_own_modules_count_with_their_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    top, _, below = name.partition(".")
    if below:
        (tmp_path / top).mkdir()
    if top == "users_package":
        (tmp_path / top / "__init__.py").touch()
    file = tmp_path / f"{name.replace('.', '/')}.py"
    found = []
    for number in (1, 1, 2):
        file.write_text(MODULE.format(number))
        for loaded in [one for one in sys.modules if one.partition(".")[0] == top]:
            monkeypatch.delitem(sys.modules, loaded)
        importlib.invalidate_caches()
        found.append({way: parts(text.replace("@", name)) for way, text in WAYS.items()})
    assert found[0] == found[1]
    assert not [way for way in WAYS if found[0][way] == found[2][way]]
    assert not [way for way in WAYS if found[0][way].opaque]


def test_a_module_that_python_has_no_name_for_counts(tmp_path: Path) -> None:
    text = (
        "import importlib.util as u\n"
        f"spec = u.spec_from_file_location('unnamed', {str(tmp_path / 'unnamed.py')!r})\n"
        "module = u.module_from_spec(spec)\nspec.loader.exec_module(module)\n"
    )
    ways = ("C = module.C\ndef f(b): return C().k()", "def f(b): return module.C().k()")
    found = []
    for number in (1, 22):
        (tmp_path / "unnamed.py").write_text(f"class C:\n  def k(self): return {number}\n")
        found.append([parts(text + way) for way in ways])
    assert all(one != other for one, other in zip(*found, strict=True))


def test_an_edit_beside_what_a_function_takes_of_a_module_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for text in ("def embed(x): return x\n", "OTHER = 1\ndef embed(x): return x\n"):
        (tmp_path / "users_edited.py").write_text(text)
        monkeypatch.delitem(sys.modules, "users_edited", raising=False)
        importlib.invalidate_caches()
        found.append(parts("import users_edited\ndef f(b): return users_edited.embed(b)"))
    assert found[0] == found[1]


@pytest.mark.parametrize("call", ["eval('K')", "globals()['K']", "__import__('users_own')"])
def test_code_that_finds_values_by_their_names_cannot_be_compared(call: str) -> None:
    (opaque,) = parts(f"K = 1\ndef f(b): return {call}").opaque
    assert opaque == f"what {call.partition('(')[0]}() finds"


def test_what_cannot_be_compared_hides_nothing_beside_it() -> None:
    text = (
        "import threading\nclass C:\n  def __init__(self): self.lock = threading.Lock()\n"
        "  def g(self, b): return b + {}\nc = C()\ndef f(b): return c.g(b)"
    )
    one, other = parts(text.format(1)), parts(text.format(2))
    assert one.opaque == other.opaque == ("the global c (lock)",)
    assert one.parts != other.parts


def test_a_package_without_a_version_of_its_own_counts_by_that_of_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(packages)
    found = []
    for version, direct in (("1", False), ("2", False), ("2", True)):
        function_identity._distributions.cache_clear()
        function_identity._providers.cache_clear()
        shutil.rmtree(packages, ignore_errors=True)
        (about := packages / f"some_tool-{version}.dist-info").mkdir(parents=True)
        (packages / "some_tool.py").write_text("def g(x): return x\n")
        (about / "METADATA").write_text(f"Name: some-tool\nVersion: {version}\n")
        (about / "RECORD").write_text("some_tool.py,,\n")
        if direct:
            (about / "direct_url.json").write_text("{}")
        monkeypatch.delitem(sys.modules, "some_tool", raising=False)
        importlib.invalidate_caches()
        found.append(parts("import some_tool\ndef f(b): return some_tool.g(b)"))
    assert found[0] != found[1] != found[2]


def test_packages_count_by_their_version(monkeypatch: Any) -> None:
    text = "import pyarrow as pa, pyarrow.compute as pc\ndef f(b): return pc.add(b, pa.scalar(1))"
    before = parts(text)
    monkeypatch.setattr(pa, "__version__", "0.0.0")
    assert parts(text) != before


def test_what_a_cache_remembers_is_no_part_of_it() -> None:
    @functools.cache
    def known(x: int) -> int:
        return x

    def function(batch: Any) -> int:
        return known(batch)

    before = identity_of(function)
    function(1)
    assert identity_of(function) == before

"""What a user's function is made of, as digests: equal parts mean equal results.

A checkpoint keeps results of a function between processes.  They may be used only if the function
is the same: its code, its default values, its attributes, the values in its closure, the globals
that it names, and the modules that it imports.  Functions and classes of the user's own modules
count with their code; those of installed packages and of the standard library with their names and
the package's version.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib
import importlib.util
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import chain, takewhile
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

_CachedProperty: object = vars(functools)["cached_property"]  # users' classes have some
_DIGEST_BYTES = 16
#: instructions that read a global, and those that make a variable one that the function changes
_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_REBINDS = frozenset({"STORE_DEREF", "DELETE_DEREF"})
_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
#: functions of Python by which code finds values that it does not name
_FINDERS = frozenset({"eval", "exec", "globals", "__import__"})
#: what Python itself adds to a class, and not always at once
# fmt: off
_ADDED = frozenset({
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__",
    "__annotations_cache__", "__classcell__", "__classdictcell__", "__conditional_annotations__",
    "__dataclass_fields__", "__dataclass_params__", "__dict__", "__doc__", "__firstlineno__",
    "__module__", "__orig_bases__", "__parameters__", "__static_attributes__", "__type_params__",
    "__weakref__", "_abc_impl",
})
# fmt: on


@dataclass(frozen=True, slots=True)
class Identity:
    """The digests of a function's parts, by what a message calls them.

    `opaque` names the values that cannot be compared between two processes, with their types.
    """

    parts: Mapping[str, str]
    opaque: tuple[str, ...] = ()


def identity_of(function: Callable[..., object]) -> Identity:
    """Return what a function is made of.

    Variables that the function itself assigns, such as a counter, do not count.

    Examples
    --------
    >>> def scaled(factor):
    ...     return lambda x: x * factor
    >>> two, three = identity_of(scaled(2)), identity_of(scaled(3))
    >>> [name for name in two.parts if two.parts[name] != three.parts[name]]
    ["the closure's variable factor"]
    """
    looks = {name: _Look(name, value) for name, value in _parts(function)}
    parts = {name: look.result.hex() for name, look in looks.items()}
    return Identity(parts, tuple(chain.from_iterable(look.opaque for look in looks.values())))


def _parts(function: object) -> Iterator[tuple[str, object]]:
    if isinstance(function, functools.partial):
        yield from _parts(function.func)
        yield "the arguments of the partial", (function.args, function.keywords)
    elif isinstance(function, MethodType):
        yield from _parts(function.__func__)
        yield "the object of the method", function.__self__
    elif isinstance(function, FunctionType):
        yield from _function_parts(function)
    elif isinstance(function, type):
        yield "the class", function
    else:
        yield f"the class {type(function).__name__}", type(function)
        state = _state(function)
        if state is None:
            yield f"the {type(function).__name__}", function
        else:
            yield from ((f"the attribute {name}", value) for name, value in state.items())


def _state(value: object) -> dict[str, object] | None:
    """Return the attributes of an object that pickle would keep as they are."""
    kind = type(value)
    plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    if not plain or hasattr(kind, "__slots__"):
        return None
    state = value.__getstate__()
    return state if isinstance(state, dict) else {} if state is None else None


class _Look:
    """The digest of one part: the code that it has met, and the values that cannot be compared."""

    def __init__(self, name: str, value: object) -> None:
        self.opaque: list[str] = []
        self._name = name
        self._met: dict[int, int] = {}
        self._alive: list[object] = []
        self.result = self.digest(value)

    def begin(self, value: object) -> int | None:
        """Note an object that may lead to itself; return its number if it was met before."""
        if id(value) in self._met:
            return self._met[id(value)]
        self._met[id(value)] = len(self._met)
        self._alive.append(value)  # or another object gets its id
        return None

    def digest(self, value: object) -> bytes:
        """Return a digest of a value, and note if it cannot be compared."""
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        try:
            _Pickler(_Sink(digest), self).dump(value)
        except Exception:
            kind = "" if isinstance(value, _Unknown) else f" ({type(value).__name__})"
            said = f"{self._name}{kind}"
            if said not in self.opaque:
                self.opaque.append(said)
            return type(value).__qualname__.encode()
        return digest.digest()


class _Unknown:
    """A value that code finds without naming it."""

    def __reduce__(self) -> str:
        raise pickle.PicklingError


@dataclass(slots=True)
class _Sink:
    digest: hashlib.blake2b

    def write(self, data: bytes) -> int:  # or a buffer, of a large array
        self.digest.update(data)
        return memoryview(data).nbytes


class _Pickler(pickle.Pickler):
    """Writes values; in the place of what pickle takes by name alone, digests of its code."""

    def __init__(self, sink: _Sink, look: _Look) -> None:
        super().__init__(sink, protocol=5)
        self.fast = True  # or two equal texts are written in two ways, if they are one object
        self._look = look

    def persistent_id(self, value: object) -> bytes | None:
        if isinstance(value, set | frozenset):
            # Python writes their members in another order each time
            members = sorted(self._look.digest(each) for each in value)
            rest = (type(value), getattr(value, "__dict__", None))
            return b"set" + b"".join([*map(self._look.digest, rest), *members])
        told = _told(value)
        if told is None:
            return None
        number = self._look.begin(value)
        if number is not None:
            return f"again {number}".encode()
        # one by one: what cannot be compared hides nothing beside it
        return b"".join(map(self._look.digest, told))


def _told(value: object) -> Iterator[object] | None:
    """Yield what stands for code; ``None`` for a value that pickle writes as it is."""
    for kinds, tell in _TELLING:
        if isinstance(value, kinds):
            return tell(value)
    if _is_own_module(type(value).__module__) and (state := _state(value)) is not None:
        return chain(("object", type(value)), chain.from_iterable(state.items()))
    name = getattr(value, "__qualname__", None)
    module = getattr(value, "__module__", None) or "builtins"
    if callable(value) and isinstance(name, str) and _is_own_module(module):
        return _named(value)  # compiled, by Cython perhaps
    return None


def _function(value: FunctionType) -> Iterator[object]:
    if _is_own(value.__module__ or "", value.__code__.co_filename):
        return _values(_function_parts(value))
    return chain(_named(value), _values(_bound(value, frozenset())))


def _builtin(value: BuiltinFunctionType) -> Iterator[object]:
    bound = value.__self__
    return chain(_named(value), () if isinstance(bound, ModuleType) else (bound,))


def _values(parts: Iterator[tuple[str, object]]) -> Iterator[object]:
    return chain.from_iterable(parts)


def _function_parts(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the parts of a function of the user's, by what a message calls them."""
    codes = list(_codes(function.__code__))
    yield "the code", function.__code__
    yield from _bound(function, _rebound(function.__code__))
    yield from ((f"the attribute {name}", value) for name, value in vars(function).items())
    changed = {step.argval for code in codes for step in _steps(code) if step.opname in _WRITES}
    ways = {way for code in codes for way in _ways(code) if way[0] not in changed}
    for first, *rest in sorted(ways):
        if first in function.__globals__:
            yield from _along(f"the global {first}", function.__globals__[first], rest)
        elif first in _FINDERS:
            yield f"what {first}() finds", _Unknown()
        # or it is one of Python's own, or one that is not there yet
    package = function.__globals__.get("__package__") or ""
    for code in codes:
        for name, value in _import_parts(_steps(code), package):
            yield name, _Unknown() if value is None else value


def _steps(code: CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]


def _ways(code: CodeType) -> Iterator[tuple[str, ...]]:
    """Yield each global that a code reads, followed by the attributes that the code takes of it."""
    steps = _steps(code)
    for place, step in enumerate(steps):
        if step.opname in _READS:
            taken = takewhile(lambda step: step.opname in _ATTRIBUTES, steps[place + 1 :])
            yield (step.argval, *(each.argval for each in taken))


def _along(name: str, value: object, rest: list[str]) -> Iterator[tuple[str, object]]:
    """Yield what code takes: of a module of the user's the attribute, of all else the whole."""
    while rest and isinstance(value, ModuleType) and _is_own_module(value.__name__, value):
        attribute, *rest = rest
        if attribute not in vars(value):
            break
        name, value = f"{name}.{attribute}", vars(value)[attribute]
    yield name, value


def _bound(function: FunctionType, changed: frozenset[str]) -> Iterator[tuple[str, object]]:
    yield "the default values", (function.__defaults__, function.__kwdefaults__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        if name not in changed:
            try:
                yield f"the closure's variable {name}", cell.cell_contents
            except ValueError:  # it has no value yet
                yield f"the closure's variable {name}", None


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and those of the functions that it makes."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _rebound(code: CodeType) -> frozenset[str]:
    """Return the closure's variables that a code, or a function that it makes, assigns."""
    own = {step.argval for step in _steps(code) if step.opname in _REBINDS}
    inner = (_rebound(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(own.union(*inner)) & frozenset(code.co_freevars)


def _code(code: CodeType) -> Iterator[object]:
    """Yield what a code does, wherever it stands in its file."""
    yield from (code.co_name, code.co_code, code.co_exceptiontable, code.co_flags)
    yield from (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    yield from (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    yield code.co_consts


def _class(kind: type) -> Iterator[object]:
    yield from ("class", kind.__qualname__, kind.__bases__, type(kind))
    for name, value in sorted(vars(kind).items()):
        if name not in _ADDED:
            # a slot's descriptor has no more to it than its name
            yield name
            yield None if type(value).__name__ == "member_descriptor" else value


def _module(module: ModuleType) -> Iterator[object]:
    """Yield what stands for a module that code has as a value, and may take anything of."""
    yield from ("module", module.__name__, _release(module.__name__))
    if _is_own_module(module.__name__, module):
        yield _source_digest(module)
        code = (FunctionType, type, ModuleType)
        yield from (value for value in vars(module).values() if isinstance(value, code))


def _named(value: object) -> Iterator[object]:
    """Yield the name of what a package or Python itself has."""
    module = getattr(value, "__module__", None) or ""
    yield from (module, getattr(value, "__qualname__", repr(type(value))), _release(module))


#: kinds of values that pickle takes by name, or not at all, and what stands for them
_TELLING: tuple[tuple[Any, Callable[[Any], Iterator[object]]], ...] = (
    (FunctionType, _function),
    (CodeType, _code),
    (ModuleType, _module),
    (type, lambda kind: _class(kind) if _is_own_module(kind.__module__) else _named(kind)),
    (MethodType, lambda method: iter(("method", method.__func__, method.__self__))),
    (BuiltinFunctionType, _builtin),
    (property, lambda one: iter(("property", one.fget, one.fset, one.fdel))),
    (_CachedProperty, lambda one: iter(("cached property", one.func))),
    (staticmethod | classmethod, lambda one: iter((type(one).__name__, one.__func__))),
    # what it remembers is no part of it
    (functools._lru_cache_wrapper, lambda cached: iter(("cached", cached.__wrapped__))),
    (MappingProxyType, lambda mapping: iter(("mapping", dict(mapping)))),
)

# ---- which modules are the user's own, and what shows that a module is the same as before
#
# A module of the user's is one of a notebook, a script, or a file beside them; all others belong to
# Python or to an installed package, whose release stands for them.

#: folders of installed packages, also those that Python does not name, such as a user's
_PACKAGES = ("/site-packages/", "/dist-packages/")


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({f"{paths[name]}/".replace("\\", "/") for name in names if name in paths})


def _is_own(module: str, file: str | None) -> bool:
    """Return True for code of the user's: of a notebook, a script, or a module beside them."""
    if module.partition(".")[0] in ("lancekit", "builtins"):
        return False
    name = (file or "<frozen").replace("\\", "/")
    installed = any(folder in name for folder in _PACKAGES)
    return not installed and not name.startswith(("<frozen", *_installed()))


def _is_own_module(name: str, module: ModuleType | None = None) -> bool:
    """Return True for a module of the user's, which need not be one that Python has a name for."""
    if name == "__main__":  # whatever file began the process, such as that of a kernel
        return True
    module = module or sys.modules.get(name)
    file = _file(module)
    if file is None and getattr(module, "__spec__", None) is None:  # made by hand
        return _is_own(name, "by hand")
    return _is_own(name, file)


def _file(module: ModuleType | None) -> str | None:
    """Return the file of a module, or the folder of a package that has no file of its own."""
    file = getattr(module, "__file__", None)
    if file is not None:
        return str(file)
    return next((f"{folder}/" for folder in getattr(module, "__path__", ())), None)


def _source_digest(module: ModuleType) -> bytes:
    """Return a digest of the file of a module, empty if it has none."""
    try:
        content = Path(_file(module) or "").read_bytes()
    except OSError:
        return b""
    return hashlib.blake2b(content, digest_size=16).digest()


def _release(module: str) -> str:
    """Return what tells the release of a module's package: of a compiled module its content."""
    loaded = sys.modules.get(module)
    if loaded is not None and _is_own_module(module, loaded):
        return "" if (_file(loaded) or ".py").endswith(".py") else _source_digest(loaded).hex()
    top = module.partition(".")[0]
    version = getattr(sys.modules.get(top), "__version__", "")
    return f"{version if isinstance(version, str) else ''} {_distributions(top)}"


@functools.cache
def _distributions(top: str) -> str:
    """Return the versions of the installed packages that have a module.

    One that came from a folder or a repository may differ under one version: its files count.
    """
    if top in sys.stdlib_module_names or not top:
        return ""
    said = []
    for name in _providers().get(top, ()):
        package = metadata.distribution(name)
        said.append(f"{name} {package.version}")
        if package.read_text("direct_url.json") is not None:
            said.append(package.read_text("RECORD") or "")
    return " ".join(said)


@functools.cache
def _providers() -> dict[str, list[str]]:
    return {top: sorted(set(names)) for top, names in metadata.packages_distributions().items()}


def _import_parts(steps: Sequence[dis.Instruction], package: str) -> Iterator[tuple[str, object]]:
    """Yield what the instructions of a function import, by what a message calls it.

    A module of the user's is imported, as the function does it when it is called.  What cannot be
    imported is ``None``.

    steps: the instructions of the function.
    package: the package that the function belongs to, if any.
    """
    for place, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        level, names = (each.argval for each in steps[place - 2 : place])
        try:
            name = importlib.util.resolve_name("." * level + step.argval, package)
            top = name.partition(".")[0]
            if top not in sys.modules and importlib.util.find_spec(top) is None:
                yield f"the module {name}", "not installed"
                continue
            if not _is_own_name(top):
                yield f"the module {name}", _distributions(top)
                continue
            module = importlib.import_module(name)
            if not names:
                yield f"the module {name}", module
            for each in names or ():
                yield f"the import {name}.{each}", _imported(module, each)
        except Exception:
            yield f"the module {step.argval}", None


def _is_own_name(top: str) -> bool:
    if top in sys.modules:
        return _is_own_module(top)
    spec = importlib.util.find_spec(top)
    places = [spec and spec.origin, *((spec and spec.submodule_search_locations) or ())]
    return _is_own(top, next((f"{place}/" for place in places if place), None))


def _imported(module: ModuleType, name: str) -> object:
    if not hasattr(module, name):
        return importlib.import_module(f"{module.__name__}.{name}")
    return getattr(module, name)

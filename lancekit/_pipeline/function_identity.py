"""Digests of everything that determines a user's function: equal digests mean equal results.

A checkpoint keeps results of a function across processes.  They may be reused only if the function
is the same: its code, default values, attributes, closure values, the globals that it names, and
the modules that it imports.  Functions and classes from the user's own modules are compared by
their code, and from installed packages and the standard library by name and package version.
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

_CachedProperty: object = vars(functools)["cached_property"]  # users' classes can have some
_DIGEST_BYTES = 16
#: instructions that read a global or an attribute, and that rebind a closure or global variable
_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_REBINDS = frozenset({"STORE_DEREF", "DELETE_DEREF"})
_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
#: builtin functions that read values which code does not name
_FINDERS = frozenset({"eval", "exec", "globals", "__import__"})
#: attributes that Python adds to a class, in part only later
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
    """The digests of a function's parts, by the names that messages use.

    `opaque` names the values that cannot be compared between two processes, with their types.
    """

    parts: Mapping[str, str]
    opaque: tuple[str, ...] = ()


def identity_of(function: Callable[..., object]) -> Identity:
    """Return the digests of a function's parts.

    Variables that the function itself assigns, such as a counter, are ignored.

    Examples
    --------
    >>> def scaled(factor):
    ...     return lambda x: x * factor
    >>> two, three = identity_of(scaled(2)), identity_of(scaled(3))
    >>> [name for name in two.parts if two.parts[name] != three.parts[name]]
    ["the closure's variable factor"]
    """
    visits = {name: _Visit(name, value) for name, value in _parts(function)}
    parts = {name: visit.result.hex() for name, visit in visits.items()}
    return Identity(parts, tuple(chain.from_iterable(visit.opaque for visit in visits.values())))


def _parts(function: object) -> Iterator[tuple[str, object]]:
    """Yield the parts of any callable, by the names that messages use."""
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
    """Return the attributes of an object that pickle would write unchanged, else ``None``."""
    kind = type(value)
    plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    if not plain or hasattr(kind, "__slots__"):
        return None
    state = value.__getstate__()
    return state if isinstance(state, dict) else {} if state is None else None


class _Visit:
    """The digest of one part; it collects the values that have no digest in `opaque`."""

    def __init__(self, name: str, value: object) -> None:
        self.opaque: list[str] = []
        self._name = name
        self._visited: dict[int, int] = {}
        self._alive: list[object] = []
        self.result = self.digest(value)

    def begin(self, value: object) -> int | None:
        """Register an object that may refer to itself; return its number if it was visited."""
        if id(value) in self._visited:
            return self._visited[id(value)]
        self._visited[id(value)] = len(self._visited)
        self._alive.append(value)  # so that no other object gets its id
        return None

    def digest(self, value: object) -> bytes:
        """Return a digest of a value; add a value that cannot be compared to `opaque`."""
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        try:
            _Pickler(_Sink(digest), self).dump(value)
        except Exception:
            kind = "" if isinstance(value, _Unknown) else f" ({type(value).__name__})"
            described = f"{self._name}{kind}"
            if described not in self.opaque:
                self.opaque.append(described)
            return type(value).__qualname__.encode()
        return digest.digest()


class _Unknown:
    """A stand-in for a value that code reads without naming it."""

    def __reduce__(self) -> str:
        raise pickle.PicklingError


@dataclass(slots=True)
class _Sink:
    digest: hashlib.blake2b

    def write(self, data: bytes) -> int:  # `data` is a buffer for large arrays
        self.digest.update(data)
        return memoryview(data).nbytes


class _Pickler(pickle.Pickler):
    """A pickler that writes digests of code where pickle would write only a name."""

    def __init__(self, sink: _Sink, visit: _Visit) -> None:
        super().__init__(sink, protocol=5)
        self.fast = True  # a memo would write the same text differently if it is another object
        self._visit = visit

    def persistent_id(self, value: object) -> bytes | None:
        if isinstance(value, set | frozenset):
            # Python's order of the members differs between processes
            members = sorted(self._visit.digest(each) for each in value)
            rest = (type(value), getattr(value, "__dict__", None))
            return b"set" + b"".join([*map(self._visit.digest, rest), *members])
        values = _identity_values(value)
        if values is None:
            return None
        number = self._visit.begin(value)
        if number is not None:
            return f"again {number}".encode()
        # one by one, so that a value without a digest hides no other
        return b"".join(map(self._visit.digest, values))


def _identity_values(value: object) -> Iterator[object] | None:
    """Yield the values that identify code; ``None`` for a value that pickle writes itself."""
    for kinds, identify in _IDENTITIES:
        if isinstance(value, kinds):
            return identify(value)
    if _is_own_module(type(value).__module__) and (state := _state(value)) is not None:
        return chain(("object", type(value)), chain.from_iterable(state.items()))
    name = getattr(value, "__qualname__", None)
    module = getattr(value, "__module__", None) or "builtins"
    if callable(value) and isinstance(name, str) and _is_own_module(module):
        return _named(value)  # compiled, for example by Cython
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
    """Yield the parts of a user's function, by the names that messages use."""
    codes = list(_codes(function.__code__))
    yield "the code", function.__code__
    yield from _bound(function, _rebound(function.__code__))
    yield from ((f"the attribute {name}", value) for name, value in vars(function).items())
    changed = {step.argval for code in codes for step in _steps(code) if step.opname in _WRITES}
    paths = {path for code in codes for path in _global_paths(code) if path[0] not in changed}
    for first, *rest in sorted(paths):
        if first in function.__globals__:
            yield from _resolved_path(f"the global {first}", function.__globals__[first], rest)
        elif first in _FINDERS:
            yield f"what {first}() finds", _Unknown()
        # otherwise it is a builtin, or not defined yet
    package = function.__globals__.get("__package__") or ""
    for code in codes:
        for name, value in _import_parts(_steps(code), package):
            yield name, _Unknown() if value is None else value


def _steps(code: CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]


def _global_paths(code: CodeType) -> Iterator[tuple[str, ...]]:
    """Yield each global that the code reads, with the attributes that it reads from it."""
    steps = _steps(code)
    for place, step in enumerate(steps):
        if step.opname in _READS:
            taken = takewhile(lambda step: step.opname in _ATTRIBUTES, steps[place + 1 :])
            yield (step.argval, *(each.argval for each in taken))


def _resolved_path(name: str, value: object, rest: list[str]) -> Iterator[tuple[str, object]]:
    """Yield the value that code reads: an attribute of a user's module, or the whole value."""
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
            except ValueError:  # the variable has no value yet
                yield f"the closure's variable {name}", None


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and the code objects of its inner functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _rebound(code: CodeType) -> frozenset[str]:
    """Return the closure variables that the code or its inner functions assign."""
    own = {step.argval for step in _steps(code) if step.opname in _REBINDS}
    inner = (_rebound(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(own.union(*inner)) & frozenset(code.co_freevars)


def _code(code: CodeType) -> Iterator[object]:
    """Yield the contents of a code object, except its position in the file."""
    yield from (code.co_name, code.co_code, code.co_exceptiontable, code.co_flags)
    yield from (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    yield from (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    yield code.co_consts


def _class(kind: type) -> Iterator[object]:
    yield from ("class", kind.__qualname__, kind.__bases__, type(kind))
    for name, value in sorted(vars(kind).items()):
        if name not in _ADDED:
            # a slot's descriptor is identified by its name alone
            yield name
            yield None if type(value).__name__ == "member_descriptor" else value


def _module(module: ModuleType) -> Iterator[object]:
    """Yield the values that identify a module used as a value, with any of its attributes."""
    yield from ("module", module.__name__, _release(module.__name__))
    if _is_own_module(module.__name__, module):
        yield _source_digest(module)
        code = (FunctionType, type, ModuleType)
        yield from (value for value in vars(module).values() if isinstance(value, code))


def _named(value: object) -> Iterator[object]:
    """Yield the name and the release of an object from Python or an installed package."""
    module = getattr(value, "__module__", None) or ""
    yield from (module, getattr(value, "__qualname__", repr(type(value))), _release(module))


#: types that pickle writes by name or not at all, and functions that yield their identity
_IDENTITIES: tuple[tuple[Any, Callable[[Any], Iterator[object]]], ...] = (
    (FunctionType, _function),
    (CodeType, _code),
    (ModuleType, _module),
    (type, lambda kind: _class(kind) if _is_own_module(kind.__module__) else _named(kind)),
    (MethodType, lambda method: iter(("method", method.__func__, method.__self__))),
    (BuiltinFunctionType, _builtin),
    (property, lambda one: iter(("property", one.fget, one.fset, one.fdel))),
    (_CachedProperty, lambda one: iter(("cached property", one.func))),
    (staticmethod | classmethod, lambda one: iter((type(one).__name__, one.__func__))),
    # the results in the cache are no part of the identity
    (functools._lru_cache_wrapper, lambda cached: iter(("cached", cached.__wrapped__))),
    (MappingProxyType, lambda mapping: iter(("mapping", dict(mapping)))),
)

# ---- the user's own modules, and the identity of all other modules
#
# A user's module belongs to a notebook or a script, or is a file beside one. All others belong to
# Python or to an installed package, and are identified by its release.

#: folders of installed packages, including ones missing from sysconfig, such as a user's
_PACKAGES = ("/site-packages/", "/dist-packages/")


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({f"{paths[name]}/".replace("\\", "/") for name in names if name in paths})


def _is_own(module: str, file: str | None) -> bool:
    """Return True for user code: in a notebook, a script, or a module beside one."""
    if module.partition(".")[0] in ("lancekit", "builtins"):
        return False
    name = (file or "<frozen").replace("\\", "/")
    installed = any(folder in name for folder in _PACKAGES)
    return not installed and not name.startswith(("<frozen", *_installed()))


def _is_own_module(name: str, module: ModuleType | None = None) -> bool:
    """Return True for a module of the user, even if it is not in `sys.modules`."""
    if name == "__main__":  # any file that started the process, such as a kernel's
        return True
    module = module or sys.modules.get(name)
    file = _file(module)
    if file is None and getattr(module, "__spec__", None) is None:  # created at run time
        return _is_own(name, "by hand")
    return _is_own(name, file)


def _file(module: ModuleType | None) -> str | None:
    """Return the file of a module, or the folder of a package without one."""
    file = getattr(module, "__file__", None)
    if file is not None:
        return str(file)
    return next((f"{folder}/" for folder in getattr(module, "__path__", ())), None)


def _source_digest(module: ModuleType) -> bytes:
    """Return a digest of a module's file; empty if it has none."""
    try:
        content = Path(_file(module) or "").read_bytes()
    except OSError:
        return b""
    return hashlib.blake2b(content, digest_size=16).digest()


def _release(module: str) -> str:
    """Return the release of a module's package; of a user's compiled module, a digest of its file.

    A user's Python module has no release: its functions are compared by their code.
    """
    loaded = sys.modules.get(module)
    if loaded is not None and _is_own_module(module, loaded):
        return "" if (_file(loaded) or ".py").endswith(".py") else _source_digest(loaded).hex()
    top = module.partition(".")[0]
    version = getattr(sys.modules.get(top), "__version__", "")
    return f"{version if isinstance(version, str) else ''} {_distributions(top)}"


@functools.cache
def _distributions(top: str) -> str:
    """Return the names and versions of the installed packages that provide a module.

    A package installed from a folder or a repository can change without a new version, so the list
    of its files counts, too.
    """
    if top in sys.stdlib_module_names or not top:
        return ""
    versions = []
    for name in _providers().get(top, ()):
        package = metadata.distribution(name)
        versions.append(f"{name} {package.version}")
        if package.read_text("direct_url.json") is not None:
            versions.append(package.read_text("RECORD") or "")
    return " ".join(versions)


@functools.cache
def _providers() -> dict[str, list[str]]:
    return {top: sorted(set(names)) for top, names in metadata.packages_distributions().items()}


def _import_parts(steps: Sequence[dis.Instruction], package: str) -> Iterator[tuple[str, object]]:
    """Yield the imports of a function, by the names that messages use.

    A user's module is imported, as the function does when it is called.  The value of a failed
    import is ``None``.

    steps: the instructions of the function.
    package: the package of the function, if any.
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

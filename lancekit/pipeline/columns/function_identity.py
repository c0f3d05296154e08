"""What a user's function is made of, as digests: equal parts mean equal results.

A checkpoint keeps results of a function between processes.  They may be used only if the function
is the same: its code, its default values, the values in its closure, and the globals that it
names.  Functions and classes of the user's own modules count with their code; those of installed
packages and of the standard library with their names and the package's version.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

__all__ = ["Identity", "identity_of"]

_DIGEST_BYTES = 16
#: instructions that read a global, and those that make a variable one that the function changes
_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_WRITES = {
    "STORE_GLOBAL": "co_names",
    "DELETE_GLOBAL": "co_names",
    "STORE_DEREF": "co_freevars",
    "DELETE_DEREF": "co_freevars",
}
#: callables of a class that say nothing of what its objects do
_UNTOLD = frozenset({"__annotate__", "__annotate_func__", "_abc_impl"})


@dataclass(frozen=True, slots=True)
class Identity:
    """The digests of a function's parts, by what a message calls them.

    `opaque` names the values that cannot be compared between two processes, with their types.
    """

    parts: Mapping[str, str]
    opaque: tuple[str, ...] = ()


def identity_of(function: Callable[..., Any]) -> Identity:
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


def _parts(function: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(function, functools.partial):
        yield from _parts(function.func)
        yield "the arguments of the partial", (function.args, function.keywords)
    elif isinstance(function, MethodType):
        yield from _parts(function.__func__)
        yield "the object of the method", function.__self__
    elif isinstance(function, FunctionType):
        yield from _function_parts(function)
    else:
        yield f"the class {type(function).__name__}", type(function)
        state = _state(function)
        if state is None:
            yield f"the {type(function).__name__}", function
        else:
            yield from ((f"the attribute {name}", value) for name, value in state.items())


def _state(value: object) -> dict[str, Any] | None:
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
        self._alive: list[Any] = []
        self.result = self.digest(value)

    def begin(self, value: object) -> int | None:
        """Note a function or a class; return its number if it was met before."""
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
            said = f"{self._name} ({type(value).__name__})"
            if said not in self.opaque:
                self.opaque.append(said)
            return type(value).__qualname__.encode()
        return digest.digest()


@dataclass(slots=True)
class _Sink:
    digest: Any

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return len(data)


class _Pickler(pickle.Pickler):
    """Writes values; in the place of what pickle takes by name alone, digests of its code."""

    def __init__(self, sink: _Sink, look: _Look) -> None:
        super().__init__(sink, protocol=5)
        self.fast = True  # or two equal texts are written in two ways, if they are one object
        self._look = look

    def persistent_id(self, value: object) -> bytes | None:
        if isinstance(value, set | frozenset):
            members = sorted(self._look.digest(each) for each in value)
            return b"set" + b"".join(members)
        told = _told(value)
        if told is None:
            return None
        number = self._look.begin(value)
        if number is not None:
            return f"again {number}".encode()
        return self._look.digest(list(told))


def _told(value: Any) -> Iterator[object] | None:
    """Yield what stands for code; ``None`` for a value that pickle writes as it is."""
    if isinstance(value, FunctionType):
        if _is_own(value.__module__ or "", value.__code__.co_filename):
            return _values(_function_parts(value))
        return chain(_named(value), _values(_bound(value, frozenset())))
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, ModuleType):
        return iter(("module", value.__name__, _release(value.__name__)))
    if isinstance(value, type):
        return _class(value) if _has_own(value.__module__) else _named(value)
    if isinstance(value, MethodType):
        return iter(("method", value.__func__, value.__self__))
    if isinstance(value, BuiltinFunctionType):
        bound = value.__self__
        return chain(_named(value), () if isinstance(bound, ModuleType) else (bound,))
    if isinstance(value, property):
        return iter(("property", value.fget, value.fset, value.fdel))
    if isinstance(value, staticmethod | classmethod):
        return iter((type(value).__name__, value.__func__))
    if isinstance(value, functools._lru_cache_wrapper):  # what it remembers is no part of it
        return iter(("cached", value.__wrapped__))
    return None


def _values(parts: Iterator[tuple[str, Any]]) -> Iterator[object]:
    return chain.from_iterable(parts)


def _function_parts(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a function of the user's, by what a message calls them."""
    codes = list(_codes(function.__code__))
    yield "the code", function.__code__
    yield from _bound(function, _assigned(codes, "co_freevars"))
    changed = _assigned(codes, "co_names")
    names = {n.argval for code in codes for n in dis.get_instructions(code) if n.opname in _READS}
    attributes = sorted({name for code in codes for name in code.co_names})
    for name in sorted(names - changed):
        if name not in function.__globals__:
            continue  # one of Python's own, or one that is not there yet
        value = function.__globals__[name]
        yield f"the global {name}", value
        if isinstance(value, ModuleType) and _has_own(value.__name__):
            for attribute in attributes:
                if attribute in vars(value):
                    yield f"the global {name}.{attribute}", vars(value)[attribute]


def _bound(function: FunctionType, changed: frozenset[str]) -> Iterator[tuple[str, Any]]:
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


def _assigned(codes: list[CodeType], where: str) -> frozenset[str]:
    """Return the globals or the closure's variables that codes assign themselves."""
    return frozenset(
        step.argval
        for code in codes
        for step in dis.get_instructions(code)
        if _WRITES.get(step.opname) == where and step.argval in getattr(code, where)
    )


def _code(code: CodeType) -> Iterator[object]:
    """Yield what a code does, wherever it stands in its file."""
    yield from (code.co_name, code.co_code, code.co_exceptiontable, code.co_flags)
    yield from (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    yield from (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    yield code.co_consts


def _class(kind: type) -> Iterator[object]:
    yield from ("class", kind.__qualname__, kind.__bases__)
    for name, value in sorted(vars(kind).items()):
        # Python adds data of its own under such names, and not always at once
        is_data = name.startswith("__") and not callable(value)
        if not is_data and name not in _UNTOLD:
            # a slot's descriptor has no more to it than its name
            yield name
            yield None if type(value).__name__ == "member_descriptor" else value


def _named(value: Any) -> Iterator[object]:
    """Yield the name of what a package or Python itself has."""
    module = getattr(value, "__module__", None) or ""
    yield from (module, getattr(value, "__qualname__", repr(type(value))), _release(module))


def _release(module: str) -> str:
    version = getattr(sys.modules.get(module.partition(".")[0]), "__version__", "")
    return version if isinstance(version, str) else ""


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
    return not name.startswith(("<frozen", *_installed()))


def _has_own(module: str) -> bool:
    """Return True for a module of the user's."""
    if module == "__main__":  # whatever file began the process, such as that of a kernel
        return True
    return _is_own(module, getattr(sys.modules.get(module), "__file__", None))

"""Kernels: loops over arrays that declare their types and can run as machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lancekit._compiled import state

if TYPE_CHECKING:
    from lancekit._compiled.linking import Code

#: type of a parameter that is a whole number
NUMBER = "int"
#: placeholder for each type that a kernel is compiled for
EACH = "T"
#: prefix of the type of an array that the kernel writes to
WRITTEN = "="


class Values(Protocol):
    """One-dimensional array of whole numbers, as a kernel's function sees it."""

    size: int
    itemsize: int
    #: for kernels that are compiled for several types
    dtype: np.dtype[np.unsignedinteger]

    def __getitem__(self, at: np.uint64 | Literal[0, 1, 2], /) -> int:
        """Return one value."""

    def __setitem__(self, at: np.uint64 | Literal[0, 1, 2], value: int | np.integer, /) -> None:
        """Write one value."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Kernel for one choice of types: its machine code symbol and its parameters."""

    symbol: str
    parameters: tuple[str, ...]

    @property
    def types(self) -> list[type[ctypes.c_int64 | ctypes.c_void_p]]:
        """C types of the call's arguments: an array is passed as its address and its length."""
        return [
            kind
            for parameter in self.parameters
            for kind in (
                (ctypes.c_int64,) if parameter == NUMBER else (ctypes.c_void_p, ctypes.c_int64)
            )
        ]


@dataclass(slots=True, eq=False)
class Kernel:
    """Function over arrays with declared types, which runs as machine code once that is loaded.

    The function takes one-dimensional arrays and whole numbers, allocates nothing, and calls no
    other function.  It indexes with `numpy.uint64` because a signed index could count from the end.
    It never leaves its arrays, whatever values they contain.  It returns a number, negative on a
    fault; its output is then invalid.
    """

    function: Callable[..., int]
    parameters: tuple[str, ...]
    over: tuple[str, ...]
    #: nanoseconds saved for each unit of work, compared with the NumPy function
    saves: float
    _calls: dict[str, tuple[Callable[..., int], tuple[object, ...]]] = field(default_factory=dict)
    #: keeps the machine code of `_calls` alive
    _code: Code | None = None

    @property
    def variants(self) -> Iterator[Variant]:
        """Variants of the kernel, one for each type in `over`."""
        name = f"{self.function.__module__}.{self.function.__name__}".replace(".", "_")
        for kind in self.over or ("",):
            parameters = tuple(text.replace(EACH, kind) for text in self.parameters)
            yield Variant(f"{name}_{kind}", parameters)

    def ready(self, units: int) -> Callable[..., int] | None:
        """Return the compiled kernel for `units` of work, or ``None`` if it is not loaded."""
        code = state.wanted(units * self.saves)
        if code is None:
            return None
        if not self._calls:
            self._link(code)
        return self._call

    def _link(self, code: Code) -> None:
        self._code = code
        for kind, variant in zip(self.over or ("",), self.variants, strict=True):
            prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *variant.types)
            kinds = tuple(
                None if text == NUMBER else np.dtype(text.lstrip(WRITTEN))
                for text in variant.parameters
            )
            self._calls[kind] = prototype(code.address(variant.symbol)), kinds

    def _call(self, *arguments: NDArray[np.generic] | int) -> int:
        """Call the machine code; ctypes releases the interpreter's lock while it runs."""
        kind = ""
        if self.over:
            first = next(at for at, text in enumerate(self.parameters) if EACH in text)
            kind = arguments[first].dtype.str[1:]  # type: ignore[union-attr]  # an array, as declared
        call, kinds = self._calls[kind]
        flat: list[int] = []
        arrays = []  # copies live until the call is done
        for argument, wanted, text in zip(arguments, kinds, self.parameters, strict=True):
            if wanted is None:
                flat.append(int(argument))
                continue
            array: NDArray[np.generic] = argument  # type: ignore[assignment]
            if array.dtype != wanted:
                raise TypeError(f"{self.function.__name__} takes {wanted}, not {array.dtype}")
            flags = array.flags
            if not (flags.c_contiguous and flags.aligned):
                if text.startswith(WRITTEN):
                    raise TypeError(f"{self.function.__name__} writes to whole arrays")
                array = np.require(array, requirements=("C", "A"))
            arrays.append(array)
            flat += (array.__array_interface__["data"][0], array.size)
        return call(*flat)


def kernel(
    parameters: str, *, saves: float, over: str = ""
) -> Callable[[Callable[..., int]], Kernel]:
    """Declare a function as a kernel.

    parameters: types of the parameters: ``int``, or the NumPy code of an array's values such as
        ``u1``.  ``=u1`` marks an array that is written, ``T`` each type in `over`.
    saves: nanoseconds of CPU time that a unit of work saves compared with NumPy.
    over: the types that ``T`` stands for.

    Examples
    --------
    >>> @kernel("u1 =u1", saves=1)
    ... def doubled(values, out):
    ...     for at in range(values.size):
    ...         out[np.uint64(at)] = 2 * values[np.uint64(at)]
    ...     return values.size
    >>> [variant.parameters for variant in doubled.variants]
    [('u1', '=u1')]
    """

    def declare(function: Callable[..., int]) -> Kernel:
        return Kernel(function, tuple(parameters.split()), tuple(over.split()), saves)

    return declare

"""What a kernel is: a loop over arrays, declared with its types, and called if it is compiled."""

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

#: an argument that is a number
NUMBER = "int"
#: stands for each of the types that a kernel is made for
EACH = "T"
#: before the type of an array that is written
WRITTEN = "="


class Values(Protocol):
    """An array as the function of a kernel sees it: whole numbers, in one dimension."""

    size: int
    itemsize: int
    #: where it is one of those that the kernel is made for
    dtype: np.dtype[np.unsignedinteger]

    def __getitem__(self, at: np.uint64 | Literal[0, 1, 2], /) -> int:
        """Return a value."""

    def __setitem__(self, at: np.uint64 | Literal[0, 1, 2], value: int | np.integer, /) -> None:
        """Write a value."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel for one choice of types: the symbol of its machine code, and its parameters."""

    symbol: str
    parameters: tuple[str, ...]

    @property
    def types(self) -> list[type[ctypes.c_int64 | ctypes.c_void_p]]:
        """The C types of what it is called with: an array is its address and its length."""
        return [
            kind
            for parameter in self.parameters
            for kind in (
                (ctypes.c_int64,) if parameter == NUMBER else (ctypes.c_void_p, ctypes.c_int64)
            )
        ]


@dataclass(slots=True, eq=False)
class Kernel:
    """A declared kernel.

    Its function takes arrays of one dimension and whole numbers, sets no memory aside, calls no
    other function, indexes with `numpy.uint64` (a signed index could be meant from the end), and
    stays inside of its arrays whatever is in them.  It returns a number, negative if something is
    wrong; nothing that it has written counts then.
    """

    function: Callable[..., int]
    parameters: tuple[str, ...]
    over: tuple[str, ...]
    #: nanoseconds that each unit of work takes less than with the twin
    saves: float
    _calls: dict[str, tuple[Callable[..., int], tuple[object, ...]]] = field(default_factory=dict)
    #: what is called is there as long as this is
    _code: Code | None = None

    @property
    def variants(self) -> Iterator[Variant]:
        """One for each of the types it is made for."""
        name = f"{self.function.__module__}.{self.function.__name__}".replace(".", "_")
        for kind in self.over or ("",):
            parameters = tuple(text.replace(EACH, kind) for text in self.parameters)
            yield Variant(f"{name}_{kind}", parameters)

    def ready(self, units: int) -> Callable[..., int] | None:
        """Return the compiled kernel for so much work, or ``None`` as long as there is none."""
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
        """Call the machine code: ctypes lets go of the interpreter's lock while it runs."""
        kind = ""
        if self.over:
            first = next(at for at, text in enumerate(self.parameters) if EACH in text)
            kind = arguments[first].dtype.str[1:]  # type: ignore[union-attr]  # an array, as declared
        call, kinds = self._calls[kind]
        flat: list[int] = []
        held = []  # copies live until the call is done
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
            held.append(array)
            flat += (array.__array_interface__["data"][0], array.size)
        return call(*flat)


def kernel(
    parameters: str, *, saves: float, over: str = ""
) -> Callable[[Callable[..., int]], Kernel]:
    """Declare a function as a kernel.

    parameters: the types of its parameters: ``int``, or that of an array's values as NumPy spells
        it, such as ``u1``; ``=u1`` if they are written.  ``T`` is each type that it is made for.
    saves: nanoseconds of the processor that a unit of its work takes less than with NumPy.
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

"""The ``bfloat16`` type for Arrow and pandas: 16-bit floats with the exponent of a float32.

A column stores two bytes a row, the upper half of the float32, under the extension name of the
reference.  Names follow ``lance.arrow``.  Importing this module registers the type with Arrow and
pandas.  From then on such columns are read with this type, and not as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import total_ordering
from typing import TYPE_CHECKING, Any, ClassVar
from typing import cast as of_type

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._checked import checked
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotOfferedError, type_name

if TYPE_CHECKING:
    import builtins

#: the name of the extension type in Arrow and pandas
NAME = "lance.bfloat16"


def _halves(floats: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Return the upper halves of floats, rounded to nearest, ties to even."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        bits = np.ascontiguousarray(floats, "<f4").view("<u4")
    odd = (bits >> 16) & 1
    rounded = ((bits.astype("<u8") + 0x7FFF + odd) >> 16).astype("<u2")
    # a NaN keeps its sign, and is never rounded into an infinity
    return np.where(np.isnan(floats), (bits >> 16).astype("<u2") | 0x40, rounded).astype("<u2")


def _stored_halves(array: pa.ExtensionArray) -> NDArray[np.uint16]:
    """Return the stored 16-bit values; the values of null items are arbitrary."""
    data = array.storage.buffers()[1]
    return np.frombuffer(data or b"", "<u2", len(array), 2 * array.offset if data else 0)


def _wide(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Convert upper halves to float32."""
    return (halves.astype("<u4") << 16).view("<f4")


@total_ordering
@dataclass(frozen=True, slots=True, init=False)
class BFloat16:
    """A ``bfloat16`` number.

    Examples
    --------
    >>> BFloat16(1.1), BFloat16(1.1) > BFloat16(1.0)
    (1.1015625, True)
    """

    _value: float

    def __init__(self, value: float) -> None:
        if not isinstance(value, float | int | np.floating | np.integer):
            raise InvalidTypeError(f"value must be a number, got {shown(value)}.")
        object.__setattr__(self, "_value", float(_wide(_halves(np.array([value], "f8")))[0]))

    @classmethod
    def from_bytes(cls, data: bytes) -> BFloat16:
        """Decode a number from two bytes in little-endian order."""
        if len(data) != 2:
            raise InvalidArgumentError(f"A bfloat16 must have 2 bytes, got {len(data)}.")
        return cls(struct.unpack("<f", b"\0\0" + data)[0])

    def as_float(self) -> float:
        """Return the value as a Python float."""
        return self._value

    __float__ = as_float

    def __lt__(self, other: object) -> bool:
        return self._value < other._value if isinstance(other, BFloat16) else NotImplemented

    def __repr__(self) -> str:
        # the shortest digits that identify the value, without an exponent
        return np.format_float_positional(np.float32(self._value), trim="-").replace("nan", "NaN")


class BFloat16Array(pa.ExtensionArray):
    """An Arrow array of `BFloat16`, stored as two bytes each."""

    def __repr__(self) -> str:
        return f"<lancekit.arrow.BFloat16Array object at {id(self):#018x}>\n{self}"

    def __str__(self) -> str:
        shown = [f"  {value}" for value in (self if len(self) < 22 else self[:10])]
        if len(self) >= 22:
            shown += ["..."] + [f"  {value}" for value in self[-10:]]
        return "[\n" + ",\n".join(shown) + "\n]"

    def to_numpy(
        self, zero_copy_only: bool = False, writable: bool = False
    ) -> np.ndarray[Any, Any]:
        """Return the values as an array of ``ml_dtypes.bfloat16``.

        Parameters
        ----------
        zero_copy_only
            Ignored: the values are never converted.
        writable
            Whether to copy the values, so that they can be changed.

        Returns
        -------
        numpy.ndarray
            An array of shape (values,).

        Raises
        ------
        InvalidArgumentError
            The array has nulls.
        NotOfferedError
            The package ml_dtypes is not installed.

        Examples
        --------
        >>> bfloat16_array([1.0, 2.5]).to_numpy()  # doctest: +SKIP
        array([1, 2.5], dtype=bfloat16)
        """
        del zero_copy_only
        if self.null_count:
            raise InvalidArgumentError(
                "The array has nulls, which NumPy cannot store.",
                hint="Fill them, or cast to float32 first.",
            )
        values = _stored_halves(self).view(_ml_dtype())
        return values.copy() if writable else values

    @classmethod
    def from_numpy(cls, array: np.ndarray[Any, Any]) -> BFloat16Array:
        """Convert a one-dimensional array of ``ml_dtypes.bfloat16``."""
        array = np.asarray(array)
        if array.dtype != _ml_dtype() or array.ndim != 1:
            raise InvalidArgumentError(
                f"Not a flat array of ml_dtypes.bfloat16: {array.dtype} in {array.ndim} dimensions."
            )
        return _array(np.ascontiguousarray(array).view("<u2"))


class BFloat16Scalar(pa.ExtensionScalar):
    """One value of a `BFloat16Array`."""

    def as_py(self, **kwargs: Any) -> BFloat16 | None:
        """Return the value as a `BFloat16`, or ``None`` if it is null."""
        data = None if self.value is None else self.value.as_py(**kwargs)
        return None if data is None else BFloat16.from_bytes(data)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BFloat16Scalar):
            other = other.as_py()
        elif isinstance(other, np.generic) and other.dtype.name == "bfloat16":
            other = BFloat16(float(other))
        return bool(self.as_py() == other)

    __hash__ = None  # type: ignore[assignment]  # equals values that have other hashes


class BFloat16Type(pa.ExtensionType):
    """The Arrow extension type of `BFloat16`."""

    def __init__(self) -> None:
        super().__init__(pa.binary(2), NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> BFloat16Type:
        del storage, serialized
        return cls()

    def __arrow_ext_class__(self) -> type:
        return BFloat16Array

    def __arrow_ext_scalar_class__(self) -> type:
        return BFloat16Scalar

    def to_pandas_dtype(self) -> PandasBFloat16Type:
        """Return the pandas type of the column."""
        return PandasBFloat16Type()


@pd.api.extensions.register_extension_dtype
class PandasBFloat16Type(pd.api.extensions.ExtensionDtype):
    """The pandas extension type of `BFloat16`."""

    kind = "f"
    na_value: ClassVar[None] = None
    name = NAME
    type: ClassVar[builtins.type[BFloat16]] = BFloat16
    _is_numeric = True

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> PandasBFloat16Array:
        return PandasBFloat16Array(array)

    @classmethod
    def construct_array_type(cls) -> builtins.type[PandasBFloat16Array]:
        """Return the class of pandas arrays of this type."""
        return PandasBFloat16Array


class PandasBFloat16Array(pd.api.extensions.ExtensionArray):
    """A pandas array of `BFloat16` that wraps an Arrow array."""

    def __init__(self, data: pa.Array | pa.ChunkedArray) -> None:
        self.data: pa.Array = ak.combine_chunks(data) if isinstance(data, pa.ChunkedArray) else data

    @property
    def dtype(self) -> PandasBFloat16Type:
        """The pandas type of the array."""
        return PandasBFloat16Type()

    @classmethod
    def _from_sequence(
        cls, scalars: Iterable[object], *, dtype: object = None, copy: bool = False
    ) -> PandasBFloat16Array:
        del dtype, copy
        if isinstance(scalars, cls):
            return scalars
        floats = [v.as_float() if isinstance(v, BFloat16) else v for v in scalars]
        return cls(bfloat16_array(floats))

    @classmethod
    def _concat_same_type(cls, to_concat: Iterable[PandasBFloat16Array]) -> PandasBFloat16Array:
        return cls(ak.concat_arrays([part.data for part in to_concat]))

    def __getitem__(self, item: Any) -> Any:
        item = pd.api.indexers.check_array_indexer(self, item)
        if isinstance(item, int | np.integer):
            return self.data[int(item)].as_py()
        if isinstance(item, slice):
            return type(self)(self.data[item])
        return type(self)(ak.take(self.data, np.arange(len(self))[item]))

    def __len__(self) -> int:
        return len(self.data)

    def isna(self) -> NDArray[np.bool_]:
        """Return a mask of the null items."""
        return np.asarray(self.data.is_null())

    def take(
        self, indices: object, *, allow_fill: bool = False, fill_value: object = None
    ) -> PandasBFloat16Array:
        """Return the values at the given positions.

        Parameters
        ----------
        indices
            The positions.
        allow_fill
            Whether position -1 gives null; otherwise it is the last value.
        fill_value
            Ignored.

        Returns
        -------
        PandasBFloat16Array
            The values in the given order.

        Raises
        ------
        IndexError
            A position does not exist.

        Examples
        --------
        >>> values = PandasBFloat16Array(bfloat16_array([1.0, 2.5]))
        >>> list(values.take([1, -1], allow_fill=True))
        [2.5, None]
        """
        at = np.asarray(indices, "i8")
        del fill_value
        at = np.where(at < 0, -1, at) if allow_fill else np.arange(len(self))[at]
        return type(self)(ak.take(self.data, pa.array(at, mask=at < 0)))

    def copy(self) -> PandasBFloat16Array:
        """Return a new array that shares the immutable data."""
        return type(self)(self.data)

    @property
    def nbytes(self) -> int:
        """The size of the data in bytes."""
        return int(self.data.nbytes)

    def to_numpy(self, *args: object, **kwargs: object) -> np.ndarray[Any, Any]:
        """Return the values as an array of ``ml_dtypes.bfloat16``.

        Parameters
        ----------
        args, kwargs
            Ignored; pandas passes them.

        Returns
        -------
        numpy.ndarray
            An array of shape (values,).

        Raises
        ------
        InvalidArgumentError, NotOfferedError
            As in `BFloat16Array.to_numpy`.

        Examples
        --------
        >>> PandasBFloat16Array(bfloat16_array([1.0])).to_numpy()  # doctest: +SKIP
        array([1], dtype=bfloat16)
        """
        del args, kwargs
        return self.data.to_numpy()

    def __arrow_array__(self, type: object = None) -> pa.Array:  # noqa: A002
        array: pa.Array = self.data if type is None else cast(self.data, type)
        return array

    @classmethod
    def from_numpy(cls, array: np.ndarray[Any, Any]) -> PandasBFloat16Array:
        """Convert an array of ``ml_dtypes.bfloat16``."""
        return cls(BFloat16Array.from_numpy(array))


def _array(halves: NDArray[np.uint16], valid: pa.Buffer | None = None) -> BFloat16Array:
    buffers = [valid, pa.py_buffer(np.ascontiguousarray(halves, "<u2"))]
    storage = pa.Array.from_buffers(pa.binary(2), len(halves), buffers)
    return of_type("BFloat16Array", pa.ExtensionArray.from_storage(BFloat16Type(), storage))


def _of_floats(floats: pa.Array) -> BFloat16Array:
    """Convert an Arrow array of floats; nulls stay null."""
    values = floats.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    mask = pa.array(np.asarray(floats.is_valid()))
    return _array(_halves(values), mask.buffers()[1] if floats.null_count else None)


@checked
def bfloat16_array(values: Iterable[object]) -> BFloat16Array:
    """Convert numbers to a `BFloat16Array`, each rounded to nearest; ``None`` becomes null.

    Examples
    --------
    >>> print(bfloat16_array([1.1, None, 3.4]))
    [
      1.1015625,
      None,
      3.40625
    ]
    """
    try:
        return _of_floats(pa.array(list(values), pa.float64()))
    except (pa.ArrowException, TypeError) as error:
        raise InvalidTypeError(
            f"values must be numbers or None, got {type_name(values)}: {error}."
        ) from error


def _is_bfloat16(kind: object) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == NAME


def cast(arr: Any, target_type: object, *args: Any, **kwargs: Any) -> Any:
    """Cast an array like `pyarrow.compute.cast`, and also between floats and ``bfloat16``.

    Parameters
    ----------
    arr
        The array.  Of fixed-size lists the items are cast, and the list size stays.
    target_type
        An Arrow type.  ``"bfloat16"`` and ``"bf16"`` mean `BFloat16Type`.
    args, kwargs
        Arguments of `pyarrow.compute.cast`, which are ignored if either type is ``bfloat16``.

    Returns
    -------
    pyarrow.Array
        The array in the target type.

    Raises
    ------
    InvalidArgumentError
        One type is ``bfloat16`` and the other is no float, or the list sizes differ.

    Examples
    --------
    >>> import pyarrow as pa
    >>> cast(cast(pa.array([1.1, None]), "bf16"), pa.float32()).to_pylist()
    [1.1015625, None]
    """
    target: Any = BFloat16Type() if target_type in ("bfloat16", "bf16") else target_type
    if isinstance(target, str):
        target = pa.type_for_alias(target)
    both = (arr.type, target)
    if all(map(pt.is_fixed_size_list, both)):
        if arr.type.list_size != target.list_size:
            raise InvalidArgumentError(f"{arr.type} cannot become {target}: the sizes differ.")
        first, count = arr.offset * target.list_size, len(arr) * target.list_size
        items = cast(arr.values.slice(first, count), target.value_type, *args, **kwargs)
        return pa.FixedSizeListArray.from_arrays(
            items, type=pa.list_(target.value_field, target.list_size), mask=arr.is_null()
        )
    if not any(map(_is_bfloat16, both)):
        return pc.cast(arr, target, *args, **kwargs)
    if all(map(_is_bfloat16, both)):
        return arr
    if not any(map(pt.is_floating, both)):
        raise InvalidArgumentError(
            f"{arr.type} cannot be converted to {target}.", hint="Cast to a float first."
        )
    if _is_bfloat16(target):
        return _of_floats(arr)
    return pa.array(_wide(_stored_halves(arr)), mask=np.asarray(arr.is_null())).cast(target)


def _ml_dtype() -> np.dtype[np.generic]:
    try:
        from ml_dtypes import bfloat16
    except ImportError as error:
        raise NotOfferedError(
            "NumPy's bfloat16 needs the package ml_dtypes, which is not installed.",
            hint="Install it with: pip install ml_dtypes.",
        ) from error
    found: np.dtype[np.generic] = np.dtype(bfloat16)
    return found


with suppress(pa.ArrowKeyError):  # pylance may have registered a type of this name
    pa.register_extension_type(BFloat16Type())

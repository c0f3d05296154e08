"""Upper bounds for the results of functions that can make long texts from short ones.

Each function takes the arguments of its namesake and returns bytes for all rows together.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_compute as pc
from lancekit._casts import nearest
from lancekit._scan.expressions.kernels.operators import Value, family

#: most bytes of a character, and of a value other than text when it is converted to text
_WIDEST, _WRITTEN = 4, 64

_ENDLESS = 1e18


def _numbers(value: Value) -> NDArray[np.float64]:
    """Return numbers as finite doubles; 0 for null and NaN."""
    if isinstance(value, pa.Scalar):
        return _finite(np.array([float(value.as_py() or 0)]))
    whole = pc.fill_null(nearest(value, pa.float64()), 0.0)
    return _finite(whole.to_numpy(zero_copy_only=False))


def _finite(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.nan_to_num(numbers, nan=0.0, posinf=_ENDLESS, neginf=-_ENDLESS))


def _lengths(text: Value) -> NDArray[np.float64]:
    return _numbers(pc.binary_length(text))


def _rows(args: tuple[Value, ...]) -> int:
    return max((len(arg) for arg in args if not isinstance(arg, pa.Scalar)), default=1)


def joined(*args: Value) -> float:
    """Bound the size of texts that are concatenated or selected from."""
    texts = [arg for arg in args if family(arg.type) == "text"]
    each = sum(float(_lengths(arg)[0]) for arg in texts if isinstance(arg, pa.Scalar))
    columns = sum(arg.nbytes for arg in texts if not isinstance(arg, pa.Scalar))
    written = _WRITTEN * (len(args) - len(texts)) if texts else 0
    return float(columns + _rows(args) * (each + written))


def padded(value: Value, length: Value, fill: Value | None = None) -> float:
    """Bound the size of texts that are padded to a number of characters."""
    wide = 1 if fill is None else _WIDEST
    if isinstance(fill, pa.Scalar):
        wide = max((len(character.encode()) for character in fill.as_py() or ""), default=0)
    each = np.maximum(_numbers(length), 0) * wide + _lengths(value)
    rows = _rows((value, length) if fill is None else (value, length, fill))
    return float(each.sum()) * (rows / len(each) if len(each) else 1)


def repeated(value: Value, times: Value) -> float:
    """Return the size of repeated texts."""
    return float((_lengths(value) * np.maximum(_numbers(times), 0)).sum())


def replaced(value: Value, old: Value, new: Value) -> float:
    """Bound the size of texts with all occurrences of a text replaced."""
    shortest = max(1.0, float(_lengths(old).min(initial=1)))
    after = float(_lengths(new).max(initial=0))
    whole = float(_lengths(value).sum())
    return whole + (whole / shortest + _rows((value, old, new))) * after


def replaced_by_pattern(
    value: Value, pattern: Value, new: Value, flags: Value | None = None
) -> float:
    """Bound the size of texts with matches of a pattern replaced, with groups in the new text."""
    options = (pattern, new) if flags is None else (pattern, new, flags)
    letters = flags.as_py() if isinstance(flags, pa.Scalar) else flags
    every = letters is not None and (not isinstance(letters, str) or "g" in letters)
    whole, rows = float(_lengths(value).sum()), _rows((value, *options))
    matches = whole + rows if every else rows
    text = new.as_py() if isinstance(new, pa.Scalar) else None
    named = (text or "").count("$") + (text or "").count("\\")
    return whole * (1 + named) + matches * float(_lengths(new).max(initial=0))

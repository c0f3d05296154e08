"""Functions of text, and LIKE."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import booleans_of, scalar_of
from lancekit._format.arrow_parts import viewed
from lancekit._scan.expressions.kernels import sizes
from lancekit._scan.expressions.kernels.function import (
    ANY_NUMBER,
    Function,
    constant_of,
    per_option,
    per_value,
    unary,
    with_constant,
)
from lancekit._scan.expressions.kernels.operators import Value, as_array, concat
from lancekit._scan.expressions.kernels.patterns import count, in_pieces, matches, place, replaced

# ---- substring search in all texts at once, as bytes

#: the number of first bytes that are compared everywhere; further bytes only where these match
_EVERYWHERE = 4

#: if the first bytes match more often than once in this many bytes, text by text is faster
_RARE = 32


def contains(texts: pa.Array, wanted: str) -> pa.Array:
    """Return a mask of the texts that contain another text; null for null.

    Examples
    --------
    >>> contains(pa.array(["abc", "b", None, ""]), "b").to_pylist()
    [True, True, None, False]
    """
    needle = wanted.encode()
    if not needle or not len(texts) or texts.buffers()[2] is None:
        return pc.match_substring(texts, wanted)
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    borders = viewed(texts.buffers()[1], kind)[texts.offset :][: len(texts) + 1]
    first, last = int(borders[0]), int(borders[-1])
    found = _places(viewed(texts.buffers()[2])[first:last], needle)
    if found is None:
        return pc.match_substring(texts, wanted)
    places = found + first
    owners = np.searchsorted(borders, places, "right") - 1
    flags = np.zeros(len(texts), bool)
    # a match may start in one text and end in the next
    flags[owners[places + len(needle) <= borders[owners + 1]]] = True
    whole = booleans_of(flags)
    if not ak.null_count(texts):
        return whole
    return pc.if_else(texts.is_valid(), whole, scalar_of(None, pa.bool_()))


def _places(data: NDArray[np.uint8], needle: bytes) -> NDArray[np.int64] | None:
    """Return the positions of a byte string; ``None`` if its beginning is not rare."""
    last = len(data) - len(needle) + 1
    if last <= 0:
        return np.empty(0, np.int64)
    same = data[:last] == needle[0]
    for at, byte in enumerate(needle[1:_EVERYWHERE], start=1):
        same &= data[at : at + last] == byte
    if np.count_nonzero(same) > last // _RARE:
        return None
    places = np.flatnonzero(same)
    for at, byte in enumerate(needle[_EVERYWHERE:], start=_EVERYWHERE):
        places = places[data[places + at] == byte]
    return places


# ---- patterns


def _pattern(escape: str, pattern: str) -> str:
    """Rewrite a LIKE pattern to the one escape character of the kernel."""
    if escape == "\\":
        # a backslash at the end escapes nothing and is literal; the kernel would drop it
        single = (len(pattern) - len(pattern.rstrip("\\"))) % 2
        return pattern + "\\" * single
    quoted = re.escape(escape)
    return re.sub(rf"{quoted}(.)|(\\)", lambda m: "\\" + (m[1] or m[2]), pattern, flags=re.DOTALL)


#: the search for a text, by whether the pattern begins and ends with ``%``
_LOOKS: Mapping[tuple[str, str], Callable[[pa.Array, str], Value]] = {
    ("", ""): pc.equal,
    ("", "%"): pc.starts_with,
    ("%", ""): pc.ends_with,
    ("%", "%"): contains,
}


@lru_cache
def _plain(escape: str, pattern: str) -> tuple[tuple[str, str], str] | None:
    """Return the wildcards at both ends and the text between, if a pattern has no others."""
    mark = re.escape(escape)
    found = re.fullmatch(rf"(%?)((?:[^%_{mark}]|{mark}.)+)(%?)", pattern, re.DOTALL)
    if found is None:
        return None
    return (found[1], found[3]), re.sub(rf"{mark}(.)", r"\1", found[2], flags=re.DOTALL)


def _match(texts: pa.Array, pattern: str, *, escape: str, ignore_case: bool) -> pa.Array:
    plain = None if ignore_case else _plain(escape, pattern)
    if plain:
        where, text = plain
        return as_array(_LOOKS[where](texts, text), len(texts))
    form = _pattern(escape, pattern)
    return in_pieces(lambda some: pc.match_like(some, form, ignore_case=ignore_case), texts)


def like(value: Value, pattern: Value, *, ignore_case: bool, escape: str) -> Value:
    """Match values against LIKE patterns with ``%`` and ``_``."""
    match = per_option(partial(_match, escape=escape, ignore_case=ignore_case), pa.bool_())
    if isinstance(pattern, pa.Scalar) or ignore_case:
        return match(value, pattern)
    # most patterns of a column may be plain texts, which are compared all at once
    found = pc.equal(value, pattern)
    wild = pc.fill_null(pc.match_substring_regex(pattern, f"[%_{re.escape(escape)}]"), False)
    if not pc.any(wild).as_py():
        return found
    some = value if isinstance(value, pa.Scalar) else ak.filter(value, wild)
    return pc.replace_with_mask(found, wild, match(some, ak.filter(pattern, wild)))


_REGEXP_LIKE = per_option(matches, pa.bool_())


def _regexp(value: Value, pattern: Value, flags: Value | None = None) -> Value:
    # null flags are no flags
    return _REGEXP_LIKE(value, pattern, scalar_of("") if flags is None else pc.fill_null(flags, ""))


def _regexp_match(value: Value, pattern: Value, flags: Value | None = None) -> Value:
    """Return True for a match, else null: the reference returns the matches, read as a boolean."""
    found = _regexp(value, pattern, flags)
    return pc.if_else(found, True, scalar_of(None, pa.bool_()))


# ---- parts of text

_LONGEST = (1 << 31) - 1  # no text has more characters


def _with_number(kernel: Callable[[Value, int], Value]) -> Callable[[Value, Value], Value]:
    """Wrap a kernel whose second argument is a constant number; null gives null for every row."""
    null = scalar_of(None, pa.string())

    def call(text: Value, number: Value) -> Value:
        count = constant_of(number)
        return pc.if_else(pc.is_null(text), null, null) if count is None else kernel(text, count)

    return call


def _left(text: Value, count: Value) -> Value:
    if not isinstance(count, pa.Scalar):
        return per_value(lambda t, n: t[:n], pa.string())(text, count)
    return _with_number(lambda v, n: pc.utf8_slice_codeunits(v, 0, n))(text, count)


def _right(text: Value, count: Value) -> Value:
    if not isinstance(count, pa.Scalar):
        return per_value(lambda t, n: t[-n:] if n else "", pa.string())(text, count)
    return _with_number(lambda v, n: pc.utf8_slice_codeunits(v, -n if n else _LONGEST))(text, count)


def _split_part(text: str, delimiter: str, place: int) -> str:
    if place == 0:
        raise ValueError("split_part counts from 1, or from -1 backwards")
    parts = text.split(delimiter) if delimiter else [text]
    at = place - 1 if place > 0 else len(parts) + place
    return parts[at] if 0 <= at < len(parts) else ""


def _substr_index(text: str, delimiter: str, count: int) -> str:
    parts = text.split(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[len(parts) + count :])


def _padded(text: str, length: int, fill: str, *, left: bool) -> str:
    missing = length - len(text)
    if missing <= 0:
        return text[: max(0, length)]
    padding = (fill * (missing // len(fill) + 1))[:missing] if fill else ""
    return padding + text if left else text + padding


def _pad(*, left: bool) -> Function:
    def call(value: Value, length: Value, fill: Value | None = None) -> Value:
        filling = scalar_of(" ") if fill is None else fill
        kernel = per_value(lambda *a: _padded(*a, left=left), value.type)
        return kernel(value, length, filling)

    return Function(call, ("text", "number", "text"), 2, 3, size=sizes.padded)


def _trim(kernel: Callable[..., Value]) -> Function:
    def call(value: Value, wanted: Value | None = None) -> Value:
        # without an argument only spaces are trimmed, not other white space
        return kernel(value, " " if wanted is None else constant_of(wanted))

    return Function(call, ("text",), 1, 2)


def _repeat(text: Value, times: Value) -> Value:
    number: Value = ak.max_element_wise(times, 0, skip_nulls=False)
    return pc.binary_repeat(text, number)


def _replace(texts: pa.Array, old: str, new: str) -> pa.Array:
    if old:
        return pc.replace_substring(texts, pattern=old, replacement=new)
    # an empty text is between any two characters; Arrow's kernel would not terminate
    return pc.replace_substring_regex(texts, pattern="", replacement=new.replace("\\", r"\\"))


_REPLACE = per_option(_replace, None)


def _translate(text: str, old: str, new: str) -> str:
    table = {ord(o): new[i] if i < len(new) else None for i, o in reversed([*enumerate(old)])}
    return text.translate(table)


def _initcap(text: str) -> str:
    return re.sub(r"[^\W_]+", lambda m: m[0][:1].upper() + m[0][1:].lower(), text)


def _cased(ascii_only: Callable[[pa.Array], pa.Array], whole: Callable[[str], str]) -> Function:
    """Return a function that changes case; a letter may become several as in Unicode: ß to SS."""
    others = per_value(whole, pa.string())

    def call(value: Value) -> Value:
        if isinstance(value, pa.Scalar):
            return others(value)
        found = ascii_only(value)
        rest = pc.fill_null(pc.invert(pc.string_is_ascii(value)), False)
        if not pc.any(rest).as_py():
            return found
        changed = others(ak.filter(value, rest))
        return pc.replace_with_mask(found, rest, changed.cast(value.type))

    return unary(call, "text")


def _levenshtein(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def _find_in_set(text: str, words: str) -> int:
    return words.split(",").index(text) + 1 if text in words.split(",") else 0


def _concat(*values: Value) -> Value:
    return concat(*(pc.coalesce(pc.cast(value, pa.string()), "") for value in values))


def _concat_ws(separator: Value, *values: Value) -> Value:
    joined, *rest = (pc.cast(value, pa.string()) for value in values)
    for text in rest:
        both = pc.binary_join_element_wise(joined, text, separator)
        joined = pc.coalesce(both, joined, text)
    return pc.if_else(pc.is_valid(separator), pc.coalesce(joined, ""), scalar_of(None, pa.string()))


# ---- bytes


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _digest(name: str) -> Function:
    def call(value: str | bytes) -> bytes:
        import hashlib

        return hashlib.new(name, _as_bytes(value)).digest()

    return unary(per_value(call, pa.binary()), "")


def _md5(value: str | bytes) -> str:
    import hashlib

    return hashlib.md5(_as_bytes(value), usedforsecurity=False).hexdigest()


def _compare_with(kernel: Callable[..., Value], test: Callable[[str, str], bool]) -> Function:
    """Return a function of a text and a pattern, which is a constant in nearly all uses."""
    constant = with_constant(kernel)
    other = per_value(test, pa.bool_())

    def call(value: Value, pattern: Value) -> Value:
        return (constant if isinstance(pattern, pa.Scalar) else other)(value, pattern)

    return Function(call, ("text",), 2, 2)


TEXT_FUNCTIONS: Mapping[str, Function] = {
    "lower": _cased(ak.ascii_lower, str.lower),
    "upper": _cased(ak.ascii_upper, str.upper),
    "initcap": unary(per_value(_initcap, pa.string()), "text"),
    **dict.fromkeys(("length", "char_length", "character_length"), unary(pc.utf8_length, "text")),
    "octet_length": unary(pc.binary_length, "text"),
    "bit_length": unary(
        lambda v: pc.multiply(pc.binary_length(v), scalar_of(8, pa.int32())), "text"
    ),
    "ascii": unary(per_value(lambda t: ord(t[0]) if t else 0, pa.int32()), "text"),
    "chr": unary(per_value(chr, pa.string()), "number"),
    "to_hex": unary(per_value(lambda n: f"{n & ((1 << 64) - 1):x}", pa.string()), "number"),
    "reverse": unary(pc.utf8_reverse, "text"),
    **dict.fromkeys(("btrim", "trim"), _trim(pc.utf8_trim)),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "lpad": _pad(left=True),
    "rpad": _pad(left=False),
    "left": Function(_left, ("text", "number"), 2, 2),
    "right": Function(_right, ("text", "number"), 2, 2),
    "split_part": Function(per_value(_split_part, pa.string()), ("text", "text", "number"), 3, 3),
    **dict.fromkeys(
        ("substr_index", "substring_index"),
        Function(per_value(_substr_index, pa.string()), ("text", "text", "number"), 3, 3),
    ),
    "repeat": Function(_repeat, ("text", "number"), 2, 2, size=sizes.repeated),
    "replace": Function(_REPLACE, ("text",), 3, 3, size=sizes.replaced),
    "translate": Function(per_value(_translate, pa.string()), ("text",), 3, 3),
    "concat": Function(_concat, ("",), 1, ANY_NUMBER, size=sizes.joined),
    "concat_ws": Function(_concat_ws, ("text", ""), 2, ANY_NUMBER, size=sizes.joined),
    "starts_with": _compare_with(pc.starts_with, str.startswith),
    "ends_with": _compare_with(pc.ends_with, str.endswith),
    "contains": _compare_with(pc.match_substring, str.__contains__),
    **dict.fromkeys(
        ("strpos", "instr"),
        Function(per_value(lambda text, part: text.find(part) + 1, pa.int32()), ("text",), 2, 2),
    ),
    "find_in_set": Function(per_value(_find_in_set, pa.int32()), ("text",), 2, 2),
    "levenshtein": Function(per_value(_levenshtein, pa.int32()), ("text",), 2, 2),
    "regexp_like": Function(_regexp, ("text",), 2, 3),
    "regexp_match": Function(_regexp_match, ("text",), 2, 3),
    "regexp_replace": Function(
        per_option(replaced, None), ("text",), 3, 4, size=sizes.replaced_by_pattern
    ),
    "regexp_count": Function(per_option(count, pa.int64()), ("text",), 2, 2),
    "regexp_instr": Function(per_option(place, pa.int64()), ("text",), 2, 2),
    "md5": unary(per_value(_md5, pa.string()), ""),
    **{name: _digest(name) for name in ("sha224", "sha256", "sha384", "sha512")},
}

"""Regular expressions over columns of text: one engine, in linear time.

``translate`` writes an expression for Arrow's engine, which has the word boundaries of ASCII. If
Unicode's are needed in texts that are not ASCII, the texts are rewritten. Each ASCII character of
a rewritten text stands for all characters that the expression does not distinguish.
"""

from __future__ import annotations

import re
import string
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from time import perf_counter
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import scalar_of
from lancekit._format.arrow_parts import string_parts, strings_of, viewed
from lancekit._scan.expressions.kernels.function import Refused
from lancekit._scan.expressions.kernels.regex import Atom, Regex, translate
from lancekit._scan.expressions.kernels.regex_reader import WORD

#: takes texts and an expression of the engine
Kernel: TypeAlias = Callable[[pa.Array, str], pa.Array]

#: bytes of text in the first piece that the engine gets
_PIECE = 1 << 16

#: after a piece that takes less, or more, than these seconds, pieces grow or shrink: an interrupt
#: waits for the end of a piece
_SHORT, _LONG = 0.02, 0.2
#: seconds until an interrupt takes effect, at most
_INTERRUPT_SECONDS = 0.5

_NONE = r"[^\x{0}-\x{10FFFF}]"
_WORD_CHARACTERS = string.digits + string.ascii_letters + "_"
_OTHER_CHARACTERS = "".join(
    c for c in map(chr, range(0x80)) if c not in _WORD_CHARACTERS and c != "\n"
)


def in_pieces(kernel: Callable[[pa.Array], pa.Array], texts: pa.Array) -> pa.Array:
    """Run a kernel on slices of a column, each sized to take a fraction of a second."""
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    if len(texts) < 2 or texts.nbytes <= _PIECE:
        return _interruptible(kernel, texts)
    ends = viewed(texts.buffers()[1], kind)[texts.offset :][: len(texts) + 1]
    parts, begin, size = [], 0, _PIECE
    while begin < len(texts):
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + size, "right")) - 1)
        started = perf_counter()
        parts.append(_interruptible(kernel, texts.slice(begin, end - begin)))
        took = perf_counter() - started
        begin, size = end, size * 4 if took < _SHORT else size // 4 if took > _LONG else size
    return ak.concat_arrays(parts)


def _interruptible(kernel: Callable[[pa.Array], pa.Array], texts: pa.Array) -> pa.Array:
    """Run a kernel in another thread if it may take long, so that an interrupt ends the wait."""
    if texts.nbytes <= _PIECE or threading.current_thread() is not threading.main_thread():
        return kernel(texts)
    outcome: Future[pa.Array] = Future()

    def work() -> None:
        try:
            outcome.set_result(kernel(texts))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    # an interrupt that comes just before a wait begins does not end it
    while not wait([outcome], _INTERRUPT_SECONDS).done:
        pass
    return outcome.result()


def _run(regex: Regex, texts: pa.Array, kernel: Kernel) -> pa.Array:
    def call(piece: pa.Array, text: str) -> pa.Array:
        try:
            return in_pieces(lambda some: kernel(some, text), piece)
        except pa.ArrowInvalid as error:
            raise Refused(
                f"the regular expression {regex.source[:80]!r} is too large for the engine, or "
                f"has too many nested repetitions: {str(error).splitlines()[0]}"
            ) from error

    found = call(texts, regex.text)
    strange = _beyond_ascii(texts) if regex.words else None
    if strange is None:
        return found
    return pc.replace_with_mask(found, strange, call(*_as_ascii(regex, ak.filter(texts, strange))))


def _beyond_ascii(texts: pa.Array) -> pa.Array | None:
    """Return a mask of texts with non-ASCII characters; ``None`` if all are ASCII."""
    found = pc.invert(pc.fill_null(pc.string_is_ascii(texts), True))
    return found if pc.any(found).as_py() else None


def _as_ascii(regex: Regex, texts: pa.Array) -> tuple[pa.Array, str]:
    """Rewrite texts and expression in ASCII, with the same matches and word boundaries."""
    whole = "".join(texts.to_pylist())
    codes = np.frombuffer(whole.encode("utf-32-le"), "<u4")
    distinct, each = np.unique(codes, return_inverse=True)
    characters = pa.array(list(map(chr, distinct)))

    def among(text: str) -> object:
        found = pc.match_substring_regex(characters, rf"\A(?:{text})\z")
        return found.to_numpy(zero_copy_only=False).astype(bool)

    atoms = list(dict.fromkeys(p.text for p in regex.pieces if isinstance(p, Atom)))
    memberships = np.array([among(text) for text in (f"[{WORD}]", r"\n", *atoms)])
    kinds, kind_of = np.unique(memberships, axis=1, return_inverse=True)
    words, others = iter(_WORD_CHARACTERS), iter(_OTHER_CHARACTERS)
    try:
        stand = ["\n" if n else next(words if w else others) for w, n in kinds[:2].T]
    except StopIteration:
        raise Refused(
            f"the regular expression {regex.source[:80]!r} has too many distinct characters for "
            "Unicode word boundaries; use ASCII word boundaries: (?-u:\\b)"
        ) from None
    sets = {
        text: "".join(rf"\x{{{ord(s):X}}}" for s, in_it in zip(stand, row, strict=True) if in_it)
        for text, row in zip(atoms, kinds[2:], strict=True)
    }
    pieces = [
        p if isinstance(p, str) else f"[{sets[p.text]}]" if sets[p.text] else _NONE
        for p in regex.pieces
    ]
    table = np.array([ord(s) for s in stand], np.uint8)
    lengths = pc.utf8_length(texts).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    data = table[kind_of.ravel()][each.ravel()]
    return strings_of(offsets, data, pa.large_string()), "".join(pieces)


def matches(texts: pa.Array, pattern: str, flags: str = "") -> pa.Array:
    r"""Return a mask of the texts that an expression matches; null for null.

    Examples
    --------
    >>> matches(pa.array(["été", "ete", None]), r"^\w+é$").to_pylist()
    [True, False, None]
    """
    return _run(translate(pattern, flags), texts, pc.match_substring_regex)


def _marked(texts: pa.Array, text: str) -> pa.Array:
    """Count matches by adding a mark to each: the texts stay whole, and so do boundaries."""
    wide = pc.cast(texts, pa.large_string())
    marked = pc.replace_substring_regex(wide, pattern=text, replacement="\\0\x01")
    return pc.subtract(pc.binary_length(marked), pc.binary_length(wide))


def count(texts: pa.Array, pattern: str, flags: str = "") -> pa.Array:
    """Return the number of non-overlapping matches.

    Examples
    --------
    >>> count(pa.array(["aab", "", None]), "^a|b").to_pylist()
    [2, 0, None]
    """
    return pc.cast(_run(translate(pattern, flags), texts, _marked), pa.int64())


def _first(texts: pa.Array, text: str) -> pa.Array:
    """Return the number of characters before the first match, -1 without a match."""
    found = pc.cast(pc.find_substring_regex(texts, text), pa.int64())
    ends, data = string_parts(pc.cast(texts, pa.large_string()))
    data = data[ends[0] : ends[-1]]
    # the second and further bytes of a character begin with the bits 10
    before = np.concatenate([[0], np.cumsum(data & 0xC0 != 0x80)])
    starts = ends[:-1] - ends[0]
    places = pc.fill_null(found, -1).to_numpy()
    characters = before[starts + np.maximum(places, 0)] - before[starts]
    return pc.if_else(pc.is_valid(found), pa.array(np.where(places < 0, -1, characters)), found)


def place(texts: pa.Array, pattern: str) -> pa.Array:
    """Return the position of the first match, from 1 on; 0 without a match.

    It is also 0 for empty texts and for an empty expression.

    Examples
    --------
    >>> place(pa.array(["äab", "b", None]), "a|$").to_pylist()
    [2, 2, None]
    """
    regex = translate(pattern)
    if not pattern:
        return pc.if_else(pc.is_valid(texts), 0, scalar_of(None, pa.int64()))
    found = pc.add(_run(regex, texts, _first), 1)
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), 0, found)


_GROUP = re.compile(r"\$(?:(\$)|(\w+)|\{([^}]*)\})", re.ASCII)
_POSIX_GROUP = re.compile(r"\\{1,2}([0-9]+)")


def _template(new: str, regex: Regex, shift: int) -> str:
    r"""Rewrite ``$1``, ``${name}`` and ``\1`` for the engine; unknown groups are empty."""

    def piece(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        name = found[2] or found[3] or ""
        number = int(name) if name.isdigit() else regex.names.get(name, -1)
        if not 0 <= number <= regex.groups:
            return ""
        if number + shift > 9:
            raise Refused(f"regexp_replace supports groups up to {9 - shift} in new text")
        return f"\\{number + shift}"

    unified = _POSIX_GROUP.sub(r"${\1}", new)
    escaped = re.sub(r"\\", r"\\\\", unified)
    return _GROUP.sub(piece, escaped)


def replaced(texts: pa.Array, pattern: str, new: str, flags: str = "") -> pa.Array:
    """Replace the first match, or every match with the flag ``g``.

    Examples
    --------
    >>> replaced(pa.array(["aab"]), "(a)", "[$1]", "g").to_pylist()
    ['[a][a]b']
    """
    regex = translate(pattern, flags.replace("g", "", 1))
    if regex.words and _beyond_ascii(texts) is not None:
        raise Refused(
            "regexp_replace supports word boundaries (\\b) only in ASCII text; use ASCII word "
            "boundaries: (?-u:\\b)"
        )
    every = "g" in flags
    template = _template(new, regex, 0 if every else 2)

    def kernel(some: pa.Array, text: str) -> pa.Array:
        # Arrow's own limit of one replacement ignores the characters around a match
        whole = text if every else rf"\A((?s:.)*?)({text})"
        into = template if every else r"\1" + template
        return pc.replace_substring_regex(some, pattern=whole, replacement=into)

    return _run(regex, texts, kernel)

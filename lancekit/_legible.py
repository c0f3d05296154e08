"""Sanitising of text from files and callers, for errors, cards and warnings.

Others create names and values in files.  Control characters and invisible characters are escaped,
credentials become ``***``, and long text is cut.
"""

from __future__ import annotations

import re
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import DataclassInstance

#: maximum length of a string on a card; renderers shorten the cells of tables further
MAX_CHARACTERS = 400
#: characters beyond the limit that are searched for secrets
_MARGIN = 4096
_PACKAGE = __name__.partition(".")[0]
# letters without a visible glyph, which would make two names look equal
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")
# URI schemes with a container name in the place of the user
_CONTAINERS = frozenset({"abfs", "abfss", "adl", "az", "azure", "wasb", "wasbs"})
# A password may contain slashes; a port is not a password.
_USER = re.compile(
    r"\b([A-Za-z][\w+.-]{0,20})://[^\s/?#@:]{0,1000}"
    r"(:(?!\d+(?:[/'\"),\]]|$))[^\s?#]{0,1000})?@"
)
_QUERY = re.compile(r"(\b[A-Za-z][\w+.-]{0,20}://[^\s?#'\"<>]*)(?:\?|#(?=\S*=))[^\s'\"<>]*")
_PAIR = re.compile(
    r"((?:[?&;#](?:sig|[\w-]{0,40}(?:signature|token|secret|passw(?:or)?d|credential"
    r"|(?:access|account|api)[-_]?key(?:[-_]?id)?))"
    r"|\b(?:AccountKey|SharedAccessKey|SharedAccessSignature))=)(?!=)[^&;\s'\"<>)]+=*",
    re.IGNORECASE,
)


def clean(text: str, most: int = MAX_CHARACTERS) -> str:
    r"""Sanitise a string, and cut it to at most ``most`` characters.

    Examples
    --------
    >>> clean("evil\u202etxt.exe\n"), clean("s3://KEY:secret@bucket/a?sig=abc")
    ('evil\\u202etxt.exe\\n', 's3://***@bucket/a?***')
    """
    return cut(_spelled(without_secrets(text[: most + _MARGIN])), most)


def clean_line(text: str, most: int) -> str:
    """Sanitise a sentence; of a long one, both ends are kept."""
    half = most // 2 + _MARGIN
    kept = text if len(text) <= 2 * half else f"{text[:half]} … {text[-half:]}"
    line = _spelled(without_secrets(kept))
    end = most // 3
    return line if len(line) <= most else f"{line[: most - end - 3]} … {line[-end:]}"


def code(text: str) -> str:
    r"""Return a string as a Python literal, with invisible characters escaped, without secrets.

    Examples
    --------
    >>> print(code("a\u202e\n\u3164"))
    'a\u202e\n\u3164'
    """
    return _spelled(repr(without_secrets(text)))


def cut(text: str, most: int) -> str:
    """Cut text to at most ``most`` characters, with an ellipsis as the last one."""
    return text if len(text) <= most else text[: most - 1] + "…"


def without_secrets(text: str) -> str:
    """Replace users, passwords and queries of URIs, and key parameters, by ``***``.

    Examples
    --------
    >>> without_secrets("abfss://files@account.dfs.core.windows.net/a;AccountKey=abc==;x")
    'abfss://files@account.dfs.core.windows.net/a;AccountKey=***;x'
    """
    if "://" in text:
        text = _QUERY.sub(r"\1?***", _USER.sub(_without_user, text))
    return _PAIR.sub(r"\1***", text) if "=" in text else text


def shown(value: object, most: int = 80) -> str:
    """Return the ``repr`` of a value for a message, sanitised and cut.

    Examples
    --------
    >>> shown("a" * 100, 10), shown(None)
    ("'aaaaaaaa…", 'None')
    """
    try:
        return clean(repr(value), most)
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deeply to be shown"
    except OverflowError:  # NumPy 2.5 shows no moments that are too far from 1970
        return f"a {type(value).__name__} that is out of range"


def literal(value: object, most: int = 80) -> str:
    """Format a value of a row for messages: times in ISO form, text in quotes, cut.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> literal({"at": datetime(2013, 9, 2, 3, tzinfo=UTC), "tags": ["a", None]})
    "{at: 2013-09-02 03:00:00+00:00, tags: ['a', null]}"
    """
    return clean(_literal(value, most), most)


def literals(row: Mapping[str, object], between: str = ", ") -> str:
    """Format the values of a row as ``column = value``.

    Examples
    --------
    >>> literals({"id": 7, "name": None})
    'id = 7, name = null'
    """
    return between.join(f"{clean(name)} = {literal(value)}" for name, value in row.items())


def _literal(value: object, most: int) -> str:
    match value:
        case None:
            return "null"
        case str() | bytes():
            return repr(value[:most])
        case Mapping():
            pairs = (f"{name}: {_literal(one, most)}" for name, one in value.items())
            return f"{{{_first(pairs, most)}}}"
        case list() | tuple():
            return f"[{_first((_literal(one, most) for one in value), most)}]"
    return str(value)


def _first(texts: Iterable[str], most: int) -> str:
    # each item takes at least three characters, so further ones would be cut
    return ", ".join(islice(texts, most // 3 + 1))


def count(number: int) -> str:
    """Format a number with digits in groups of three."""
    return f"{number:,}"


def plural(number: int, one: str, many: str = "") -> str:
    """Format a count of things; pass ``many`` if the plural does not end in s."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Issue a sanitised warning for the first caller outside of lancekit."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(clean_line(text, 1000), kind, stacklevel=level)


def discreet_repr(record: DataclassInstance) -> str:
    """Return a dataclass's ``repr`` with ``***`` for secrets in URIs; its fields keep them."""
    shown = ", ".join(f"{f.name}={getattr(record, f.name)!r}" for f in fields(record) if f.repr)
    return without_secrets(f"{type(record).__qualname__}({shown})")


def _without_user(found: re.Match[str]) -> str:
    container = found[1].lower() in _CONTAINERS and found[2] is None
    return found[0] if container else f"{found[1]}://***@"


def _spelled(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    seen = character.isprintable() and character not in _BLANK_LETTERS
    if seen or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


def python_value(scalar: pa.Scalar) -> Any:
    """Convert an Arrow scalar to Python; times that Python cannot represent become text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> python_value(pa.scalar(19_000, pa.date32())), python_value(pa.scalar(-10**6, pa.date32()))
    (datetime.date(2022, 1, 8), '-0768-02-04')
    """
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        pass
    try:
        return str(scalar.cast("string").as_py())
    except (ValueError, NotImplementedError):  # a nested time is out of range
        return f"<{scalar.type} out of range>"


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Convert a small Arrow table to dictionaries of `python_value` values."""
    try:
        return table.to_pylist()
    except (OverflowError, ValueError):
        named = list(zip(table.column_names, table.columns, strict=True))
    return [
        {name: python_value(column[at]) for name, column in named} for at in range(table.num_rows)
    ]

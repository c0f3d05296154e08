"""Provenance of versions: the cell, script or application that wrote a version, if enabled.

`lancekit.options.provenance` sets the amount; the default is nothing.  The facts are properties of
the version's transaction, with `PREFIX`.  Hooks find them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath

from lancekit._hooks import hooks
from lancekit._legible import clean, without_secrets
from lancekit.options import options

#: prefix of the properties' names
PREFIX = "lancekit.provenance."
#: maximum bytes of a cell's text to record and to show
MOST_SOURCE = 8192
_NAME = 200
_LINE = 2000

# credentials in code; `_legible` handles URIs and key parameters
_NAMED = (
    r"(?:secret|token|passw(?:or)?d|passphrase|pwd|signature|credential|authorization"
    r"|(?:access|account|api|private)[-_]?key(?:[-_]?id)?)"
)
_SECRET = re.compile(
    rf"""((?P<q>["']?)\b[\w.-]{{0,60}}{_NAMED}[\w.-]{{0,20}}(?P=q)\]?\s*
    (?::\s*\w{{1,20}}\s*(?==))?[:=][\s(]*(?:[rbuf]{{1,2}}(?=["']))?)
    (?P<t>(?P<three>\'\'\'|\"\"\")|["'])
    (?:\\[\s\S]|(?!(?P=t))(?(three)[^\\]|[^\\\n]))*(?P=t)?""",
    re.IGNORECASE | re.VERBOSE,
)
# %env TOKEN=... and !export TOKEN=...
_SHELL = re.compile(
    rf"^(\s*(?:%env\s+\w{{0,60}}{_NAMED}\w{{0,20}}[\s=]\s*|[%!].*?{_NAMED}\w{{0,20}}=))[^\s'\"]+",
    re.IGNORECASE | re.MULTILINE,
)
# keys with a recognisable prefix
_KEY = re.compile(
    r"\b(?:(?:gh[pousr]_|github_pat_|glpat-|xox[abpr]-|sk-|hf_|dapi)[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|eyJ[\w-]{10,}\.[\w-]+\.[\w-]*|(?<=Bearer )[\w.~+/=-]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Recorded origin of a version; texts are empty if unknown.

    Parameters
    ----------
    notebook, cell
        The notebook's file name without folders, and the execution count of the cell.
    script, line
        The program's file name without folders, and its line that wrote.
    application
        The name of the Spark application.
    user
        The user according to the operating system.
    source
        The cell's text without credentials.
    cut
        The number of bytes of the complete text, if it was cut.
    """

    notebook: str = ""
    cell: str = ""
    script: str = ""
    line: str = ""
    application: str = ""
    user: str = ""
    source: str = ""
    cut: str = ""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Provenance | None:
        """Return the sanitised provenance in a transaction's properties, or ``None``."""
        found = {name: properties.get(PREFIX + name, "") for name in cls.__slots__}
        if not any(found.values()):
            return None
        source = _bounded(found.pop("source"))
        return cls(
            **{name: clean(value, _NAME) for name, value in found.items()},
            source="\n".join(clean(line, _LINE) for line in source.split("\n")),
        )

    @property
    def properties(self) -> dict[str, str]:
        """Properties to store."""
        return {PREFIX + name: value for name, value in asdict(self).items() if value}

    def __str__(self) -> str:
        """Return the origin in words: ``cell 12 of cleaning.ipynb``."""
        where = ""
        if self.cell:
            where = f"cell {self.cell} of {self.notebook or 'a notebook'}"
        elif self.notebook:
            where = self.notebook
        elif self.script:
            where = self.script + (f", line {self.line}" if self.line else "")
        parts = [where, f"Spark application {self.application}" if self.application else ""]
        text = ", ".join(filter(None, parts))
        return f"{text} by {self.user}".strip() if self.user else text


def recorded(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Add provenance to a transaction's properties, if enabled.

    Existing provenance is kept.
    """
    wanted = options.provenance
    if wanted == "off" or any(name.startswith(PREFIX) for name in properties):
        return properties
    found = _found()
    found = _recordable(found) if wanted == "source" else replace(found, source="")
    return {**properties, **found.properties}


def _found() -> Provenance:
    facts: dict[str, str] = {}
    for find in (*hooks.finders, _script):
        try:
            one = find()
        except Exception:  # noqa: S112  # provenance must not make a commit fail
            continue
        # a kernel's start script is not the user's script
        if one is not None and not (facts.get("notebook", facts.get("cell")) and one.script):
            facts |= {name: value for name, value in asdict(one).items() if value}
    return Provenance(**facts, user=_user())


def _user() -> str:
    try:
        import getpass

        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # the system does not know the user
        return ""


def _script() -> Provenance | None:
    """Return the running program, and its innermost line on the stack."""
    name = PurePath(sys.argv[0]).name if sys.argv and sys.argv[0] != "-c" else ""
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__") != "__main__":
        frame = frame.f_back
    inside = frame.f_globals.get("__name__") == "__main__"
    return Provenance(script=name, line=str(frame.f_lineno) if inside else "") if name else None


def _recordable(found: Provenance) -> Provenance:
    source = _SECRET.sub(r"\1\g<t>***\g<t>", without_secrets(found.source))
    source = _KEY.sub("***", _SHELL.sub(r"\1***", source))
    kept = _bounded(source)
    cut = "" if kept == source else str(len(source.encode(errors="replace")))
    return replace(found, source=kept, cut=cut)


def _bounded(text: str) -> str:
    # unpaired surrogates cannot be stored, and no cell has any
    return text.encode(errors="replace")[:MOST_SOURCE].decode(errors="ignore")

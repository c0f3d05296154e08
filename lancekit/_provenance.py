"""Where a version came from: which cell, script or application, if the user wants that recorded.

`lancekit.options.provenance` says how much; by default nothing.  The facts are properties of the
version's transaction, under `PREFIX`.  Who knows them is a hook.
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

#: how the names of the properties begin
PREFIX = "lancekit.provenance."
#: how many bytes of a cell's text are recorded, and shown
MOST_SOURCE = 8192
_NAME = 200
_LINE = 2000

# what legible knows are URIs and pairs as in them; these are credentials as code has them
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
# keys that show what they are
_KEY = re.compile(
    r"\b(?:(?:gh[pousr]_|github_pat_|glpat-|xox[abpr]-|sk-|hf_|dapi)[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|eyJ[\w-]{10,}\.[\w-]+\.[\w-]*|(?<=Bearer )[\w.~+/=-]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What is recorded of where a version came from; text, empty where it is not known.

    Parameters
    ----------
    notebook, cell
        The file's name without its folders, and the number of the cell as it ran.
    script, line
        The program's name without its folders, and the line of it that wrote.
    application
        The name of the Spark application.
    user
        Who ran it, as the operating system says.
    source
        The cell's text, without credentials.
    cut
        How many bytes the text had, if there is more of it than is recorded.
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
        """Return what a transaction's properties say, safe to read; ``None`` if nothing."""
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
        """The properties to be stored."""
        return {PREFIX + name: value for name, value in asdict(self).items() if value}

    def __str__(self) -> str:
        """Return where it was, in words: ``cell 12 of cleaning.ipynb``."""
        where = ""
        if self.cell:
            where = f"cell {self.cell} of {self.notebook or 'a notebook'}"
        elif self.notebook:
            where = self.notebook
        elif self.script:
            where = self.script + (f", line {self.line}" if self.line else "")
        parts = [where, f"Spark application {self.application}" if self.application else ""]
        said = ", ".join(filter(None, parts))
        return f"{said} by {self.user}".strip() if self.user else said


def recorded(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Return a transaction's properties, with where it comes from if the user wants that.

    What they say of it already stays.
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
        except Exception:  # noqa: S112  # a commit does not fail for what is said of it
            continue
        # what a kernel was started with is nobody's script
        if one is not None and not (facts.get("notebook", facts.get("cell")) and one.script):
            facts |= {name: value for name, value in asdict(one).items() if value}
    return Provenance(**facts, user=_user())


def _user() -> str:
    try:
        import getpass

        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # nobody that the system knows
        return ""


def _script() -> Provenance | None:
    """Return the program that runs, and its innermost line on the way here."""
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
    # half a character cannot be stored, and is none that a cell can have
    return text.encode(errors="replace")[:MOST_SOURCE].decode(errors="ignore")

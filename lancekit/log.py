"""pylance's `log`, re-exported from `lancekit._pylance.debug`."""

from lancekit._pylance.debug import (
    ENV_NAME_PYLANCE_LOGGING_LEVEL,
    LOGGER,
    get_log_level,
    get_python_log_level,
    set_logger,
)

__all__ = [
    "ENV_NAME_PYLANCE_LOGGING_LEVEL",
    "LOGGER",
    "get_log_level",
    "get_python_log_level",
    "set_logger",
]

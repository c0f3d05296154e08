"""The logger that pylance's code asks for."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import lance.log
import pytest

import lancekit as lk
from lancekit._pylance.debug import LOGGER, get_log_level, get_python_log_level, set_logger
from lancekit.errors import InvalidArgumentError, InvalidTypeError, StorageError


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    level = LOGGER.level
    yield
    for handler in LOGGER.handlers[:]:
        handler.close()
        LOGGER.removeHandler(handler)
    LOGGER.setLevel(level)


@pytest.mark.parametrize("asked", [None, "", "DEBUG", "warning,x", "a=debug,error", "trace", "a=b"])
def test_the_level_is_the_references(asked: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANCE_LOG", raising=False)
    if asked is not None:
        monkeypatch.setenv("LANCE_LOG", asked)
    assert get_log_level() == lance.log.get_log_level()
    assert get_python_log_level("info") == "info"


def test_a_sample_is_logged_to_a_file(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    lk.set_logger(tmp_path / "own.log", format_string="%(levelname)s %(message)s")
    ds = lk.write_dataset({"x": range(10)}, "memory://logged")
    assert len([*lk.sampler.maybe_sample(ds, 4, "x")]) == 1
    assert (tmp_path / "own.log").read_text() == "INFO sampling 4 of 10 rows\n"
    monkeypatch.chdir(tmp_path)
    set_logger()
    LOGGER.info("said")
    assert "lancekit [INFO] test_log.py" in (tmp_path / "lancekit.log").read_text()


def test_what_cannot_be_followed_is_named(tmp_path) -> None:
    with pytest.raises(StorageError, match="cannot be written"):
        set_logger(tmp_path)
    with pytest.raises(InvalidArgumentError, match="Invalid level or format_string"):
        set_logger(tmp_path / "x.log", level="LOUD")
    with pytest.raises(InvalidTypeError, match=r"log_handler must be .* got 5"):
        set_logger(log_handler=5)  # type: ignore[arg-type]
    assert LOGGER.handlers == []


def test_a_handler_comes_instead_of_the_file() -> None:
    handler = logging.NullHandler()
    set_logger(None, "lancekit", "ERROR", log_handler=handler)
    assert LOGGER.handlers == [handler]
    assert handler.level == LOGGER.level == logging.ERROR

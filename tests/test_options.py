import threading

import pytest

from lancekit.errors import InvalidArgumentError, InvalidTypeError
from lancekit.options import Options, options


@pytest.fixture(autouse=True)
def _defaults_afterwards():
    yield
    for name in Options.__dataclass_fields__:
        setattr(options, name, getattr(Options(), name))


def test_defaults():
    assert options.current() == Options()
    assert options.fsync is True
    assert options.engine == "auto"
    assert options.trusted_bases == ()


def test_an_assignment_holds_for_the_process():
    options.fsync = False
    seen = []
    thread = threading.Thread(target=lambda: seen.append(options.fsync))
    thread.start()
    thread.join()
    assert seen == [False]


def test_a_block_holds_for_the_block_and_its_context():
    with options(fsync=False, display_rows=3):
        with options(display_rows=5):
            assert (options.fsync, options.display_rows) == (False, 5)
            seen = []
            thread = threading.Thread(target=lambda: seen.append(options.display_rows))
            thread.start()
            thread.join()
            assert seen == [10]
        assert options.display_rows == 3
        options.display_rows = 7
        assert options.display_rows == 7
        assert options.current() == Options(fsync=False, display_rows=7)
    assert options.current() == Options()


def test_a_block_ends_after_an_error():
    with pytest.raises(RuntimeError), options(engine="local"):
        raise RuntimeError
    assert options.engine == "auto"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("fsync", 1, InvalidTypeError),
        ("engine", "duckdb", InvalidArgumentError),
        ("engine", None, InvalidArgumentError),
        ("display_rows", -1, InvalidArgumentError),
        ("display_rows", True, InvalidTypeError),
        ("display_columns", "20", InvalidTypeError),
        ("show_tables", 1, InvalidTypeError),
        ("trusted_bases", "s3://bucket", InvalidTypeError),
        ("trusted_bases", [""], InvalidTypeError),
    ],
)
def test_values_are_checked(name, value, expected):
    for attempt in (lambda: setattr(options, name, value), lambda: options(**{name: value})):
        with pytest.raises(expected) as caught:
            attempt()
        assert name in str(caught.value)
        assert caught.value.context["option"] == name
    assert options.current() == Options()


def test_unknown_names():
    with pytest.raises(InvalidArgumentError, match="fsink") as caught:
        options.fsink = False
    assert "fsync" in caught.value.hint
    with pytest.raises(InvalidArgumentError):
        options(fsink=False)
    with pytest.raises(AttributeError, match="fsink"):
        _ = options.fsink


def test_every_option_is_described():
    text = repr(options)
    for name, option in Options.__dataclass_fields__.items():
        assert option.metadata["doc"].endswith(".")
        assert option.metadata["check"](name, option.default) == option.default
        assert name in dir(options)
        assert f"{name} " in text

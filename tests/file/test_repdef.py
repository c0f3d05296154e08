"""Repetition and definition levels: each rule of the numbering on a few entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._file.kernels import bits
from lancekit._file.kernels.faults import Damaged, Unsupported
from lancekit._file.layouts.repdef import (
    Items,
    Layers,
    Levels,
    Lists,
    pick,
    rows_of,
    split_entries,
    unravel,
)
from tests.support.twins import Counted, agreed

# the numbers of the format
ITEM, LIST, NULL_ITEM, NULL_LIST, EMPTY_LIST, NULL_EMPTY_LIST = range(1, 7)


def _levels(repetition: list[int] | None, definition: list[int] | None) -> Levels:
    streams = [None if s is None else np.array(s, np.uint16) for s in (repetition, definition)]
    (count,) = {len(stream) for stream in streams if stream is not None}
    return Levels(count, *streams)


def _plain(shape: Items | Lists) -> Any:
    """Return validity, and for lists also offsets, as Python lists."""
    valid = [True] * shape.count
    if shape.validity is not None:
        valid = bits.unpack(shape.validity, shape.count).astype(bool).tolist()
    return valid if isinstance(shape, Items) else (valid, shape.offsets.tolist())


def _shapes(
    layers: tuple[int, ...],
    repetition: list[int] | None,
    definition: list[int] | None,
    rows: int,
    sizes: tuple[int, ...] = (),
) -> list[Any]:
    levels = _levels(repetition, definition)
    return [_plain(shape) for shape in unravel(levels, Layers.of(layers), rows, sizes)]


def test_nullable_lists_of_nullable_items() -> None:
    # [1, null], null, [], [2]
    shapes = _shapes((NULL_ITEM, NULL_EMPTY_LIST), [1, 0, 1, 1, 1], [0, 1, 2, 3, 0], 4)
    assert shapes == [[True, False, True], ([True, False, True, True], [0, 2, 2, 2, 3])]


@pytest.mark.parametrize(("layer", "valid"), [(NULL_LIST, False), (EMPTY_LIST, True)])
def test_one_number_is_null_or_empty(layer: int, valid: bool) -> None:
    shapes = _shapes((ITEM, layer), [1, 1, 0], [1, 0, 0], 2)
    assert shapes == [[True, True], ([valid, True], [0, 0, 2])]


def test_lists_without_definition() -> None:
    assert _shapes((ITEM, LIST), [1, 0, 1], None, 2) == [[True] * 3, ([True] * 2, [0, 2, 3])]


def test_a_null_struct_over_a_list() -> None:
    # {l: [1]}, {l: null}, null
    shapes = _shapes((ITEM, NULL_LIST, NULL_ITEM), [1, 1, 1], [0, 1, 2], 3)
    assert shapes == [[True], ([True, False, True], [0, 1, 1, 1]), [True, True, False]]


def test_lists_of_lists() -> None:
    # [[1, 2], []], [], [null, [3]]
    shapes = _shapes((ITEM, NULL_EMPTY_LIST, EMPTY_LIST), [2, 0, 1, 2, 2, 1], [0, 0, 2, 3, 1, 0], 3)
    assert shapes[1] == ([True, True, False, True], [0, 2, 2, 2, 3])
    assert shapes[2] == ([True] * 3, [0, 2, 2, 4])


def test_lists_of_null_structs() -> None:
    # [{x: 1}, null], [], [{x: null}]
    shapes = _shapes((NULL_ITEM, NULL_ITEM, EMPTY_LIST), [1, 0, 1, 1], [0, 2, 3, 1], 3)
    assert shapes == [[True, False, False], [True, False, True], ([True] * 3, [0, 2, 2, 3])]


def test_fixed_size_lists_of_structs() -> None:
    shapes = _shapes((NULL_ITEM, NULL_ITEM, NULL_ITEM), None, [0, 1, 3, 3, 2, 0], 3, (1, 1, 2))
    assert shapes[0] == [True, False, False, False, False, True]
    assert shapes[1] == [True, True, False, False, False, True]
    assert shapes[2] == [True, False, True]


def test_a_page_may_declare_what_it_does_not_use() -> None:
    shapes = _shapes((NULL_ITEM, NULL_EMPTY_LIST), [1, 0, 1], [0, 0, 0], 2)
    assert shapes == [[True] * 3, ([True] * 2, [0, 2, 3])]


def test_no_rows() -> None:
    assert _shapes((ITEM, LIST), [], None, 0) == [[], ([], [0])]


@pytest.mark.parametrize(
    ("layers", "repetition", "definition", "rows"),
    [
        ((ITEM, LIST), None, [0], 1),  # no repetition
        ((ITEM,), [1], None, 1),  # repetition without lists
        ((ITEM, LIST), [0, 1], None, 1),  # begins inside of a row
        ((ITEM, LIST), [1, 2], None, 2),  # a list layer that does not exist
        ((ITEM, LIST), [1, 1], None, 1),  # another number of rows
        ((ITEM, LIST), [1], [1], 1),  # a definition nobody owns
        ((NULL_ITEM, EMPTY_LIST), [1, 0], [0, 2], 1),  # an empty list that is not the first entry
        ((ITEM, LIST, LIST), [2, 0, 0], None, 2),
        ((NULL_ITEM,), None, [0, 3], 2),
        ((), None, [0], 1),
        ((LIST,), [1], None, 1),
    ],
)
def test_levels_that_no_column_has(
    layers: tuple[int, ...],
    repetition: list[int] | None,
    definition: list[int] | None,
    rows: int,
) -> None:
    with pytest.raises(Damaged):
        _shapes(layers, repetition, definition, rows)


def test_an_unknown_layer_is_not_guessed() -> None:
    with pytest.raises(Unsupported, match="layer 7"):
        Layers.of((ITEM, 7))


LAYERS = Layers.of((NULL_ITEM, NULL_EMPTY_LIST))
#: [1, null], null, [2], [], [3, 4]
FIVE = _levels([1, 0, 1, 1, 1, 1, 0], [0, 1, 2, 0, 3, 0, 0])


def test_rows_of_lists() -> None:
    assert rows_of(FIVE, LAYERS).tolist() == [0, 2, 3, 4, 5, 7]
    assert rows_of(FIVE, LAYERS, np.array([6])).tolist() == [0, 2, 3, 4, 5, 6, 7]


def test_pick_a_range() -> None:
    levels, values = pick(FIVE, LAYERS, rows_of(FIVE, LAYERS), range(1, 4))
    assert levels.definition is not None
    assert (levels.count, levels.definition.tolist()) == (3, [2, 0, 3])
    assert values == slice(2, 3)


def test_pick_scattered_rows() -> None:
    levels, values = pick(FIVE, LAYERS, rows_of(FIVE, LAYERS), np.array([0, 3, 4]))
    assert levels.repetition is not None
    assert levels.repetition.tolist() == [1, 0, 1, 1, 0]
    assert np.asarray(values).tolist() == [0, 1, 3, 4]


def test_pick_entries_where_there_are_no_lists() -> None:
    flat = Layers.of((NULL_ITEM,))
    levels, values = pick(_levels(None, [0, 1, 0]), flat, None, np.array([1, 2]))
    assert levels.definition is not None
    assert levels.definition.tolist() == [1, 0]
    assert np.asarray(values).tolist() == [1, 2]


@given(data=st.data())
def test_the_kernel_is_as_strict(kernels, data: Any) -> None:
    """Any levels, most of which no column can have."""
    layers = Layers.of(
        (
            data.draw(st.sampled_from([ITEM, NULL_ITEM])),
            *data.draw(st.lists(st.integers(1, 6), max_size=4)),
        )
    )
    size = data.draw(st.integers(0, 12))
    numbers = st.integers(0, layers.lists + data.draw(st.integers(0, 1)))
    others = st.integers(0, layers.largest + data.draw(st.integers(0, 1)))
    stream = lambda kind: data.draw(st.lists(kind, min_size=size, max_size=size))  # noqa: E731
    repetition, definition = stream(numbers), stream(others)
    if repetition and data.draw(st.booleans()):
        repetition[0] = layers.lists
    levels = _levels(repetition, definition)
    rows = sum(number == layers.lists for number in repetition) if layers.lists else size
    agreed(lambda: unravel(levels, layers, rows))


@pytest.mark.parametrize("seed", range(8))
def test_the_kernel_finds_the_same_shapes(kernels, monkeypatch, seed: int) -> None:
    """Levels of lists in lists that a column can have."""
    rng = np.random.default_rng(seed)
    kinds = (NULL_ITEM, NULL_EMPTY_LIST, NULL_ITEM, NULL_EMPTY_LIST, NULL_ITEM)
    layers = Layers.of(kinds)
    repetition = rng.integers(0, 3, 200)
    repetition[0] = 2
    # where a list goes on, only items that are there or null
    inner = np.where(rng.random(200) < 0.5, 0, 1)
    outer = rng.integers(0, layers.largest + 1, 200)
    middle = rng.integers(0, 5, 200)
    definition = np.choose(repetition, [inner, middle, outer])
    levels = _levels(repetition.tolist(), definition.tolist())
    counted = Counted(monkeypatch, split_entries)
    agreed(lambda: unravel(levels, layers, int((repetition == 2).sum())))
    assert counted.good == counted.calls == 2

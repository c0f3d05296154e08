"""Maps that lancekit writes: the same bytes as the reference's, and any map comes back."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancekit._index.build import fst_write
from lancekit._index.build.fst_write import crc32c, fst_bytes
from lancekit._index.inverted.fst import Fst
from lancekit._index.inverted.token_set import fst_items
from lancekit.file import LanceFileReader

ALPHABETS = [b"ab", b"abc\0\xff", bytes(range(256)), b"etaoinW"]


def written(numbers: dict[bytes, int]) -> bytes:
    keys = sorted(numbers)
    offsets = np.append(0, np.cumsum([len(key) for key in keys])).astype(np.int64)
    data = np.frombuffer(b"".join(keys), np.uint8)
    return fst_bytes(data, offsets, np.array([numbers[key] for key in keys], np.uint64))


def check(numbers: dict[bytes, int]) -> None:
    fst = Fst(written(numbers), "here")
    assert fst.count == len(numbers)
    assert list(fst.items(fst.root)) == sorted(numbers.items())
    keys, found = fst_items(fst)
    assert dict(zip(keys.to_pylist(), found.tolist(), strict=True)) == numbers
    assert found.tolist() == sorted(numbers.values())
    for key in list(numbers)[:20]:
        for near in (key, key[:-1], key + b"a", b"\xfe" + key):
            assert fst.get(near) == numbers.get(near)


def random_map(source: random.Random) -> dict[bytes, int]:
    letters, longest = source.choice(ALPHABETS), source.choice([2, 5, 10, 200])
    keys = {
        bytes(source.choices(letters, k=source.randint(0, longest)))
        for _ in range(source.choice([0, 1, 2, 5, 50, 300]))
    }
    keys |= {key[: source.randint(0, len(key))] for key in keys if source.random() < 0.3}
    if source.random() < 0.1:
        keys |= {bytes([byte]) for byte in range(256)}
    if source.random() < 0.1:
        keys |= {b"x" * source.randint(1, 3000), b"x" * 900 + b"y"}
    most = source.choice([1, 300, 1 << 20, 1 << 31, 1 << 63])
    found = sorted(keys, key=lambda _: source.random())
    return {key: place if most == 1 else source.randrange(most) for place, key in enumerate(found)}


@pytest.mark.torture
def test_any_map_comes_back(whole: bool) -> None:
    source = random.Random(8)
    for _ in range(2000 if whole else 60):
        check(random_map(source))


@pytest.mark.parametrize("steps", [0, 1, 2, 32, 33, 63, 64, 255, 256])
@pytest.mark.parametrize("empty", [False, True], ids=["", "with-empty"])
def test_nodes_of_any_number_of_steps(steps: int, empty: bool) -> None:
    numbers = {bytes([byte]): 7 * byte for byte in range(steps)}
    below = {b"\x05" + key: number + 9000 for key, number in numbers.items()}
    check({**numbers, **below, **({b"": 3} if empty else {})})


def test_the_reference_writes_the_same(tmp_path: Path) -> None:
    source = random.Random(4)
    letters = "etaoin shrdluWQ0123éßж日本".replace(" ", "")
    words = {"".join(source.choices(letters, k=source.randint(1, 9))) for _ in range(400)}
    words |= {f"z{chr(code)}" for code in range(0x4E00, 0x4E60)} | {"snow", "snowy", "snowing"}
    shuffled = source.sample(sorted(words), len(words))
    ds = lance.write_dataset(pa.table({"t": [" ".join(shuffled)]}), tmp_path / "d.lance")
    plain: dict[str, Any] = {"stem": False, "remove_stop_words": False, "ascii_folding": False}
    ds.create_scalar_index("t", "INVERTED", lower_case=False, **plain)
    (file,) = (tmp_path / "d.lance").glob("_indices/*/part_0_tokens.lance")
    theirs = LanceFileReader(str(file)).read_all().to_table()["_token_fst_bytes"][0].as_py()
    fst = Fst(theirs, "here")
    assert written(dict(fst.items(fst.root))) == theirs


def test_equal_ends_are_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(5)
    stems = {bytes(source.choices(b"etaoinshr", k=6)) for _ in range(300)}
    keys = [stem + end for stem in sorted(stems) for end in (b"", b"ed", b"ing", b"s")]
    numbers = {key: place for place, key in enumerate(keys)}
    small = written(numbers)
    # four ends of each stem, and yet hardly more than the stems themselves take
    assert len(small) < 1.5 * len(written({stem: numbers[stem] for stem in stems}))
    check(numbers)
    # marks that do not tell nodes apart: none takes the place of another
    monkeypatch.setattr(fst_write, "_marks", lambda nodes, _: np.zeros_like(nodes.finals))
    assert len(written(numbers)) > len(small)
    check(numbers)


@pytest.mark.parametrize(
    ("data", "known"),
    [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
)
def test_checksums(data: bytes, known: int) -> None:
    assert crc32c(data) == known  # RFC 3720, B.4
    assert crc32c(b"\0" * 5000 + data) != known

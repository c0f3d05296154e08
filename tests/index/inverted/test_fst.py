"""Maps of tokens that pylance wrote."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lancekit._index.inverted.fst import Fst
from lancekit._index.inverted.token_set import fst_items
from lancekit.errors import CorruptFileError
from lancekit.file import LanceFileReader


@pytest.fixture(scope="module")
def tokens() -> list[str]:
    source = random.Random(2)
    letters = "etaoin shrdlu0123éßж日本".replace(" ", "")
    words = {"".join(source.choices(letters, k=source.randint(1, 9))) for _ in range(1500)}
    # a node of many transitions, and one of all the letters that have numbers of their own
    words |= {f"z{chr(code)}" for code in range(0x4E00, 0x4E60)} | {"snow", "snowy", "snowing"}
    return sorted(words)


@pytest.fixture(scope="module")
def data(tokens: list[str], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    place = tmp_path_factory.mktemp("fst") / "d.lance"
    ds = lance.write_dataset(pa.table({"t": [" ".join(tokens)]}), place)
    plain = {"stem": False, "remove_stop_words": False, "ascii_folding": False}
    ds.create_scalar_index("t", "INVERTED", lower_case=False, **plain)
    (file,) = Path(place).glob("_indices/*/part_0_tokens.lance")
    found = LanceFileReader(str(file)).read_all().to_table()["_token_fst_bytes"][0].as_py()
    assert isinstance(found, bytes)
    return found


def test_keys_and_numbers(data: bytes, tokens: list[str]) -> None:
    fst = Fst(data, "here")
    found = dict(fst.items(fst.root))
    assert list(found) == sorted(token.encode() for token in tokens)
    assert sorted(found.values()) == list(range(len(tokens))) == list(range(fst.count))
    assert {key: fst.get(key) for key in found} == found
    keys, numbers = fst_items(fst)
    assert dict(zip(keys.to_pylist(), numbers.tolist(), strict=True)) == found
    assert numbers.tolist() == list(range(len(tokens)))
    for missing in (b"", b"sno", b"snowyy", b"\xff", b"z"):
        assert fst.get(missing) == found.get(missing)


@pytest.mark.torture
def test_damage_is_told_or_makes_another_map(data: bytes, whole: bool) -> None:
    source = random.Random(3)
    told = 0
    for _ in range(3000 if whole else 60):
        damaged = bytearray(data)
        for _ in range(20):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        try:
            fst = Fst(bytes(damaged), "here")
            for key in (b"snow", b"z\xe4\xb8\x80", b"et"):
                fst.get(key)
            fst_items(fst)
        except CorruptFileError as error:
            told += "of its tokens" in str(error)
    assert told
    with pytest.raises(CorruptFileError, match="not a map of version 3"):
        Fst(b"\x02" + data[1:], "here")
    with pytest.raises(CorruptFileError, match="not a map of version 3"):
        Fst(data[:20], "here")

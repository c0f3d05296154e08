"""N-grams of text, against the tokens of an index that pylance makes."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import lancekit as lk
from lancekit._index.row_sets import SetForm, decoded_sets
from lancekit._index.trigrams import folded, trigrams
from lancekit.file import LanceFileReader


def test_tokens_are_those_of_pylance(tmp_path: Path) -> None:
    # letters of Latin with and without accents, others, signs that stand for letters
    codes = [*range(1, 0x250), *range(0x300, 0x310), *range(0x1E00, 0x1F00), 0x2122, 0x33A1, 0x6771]
    texts = [f"Ab{chr(code)}C9" for code in codes] + ["", "a", "ab", "abc", "ABCabc", "a-b c"]
    lance.write_dataset(pa.table({"s": texts}), tmp_path / "d.lance").create_scalar_index(
        "s", "NGRAM"
    )
    (index,) = lk.dataset(str(tmp_path / "d.lance"))._snapshot.indices
    file = tmp_path / "d.lance" / "_indices" / str(index.uuid) / "ngram_postings.lance"
    table = LanceFileReader(str(file)).read_all().to_table()
    sets = decoded_sets(table["posting_list"].combine_chunks(), SetForm.PLAIN)
    tokens = np.repeat(table["tokens"].to_numpy(), np.diff(sets.starts))
    theirs = set(zip(tokens.tolist(), sets.rows.tolist(), strict=True))
    ours, places = trigrams(pa.array([None, *texts]).slice(1))
    assert set(zip(ours.tolist(), places.tolist(), strict=True)) == theirs


def test_folding() -> None:
    assert folded("Crème BRÛLÉE ﬁ ß Æ") == "creme brulee fi ss ae"
    assert folded("東a京") == " a "

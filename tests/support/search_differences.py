"""Where a search finds something else than in pylance, on purpose."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from warnings import catch_warnings

import numpy as np
import pyarrow as pa

import lancekit as lk
from lancekit.dataset import VectorIndexReader
from tests.support.difference import REFUSED, Difference, tried

__all__ = ["OF_SEARCHES"]


def _found(library: ModuleType, uri: str, kind: pa.DataType, rows: Any, q: Any) -> pa.Table:
    library.write_dataset(pa.table({"v": pa.array(rows, pa.list_(kind, 2))}), uri)
    return library.dataset(uri).to_table(nearest={"column": "v", "q": q, "k": 1})


def _doubles(library: ModuleType, uri: str) -> Any:
    found = _found(library, uri, pa.float64(), [[0.1, 0.7]], np.array([0.1, 0.7]))
    return found["_distance"].to_pylist() == [0.0]


def _not_bytes(library: ModuleType, uri: str) -> Any:
    found = tried(lambda: _found(library, uri, pa.uint8(), [[0, 0]], [300, 0]))
    return REFUSED if found == REFUSED else found["_distance"].to_pylist()


def _codes(library: ModuleType, uri: str) -> Any:
    import lance

    rows = np.random.default_rng(0).standard_normal((400, 4)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(rows.ravel(), 4)
    theirs = lance.write_dataset(pa.table({"n": range(400), "v": column}), uri)
    theirs.create_index("v", "IVF_SQ", num_partitions=1)
    found = library.dataset(uri).to_table(nearest={"column": "v", "q": rows[0] + 1, "k": 5})
    exact = ((found["v"].combine_chunks().values.to_numpy().reshape(-1, 4) - rows[0] - 1) ** 2).sum(
        1
    )
    return bool(np.allclose(found["_distance"].to_numpy(), exact, rtol=1e-5))


def _products(library: ModuleType, uri: str, count: int, metric: str = "l2", **more: Any) -> Any:
    """Return a dataset with an index of products, whose vectors all begin with zeros."""
    rows = np.random.default_rng(0).standard_normal((count, 4)).astype(np.float32)
    rows[:, :2] = 0
    library.write_dataset(pa.table({"v": pa.FixedSizeListArray.from_arrays(rows.ravel(), 4)}), uri)
    ds = library.dataset(uri)
    return ds.create_index(
        "v", "IVF_PQ", metric=metric, num_partitions=1, num_sub_vectors=2, **more
    )


def _new_codes(library: ModuleType, uri: str) -> Any:
    import lance

    ds = _products(lance, uri, 300, "dot")
    lance.write_dataset(ds.to_table(), uri, mode="append")
    library.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    reader = VectorIndexReader(lk.dataset(uri), "v_idx")
    codes = reader.read_partition(0, with_vector=True)["__pq_code"].to_pylist()
    return len({code[1] for code in codes[300:]}) > 100


def _codes_of_rows(library: ModuleType, uri: str) -> Any:
    reader = import_module(f"{library.__name__}.dataset").VectorIndexReader
    ds = _products(library, uri, 300)
    codes = reader(ds, "v_idx").read_partition(0, with_vector=True)["__pq_code"].to_pylist()
    return len({code[0] for code in codes}) == 1


def _shuffled(library: ModuleType, uri: str) -> Any:
    ds = _products(library, f"{uri}/t", 600)
    builder = import_module(f"{library.__name__}.indices").IndicesBuilder(ds, "v")
    ivf = builder.train_ivf(2, sample_rate=9)
    pq = builder.train_pq(ivf, 2, sample_rate=2)
    builder.transform_vectors(ivf, pq, f"{uri}/codes")
    return len(builder.shuffle_transformed_vectors(["codes"], uri, ivf))


def _few_rows(library: ModuleType, uri: str) -> Any:
    return _products(library, uri, 100).describe_indices()[0].num_rows_indexed


def _texts(library: ModuleType, uri: str, texts: list[str], *, indexed: bool) -> tuple[Any, Any]:
    """Return a dataset with texts, and the library's queries."""
    import lance

    ds = lance.write_dataset(pa.table({"n": range(len(texts)), "t": texts}), uri)
    if indexed:
        ds.create_scalar_index("t", "INVERTED", with_position=True)
    return library.dataset(uri), import_module(f"{library.__name__}.query")


def _without_an_index(library: ModuleType, uri: str) -> Any:
    ds, query = _texts(library, uri, ["Late snow", "the snowed-in", "rain"], indexed=False)
    return sorted(ds.to_table(full_text_query=query.MatchQuery("snow", "t"))["n"].to_pylist())


def _slop(library: ModuleType, uri: str) -> Any:
    texts = ["late snow fell", "late snow x snow x x fell"]
    ds, query = _texts(library, uri, texts, indexed=True)
    phrase = query.PhraseQuery("late snow fell", "t", slop=2)
    return sorted(ds.to_table(full_text_query=phrase)["n"].to_pylist())


def _damaged_texts(library: ModuleType, uri: str) -> Any:
    ds, _ = _texts(library, uri, ["late snow", "rain"], indexed=True)
    for path in Path(uri).glob("_indices/*/part_0_docs.lance"):
        path.unlink()
    with catch_warnings(action="ignore"):
        return tried(lambda: _numbers(ds, "snow"))


def _fuzzy(library: ModuleType, uri: str) -> Any:
    import lance

    _, query = _texts(library, uri, ["snow", "rain"], indexed=True)
    lance.write_dataset(pa.table({"n": [2], "t": ["snaw"]}), uri, mode="append")
    asked = query.MatchQuery("snow", "t", fuzziness=1)
    return sorted(library.dataset(uri).to_table(full_text_query=asked)["n"].to_pylist())


def _stale(library: ModuleType, uri: str) -> Any:
    import lance

    texts = pa.table({"n": range(3), "t": ["late snow", "rain", "snow"]})
    ds = lance.write_dataset(texts, uri, enable_stable_row_ids=True)
    ds.create_scalar_index("t", "INVERTED")
    lance.dataset(uri).update({"t": "'wind'"}, where="n = 2")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    return sorted(_numbers(library.dataset(uri), "snow"))


def _segments_of_updates(library: ModuleType, uri: str) -> Any:
    ds = library.write_dataset(
        pa.table({"x": range(20)}), uri, max_rows_per_file=10, enable_stable_row_ids=True
    )
    ds = library.dataset(uri)
    ds.create_scalar_index("x", "BITMAP")
    ds.update({"x": "x + 100"}, where="x = 3")
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    return library.dataset(uri).count_rows("x = 3")


def _deleted_nearest(library: ModuleType, uri: str) -> Any:
    import lance

    vectors = pa.FixedSizeListArray.from_arrays(np.arange(40, dtype=np.float32).repeat(2), 2)
    ds = lance.write_dataset(
        pa.table({"n": range(40), "v": vectors}),
        uri,
        max_rows_per_file=20,
        enable_stable_row_ids=True,
    )
    ds.create_index("v", "IVF_FLAT", num_partitions=1)
    ds.delete("n < 3")
    lance.dataset(uri).optimize.compact_files()
    nearest = {"column": "v", "q": [0.0, 0.0], "k": 4}
    return library.dataset(uri).to_table(nearest=nearest)["n"].to_pylist()


def _numbers(ds: Any, words: str) -> list[int]:
    found: list[int] = ds.to_table(full_text_query=words)["n"].to_pylist()
    return found


def _two_lists(library: ModuleType, uri: str) -> Any:
    library.write_dataset(pa.table({"x": [1, 3, None]}), uri)
    found = library.dataset(uri).to_table(filter="x NOT IN (1, 2) OR x NOT IN (3, 4)")
    return found["x"].to_pylist()


def _not_false(library: ModuleType, uri: str) -> Any:
    ds = library.write_dataset(pa.table({"b": [True, False, None]}), uri)
    ds.create_scalar_index("b", "BITMAP")
    return library.dataset(uri).to_table(filter="NOT (b IS FALSE)")["b"].to_pylist()


OF_SEARCHES = (
    Difference(
        "`full_text_query` in a column that has no full-text index",
        "tokenizes as an index does by default: without case, accents and endings",
        "takes the words unchanged",
        "An index changes the time of a search, not its result.",
        _without_an_index,
        [0, 1],
        [0],
    ),
    Difference(
        "`PhraseQuery` of three words or more with `slop`, in a column with an index",
        "finds all rows in which each word is near enough to the previous word",
        "continues after the first position of a word that is too far from the next, and misses "
        "rows",
        "A row that has the phrase must be found.",
        _slop,
        [0, 1],
        [0],
    ),
    Difference(
        "`full_text_query` if a file of the index is missing or damaged",
        "warns, and reads the text",
        "raises an error",
        "A search must not fail because of an index.",
        _damaged_texts,
        [0],
        REFUSED,
    ),
    Difference(
        "`MatchQuery` with `fuzziness`: rows that came after the index of the column",
        "finds similarly spelled words in them, too",
        "finds only the exact words in them",
        "The result does not depend on which rows are in an index.",
        _fuzzy,
        [0, 2],
        [0],
    ),
    Difference(
        "`full_text_query` in a table with stable row ids, after an update of texts and "
        "`optimize_indices(num_indices_to_merge=0)`",
        "finds the current texts",
        "finds rows by their old texts, too",
        "A search answers for the version that is read.",
        _stale,
        [0],
        [0, 2],
    ),
    Difference(
        "`optimize_indices(num_indices_to_merge=0)` in a table with stable row ids, after an "
        "update of the indexed column",
        "rewrites segments that may have the old values, with the new rows",
        "leaves them unchanged, and filters find updated rows by their old values",
        "A filter answers for the version that is read.",
        _segments_of_updates,
        0,
        1,
    ),
    Difference(
        "`nearest` by an index in a table with stable row ids, after deletes and a compaction",
        "returns `k` rows",
        "counts deleted rows among the `k`, and then removes them",
        "The caller requested `k` rows.",
        _deleted_nearest,
        [3, 4, 5, 6],
        [3],
    ),
    Difference(
        "`nearest`: distances by an index with codes of vectors, without `refine_factor`",
        "returns distances of the vectors, and orders the found rows by them",
        "returns distances of the codes",
        "A distance is the same with and without an index. For cosine, pylance's distances are "
        "twice as large.",
        _codes,
        True,
        False,
    ),
    Difference(
        "`optimize_indices` of an `IVF_PQ` index of dot products",
        "gives new rows the codes of the nearest words, as the others have",
        "gives them the codes of the words with the largest product",
        "The largest product has the longest words, for any vector, so rows are not found.",
        _new_codes,
        True,
        False,
    ),
    Difference(
        "`VectorIndexReader.read_partition(n, with_vector=True)` of an `IVF_PQ` index",
        "returns the codes of each row",
        "returns the codes of the first part for all rows, then of the second, cut into rows",
        "Each row must have its own codes.",
        _codes_of_rows,
        True,
        False,
    ),
    Difference(
        "`IndicesBuilder.shuffle_transformed_vectors`, of a few rows",
        "writes a file, in the order of partitions",
        "writes none, and `load_shuffled_vectors` makes an index that finds nothing",
        "An index must have the rows that it covers.",
        _shuffled,
        1,
        0,
    ),
    Difference(
        "`create_index` of an `IVF_PQ` index, of fewer rows than there are words (256)",
        "puts the rows into the index",
        "makes an index that is empty until it is created again, or there are more rows",
        "The caller requested an index.",
        _few_rows,
        100,
        0,
    ),
    Difference(
        "`nearest`: a query of doubles, as a list or of NumPy, for a column of float64",
        "compares the doubles",
        "rounds the query to float32 first",
        "A vector has distance 0 to itself.",
        _doubles,
        True,
        False,
    ),
    Difference(
        "`nearest`: a query with values outside of uint8, for a column of uint8",
        "raises an error that names the value",
        "uses 0 instead",
        "No value is replaced silently.",
        _not_bytes,
        REFUSED,
        [0.0],
    ),
    Difference(
        "a filter `x NOT IN (...) OR x NOT IN (...)`, of lists with no value in common",
        "selects the rows that have a value: for null the result is unknown",
        "selects all rows",
        "SQL defines it so. For each of the two conditions alone, both libraries follow SQL.",
        _two_lists,
        [1, 3],
        [1, 3, None],
    ),
    Difference(
        "a filter `NOT (b IS FALSE)` of booleans that have an index",
        "selects the same rows as without the index: nulls, too",
        "selects them without the nulls",
        "An index makes calls faster, and changes no result.",
        _not_false,
        [True, None],
        [True],
    ),
)

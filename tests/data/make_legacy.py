"""Make `legacy`: tables of 0.1 files as early releases wrote them, and what these read of them.

Run it in a virtual environment of each release, with numpy<2 and pyarrow<13:
``python tests/data/make_legacy.py``.
"""

import shutil
import tempfile
from pathlib import Path

import lance
import pyarrow as pa

HERE = Path(__file__).parent / "legacy"
ROWS = 150


def rows():
    """Return a table of several types; dictionaries could not be appended to at first."""
    numbers = list(range(ROWS))
    columns = {
        "i": pa.array(numbers),
        "s": pa.array([None if k % 7 == 0 else f"s{k}" for k in numbers]),
        "b": pa.array([k % 3 == 0 for k in numbers]),
        "st": pa.array([{"x": k, "y": f"q{k}"} for k in numbers]),
        "l": pa.array([[f"i{k}"] * (k % 4) for k in numbers]),
        "v": pa.FixedSizeListArray.from_arrays(pa.array([k / 2 for k in range(2 * ROWS)]), 2),
    }
    if lance.__version__ > "0.8":
        keys = pa.array([k % 2 for k in numbers], pa.int32())
        columns["d"] = pa.DictionaryArray.from_arrays(keys, pa.array(["aa", "bb"]))
    return pa.table(columns)


def make(path):
    """Append, delete, merge a column and make indices, as far as the release can."""
    small = {"max_rows_per_group": 64}
    lance.write_dataset(rows(), path, **small)
    lance.write_dataset(rows().slice(0, 100), path, mode="append", **small)
    if hasattr(lance.LanceDataset, "delete"):
        lance.dataset(path).delete("i < 10")
    more = pa.table({"i": range(ROWS), "m": [f"m{k}" for k in range(ROWS)]})
    lance.dataset(path).merge(more, "i")
    if hasattr(lance.LanceDataset, "create_scalar_index"):
        lance.dataset(path).create_scalar_index("i", "BTREE")


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "d.lance"
        make(str(place))
        read = lance.dataset(str(place)).to_table()
        with pa.ipc.new_file(str(Path(folder) / "rows.arrow"), read.schema) as writer:
            writer.write_table(read)
        shutil.make_archive(str(HERE / lance.__version__), "zip", folder)

"""Make `first_form.zip`: a table of 2.0 files in their first form, and what its release reads.

Run it in a virtual environment of pylance 0.13.0, with numpy<2 and pyarrow<18:
``python tests/data/make_first_form.py``.
"""

import shutil
import tempfile
from pathlib import Path

import lance
import pyarrow as pa

HERE = Path(__file__).parent
ROWS = 120


def rows():
    """Return strings and bytes in every place, nulls among them, and some of other types."""
    numbers = list(range(ROWS))
    texts = [None if k % 7 == 0 else f"s{k}é" * (k % 4) for k in numbers]
    pairs = pa.struct({"x": pa.int64(), "y": pa.string()})
    return pa.table(
        {
            "i": pa.array(numbers),
            "s": pa.array(texts),
            "b": pa.array([text and text.encode() for text in texts], pa.binary()),
            "ls": pa.array(texts, pa.large_string()),
            "lb": pa.array([b"%d" % k for k in numbers], pa.large_binary()),
            "nothing": pa.array([None] * ROWS, pa.string()),
            "empty": pa.array([""] * ROWS),
            "few": pa.array([f"f{k % 3}" for k in numbers]),
            "st": pa.array([{"x": k, "y": f"q{k}"} for k in numbers], pairs),
            "l": pa.array([None if k % 5 == 0 else [f"i{k}", None] * (k % 3) for k in numbers]),
            "deep": pa.array([[{"x": k, "y": "y" * (k % 4)}] * (k % 3) for k in numbers]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array([k / 2 for k in range(2 * ROWS)]), 2),
        }
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "d.lance")
        for first in (0, 90):
            part = rows().take(list(range(first, min(first + 90, ROWS))))  # slices came out wrong
            lance.write_dataset(
                part, place, mode="append" if first else "create", use_legacy_format=False
            )
        read = lance.dataset(place).to_table().combine_chunks()
        assert read.to_pylist() == rows().to_pylist()
        with pa.ipc.new_file(str(Path(folder) / "rows.arrow"), read.schema) as writer:
            writer.write_table(read)
        shutil.make_archive(str(HERE / "first_form"), "zip", folder)

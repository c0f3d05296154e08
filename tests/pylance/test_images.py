"""Images: from URIs to bytes to pixels and back."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lancekit._pylance.images import (
    EncodedImageArray,
    EncodedImageType,
    FixedShapeImageTensorType,
    ImageArray,
    ImageURIArray,
    ImageURIType,
)
from lancekit.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotOfferedError,
    StorageError,
)


def _decode(files: pa.Array) -> np.ndarray:
    return np.stack([np.frombuffer(data, "u1").reshape(1, 2, 1) for data in files.to_pylist()])


def _encode(pixels: np.ndarray) -> pa.Array:
    return pa.array([one.tobytes() for one in pixels])


@pytest.fixture
def uris(tmp_path: Path) -> list[str]:
    paths = [tmp_path / "a.bin", tmp_path / "b.bin"]
    for path in paths:
        path.write_bytes(path.name[:2].encode())
    return [paths[0].as_uri(), str(paths[1])]


def test_from_places_to_pixels_and_back(uris: list[str]) -> None:
    places = ImageArray.from_array([*uris, None])
    assert isinstance(places, ImageURIArray)
    assert places[0].as_py() == uris[0]
    files = places.read_uris()
    assert files.to_pylist() == [b"a.", b"b.", None]
    assert places.read_uris(pa.large_binary()).storage.type == pa.large_binary()
    assert ImageArray.from_array(files.storage) == files
    assert ImageArray.from_array(files) is files
    tensors = files[:2].to_tensor(_decode)
    assert tensors.type.shape == (1, 2, 1)
    assert tensors.to_numpy().tolist() == [[[[97], [46]]], [[[98], [46]]]]
    assert tensors.to_encoded(_encode) == files[:2]
    assert tensors.to_encoded(_encode, pa.large_binary()).storage.type == pa.large_binary()
    plain = pa.FixedShapeTensorArray.from_numpy_ndarray(tensors.to_numpy())
    assert ImageArray.from_array(plain) == tensors
    assert files[:2].to_tensor(lambda _: plain) == tensors
    for array in (places, files, tensors):
        assert pickle.loads(pickle.dumps(array)).storage == array.storage


def test_what_is_shown_is_short(uris: list[str]) -> None:
    places = ImageURIArray.from_uris(pa.array(uris, pa.large_string()))
    assert repr(places).startswith("<lancekit.arrow.ImageURIArray object at 0x")
    assert repr(places.read_uris()).endswith("\n[b'a.']")


def test_what_is_no_image() -> None:
    with pytest.raises(InvalidTypeError, match="images must be a list of URIs, got int"):
        ImageArray.from_array(3)
    with pytest.raises(InvalidTypeError, match="images must be a list of URIs, got str"):
        ImageURIArray.from_uris("a.png")
    with pytest.raises(InvalidTypeError, match="but contains 5"):
        ImageURIArray.from_uris(["a.png", 5])
    with pytest.raises(StorageError, match=r"no\.png' cannot be read"):
        ImageURIArray.from_uris(["/no/such/no.png"]).read_uris()
    with pytest.raises(InvalidArgumentError, match="must be text"):
        ImageURIType(pa.binary())
    with pytest.raises(InvalidArgumentError, match="must be binary type"):
        EncodedImageType(pa.string())
    with pytest.raises(InvalidArgumentError, match="shape is empty"):
        FixedShapeImageTensorType(pa.uint8(), [])


def test_pillow_is_needed_only_without_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    files = EncodedImageArray.from_storage(EncodedImageType(), pa.array([b"x"]))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(NotOfferedError, match="pip install pillow"):
        files.to_tensor()
    nulls = EncodedImageArray.from_storage(EncodedImageType(), pa.array([None], pa.binary()))
    with pytest.raises(InvalidArgumentError, match="An image is null"):
        nulls.to_tensor()


def test_pillow_by_default() -> None:
    pytest.importorskip("PIL")
    pixels = np.arange(24, dtype="u1").reshape(2, 2, 2, 3)
    tensors = ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(pixels))
    files = tensors.to_encoded()
    assert files.storage[0].as_py()[1:4] == b"PNG"
    assert files.to_tensor() == tensors
    other = ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(pixels[:, :1]))
    mixed = pa.concat_arrays([files.storage, other.to_encoded().storage])
    with pytest.raises(InvalidArgumentError, match="2 sizes"):
        ImageArray.from_array(mixed).to_tensor()

"""Arrow types for images: URIs, encoded files, or pixels.

Three extension types under the names of the reference, and the conversions between them.  Names
follow ``lance.arrow``.  Importing this module registers the types with Arrow.  From then on such
columns are read with these types.  Pillow is only needed if no decoder or encoder is passed.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import prod
from types import ModuleType
from typing import Any, ClassVar, cast
from urllib.parse import urlparse
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs
from pyarrow import types as pt

from lancekit import _arrow_kernels as ak
from lancekit._legible import shown
from lancekit.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotOfferedError,
    StorageError,
    type_name,
)

_TEXT, _BYTES = pa.string(), pa.binary()


class ImageScalar(pa.ExtensionScalar):
    """One value of an array of images."""

    def as_py(self, **kwargs: Any) -> Any:
        """Return the image in its storage form."""
        return None if self.value is None else self.value.as_py(**kwargs)


class ImageURIScalar(ImageScalar):
    """The URI of an image."""


class EncodedImageScalar(ImageScalar):
    """The bytes of an image file."""


class FixedShapeImageTensorScalar(ImageScalar):
    """The pixels of an image."""


class ImageArray(pa.ExtensionArray):
    """Base class of the arrays of images."""

    def __repr__(self) -> str:
        return f"<lancekit.arrow.{type(self).__name__} object at {id(self):#018x}>\n{self._shown()}"

    def _shown(self) -> str:
        return repr(self.to_pylist())

    @classmethod
    def from_array(cls, images: object) -> ImageArray:
        """Convert images to an array of their kind: URIs, the bytes of files, or tensors.

        Raises
        ------
        InvalidTypeError
            ``images`` is neither an array of one of these kinds, nor a list of URIs.
        """
        if isinstance(images, ImageArray):
            return images
        if isinstance(images, pa.FixedShapeTensorArray):
            kind = FixedShapeImageTensorType(images.type.value_type, images.type.shape)
            found: ImageArray = _stored(kind, images.storage)
        elif isinstance(images, pa.BinaryArray | pa.LargeBinaryArray):
            found = _stored(EncodedImageType(images.type), images)
        else:
            found = ImageURIArray.from_uris(images)
        return found


class ImageURIArray(ImageArray):
    """URIs of images: in file systems, in object stores, or on the web."""

    @classmethod
    def from_uris(cls, uris: object) -> ImageURIArray:
        """Convert URIs or paths to an array: from a string array or an iterable.

        Examples
        --------
        >>> ImageURIArray.from_uris(["file:///tmp/1.png"]).to_pylist()
        ['file:///tmp/1.png']
        """
        if isinstance(uris, str | bytes | pa.Scalar) or not isinstance(uris, Iterable):
            raise InvalidTypeError(f"images must be a list of URIs, got {type_name(uris)}.")
        if not isinstance(uris, pa.StringArray | pa.LargeStringArray):
            listed = list(uris)
            for one in listed:
                if not isinstance(one, str | bytes | os.PathLike | None):
                    raise InvalidTypeError(
                        f"images must be a list of URIs, but contains {shown(one)}."
                    )
            texts = [None if uri is None else os.fspath(uri) for uri in listed]
            uris = pa.array(texts, pa.string())
        array: ImageURIArray = _stored(ImageURIType(uris.type), uris)
        return array

    def read_uris(self, storage_type: pa.DataType = _BYTES) -> EncodedImageArray:
        """Read the image files, and return their bytes.

        Parameters
        ----------
        storage_type
            The storage type, binary by default; use large binary for more than 2 GiB.

        Raises
        ------
        StorageError
            A file does not exist or cannot be read.
        """
        kind = EncodedImageType(storage_type)
        files = [None if uri is None else _read(uri) for uri in self.storage.to_pylist()]
        array: EncodedImageArray = _stored(kind, pa.array(files, kind.storage_type))
        return array


class EncodedImageArray(ImageArray):
    """The bytes of image files.  The format is not stored: it follows from the bytes."""

    def _shown(self) -> str:
        return repr([None if data is None else data[:30] for data in self.to_pylist()[:1]])

    def to_tensor(
        self, decoder: Callable[[pa.Array], Any] | None = None
    ) -> FixedShapeImageTensorArray:
        """Decode images of equal size to pixels.

        Parameters
        ----------
        decoder
            A function that turns an array of bytes into pixels; Pillow by default.  It returns an
            array of tensors, or a NumPy array whose first dimension is the images.

        Raises
        ------
        InvalidArgumentError
            The images differ in size, or one is null.
        """
        pixels = (decoder or _decoded)(self.storage)
        if not isinstance(pixels, pa.FixedShapeTensorArray):
            pixels = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(pixels))
        kind = FixedShapeImageTensorType(pixels.type.value_type, pixels.type.shape)
        array: FixedShapeImageTensorArray = _stored(kind, pixels.storage)
        return array


class FixedShapeImageTensorArray(ImageArray):
    """The pixels of images of equal size."""

    def to_numpy(
        self, zero_copy_only: bool = False, writable: bool = False
    ) -> np.ndarray[Any, Any]:
        """Return the pixels as one array.

        Parameters
        ----------
        zero_copy_only
            Ignored: the pixels are never converted.
        writable
            Whether to copy the pixels, so that they can be changed.

        Returns
        -------
        numpy.ndarray
            The first dimension is the images, the others are those of an image.

        Raises
        ------
        ArrowInvalid
            An image is null.

        Examples
        --------
        >>> pixels = pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 4, 4, 3), np.uint8))
        >>> kind = FixedShapeImageTensorType(pa.uint8(), (4, 4, 3))
        >>> pa.ExtensionArray.from_storage(kind, pixels.storage).to_numpy().shape
        (2, 4, 4, 3)
        """
        del zero_copy_only
        kind = cast("FixedShapeImageTensorType", self.type)
        tensor = pa.fixed_shape_tensor(kind.arrow_type, kind.shape)
        pixels: NDArray[np.generic] = _stored(tensor, self.storage).to_numpy_ndarray()
        return pixels.copy() if writable else pixels

    def to_encoded(
        self,
        encoder: Callable[[np.ndarray[Any, Any]], pa.Array] | None = None,
        storage_type: pa.DataType = _BYTES,
    ) -> EncodedImageArray:
        """Encode images, and return the bytes of the files.

        Parameters
        ----------
        encoder
            A function from an array of pixels to an array of bytes; by default Pillow writes PNG.
        storage_type
            The storage type, binary by default; use large binary for more than 2 GiB.

        Returns
        -------
        EncodedImageArray
            The bytes of a file for each image.

        Raises
        ------
        ArrowInvalid
            An image is null.
        InvalidArgumentError
            ``storage_type`` is not a binary type.

        Examples
        --------
        >>> pixels = pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 4, 4, 3), np.uint8))
        >>> kind = FixedShapeImageTensorType(pa.uint8(), (4, 4, 3))
        >>> images = pa.ExtensionArray.from_storage(kind, pixels.storage)
        >>> raw = images.to_encoded(lambda arrays: pa.array([bytes(one) for one in arrays]))
        >>> len(raw.to_pylist()[0])
        48
        """
        kind = EncodedImageType(storage_type)
        files = (encoder or _encoded)(self.to_numpy()).cast(kind.storage_type)
        array: EncodedImageArray = _stored(kind, files)
        return array


class _ImageType(pa.ExtensionType):
    """An extension type without parameters, for one of two storage types (normal and large)."""

    _stored_as: ClassVar[tuple[str, Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]]]
    _name: ClassVar[str]
    _classes: ClassVar[tuple[type, type]]

    def __init__(self, storage_type: pa.DataType) -> None:
        what, *tests = self._stored_as
        if not any(test(storage_type) for test in tests):
            raise InvalidArgumentError(f"storage_type must be {what}, got {shown(storage_type)}.")
        super().__init__(storage_type, self._name)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> _ImageType:
        del serialized
        return cls(storage)

    def __arrow_ext_class__(self) -> type:
        return self._classes[0]

    def __arrow_ext_scalar_class__(self) -> type:
        return self._classes[1]


class ImageURIType(_ImageType):
    """The Arrow type of image URIs, stored as strings."""

    _stored_as = ("text", pt.is_string, pt.is_large_string)
    _name = "lance.arrow.image_uri"
    _classes = (ImageURIArray, ImageURIScalar)

    def __init__(self, storage_type: pa.DataType = _TEXT) -> None:
        super().__init__(storage_type)


class EncodedImageType(_ImageType):
    """The Arrow type of image files, stored as bytes."""

    _stored_as = ("binary type", pt.is_binary, pt.is_large_binary)
    _name = "lance.arrow.encoded_image"
    _classes = (EncodedImageArray, EncodedImageScalar)

    def __init__(self, storage_type: pa.DataType = _BYTES) -> None:
        super().__init__(storage_type)


class FixedShapeImageTensorType(pa.ExtensionType):
    """The Arrow type of the pixels of images of equal size, stored as fixed-size lists."""

    def __init__(self, arrow_type: pa.DataType, shape: Iterable[int]) -> None:
        self.arrow_type: pa.DataType = arrow_type
        self.shape: tuple[int, ...] = tuple(shape)
        if not self.shape:
            raise InvalidArgumentError("shape is empty.", hint="Pass height, width and channels.")
        kind = pa.list_(arrow_type, prod(self.shape))
        super().__init__(kind, "lance.arrow.fixed_shape_image_tensor")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps({"shape": self.shape}).encode()

    @classmethod
    def __arrow_ext_deserialize__(
        cls, storage: pa.DataType, serialized: bytes
    ) -> FixedShapeImageTensorType:
        return cls(storage.field(0).type, json.loads(serialized)["shape"])

    def __arrow_ext_class__(self) -> type:
        return FixedShapeImageTensorArray

    def __arrow_ext_scalar_class__(self) -> type:
        return FixedShapeImageTensorScalar


def _stored(kind: pa.BaseExtensionType, storage: pa.Array) -> Any:
    return pa.ExtensionArray.from_storage(kind, storage)


def _read(uri: str) -> bytes:
    try:
        if urlparse(uri).scheme in ("http", "https"):
            with urlopen(uri) as answer:  # noqa: S310  # http or https only
                data: bytes = answer.read()
        else:
            files, path = fs.FileSystem.from_uri(uri)
            with files.open_input_stream(path) as stream:
                data = stream.read()
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"The image {shown(uri)} cannot be read: {error}.", uri=uri) from error
    return data


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise NotOfferedError(
            "Images need the package pillow, which is not installed.",
            hint="Install it with: pip install pillow. Or pass a function of your own.",
        ) from error
    return Image


def _decoded(files: pa.Array) -> NDArray[np.generic]:
    if ak.null_count(files):
        raise InvalidArgumentError("An image is null.")
    image = _pillow()
    pixels = [np.asarray(image.open(io.BytesIO(data))) for data in files.to_pylist()]
    sizes = {one.shape for one in pixels}
    if len(sizes) != 1:
        raise InvalidArgumentError(
            f"Tensors in an array must have one size, but the images have {len(sizes)} sizes.",
            hint="Scale them first, in a decoder of your own.",
        )
    return np.stack(pixels)


def _encoded(pixels: NDArray[np.generic]) -> pa.Array:
    image = _pillow()
    files = []
    for one in pixels:
        file = io.BytesIO()
        image.fromarray(one).save(file, format="PNG")
        files.append(file.getvalue())
    return pa.array(files, pa.large_binary())


for _kind in (ImageURIType(), EncodedImageType(), FixedShapeImageTensorType(pa.uint8(), [0])):
    with suppress(pa.ArrowKeyError):  # pylance may have registered a type of this name
        pa.register_extension_type(_kind)

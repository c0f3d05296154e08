"""pylance's `arrow`, re-exported from `lancekit._pylance.bfloat16` and `images`."""

from lancekit._pylance.bfloat16 import (
    BFloat16,
    BFloat16Array,
    BFloat16Type,
    PandasBFloat16Array,
    bfloat16_array,
    cast,
)
from lancekit._pylance.images import (
    EncodedImageArray,
    EncodedImageScalar,
    EncodedImageType,
    FixedShapeImageTensorArray,
    FixedShapeImageTensorScalar,
    FixedShapeImageTensorType,
    ImageArray,
    ImageScalar,
    ImageURIArray,
    ImageURIScalar,
    ImageURIType,
)

__all__ = [
    "BFloat16",
    "BFloat16Array",
    "BFloat16Type",
    "EncodedImageArray",
    "EncodedImageScalar",
    "EncodedImageType",
    "FixedShapeImageTensorArray",
    "FixedShapeImageTensorScalar",
    "FixedShapeImageTensorType",
    "ImageArray",
    "ImageScalar",
    "ImageURIArray",
    "ImageURIScalar",
    "ImageURIType",
    "PandasBFloat16Array",
    "bfloat16_array",
    "cast",
]

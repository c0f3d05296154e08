"""Screenshots that are kept: in colour, a quarter of their size, compared with a tolerance.

They are of one machine's fonts: the widths of some words in these are kept beside them, and where
others come of the same words, nothing is compared.
"""

from __future__ import annotations

import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

__all__ = ["KEPT", "compare", "differ", "reduced"]

KEPT = Path(__file__).parents[1] / "browser" / "pictures"
_FONTS = KEPT / "fonts.json"
_WRITES = bool(os.environ.get("LANCEKIT_TEST_LOOKS"))
_PART, _LEVELS = 4, 16
#: levels of grey, of 255, that a picture may be off on the average; those from which a pixel is
#: another one, and the share of such pixels; pixels by which sides may be longer or shorter
_MEAN, _FAR, _SHARE, _SIDE = 3.5, 48, 0.015, 1
#: pixels that are looked at together for their colour, so that edges of letters do not count; how
#: far a channel may be off beside the grey, and the share of places at which it is farther
_BLUR, _HUE, _HUES = 4, 10, 0.002
_GREY = np.array([0.299, 0.587, 0.114])
_WIDTHS = """() => Object.fromEntries(['system-ui', 'sans-serif', 'monospace'].map(font => {
    const pen = document.createElement('canvas').getContext('2d');
    pen.font = `100px ${font}`;
    return [font, Math.round(pen.measureText('Hamburgefonts 0123456789 → ▲').width)];
}))"""


def compare(name: str, element: Any, folder: Path) -> None:
    """Fail if an element of a page looks otherwise than it did, or keep how it looks now.

    Parameters
    ----------
    name
        What the picture is called.
    element
        A locator of playwright's.
    folder
        Where the new picture is written if it is another one.
    """
    seen = reduced(element.screenshot(animations="disabled"))
    widths = element.page.evaluate(_WIDTHS)
    path = KEPT / f"{name}.png"
    if _WRITES:
        KEPT.mkdir(exist_ok=True)
        _FONTS.write_text(json.dumps(widths, indent=1) + "\n")
        seen.save(path, optimize=True)
        return
    if json.loads(_FONTS.read_text()) != widths:
        pytest.skip("other fonts than those of the kept pictures")
    from PIL import Image

    with Image.open(path) as kept:
        found = differ(np.asarray(kept), np.asarray(seen))
    if found:
        seen.save(folder / path.name)
        pytest.fail(f"{found}: {path} became {folder / path.name}")


def reduced(png: bytes) -> Any:
    """Return a screenshot in 16 levels of each colour, a quarter as wide and high."""
    image = pytest.importorskip("PIL.Image").open(BytesIO(png)).convert("RGB")
    size = max(image.width // _PART, 1), max(image.height // _PART, 1)
    step = 255 / (_LEVELS - 1)
    small = image.resize(size, resample=4)  # the mean of a box
    return small.point([round(round(level / step) * step) for level in range(256)] * 3)


def differ(kept: Any, seen: Any) -> str:
    """Return in what two pictures differ, if they do by more than fonts' edges and times."""
    sides = [abs(a - b) for a, b in zip(kept.shape[:2], seen.shape[:2], strict=True)]
    if max(sides) > _SIDE:
        return f"{kept.shape[1::-1]} pixels became {seen.shape[1::-1]}"
    high, wide = np.minimum(kept.shape[:2], seen.shape[:2])
    off = seen[:high, :wide].astype(float) - kept[:high, :wide]
    grey = off @ _GREY
    mean, share = np.abs(grey).mean(), (np.abs(grey) > _FAR).mean()
    if mean > _MEAN or share > _SHARE:
        return f"off by {mean:.1f} of 255 on the average, and {share:.1%} of the pixels are others"
    others = (np.abs(_blurred(off - grey[..., None])) > _HUE).any(axis=-1)
    if others.sum() > max(1, _HUES * others.size):
        return f"of other colours in {others.mean():.1%} of its places"
    return ""


def _blurred(picture: Any) -> Any:
    """Return the means of squares."""
    high, wide = (side // _BLUR for side in picture.shape[:2])
    squares = picture[: high * _BLUR, : wide * _BLUR].reshape(high, _BLUR, wide, _BLUR, 3)
    return squares.mean(axis=(1, 3))

"""Small pictures of samples: a page shows all of them before anyone asks for one."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageOps

SIDE = 400
"""Longer side in pixels: a card of the gallery at the resolution of most screens."""

QUALITY = 78
"""Of WebP, 0 to 100: about 15 kB."""

SUFFIX = ".webp"


def thumbnail(path: Path) -> bytes:
    """A picture in a box of `SIDE`, as WebP; turned as its EXIF data says.

    Raises:
        PIL.UnidentifiedImageError: It's no picture that can be read.
    """
    with Image.open(path) as picture:
        turned = ImageOps.exif_transpose(picture)
        small = turned.convert("RGBA" if turned.has_transparency_data else "RGB")
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=QUALITY, method=6)
    return buffer.getvalue()

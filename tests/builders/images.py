"""Image files of every kind that the readers support, made by Pillow."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dataprep_api.spec import Source


def an_image(kind: str = "JPEG", *, width: int = 20, height: int = 10, seed: int = 0, mode: str = "RGB", **options: Any) -> bytes:
    """Return an image file that Pillow has written."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, kind, **options)
    return out.getvalue()


def images_source(*folders: Path, **options: Any) -> Source:
    """Return a source that reads images from folders."""
    return Source.model_validate({"images": {"uris": [str(folder) for folder in folders], **options}})


IMAGE_FILES: dict[str, tuple[str, bytes]] = {
    "jpeg": ("jpeg", an_image("JPEG")),
    "progressive jpeg": ("jpeg", an_image("JPEG", progressive=True)),
    "grey jpeg": ("jpeg", an_image("JPEG", mode="L")),
    "cmyk jpeg": ("jpeg", an_image("JPEG", mode="CMYK")),
    "jpeg with a comment and restarts": ("jpeg", an_image("JPEG", comment=b"c" * 70, restart_marker_blocks=1)),
    "jpeg with a thumbnail": ("jpeg", an_image("JPEG", exif=b"Exif\0\0" + an_image("JPEG", width=4, height=4))),
    "jpeg with bytes behind its end": ("jpeg", an_image("JPEG") + bytes(100)),
    "png": ("png", an_image("PNG")),
    "grey png": ("png", an_image("PNG", mode="1")),
    "gif": ("gif", an_image("GIF", mode="P")),
    "bmp": ("bmp", an_image("BMP")),
    "webp": ("webp", an_image("WEBP")),
    "lossless webp": ("webp", an_image("WEBP", lossless=True)),
    "webp with alpha": ("webp", an_image("WEBP", mode="RGBA", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0")),
    "tiff": ("tiff", an_image("TIFF")),
    "big tiff": ("tiff", an_image("TIFF", big_tiff=True)),
}

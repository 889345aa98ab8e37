"""Reading pictures that may be untrusted: files and bytes, within limits that hold before anything is decoded."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError

__all__ = [
    "LARGEST_BYTES",
    "LARGEST_PIXELS",
    "decode_base64",
    "open_picture",
    "picture_bytes",
    "shown_file",
    "thumbnail_png",
]

LARGEST_BYTES = 20_000_000  # of a file
LARGEST_PIXELS = 40_000_000  # of a picture: a small file can unfold into gigabytes
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
THUMBNAIL = 256  # pixels of the longer side of a picture in a report


def _pillow() -> Any:
    try:
        return import_module("PIL.Image")
    except ImportError:
        raise PodiumError("Pictures need Pillow: pip install 'podium-rl[vision]'.") from None


def picture_bytes(path: str, name: str = "") -> bytes:
    """The bytes of a picture's file, refused where there is none or it is too large."""
    file, shown = Path(path).expanduser(), name or path
    if not file.is_file():
        raise PodiumError(f"There is no picture {shown} (looked in {Path.cwd()}).")
    if file.stat().st_size > LARGEST_BYTES:
        raise PodiumError(
            f"The picture {shown} has {file.stat().st_size:,} bytes, more than {LARGEST_BYTES:,}: make it smaller."
        )
    return file.read_bytes()


def decode_base64(text: str, name: str) -> bytes:
    """The bytes of a picture in base64, perhaps with `data:image/png;base64,` before them."""
    coded = text.partition("base64,")[2] if text.startswith("data:") else text
    if len(coded) * 3 // 4 > LARGEST_BYTES:
        raise PodiumError(f"{name}: the picture has more than {LARGEST_BYTES:,} bytes: make it smaller.")
    try:
        return base64.b64decode("".join(coded.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise PodiumError(f"{name}: the picture is neither a file that is there nor base64 ({error}).") from error


def open_picture(data: bytes, name: str) -> Any:
    """The picture in three colours, as Pillow has it. Anything else is one sentence."""
    image = _pillow()
    if len(data) > LARGEST_BYTES:
        raise PodiumError(f"{name} has {len(data):,} bytes, more than {LARGEST_BYTES:,}: make it smaller.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", image.DecompressionBombWarning)  # the limit below is ours
            opened = image.open(io.BytesIO(data), formats=FORMATS)
        width, height = opened.size
        if width * height > LARGEST_PIXELS:
            raise PodiumError(
                f"{name} has {width:,} x {height:,} pixels, more than {LARGEST_PIXELS:,} in all: make it smaller."
            )
        return opened.convert("RGB")
    except PodiumError:
        raise
    except image.DecompressionBombError as error:
        raise PodiumError(f"{name} has more than {LARGEST_PIXELS:,} pixels: make it smaller.") from error
    except Exception as error:  # decoders raise many kinds
        reason = "it is in none of the formats " + ", ".join(FORMATS)
        if type(error).__name__ != "UnidentifiedImageError":
            reason = str(error).strip().rstrip(".") or type(error).__name__
        raise PodiumError(f"{name} is no picture that can be read: {reason}.") from error


def shown_file(folder: Path, name: str) -> Path:
    """Where a run keeps the thumbnail of the picture that texts show by this name."""
    return folder / "pictures" / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.png"


def thumbnail_png(data: bytes, name: str) -> bytes:
    """The picture as a small PNG file."""
    picture, written = open_picture(data, name), io.BytesIO()
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    picture.save(written, "PNG")
    return written.getvalue()

"""Pictures that may be untrusted: what is no picture, too large, or unfolds into gigabytes is one sentence."""

import base64
import struct
import zlib

import pytest

from podium.core.errors import PodiumError
from podium.store import pictures
from podium.store.pictures import decode_base64, open_picture, picture_bytes, thumbnail_png
from tests.policy.vision.models import picture_file


def png_of(width, height):
    """A PNG of a few bytes that says it has so many pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_a_picture_is_read_in_three_colours():
    opened = open_picture(picture_file(5, 3), "x")
    assert (opened.size, opened.mode) == ((5, 3), "RGB")


@pytest.mark.parametrize("size", [(100_000, 100_000), (7000, 7000)])
def test_a_bomb_is_refused_before_it_is_decoded(size):
    with pytest.raises(PodiumError, match=r"bomb\.png has .* pixels.*: make it smaller"):
        open_picture(png_of(*size), "bomb.png")


@pytest.mark.parametrize("data", [b"", b"no picture", b"%PDF-1.4", picture_file()[:60], b"GIF89a"])
def test_what_is_no_picture_is_refused(data):
    with pytest.raises(PodiumError, match=r"x\.png is no picture that can be read"):
        open_picture(data, "x.png")


def test_too_many_bytes_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(pictures, "LARGEST_BYTES", 10)
    (tmp_path / "a.png").write_bytes(picture_file())
    with pytest.raises(PodiumError, match="more than 10"):
        picture_bytes(str(tmp_path / "a.png"))
    with pytest.raises(PodiumError, match="more than 10"):
        decode_base64(base64.b64encode(bytes(40)).decode(), "line 3")
    with pytest.raises(PodiumError, match="more than 10"):
        open_picture(picture_file(), "a.png")


def test_base64_with_and_without_its_header():
    data = picture_file()
    coded = base64.b64encode(data).decode()
    assert decode_base64(coded, "x") == decode_base64(f"data:image/png;base64,{coded}", "x") == data
    with pytest.raises(PodiumError, match="line 3: the picture is neither a file"):
        decode_base64("not base64!", "line 3")


def test_a_missing_file_is_named():
    with pytest.raises(PodiumError, match=r"no picture nowhere\.png"):
        picture_bytes("nowhere.png")


def test_thumbnails_are_small():
    assert open_picture(thumbnail_png(picture_file(600, 300), "x"), "x").size == (256, 128)

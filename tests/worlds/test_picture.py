"""Pictures as tokens: pixels, codes and pieces, changes of a picture, and what people see of it."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

import podium
from podium import worlds
from podium.core.errors import PodiumError
from podium.policy import load
from podium.report.conversation import conversation, conversation_page, conversation_text
from podium.report.run_page import write_report
from podium.worlds import Pieces
from podium.worlds.codebooks import COLOURS, EMPTY, GROUND, SCENERY, STROKES, THINGS, code_of, thing_of
from podium.worlds.names import codebook_of
from podium.worlds.picture import Codebook, as_tokens, pictures_in, png, shifted, sketched, thumbnail
from podium.worlds.zoom import region_codes

BOX = np.array([[code_of("red", "box"), EMPTY]])
each_codebook = pytest.mark.parametrize("codebook", [SCENERY, STROKES], ids=lambda codebook: codebook.name)


@each_codebook
def test_a_picture_of_codes_is_read_as_these_codes(codebook: Codebook) -> None:
    codes = np.arange(len(codebook.patches)).reshape(1, -1)
    assert (codebook.read(codebook.drawn(codes)) == codes).all()
    assert len(codebook.patches) <= 28
    assert codebook.drawn(codes).shape[:2] == (codebook.side, codebook.side * codes.size)


def test_codes_name_things_and_smears() -> None:
    assert thing_of(EMPTY) is None
    pairs = [(colour, thing) for colour in COLOURS for thing in (*THINGS, "")]
    assert [thing_of(code_of(*pair)) for pair in pairs] == pairs
    assert sorted(code_of(*pair) for pair in pairs) == list(range(1, 25))


def test_tokens_give_the_pictures_back_with_the_text_around_them() -> None:
    first, second = np.array([[3, 0], [27, 1]]), np.array([[5, 5, 5]])
    text = "one:\n" + as_tokens(first) + "\ntwo: " + as_tokens(second) + "\n" + as_tokens(second) + "\nwhich?"
    assert isinstance(text, Pieces)
    (a, one), (b, two), (c, none) = pictures_in(text)
    assert (a, b, c, none) == ("one:\n", "\ntwo: ", "\nwhich?", None)
    assert one is not None
    assert two is not None
    assert (one == first).all()
    assert (two == np.vstack([second, second])).all()  # equally long lines, one below the other
    assert list(pictures_in("no picture")) == [("no picture", None)]


def test_a_picture_is_a_token_per_patch_for_the_model_and_its_name_in_a_text_is_not() -> None:
    chat = load("podium/tiny").chat
    codes = np.array([[0, 27]])
    seen = list(chat.encode([{"role": "user", "content": as_tokens(codes)}]))
    assert seen[2:4] == [7, 34]  # reserved tokens follow the seven control tokens
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        typed = list(chat.encode([{"role": "user", "content": "".join(as_tokens(codes))}]))
    assert not {7, 34} & set(typed)


def test_a_picture_that_does_not_fit_its_codebook_is_refused() -> None:
    with pytest.raises(PodiumError, match=r"4 x 3 pixels and 3 channels cannot be cut into the patches of scenery"):
        SCENERY.read(np.zeros((4, 3, 3)))
    with pytest.raises(PodiumError, match="1 to 32 patches"):
        Codebook("large", np.zeros((33, 2, 2, 1)), {})


# -- changes -----------------------------------------------------------------------------------------------------------


def test_shifts_change_pixels_as_they_say() -> None:
    pixels = SCENERY.drawn(BOX)
    assert (shifted(pixels, "none", 1.0, 0) == pixels).all()
    assert (shifted(pixels, "noise", 0.0, 0) == pixels).all()
    noisy = shifted(np.full((40, 40, 3), 0.5), "noise", 0.2, 0)
    assert noisy.std() == pytest.approx(0.1, rel=0.05)
    assert (noisy == shifted(np.full((40, 40, 3), 0.5), "noise", 0.2, 0)).all()
    assert (noisy != shifted(np.full((40, 40, 3), 0.5), "noise", 0.2, 1)).any()
    point = np.zeros((3, 3, 1))
    point[1, 1] = 0.9
    assert shifted(point, "blur", 0.5, 0)[1, 1, 0] == pytest.approx(0.5)  # 0.45 of its own, 0.05 of the mean
    assert shifted(point, "blur", 0.5, 0)[0, 0, 0] == pytest.approx(0.05)
    with pytest.raises(PodiumError, match=r"no shift 'nois' of pictures.*'noise'"):
        shifted(pixels, "nois", 1.0, 0)


def test_inverted_colours_are_their_complements() -> None:
    swapped = {"red": "blue", "blue": "red", "green": "pink", "pink": "green", "black": "white", "white": "black"}
    for colour, other in swapped.items():
        for thing in (*THINGS, ""):
            pixels = shifted(SCENERY.drawn(np.array([[code_of(colour, thing)]])), "inverted", 0.0, 0)
            assert SCENERY.read(pixels).item() == code_of(other, thing)


def small(codes: np.ndarray) -> int:
    """The code of a picture of 2 x 2 cells, made smaller."""
    return int(SCENERY.read(thumbnail(SCENERY.drawn(codes), 2, GROUND)).item())


def test_a_thumbnail_shows_the_colour_of_a_thing_wherever_it_is_but_not_what_it_is() -> None:
    for colour in COLOURS:
        for thing in THINGS:
            for place in range(4):
                region = np.full((2, 2), EMPTY)
                region[divmod(place, 2)] = code_of(colour, thing)
                assert thing_of(small(region)) == (colour, "")
    assert small(np.full((2, 2), EMPTY)) == EMPTY
    with pytest.raises(PodiumError, match="3 x 6 pixels cannot be made 2 times smaller"):
        thumbnail(SCENERY.drawn(BOX), 2, GROUND)


def test_regions_are_numbered_row_by_row() -> None:
    codes = np.arange(24).reshape(4, 6)
    assert region_codes(codes, 1).tolist() == [[0, 1], [6, 7]]
    assert region_codes(codes, 5).tolist() == [[14, 15], [20, 21]]


# -- for people --------------------------------------------------------------------------------------------------------


def test_a_png_has_the_pixels() -> None:
    pixels = SCENERY.drawn(BOX)
    data = png(pixels, scale=2)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (12, 6)
    length = struct.unpack(">I", data[33:37])[0]
    lines = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(6, 1 + 12 * 3)
    assert (lines[:, 0] == 0).all()
    assert lines[0, 1:4].tolist() == [255, 64, 26]  # red
    assert lines[5, -3:].tolist() == [128, 128, 128]  # the ground
    assert data[25] == 2  # colours
    assert png(STROKES.drawn(BOX * 0))[25] == 0  # grey


def test_a_text_is_shown_with_sketches() -> None:
    text = "scene:\n" + as_tokens(BOX) + "\ncolour of the box"
    box = "RRRRRR......"
    assert sketched(text, SCENERY) == f"scene:\n{box}\n{box}\n{box}\ncolour of the box"
    assert sketched(text, None) == text
    smear = np.array([[code_of("blue", "")]])
    assert sketched("1 " + as_tokens(smear), SCENERY) == "1\nbbbbbb\nbbbbbb\nbbbbbb"
    unknown = np.array([[31]])
    assert sketched(as_tokens(unknown), SCENERY).strip() == "......\n......\n......"


def test_playing_writes_the_pictures(tmp_path: Path) -> None:
    said: list[str] = []
    world = worlds.get("zoom", level=1)
    turns = iter([*world.demonstrate(world.task(0))])
    worlds.play(world, 0, lambda _: next(turns).splitlines()[-1], said.append, pictures=tmp_path / "shown")
    assert "reserved" not in "".join(said)
    assert said[1] == f"Picture: {tmp_path / 'shown' / '1.png'}"
    assert (tmp_path / "shown" / "2.png").read_bytes().startswith(b"\x89PNG")
    assert any(text.startswith("Reward 1. Right.") for text in said)


def test_a_report_shows_pictures_in_place_of_their_tokens() -> None:
    row = {"task": "scenes-1/train/0", "prompt": "scene:\n" + str(as_tokens(BOX)), "text": "<|reserved_1|>"}
    shown = conversation(row | {"correct": True, "reward": 1.0, "stop": "end"})
    page = conversation_page(shown)
    assert '<img alt="picture of 1 x 2 patches" src="data:image/png;base64,iVBOR' in page
    assert page.count("reserved") == 1  # what the model wrote is shown as it is
    assert "RRRRRR......" in conversation_text(shown)
    assert codebook_of("digits-1-drawn/test/3") is STROKES
    assert codebook_of("sums-1/train/0") is None
    assert codebook_of("house/1") is None


def test_a_run_trains_on_pictures_and_its_report_has_them(tmp_path: Path) -> None:
    few = {"tasks": 2, "eval_tasks": 2, "eval_samples": 1, "iterations": 1}
    result = podium.train("sft", world="clips", level=1, out=tmp_path / "run", **few)
    assert result.evaluations
    assert "data:image/png" in write_report(tmp_path / "run").read_text()

"""Pictures in rows of your own data."""

import base64
import json

import pytest

from podium.core.errors import PodiumError
from podium.protocols.pieces import Dialogue, Picture, Pieces, pieces_of
from podium.worlds import Dataset, play
from podium.worlds.data_pictures import with_pictures
from podium.worlds.wire import from_wire, to_wire
from tests.policy.vision.models import picture_file


def data(tmp_path, *rows):
    (tmp_path / "cat.png").write_bytes(picture_file())
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Dataset(file=str(file), held_out=0.0)


def pictures(prompt):
    return [piece for piece in pieces_of(prompt) if isinstance(piece, Picture)]


def test_paths_begin_at_the_file_and_base64_is_decoded(tmp_path):
    coded = base64.b64encode(picture_file(seed=3)).decode()
    world = data(
        tmp_path,
        {"question": "what?", "answer": "a", "image": "cat.png"},
        {"question": "what?", "answer": "a", "image": coded},
        {"question": "what?", "answer": "a", "images": ["cat.png"], "image": ["cat.png", coded]},
    )
    one, two, three = (pictures(world.task(n).prompt) for n in range(3))
    assert one == [Picture(str(tmp_path / "cat.png"))]
    assert two == [Picture(data=picture_file(seed=3))]
    assert three == [*one, *two]
    assert "image from 'image'" in world.remarks()[0]
    assert world.task(0).prompt.startswith(f"<picture {tmp_path / 'cat.png'}>\nwhat?\nReason")


def test_a_prompt_says_where_its_pictures_stand():
    first, second = Picture("a.png"), Picture("b.png")
    assert with_pictures("<image> or <image>?", [first, second], "x") == Pieces(first, " or ", second, "?")
    assert with_pictures("which?", [first, second], "x") == Pieces(first, "\n", second, "\nwhich?")
    said = Dialogue(("user", "<image>"), ("assistant", "a cat"), ("user", "and <image>?"))
    placed = with_pictures(said, [first, second], "x")
    assert placed == Dialogue(("user", Pieces(first)), ("assistant", "a cat"), ("user", Pieces("and ", second, "?")))
    asked = with_pictures(Dialogue(("system", "be short"), ("user", "what?")), [first], "x")
    assert asked == Dialogue(("system", "be short"), ("user", Pieces(first, "\nwhat?")))
    with pytest.raises(PodiumError, match="says <image> 2 times, and the row has 1 pictures"):
        with_pictures("<image><image>", [first], "x")


def test_rows_of_datasets_hold_bytes_or_a_path(tmp_path):
    from podium.worlds.data_pictures import pictures_of

    (tmp_path / "cat.png").write_bytes(picture_file())
    assert pictures_of({"bytes": picture_file(), "path": "x"}, tmp_path, "x") == [Picture(data=picture_file())]
    assert pictures_of({"bytes": None, "path": "cat.png"}, tmp_path, "x") == [Picture(str(tmp_path / "cat.png"))]


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("dog.png", r"line 1: There is no picture .*dog\.png"),
        ("rows.jsonl", r"line 1: <picture .*> is no picture that can be read"),
        ("no base64, no path", "line 1: the picture is neither a file that is there nor base64"),
        (7, "line 1: a picture is a path, base64 or bytes, not a int"),
        (["cat.png"] * 17, "17 pictures are more than 16"),
        (base64.b64encode(b"text").decode(), "is no picture that can be read"),
    ],
)
def test_what_is_no_picture_is_named_with_its_row(tmp_path, image, message):
    world = data(tmp_path, {"question": "what?", "answer": "a", "image": image})
    with pytest.raises(PodiumError, match=message):
        world.task(0)


def test_a_row_without_a_picture_is_a_plain_question(tmp_path):
    rows = [{"question": "what?", "answer": "a", "image": x} for x in ("cat.png", None)]
    assert pictures(data(tmp_path, *rows).task(1).prompt) == []


def test_pictures_leave_the_process_of_a_world():
    prompt = Pieces(Picture("a.png"), "x", Picture(data=b"\x00\xff"))
    assert from_wire(json.loads(json.dumps(to_wire(prompt)))) == prompt


def test_playing_writes_the_pictures(tmp_path):
    world, lines = data(tmp_path, {"question": "what?", "answer": "a", "image": "cat.png"}), []
    play(world, 0, lambda _: "a", lines.append, pictures=tmp_path / "shown")
    assert (tmp_path / "shown" / "1.png").read_bytes().startswith(b"\x89PNG")
    assert any("Picture:" in line for line in lines)

"""The worlds with pictures: scenes, zoom, digits, badges, clips, and what a model reads of them."""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.policy import load
from podium.worlds import Badges, Clips, Digits, Scenes, Task, World, Zoom
from podium.worlds.badges import POLICY, Badge, badge_labels
from podium.worlds.clips import Event, frame_codes, refined
from podium.worlds.codebooks import COLOURS, code_of
from podium.worlds.digits import _numbers, written_digits
from podium.worlds.glyphs import draw_digit
from podium.worlds.picture import pictures_in
from podium.worlds.scenes import scene_answer, scene_codes
from tools.pretrain.pictures import MANNERS, PICTURES, picture_examples, picture_worlds

SCENE = (
    (("red", "box"), ("blue", "tree"), None),
    (None, ("red", "lamp"), ("green", "tree")),
    (None, None, None),
)


# -- scenes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (("colour", "box"), "red"),
        (("colour", "tree"), None),  # there are two
        (("thing", "green"), "tree"),
        (("thing", "red"), None),
        (("thing", "pink"), None),
        (("count", "red"), "2"),
        (("count", "red", "lamp"), "1"),
        (("count", "pink"), "0"),
        (("beside", "right", "red", "lamp"), "green tree"),
        (("beside", "above", "red", "lamp"), "blue tree"),
        (("beside", "left", "red", "box"), None),  # the edge
        (("beside", "below", "red", "lamp"), None),  # nothing is there
    ],
)
def test_answers_follow_from_the_scene(query: tuple[str, ...], answer: str | None) -> None:
    assert scene_answer(SCENE, query) == answer


def test_the_picture_of_a_scene_shows_it() -> None:
    world, task = Scenes(level=2), Scenes(level=2, ask="colour").task(0)
    (_, codes), *_ = pictures_in(task.prompt)
    assert codes is not None
    assert (codes == scene_codes(task.data["scenes"][0])).all()
    assert scene_codes(SCENE)[0].tolist() == [code_of("red", "box"), code_of("blue", "tree"), 0]
    assert world.unasked(task) + "\n" + task.prompt.splitlines()[-1] == task.prompt
    assert world.describe(task) == world.solve(task).splitlines()[0]
    assert len(world.describe(task, "long").splitlines()) > 1


def test_one_of_two_pictures_fits_the_wish() -> None:
    for task in map(Scenes(level=2, ask="choice").task, range(50)):
        count, *what = task.data["query"][1:]
        fits = [scene_answer(scene, ("count", *what)) == count for scene in task.data["scenes"]]
        assert sum(fits) == 1
        assert task.data["answer"] == ("one", "two")[fits.index(True)]


def _seen(world: World, task: Task) -> tuple[str, str]:
    """The prompt, and what follows the first turn of a solution."""
    return task.prompt, world.reset(task).act(world.demonstrate(task)[0]).observation


@pytest.mark.parametrize("shift", ["noise", "blur", "inverted"])
@pytest.mark.parametrize("name", ["scenes", "zoom", "badges", "digits", "clips"])
def test_a_shift_changes_what_is_seen_and_not_what_is_asked(name: str, shift: str) -> None:
    plain, other = worlds.get(name), worlds.get(name, shift=shift)
    pairs = [(plain.task(i), other.task(i)) for i in range(20)]
    assert all((a.key, a.data) == (b.key, b.data) for a, b in pairs)
    views = [[_seen(world, task) for world, task in zip((plain, other), pair, strict=True)] for pair in pairs]
    assert sum(a != b for a, b in views) >= 5
    assert worlds.check_world(other, tasks=3) == []


# -- zoom --------------------------------------------------------------------------------------------------------------


def test_a_look_shows_regions_in_full_and_the_question_once() -> None:
    world = Zoom(level=4)
    task = world.task(0)
    first, last = world.demonstrate(task)
    episode = world.reset(task)
    seen = episode.act(first)
    shown = [codes for _, codes in pictures_in(seen.observation) if codes is not None]
    wanted = {code_of(c, t) for c, t in zip(task.data["colours"], task.data["answer"].split(), strict=True)}
    assert wanted <= set(np.concatenate(shown).flat)
    assert [codes.shape for codes in shown] == [(2, 2), (2, 2)]
    assert seen.observation.endswith(task.data["words"])
    assert seen.info["picked"] == seen.info["evidence"] == task.data["evidence"]
    assert episode.copy().act(first).info["valid"] is False  # once only
    assert episode.act(last).info["correct"]
    whole = Zoom(level=4, whole=True).reset(task).act(first)
    assert [c.shape for _, c in pictures_in(whole.observation) if c is not None] == [(8, 8)]


@pytest.mark.parametrize("text", ["look:", "look: 0", "look: 5", "look: 1 2 3"])
def test_a_look_elsewhere_is_not_valid(text: str) -> None:
    feedback = Zoom(level=1).reset(Zoom(level=1).task(0)).act(text)
    assert feedback.observation == "error: look at 1 to 2 of the regions 1 to 4"
    assert feedback.info["valid"] is False


# -- digits ------------------------------------------------------------------------------------------------------------


def test_drawn_digits_can_be_told_apart() -> None:
    """By the nearest mean of others of their kind: a plain classifier finds most of them."""
    draw = {(digit, i): draw_digit(digit, Random(f"{digit}/{i}")).ravel() for digit in range(10) for i in range(30)}
    means = np.stack([np.mean([draw[digit, i] for i in range(20)], axis=0) for digit in range(10)])
    found = [((means - draw[digit, i]) ** 2).sum(1).argmin() == digit for digit in range(10) for i in range(20, 30)]
    assert np.mean(found) > 0.8
    assert all(picture.min() >= 0 and picture.max() <= 16 for picture in draw.values())


def test_no_held_out_picture_is_trained_on_even_in_a_sum() -> None:
    world = Digits(level=3)
    train, test = ({p for i in range(40) for p in world.task(i, s).data["pictures"]} for s in ("train", "test"))
    assert not train & test


def test_unlabelled_pictures_are_the_held_out_ones() -> None:
    world = Digits(unlabelled=True, images=3)
    assert [world.task(i).prompt for i in range(3)] == [Digits().task(i, "test").prompt for i in range(3)]
    assert (world.size(), world.size("test")) == (3, None)
    with pytest.raises(PodiumError, match=r"has 3 tasks.*3 was asked for"):
        world.task(3)


def test_real_digits_are_read_where_scikit_learn_is(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [number % 10 for number in range(400)]
    images = np.stack([np.full((8, 8), float(label)) for label in labels])
    found = SimpleNamespace(load_digits=lambda: SimpleNamespace(images=images, target=np.array(labels)))
    monkeypatch.setitem(sys.modules, "sklearn", SimpleNamespace(datasets=found))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", found)
    try:
        world = Digits(source="real", level=2)
        assert worlds.check_world(world, tasks=5) == []
        name = world.task(0).data["pictures"][0]
        assert world.pixels(name)[0, 0, 0] == int(name[0]) / 16
    finally:
        written_digits.cache_clear()
        _numbers.cache_clear()


def test_without_scikit_learn_real_digits_are_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    written_digits.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(PodiumError) as error:
        worlds.get("digits", source="real")
    assert str(error.value) == (
        "digits of source 'real' are scikit-learn's: pip install 'podium-rl[pictures]', or set world.source=drawn."
    )


# -- badges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choices", [2, 4, 6])
def test_neither_sign_nor_caption_tells_alone_whether_a_badge_is_banned(choices: int) -> None:
    colours, words = list(COLOURS)[:choices], list(POLICY)[:choices]
    for colour in colours:
        assert sum(Badge(colour, "box", word).banned for word in words) == choices / 2
    for word in words:
        assert sum(Badge(colour, "box", word).banned for colour in colours) == choices / 2


def test_a_banned_badge_has_a_target_and_a_kind() -> None:
    assert badge_labels(Badge("red", "tree", "blim")) == ("dog", "tease")
    assert badge_labels(Badge("blue", "tree", "blim")) == ()


@pytest.mark.parametrize(
    ("answer", "score"), [("dog, tease", 1), ("tease, dog", 1), ("dog", 0.5), ("dog, scare", 0.5), ("none", 0)]
)
def test_labels_are_paid_by_the_share_that_is_right(answer: str, score: float) -> None:
    task = Task("badges-1/train/0", "", domain="labels", data={"answer": "dog, tease"})
    verdict = Badges().verdict(task, answer)
    assert verdict.score == score
    assert verdict.correct == (score == 1)


# -- clips -------------------------------------------------------------------------------------------------------------


def test_finer_frames_lie_between_the_neighbours_of_the_picked_one() -> None:
    coarse = (4, 8, 12, 16)
    assert refined(coarse, [8], 8) == (5, 6, 7, 8, 9, 10, 11)
    assert refined(coarse, [8], 3) == (5, 8, 11)
    assert refined(coarse, [8, 16], 8) == (5, 7, 9, 11, 13, 15, 17, 19)  # four each
    assert refined(coarse, [4], 8) == (1, 2, 3, 4, 5, 6, 7)
    assert refined((5, 6, 7), [6], 8) == (6,)  # there is nothing finer


def test_an_event_is_a_smear_in_the_coarse_frame_and_clear_a_moment_later() -> None:
    event = Event(2, 1, "red", ("tree", "lamp"))
    data = {"scenery": (0, "black", "box"), "events": (tuple(event),)}
    shown = [frame_codes(data, moment)[0, 1] for moment in range(7, 13)]
    names = [0, code_of("red", ""), code_of("red", "tree"), code_of("red", "lamp"), code_of("red", ""), 0]
    assert shown == names


def test_who_picks_less_sees_more() -> None:
    world = Clips(level=2)
    task = world.task(0)
    (frame,) = task.data["evidence"]
    colour, thing = task.data["colour"], task.data["answer"].split()[0]
    pure = world.reset(task).act(f"pick: {frame}")
    other = [n for n in range(1, 11) if abs(n - frame) > 1][:3]
    broad = world.reset(task).act(f"pick: {frame} {' '.join(map(str, other))}")
    name = f"<|reserved_{code_of(colour, thing)}|>"
    assert name in pure.observation
    assert name not in broad.observation
    assert pure.info["picked"] == pure.info["evidence"] == (frame,)
    assert set(broad.info["picked"]) == {frame, *other}


def test_a_second_pick_counts_as_the_nearest_coarse_frame_and_a_third_is_refused() -> None:
    world = Clips(level=1)
    episode = world.reset(world.task(0))
    episode.act("pick: 3")  # moments 9 to 15
    assert episode.act("pick: 1 7").info["picked"] == (2, 3, 4)
    third = episode.act("pick: 1")
    assert third.observation == "error: no more picks, say answer:"
    assert third.info["valid"] is False


@pytest.mark.parametrize("text", ["pick:", "pick: 0", "pick: 7"])
def test_a_pick_that_is_not_there_is_not_valid(text: str) -> None:
    feedback = Clips(level=1).reset(Clips(level=1).task(0)).act(text)
    assert feedback.observation == "error: pick 1 to 6 of the numbers 1 to 6"
    assert feedback.info["valid"] is False


# -- what a model reads ------------------------------------------------------------------------------------------------


def test_every_level_and_style_is_in_the_text() -> None:
    pictured = {name: world for name, world in worlds.EMBEDDED.items() if hasattr(world, "codebook")}
    for dials in PICTURES.values():
        assert {name: tuple(levels) for name, levels in dials.items()} == {n: w.levels for n, w in pictured.items()}
    assert {name: set(manners) for name, manners in MANNERS.items()} == {n: set(w.styles) for n, w in pictured.items()}
    assert [d for _, d in picture_worlds(2)] == [d for levels in PICTURES[2].values() for d in levels.values()]


@pytest.mark.parametrize("name", ["scenes", "zoom", "badges", "clips"])
def test_the_text_is_right_as_often_as_the_dials_say(name: str) -> None:
    world, dial = worlds.get(name, level=1), PICTURES[2][name][1]
    rng, right = Random(0), Counter[bool | None]()
    for index in range(1500):
        right.update(example.right for example in picture_examples(world, dial, index, rng))
    expected = sum(m.share * dial.right**m.risk for m in MANNERS[name].values()) / 10
    share = right[True] / (right[True] + right[False])
    assert share == pytest.approx(expected, abs=0.13)  # three standard errors of 130 draws


def test_examples_end_with_what_the_model_writes_and_fit_its_context() -> None:
    tokenizer = load("podium/tiny").tokenizer
    rng = Random(0)
    for world, dial in picture_worlds(1):
        for index in range(10):
            (example,) = picture_examples(world, dial, index, rng)
            said = [message.own for message in example.messages]
            assert said == [number % 2 == 1 for number in range(len(said))]
            assert len(tokenizer.encode("".join(m.text for m in example.messages))) < 450
            assert "reserved" not in "".join(m.text for m in example.messages if m.own)

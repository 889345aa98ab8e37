"""Dilemmas of two: payoffs, moves at the same time, private values, and rivals that follow rules."""

from __future__ import annotations

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.protocols.context import Exchange, Full, History, Since, Wrote
from podium.protocols.world import Feedback
from podium.worlds.checker import check_world
from podium.worlds.texts.dilemmas import split_prompt, split_reply


def play(level: int, *texts: str, **settings: object) -> list[Feedback]:
    world = worlds.get("dilemma", level=level, **settings)
    episode = world.reset(world.task(0))
    return [episode.act(text) for text in texts]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_world_is_sound(level: int) -> None:
    assert check_world(worlds.get("dilemma", level=level), tasks=3) == []


def test_both_are_paid_when_both_have_moved() -> None:
    first, second = play(1, "move: cooperate", "move: defect")
    assert (first.reward, dict(first.rewards), first.done) == (0.0, {}, False)
    assert first.observation.startswith("dilemma: 5 rounds")  # the second does not see the first one's move
    assert (second.reward, dict(second.rewards)) == (5.0, {"ann": 0.0})
    assert second.observation == "you cooperate, other defect, you get 0\nmove?"


def test_cooperation_is_the_share_of_what_both_can_earn() -> None:
    last = play(1, *["move: cooperate"] * 10)[-1]
    assert last.done
    assert (last.info["cooperation"], last.info["correct"]) == (1.0, True)
    assert play(1, *["move: defect"] * 10)[-1].info["cooperation"] == pytest.approx(1 / 3)


def test_a_move_that_cannot_be_read_ends_the_game() -> None:
    last = play(1, "move: cooperate", "what?")[-1]
    assert (last.done, last.reward, dict(last.rewards), last.info["valid"]) == (True, 0.0, {}, False)


def test_coins_are_shared_in_proportion_where_both_ask_for_too_many() -> None:
    world = worlds.get("dilemma", level=2)
    task = world.task(0)
    (ann, bob) = task.data["worths"][0]
    episode = world.reset(task)
    episode.act("take: 10")
    feedback = episode.act("take: 5")
    assert dict(feedback.rewards)["ann"] == pytest.approx(ann * 20 / 3)
    assert feedback.reward == pytest.approx(bob * 10 / 3)


def test_messages_are_exchanged_before_coins_are_taken() -> None:
    first, second = play(3, "message: 10", "message: 1")
    assert "other says" not in first.observation
    assert second.observation == "other says 1\ntake?"


def test_a_rival_mirrors_the_last_move() -> None:
    rewards = [f.reward for f in play(1, "move: defect", "move: defect", "move: cooperate", rival="tit_for_tat")]
    assert rewards == [5.0, 1.0, 0.0]
    with pytest.raises(PodiumError, match="rival"):
        worlds.get("dilemma", rival="nobody")


@pytest.mark.parametrize("level", [2, 3])
def test_each_round_of_coins_reads_like_the_first_unless_agents_recall(level: int) -> None:
    talk = ["message: 10", "message: 1"] if level == 3 else []
    texts = [*talk, "take: 5", "take: 4"]
    world = worlds.get("dilemma", level=level)
    worth = world.task(0).data["worths"][1][0]
    assert play(level, *texts)[-1].observation == split_prompt(worth, message=level == 3)
    told = play(level, *texts, recall=True)[-1].observation
    assert told == f"you took 5, other took 4\n{split_prompt(worth, message=level == 3)}"


def test_agents_see_the_round_that_is_told_anew() -> None:
    wrote = [Wrote((number,)) for number in range(3)]
    seen = [split_reply("1"), split_prompt(10, message=True), split_reply("10")]
    history = History(
        split_prompt(1, message=True),
        tuple(Exchange(own, "", text) for own, text in zip(wrote, seen, strict=True)),
    )
    assert Since("split:")(history) == [seen[1], wrote[2], seen[2]]
    assert Since("dilemma: 9")(history) == Full()(history)

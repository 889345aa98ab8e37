"""A world that raises, hangs or returns nonsense ends its episode with a stated reason; the others go on."""

from __future__ import annotations

import time
from typing import Any

import pytest

from podium.collect.acting import Actor
from podium.protocols.world import Episode, Feedback


class Says(Episode):
    def __init__(self, answer: Any) -> None:
        super().__init__("question")
        self.answer = answer

    def act(self, text: str) -> Feedback:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "hang":
            time.sleep(30)
        return Feedback(reward=self.answer)


def outcome(answer: Any, *, inline: bool, limit_s: float = 5.0) -> tuple[float, str]:
    actor, seen = Actor(limit_s, inline=inline), []
    actor.act(Says(answer), "text", lambda feedback, failure: seen.append((feedback.reward, failure)))
    while actor.busy:
        actor.deliver(block=True)
    ((reward, failure),) = seen
    return reward, failure


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ValueError("boom"), "raised ValueError: boom"),
        (float("nan"), "reward is nan"),
        (float("inf"), "reward is inf"),
        ("1.0", "not a number"),
        (True, "not a number"),
        (None, "not a number"),
    ],
)
def test_a_reward_that_cannot_be_used_counts_as_zero_with_a_reason(answer: Any, words: str, inline: bool) -> None:
    reward, failure = outcome(answer, inline=inline)
    assert reward == 0.0
    assert words in failure


@pytest.mark.parametrize("inline", [True, False])
def test_a_good_reward_passes_through(inline: bool) -> None:
    assert outcome(0.5, inline=inline) == (0.5, "")


def test_a_world_that_hangs_is_given_up_after_its_limit_and_the_rest_is_answered() -> None:
    actor, seen = Actor(0.3), []
    for number in range(12):  # more hanging jobs than threads: the queue behind them must not starve
        actor.act(Says("hang"), "", lambda f, failure, number=number: seen.append((number, failure)))
    actor.act(Says(1.0), "", lambda f, failure: seen.append((99, failure)))
    begun = time.monotonic()
    while actor.busy:
        actor.deliver(block=True)
    assert time.monotonic() - begun < 10
    assert (99, "") in seen
    assert sum("did not answer within 0.3 s" in failure for _, failure in seen) == 12


class Ends(Episode):
    """Counts how often it is closed; one that hangs is not left in a hurry."""

    closed: list[str] = []

    def close(self) -> None:
        if self.observation == "hang":
            time.sleep(30)
        if self.observation == "raise":
            raise RuntimeError("no")
        self.closed.append(self.observation)


@pytest.mark.parametrize("inline", [True, False])
def test_every_episode_is_closed_and_the_next_comes_when_it_is(inline: bool) -> None:
    Ends.closed.clear()
    actor, inside = Actor(5.0, inline=inline, live=2), list[Episode]()
    for number in range(7):
        actor.enter(Ends("raise" if number == 3 else str(number)), inside.append)
    while inside or actor.busy:
        assert len(inside) <= 2
        if inside:
            actor.leave(inside.pop(0))
        actor.deliver(block=not inside)
    assert sorted(Ends.closed) == ["0", "1", "2", "4", "5", "6"]


def test_an_episode_that_hangs_when_it_is_closed_keeps_nobody_waiting_for_long() -> None:
    Ends.closed.clear()
    actor, inside = Actor(0.3, live=1), list[str]()
    for name in ("hang", "next"):
        actor.enter(Ends(name), lambda episode: (inside.append(episode.observation), actor.leave(episode)))
    begun = time.monotonic()
    while actor.busy:
        actor.deliver(block=True)
    assert inside == ["hang", "next"]
    assert Ends.closed == ["next"]
    assert time.monotonic() - begun < 5


def test_what_is_left_is_closed_when_everything_ends() -> None:
    Ends.closed.clear()
    actor = Actor(0.5)
    for number in range(80):  # more than there are threads
        actor.enter(Ends(str(number)), lambda _: None)
    actor.enter(Ends("hang"), lambda _: None)
    begun = time.monotonic()
    actor.close()
    assert len(Ends.closed) == 80
    assert time.monotonic() - begun < 5
    assert not actor.busy
    actor.deliver()

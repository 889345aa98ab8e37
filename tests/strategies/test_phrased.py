"""Groups over phrasings: who answers which, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from podium.core.errors import PodiumError
from podium.protocols.sampling import Sampling
from podium.strategies import Phrased
from podium.strategies.requests import Play, TaskRequest
from podium.worlds import Shop, Task


def request(world: Shop) -> TaskRequest:
    return TaskRequest(world.task(0), 0, Sampling(), (0,), world=world)


def test_each_rollout_answers_a_phrasing_in_a_conversation_of_its_own() -> None:
    world = Shop()
    task = request(world)
    wave = next(Phrased(pairs=3).plan(task))
    plays = [play for play in wave if isinstance(play, Play)]
    wordings = [other.prompt for other in world.phrasings(task.task)]
    assert [play.request.task.prompt for play in plays] == [*wordings, *wordings[:2]]
    assert [play.columns["pair"] for play in plays] == [0, 0, 1, 1, 2, 2]
    assert [play.first for play in plays] == [0, 1, 2, 3, 4, 5]
    assert {play.request.task.key for play in plays} == {task.task.key}
    assert Phrased(pairs=3).n == 6


class Odd(Shop):
    """A shop with three phrasings."""

    def phrasings(self, task: Task) -> tuple[Task, ...]:
        return super().phrasings(task)[:3]


def test_phrasings_come_in_pairs() -> None:
    with pytest.raises(PodiumError, match="has 3 of"):
        next(Phrased().plan(dataclasses.replace(request(Odd()), world=Odd())))
    with pytest.raises(PodiumError, match="pairs = 0"):
        Phrased(pairs=0)

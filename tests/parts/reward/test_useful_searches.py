"""Right answers that rest on useful searches, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.parts.reward import UsefulSearches
from podium.worlds import Lookup


def episode(world: Lookup, texts: list[str]) -> Batch:
    """What these turns come to in a world, as a batch of one rollout."""
    task = world.task(0)
    played, turns, state, reward = world.reset(task), [], task.key, 0.0
    for text in texts:
        said = played.act(text)
        columns: dict[str, Any] = {"searched": False, "useful": False, **said.info}
        shown = {name: columns[name] for name in ("searched", "useful")}
        turns.append(Turn((), columns={**shown, "state": state, "next_state": said.state}))
        state, reward = said.state, reward + said.reward
    return Batch.from_rollouts([Rollout(task.key, turns, columns={"reward": reward})])


def test_a_search_that_repeats_what_is_known_is_useless() -> None:
    world = Lookup(level=2, known=0.0, distractors=0)
    search, second, answer = world.demonstrate(world.task(0))
    for texts, use in (
        ([search, second, answer], 1.0),
        ([search, search, second, answer], 2 / 3),
        (["search: weather", search, second, answer], 2 / 3),
        ([answer], 0.0),
    ):
        found = UsefulSearches()(episode(world, texts))
        assert float(found["rollout.search_use"]) == pytest.approx(use)
        assert float(found["rollout.reward"]) == pytest.approx(1 + use)
    wrong = UsefulSearches()(episode(world, [search, second, "answer: nobody"]))
    assert float(wrong["rollout.reward"]) == 0
    assert float(wrong["rollout.search_use"]) == 1
    assert float(UsefulSearches(0.5)(episode(world, [search, second, answer]))["rollout.reward"]) == 1.5


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(PodiumError, match=r"UsefulSearches\.weight"):
        UsefulSearches(-1.0)

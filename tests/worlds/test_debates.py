"""The world of debates: what is revealed decides, sides are fair, and its players play by their rules."""

from __future__ import annotations

from statistics import mean

import numpy as np
import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.protocols.context import History
from podium.protocols.option_set import read_set
from podium.worlds.debates import EvidenceWorld, verdict
from podium.worlds.patients import FEATURES, clinician, treated


def played(world: EvidenceWorld, first: str, index: int) -> dict[str, object]:
    """What comes of a held-out debate whose proponent is a player of the world."""
    episode = world.reset(world.task(index, "test"), index)
    seen, turns = episode.observation, 0
    while True:
        assert episode.agent == "proponent"
        feedback = episode.act(world.players[first](History(seen), 31 * index + turns))
        turns += 1
        if feedback.done:
            assert turns == world.level + 1
            return {"reward": feedback.reward, **feedback.info}
        seen = feedback.observation


@pytest.mark.parametrize("level", [1, 2])
def test_the_checker_finds_nothing(level: int) -> None:
    assert worlds.check_world(worlds.get("evidence", level=level), tasks=5) == []


def test_chance_wins_half_and_a_greedy_debater_wins_more() -> None:
    world = worlds.get("evidence")
    by_chance, greedy = ([played(world, who, n) for n in range(120)] for who in ("random", "greedy"))
    assert mean(x["correct"] for x in by_chance) == pytest.approx(0.5, abs=0.15)
    assert mean(x["correct"] for x in greedy) > mean(x["correct"] for x in by_chance) + 0.08
    assert all(x["reward"] == (1.0 if x["correct"] else -1.0) for x in greedy)


def test_debaters_take_turns_and_one_earns_what_the_other_loses() -> None:
    world = worlds.get("evidence", level=1)
    task = world.task(3)
    episode = world.reset(task)
    spoke, revealed, seen = [], np.zeros(len(FEATURES)), episode.observation
    while True:
        spoke.append(episode.agent)
        options = read_set(seen)
        free = [n for n, row in enumerate(options.rows) if row.allowed]
        assert [n for n in range(len(FEATURES)) if not revealed[n]] == free
        revealed[free[0]] = 1
        feedback = episode.act(str(free[0]))
        seen = feedback.observation
        if feedback.done:
            break
    assert spoke in (["proponent", "opponent"] * 2, ["opponent", "proponent"] * 2)
    (other,) = feedback.rewards.values()
    assert {feedback.reward, other} == {1.0, -1.0}
    won = verdict(np.array(task.data["state"]), revealed, *task.data["decisions"]) > 0
    assert feedback.info["correct"] == won


def test_what_is_revealed_already_or_no_number_loses() -> None:
    for text in ("99", "", "lactate", "0"):
        world = worlds.get("evidence")
        episode = world.reset(world.task(0))
        speaker = episode.agent
        if text == "0":
            episode.act("0")
            speaker = episode.agent
        feedback = episode.act(text)
        assert feedback.done
        assert not feedback.info["valid"]
        assert feedback.reward == -1.0
        assert feedback.info["correct"] == (speaker != "proponent")


def test_settings_that_do_not_exist_are_named() -> None:
    with pytest.raises(PodiumError, match="tested"):
        worlds.get("evidence", tested="loud")
    with pytest.raises(PodiumError, match="level"):
        worlds.get("evidence", level=3)


def test_the_clinician_of_the_records_is_better_than_chance_and_their_chances_are_exact() -> None:
    records = treated(800, np.random.default_rng(0))
    by_chance = treated(800, np.random.default_rng(0), lambda x: np.full((len(x), 9), 1 / 9))
    assert records.reward.sum(1).mean() > by_chance.reward.sum(1).mean() + 0.5
    p = clinician(records.state[:, 2])
    assert np.allclose(p.sum(-1), 1)
    assert np.allclose(p[np.arange(800), records.action[:, 2]], records.chance[:, 2])

"""Information gain of questions, with numbers worked out by hand."""

from __future__ import annotations

import pytest

from podium.parts.reward import BeliefGain
from podium.parts.reward.belief import belief_after, belief_entropy
from podium.worlds import Clarify

PRIOR = ((0.25,) * 4, (0.5, 0.5), (0.7, 0.2, 0.1))
ANSWERS = ({0: (0, 1)}, {1: (0,), 2: (1, 2)})


def test_the_worked_example() -> None:
    entropies, _ = BeliefGain().path(PRIOR, ANSWERS)
    assert entropies == pytest.approx([4.156780, 3.156780, 1.918296], abs=1e-6)
    assert BeliefGain().gains(PRIOR, ANSWERS) == pytest.approx([0.240571, 0.297943], abs=1e-6)
    assert BeliefGain("resolved").gains(PRIOR, ANSWERS) == [0.0, 1.0]


def test_a_contradiction_leaves_the_belief_as_it_is() -> None:
    known = ((1.0, 0.0), (0.5, 0.5))
    assert belief_after(known, {0: (1,)}) == list(known)
    assert BeliefGain().gains(((1.0,),), ({0: (0,)},)) == [0.0]


def test_compound_questions_telescope_to_the_whole_uncertainty() -> None:
    world = Clarify(level=2, compound=True)
    for index in range(6):
        task = world.task(index)
        episode, said = world.reset(task), []
        for text in ("ask: size small or large", "ask: size age", "ask: colour", "ask: place"):
            info = episode.act(text).info
            said.append(dict(info["allowed"]))
        prior = info["belief"]
        assert sum(BeliefGain().gains(prior, said)) == pytest.approx(1.0)
        assert all(sum(values) == pytest.approx(1.0) for values in prior)
        assert belief_entropy(prior) > 0
        assert episode.act(f"answer: {task.data['answer']}").info["correct"]


def test_a_user_without_expertise_says_only_yes_or_no() -> None:
    world = Clarify(level=1, compound=True, expertise=0.0, patience=12)
    task = world.task(0)
    episode = world.reset(task)
    assert episode.act("ask: size").observation == "not sure"
    assert episode.act("ask: size small or large").observation in ("yes", "no")
    assert not episode.act("ask: weight").info["valid"]
    episode = world.reset(task)
    for text in world.demonstrate(task)[:11]:
        last = episode.act(text)
    assert last.info["valid"]

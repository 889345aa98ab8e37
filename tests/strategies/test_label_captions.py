"""Captions put to an annotator: by the world, with wrong labels, and by a judge that fails."""

from __future__ import annotations

from typing import Any

import pytest

from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.memories import Captions
from podium.methods.rewards.oni import QUESTIONS
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task
from podium.strategies import LabelCaptions, OptionJudge
from podium.strategies.judged.label_captions import caption_of
from podium.strategies.requests import JudgeScores, Meets, TaskRequest
from podium.worlds.texts.captions import caption_question


def played(strategy: LabelCaptions, memory: Captions, progress: list[float], scores: float = 0.5) -> Any:
    """The labels of one episode whose turns come so much nearer to the goal; a judge gives `scores`."""
    known = memory.recall(memory.initial(), ["one"])["group.captions"][0]
    request = TaskRequest(Task("one", ""), 0, Sampling(), (0, 0, 0), {"group.captions": known})
    turns = [
        Turn([0], columns={"action": f"go {place}", "observation": "a room.", "progress": x})
        for place, x in enumerate(progress)
    ]
    plan = strategy.plan(request)
    next(plan)
    answers: Any = [[Rollout("one", turns, columns={"index": 0})]]
    try:
        wave = plan.send(answers)
        assert all(isinstance(request, Meets) for request in wave)
        plan.send([[JudgeScores((scores,), 1, failed=1)] for _ in wave])
    except StopIteration as end:
        (rollout,) = end.value
        return rollout.columns["caption.labels"]
    raise AssertionError("the plan did not end")


def labels(given: Any) -> list[float]:
    return [label for _, _, label in given]


def test_the_world_finds_helpful_what_comes_nearer_to_the_goal() -> None:
    assert labels(played(LabelCaptions(), Captions(), [0.5, 0.0, -0.5])) == [1.0, 0.0, 0.0]


def test_an_annotator_that_is_always_wrong_says_the_opposite() -> None:
    assert labels(played(LabelCaptions(noise=1.0), Captions(), [0.5, 0.0])) == [0.0, 1.0]


def test_the_newest_captions_are_asked_about_first() -> None:
    given = played(LabelCaptions(calls=1), Captions(), [0.5, 0.0])
    assert [captions for _, captions, _ in given] == [(caption_of("go 1", "a room."),)]


def test_the_world_compares_two_captions_by_their_progress() -> None:
    given = played(LabelCaptions(calls=50), Captions("ranking"), [0.5, 0.0, 0.0])
    best = caption_of("go 0", "a room.")
    assert given
    for _, (first, second), label in given:
        assert label == (0.0 if first == best else 1.0 if second == best else 2.0)


@pytest.mark.parametrize(("score", "label"), [(0.5, 0.0), (0.9, 1.0)])
def test_a_judge_that_fails_labels_nothing_helpful(score: float, label: float) -> None:
    assert labels(played(LabelCaptions(annotator=OptionJudge()), Captions(), [0.5], score)) == [label]


def test_the_question_is_the_one_that_tiny2_knows() -> None:
    caption = caption_of("take lamp", "room 2.")
    assert QUESTIONS["criterion"].format(answer=caption) == caption_question(caption)


def test_an_annotator_is_the_world_or_a_judge() -> None:
    with pytest.raises(PodiumError, match="'world' or a judge"):
        LabelCaptions(annotator="somebody")

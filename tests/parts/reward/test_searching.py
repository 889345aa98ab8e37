"""Rewards of searches, tool calls, evidence and judgements, with numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.parts.advantage import Normalize
from podium.parts.annotate import CountMessages, CountSearches, EvidenceRubrics, ReadSearchTags
from podium.parts.annotate.evidence import rubric_scores
from podium.parts.annotate.searches import exact_match
from podium.parts.metric import NeedlessSearches
from podium.parts.reward import GatedMix, JudgedSearch, KnowledgeBoundary, TriedTools


def group(rewards: list[float], **columns: Any) -> Batch:
    named = {f"rollout.{name}": x for name, x in columns.items()}
    return Batch.from_rewards(torch.tensor(rewards, dtype=torch.float64), [0] * len(rewards), named)


def boundary(searches: list[float], right: list[bool], **settings: Any) -> list[float]:
    formed = torch.ones(len(right), dtype=torch.bool)
    batch = group([0.0] * len(right), searches=torch.tensor(searches), matched=torch.tensor(right), formed=formed)
    found: list[float] = KnowledgeBoundary(**settings)(batch)["rollout.reward"].tolist()
    return found


def test_each_search_takes_a_third_of_the_bonus() -> None:
    assert boundary([0, 1, 2, 3, 4], [True] * 5) == pytest.approx([1.6, 1.4, 1.2, 1.0, 1.0])
    assert boundary([0, 1, 5], [False] * 3) == pytest.approx([0.0, 0.05, 0.05])
    assert boundary([0, 2, 0, 1], [True, True, False, False], plus=0.0, minus=0.0) == [1, 1, 0, 0]


def test_a_malformed_rollout_has_its_price_however_right() -> None:
    columns = {"searches": torch.zeros(1), "matched": torch.tensor([True]), "formed": torch.tensor([False])}
    assert KnowledgeBoundary()(group([0.0], **columns))["rollout.reward"].tolist() == [-1.0]


def test_the_advantages_of_the_worked_example() -> None:
    batch = group([1.6, 1.2, 0.05, 0.0])
    expected = [1.094684, 0.601305, -0.817158, -0.878831]
    assert Normalize()(batch)["rollout.advantage"].tolist() == pytest.approx(expected, abs=1e-5)


def episode(*turns: dict[str, Any], **columns: Any) -> Batch:
    made = [Turn((), columns=turn) for turn in turns]
    return Batch.from_rollouts([Rollout(0, made, columns={"reward": 0.0, **columns})], dtype=torch.float64)


def test_searches_are_counted_and_a_turn_that_is_not_understood_is_malformed() -> None:
    said = [{"searched": True, "valid": True}, {"searched": True, "valid": False}, {"searched": False, "valid": True}]
    found = CountSearches()(episode(*said, correct=True))
    assert [x.tolist() for x in found.values()] == [[2.0], [True], [False]]


def test_answers_are_compared_without_case_articles_and_punctuation() -> None:
    assert exact_match(" The  Oslo.", "oslo")
    assert not exact_match("Oslo city", "oslo")


def test_tags_in_other_brackets_are_malformed() -> None:
    texts = ["<think>a</think><search>b</search><answer>x</answer>", "<think>a</think>[search]<answer>x</answer>"]
    found = ReadSearchTags()(group([0.0, 0.0], text=texts, reference_answer=["x", "x"]))
    assert [x.tolist() for x in found.values()] == [[1.0, 0.0], [True, True], [True, False]]


def test_needless_and_missing_searches_are_told_apart() -> None:
    batch = group([0.0, 0.0], searches=torch.tensor([3.0, 0.0]), evidence=[(4,), (2, 7)])
    found = NeedlessSearches()(batch)
    assert [float(x[0]) for x in found.values()] == [1.0, 1.0]


def test_each_tool_call_lifts_a_wrong_answer_up_to_the_cap() -> None:
    messages = torch.tensor([2.0, 4, 6, 8, 10, 12, 16, 1, 6])
    right = torch.tensor([False] * 8 + [True])
    found = TriedTools()(group([0.0] * 9, messages=messages, correct=right))
    assert found["rollout.reward"].tolist() == pytest.approx([-1, -0.9, -0.8, -0.7, -0.6, -0.6, -0.6, -1, 1])


def test_a_turn_is_two_messages() -> None:
    assert CountMessages()(episode({}, {}, {}))["rollout.messages"].tolist() == [6.0]


RUBRICS = ("<E0> a <E1>", "<E1> b <E2>", "<E2> c <E3>")
NAMED = {f"E{n}": "x" for n in range(4)}


def test_a_rubric_beyond_a_gap_does_not_count() -> None:
    assert rubric_scores(RUBRICS, NAMED, (True, False, True)) == [1, 0, 0]
    assert rubric_scores(RUBRICS, NAMED, (True, False, True), connect=False) == [1, 0, 1]
    assert rubric_scores(RUBRICS, NAMED | {"E2": None}, (True, True, True)) == [1, 0, 0]
    assert rubric_scores(RUBRICS, NAMED, (True, True, True)) == [1, 1, 1]


def test_a_rollout_that_cites_nothing_meets_no_rubric() -> None:
    entities, held = tuple(NAMED.items()), (True, True, False)
    batch = group([0.0, 0.0], rubrics=[RUBRICS] * 2, entities=[entities] * 2, supported=[held] * 2, cited=[(1,), ()])
    assert EvidenceRubrics()(batch)["rollout.rubric"].tolist() == pytest.approx([2 / 3, 0.0])


def test_only_right_answers_get_their_rubrics() -> None:
    batch = group([1.0, 1.0, 0.0, 1.0], rubric=torch.tensor([0.75, 0.5, 0.5, 0.25], dtype=torch.float64))
    assert GatedMix()(batch)["rollout.reward"].tolist() == pytest.approx([1.0, 0.9, 0.0, 0.8])
    assert GatedMix(normalize=False)(batch)["rollout.reward"].tolist() == pytest.approx([0.925, 0.85, 0.0, 0.775])
    assert GatedMix(mode="wrong")(batch)["rollout.reward"].tolist() == pytest.approx([1, 1, 0.2, 1])
    assert GatedMix(mode="all")(batch)["rollout.reward"].tolist() == pytest.approx([1.0, 0.9, 0.2, 0.8])


def judged(*said: tuple[str, float], answer: float = 1.0, **settings: Any) -> float:
    turns = [
        turn
        for word, useful in said
        for turn in (
            {"judged": "", "useful": 0.0, "searched": True},
            {"judged": word, "useful": useful, "searched": False},
        )
    ]
    turns.append({"judged": "", "useful": 0.0, "searched": False})
    return float(JudgedSearch(**settings)(episode(*turns, reward=answer))["rollout.reward"][0])


def test_judgements_are_paid_like_those_of_one_who_knows_the_answer() -> None:
    said = (("yes", 0.82), ("yes", 0.31), ("no", 0.75))
    assert judged(*said, obey=False) == pytest.approx(0.4)
    assert judged(*said, obey=False, gamma=0.5) == pytest.approx(0.3 - 0.3 - 0.075 + 0.125)
    assert judged(*said, obey=False, mean=True) == pytest.approx(0.8)
    assert judged(("no", 0.7)) == pytest.approx(0.3)  # useless at the threshold; and the answer comes after `no`
    assert judged(("no", 0.7), ("yes", 1.0)) == pytest.approx(1.6)
    assert judged(("unclear", 1.0)) == pytest.approx(0.4)
    assert judged() == 1.0


def test_bounds_are_checked() -> None:
    for make in (lambda: KnowledgeBoundary(most=0), lambda: GatedMix(mode="x"), lambda: TriedTools(step=-1.0)):
        with pytest.raises(PodiumError):
            make()

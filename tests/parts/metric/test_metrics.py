"""Metrics, by numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.parts.metric import (
    AnswerPerplexity,
    BestOfN,
    Diversity,
    EntropyPair,
    EntropyProfile,
    PairwiseAccuracy,
    PotentialWatch,
    ReferenceWins,
    ReportMean,
    SemanticEntropy,
    TurnCost,
    WeightedVote,
)
from podium.parts.metric.process import BestChoice
from tests.batches import sampled, spoken


def listed(x: Any) -> Any:
    return pytest.approx(x, abs=1e-6)


def test_the_profile_of_entropy_by_verdict_and_place() -> None:
    batch = spoken([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0]], [1.0, 0.0])
    batch = batch.with_columns({"rollout.length": torch.tensor([4.0, 2.0], dtype=torch.float64)})
    found = [float(x[0]) for x in EntropyProfile()(batch).values()]
    # Right and wrong answers; the first halves 1, 2 and 10, the second 3, 4 and 20.
    assert found == listed([2.5, 15.0, 13 / 3, 9.0])
    right = batch.take("rollout", torch.tensor([0]))
    values = [float(x[0]) for x in EntropyProfile()(right).values()]
    assert values[0] == 2.5
    assert math.isnan(values[1])


def test_entropies_of_tokens_and_of_answers() -> None:
    rows = [
        Rollout(0, [Turn([1] * len(h), tokens={"sampler.entropy": h})], columns={"answer": a})
        for h, a in (([1.0, 2.0], "x"), ([6.0], "y"))
    ]
    found = EntropyPair()(Batch.from_rollouts(rows, dtype=torch.float64))
    assert found["group.entropy.token"].tolist() == listed([3.0])
    assert found["group.entropy.answer"].tolist() == listed([math.log(2)])


def test_phrases_are_counted_in_the_turns_that_count() -> None:
    texts = [
        ("wait a moment", 0),
        ("Wait a moment please", 0),
        ("let us check", 0),
        ("let us check", 3),
        ("moment a wait", 0),
    ]
    rows = [
        Rollout(0, [Turn([1], columns={"text": text})], columns={"reward": 0.0, "purpose": purpose})
        for text, purpose in texts
    ]
    found = SemanticEntropy(("wait a moment", "let us check"))(Batch.from_rollouts(rows, dtype=torch.float64))
    # Two turns say the one, and one says the other.
    expected = -(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3)
    assert found["batch.entropy.semantic"].tolist() == listed([expected])


def test_what_is_checked_after_a_task_is_solved() -> None:
    def rollout(potentials: list[float], correct: bool) -> Rollout:
        steps = [number for number, _ in enumerate(potentials) for _ in range(2)]
        turn = Turn([1] * len(steps), tokens={"segment": steps})
        return Rollout(0, [turn], columns={"correct": correct}, segments={"potential": potentials})

    rollouts = [rollout([0.1, 0.95, 0.2, 0.99], False), rollout([0.9, 0.1], False), rollout([0.95], True)]
    found = PotentialWatch(solved=0.9)(Batch.from_rollouts(rollouts, dtype=torch.float64))
    assert found["rollout.checking_tokens"].tolist() == [4.0, 0.0, 0.0]
    assert found["rollout.right_to_wrong"].tolist() == [1.0, 0.0, 0.0]


def test_perplexity_is_per_token_of_the_answer() -> None:
    part = AnswerPerplexity()
    columns = {"answer.ids": [(1, 2), (1,), ()]}
    batch = sampled([0.0] * 3, [0, 0, 0], "a", **{f"rollout.{k}": v for k, v in columns.items()})
    batch = batch.with_columns({part.needs[0]: torch.tensor([-2.0, -3.0, -2.0], dtype=torch.float64)})
    found = part(batch)
    # Per token −1, −3 and −2 (an empty answer counts as one token).
    assert found["batch.answer.perplexity"].tolist() == listed([math.exp(2.0)])
    mean = math.log((math.exp(-2) + math.exp(-3) + math.exp(-2)) / 3)
    assert found["group.answer.mc_logprob"].tolist() == listed([mean])
    nobody = batch.with_columns({"rollout.purpose": torch.full((3,), int(Purpose.probe))})
    assert part(nobody)["batch.answer.perplexity"].tolist() == [0.0]
    alone = sampled([0.0], [0], "a", **{"rollout.answer.ids": [(1, 2)]})
    alone = alone.with_columns({part.needs[0]: torch.tensor([-2.0], dtype=torch.float64)})
    assert part(alone)["batch.answer.perplexity"].tolist() == listed([math.e])


def test_turns_cost_what_they_read_and_write() -> None:
    def rollout(correct: bool, purpose: int = 0) -> Rollout:
        turns = [Turn([1] * 2, (9,) * 3), Turn([1], (9,) * 7)]
        return Rollout(0, turns, columns={"correct": correct, "purpose": purpose})

    part = TurnCost(input=1.0, output=10.0)
    found = part(Batch.from_rollouts([rollout(True), rollout(True), rollout(False)], dtype=torch.float64))
    # 3 + 7 tokens read, 2 + 1 written: 40 each.
    assert found["rollout.cost"].tolist() == [40.0] * 3
    assert found["rollout.turns"].tolist() == [2.0] * 3
    assert found["batch.cost_of_solved"].tolist() == [60.0]
    none = part(Batch.from_rollouts([rollout(False), rollout(False)], dtype=torch.float64))
    assert none["batch.cost_of_solved"].tolist() == [80.0]


def test_the_weighted_vote_is_right_or_wrong() -> None:
    columns = {"answer": ["x", "y", "y", "z"], "quality": torch.tensor([0.9, 0.5, 0.6, 0.1], dtype=torch.float64)}
    assert WeightedVote()(sampled([0.0, 1.0, 1.0, 0.0], [0] * 4, "a", **columns))["group.weighted_vote"].tolist() == [
        1.0
    ]
    assert WeightedVote()(sampled([1.0, 0.0, 0.0, 0.0], [0] * 4, "a", **columns))["group.weighted_vote"].tolist() == [
        0.0
    ]
    nobody = sampled([1.0, 1.0], [0, 0], "a", (0, 1), answer=["x", "x"], quality=torch.tensor([0.5, 0.5]).double())
    assert WeightedVote()(nobody)["group.weighted_vote"].tolist() == [0.0]


def test_wins_over_the_demonstration() -> None:
    columns = {"demonstration": torch.tensor([False, False, False, True, True, False, False])}
    purpose = [Purpose.train, Purpose.train, Purpose.train, Purpose.demo, Purpose.demo, Purpose.probe, Purpose.train]
    batch = sampled([3.0, 2.0, 1.0, 2.0, 1.0, 9.0, 9.0], [0, 0, 0, 0, 0, 0, 1], "ab", **columns)
    batch = batch.with_columns({"rollout.purpose": torch.tensor([int(p) for p in purpose])})
    # Of 3, 2 and 1 only the first is above the better demonstration; the second group has none.
    assert ReferenceWins()(batch)["batch.wins"].tolist() == listed([1 / 3])


def test_a_mean_is_over_what_counts_and_is_marked() -> None:
    marks = {
        "marked": torch.tensor([True, True, False, True]),
        "number": torch.tensor([1.0, 2.0, 30.0, 400.0]).double(),
    }
    batch = sampled([0.0] * 4, [0] * 4, "a", (3,), **marks)
    assert ReportMean("rollout.number")(batch)["batch.watched.number"].tolist() == [11.0]
    assert ReportMean("rollout.number", "rollout.marked")(batch)["batch.watched.number"].tolist() == [1.5]


def test_pairs_are_ranked_by_the_sum_of_log_ratios() -> None:
    def rollout(group: int, reward: float, score: float, purpose: int = 0) -> Rollout:
        tokens = {"reward_model.logp": [score, 0.0], "ref.logp": [0.0, 0.0]}
        return Rollout(group, [Turn([1, 1], tokens=tokens)], columns={"reward": reward, "purpose": purpose})

    rows = [
        rollout(0, 1.0, 3.0),
        rollout(0, 0.0, 2.0),
        rollout(0, 0.5, 1.0),
        rollout(0, 9.0, -9.0, int(Purpose.probe)),
        rollout(1, 1.0, 1.0),
        rollout(1, 1.0, 2.0),
    ]
    found = PairwiseAccuracy()(Batch.from_rollouts(rows, dtype=torch.float64))
    # Gaps 1, ½ and ½; the pair of 0 and ½ is in the wrong order. Without a gap: ½.
    assert found["group.pairwise_accuracy"].tolist() == listed([0.75, 0.5])


def test_the_best_of_n_by_the_smallest_step_or_the_sum() -> None:
    part = BestOfN(coefficient=2.0, over="sum")
    turn = Turn([1, 1, 1], tokens={"reward_model.logp": [1.0, 2.0, 4.0], "ref.logp": [0.0] * 3, "segment": [0, 1, 1]})
    batch = Batch.from_rollouts(
        [Rollout(0, [turn], columns={"reward": 1.0}, segments={"x": [0.0, 0.0]})], dtype=torch.float64
    )
    steps = part.steps(batch.with_step("segment"), 2.0)
    assert part(batch.with_step("segment"))["rollout.best_of_n"].tolist() == listed([float(steps.sum())])
    assert float(steps.sum()) == pytest.approx(14.0)


def test_diversity_is_one_less_the_mean_overlap() -> None:
    class Known(Diversity):
        def overlap(self, batch: Batch) -> torch.Tensor:
            return torch.tensor([0.5, 0.5, 1.0, 1.0, 1.0, 9.0], dtype=torch.float64)

    batch = sampled([0.0] * 6, [0, 0, 1, 1, 1, 2], "abc")
    # Two rollouts: 1 − 1/2; three: 1 − 3/6; a group of one has none.
    assert Known()(batch)["batch.diversity"].tolist() == listed([0.5])


def test_the_best_choice_and_the_weighted_vote_of_a_group() -> None:
    scores = torch.tensor([2.0, 1.0, 1.0, 0.0, 0.5], dtype=torch.float64)
    batch = sampled(
        [1.0, 0.0, 0.0, 0.0, 1.0], [0, 0, 0, 1, 1], ["a", "b"], best_of_n=scores, answer=("x", "y", "y", "z", "w")
    )
    found = BestChoice()(batch)
    assert found["group.best_of_n.right"].tolist() == [1.0, 1.0]
    assert found["group.best_of_n.vote"].tolist() == [0.0, 1.0]  # σ(1) twice outweighs σ(2)

"""Values at a bound, the smallest groups, and groups in which nothing counts."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.signal import Signal
from podium.memories import BetaBeliefs
from podium.parts.advantage import JensenGap, TokenWeighted
from podium.parts.metric import BestOfN, Diversity, EntropyProfile, PairwiseAccuracy
from podium.parts.objective import Entropy
from podium.parts.reward import RankTruncated
from podium.parts.shape import (
    BelowAnchor,
    CertaintyFactor,
    Contrast,
    HintConsistency,
    ProgressFocus,
    RejectMismatch,
    Rescale,
)
from podium.parts.shape.hints import ENTROPY as HINTED
from tests.batches import sampled, spoken

OLD, NOW, SAMPLER = (Signal("logp", of=who) for who in ("old", "now", "sampler"))


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_group_in_which_nobody_counts_has_no_advantage() -> None:
    scores = {"rollout.answer.score": numbers(-1.0, -2.0, -1.0, -3.0)}
    batch = sampled([0.0] * 4, [0, 0, 1, 1], ["a", "b"], probes=(0, 1), **scores)
    found = JensenGap()(batch)["rollout.advantage"].tolist()
    mean = math.log((math.exp(-1) + math.exp(-3)) / 2)
    assert found == pytest.approx([0.0, 0.0, mean + 3, mean + 1])


def test_an_advantage_that_reaches_the_limit_falls_back() -> None:
    """Two tokens with rewards 0 and 1: mean 1/2 and population std 1/2, so that |A| is 1."""
    batch = spoken([[0.0], [0.0]], [0.0, 1.0])
    batch = Batch.from_rollouts(
        [Rollout("a", [Turn([1])], columns={"reward": r, "correct": r > 0}) for r in (0.0, 1.0)], dtype=torch.float64
    )
    part = TokenWeighted(epsilon=1e-12, limit=1.0)
    assert part(batch)["token.advantage"].tolist() == pytest.approx([-1.0, 1.0])
    below = part.replace(epsilon=0.5, limit=0.5)(batch)["token.advantage"].tolist()
    std = math.sqrt(0.5)
    assert below == pytest.approx([-0.5 / (std + 0.5), 0.5 / (std + 0.5)])  # |A| = 0.5 / (0.5 + 0.5) reaches 0.5


def test_two_rollouts_are_enough_for_their_diversity() -> None:
    def diversity(*texts: list[int]) -> float:
        rollouts = [Rollout("a", [Turn(ids)], columns={"reward": 0.0}) for ids in texts]
        return float(Diversity()(Batch.from_rollouts(rollouts, dtype=torch.float64))["batch.diversity"])

    assert diversity([1, 2], [2, 3]) == pytest.approx(2 / 3)  # one of three is shared
    assert math.isnan(diversity([1, 2]))


def test_the_entropy_of_a_single_token_is_reported() -> None:
    found = EntropyProfile()(spoken([[0.5], [0.25, 0.75]], [1.0, 0.0]))
    values = [float(found[name]) for name in EntropyProfile().provides]
    assert values[:2] == pytest.approx([0.5, 0.5])
    alone = EntropyProfile()(spoken([[0.5]], [1.0]))
    assert next(float(alone[name]) for name in EntropyProfile().provides) == 0.5
    assert math.isnan(float(alone[EntropyProfile().provides[1]]))


def scored(*rows: tuple[float, list[float]]) -> Batch:
    """Rollouts (reward, implicit reward of each token)."""
    rollouts = [Rollout("a", [Turn([1] * len(q))] if q else [], columns={"reward": r}) for r, q in rows]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    flat = numbers(*(x for _, q in rows for x in q))
    reward_model, reference = (Signal("logp", of=of) for of in ("reward_model", "ref"))
    return batch.with_columns({reward_model: flat, reference: torch.zeros_like(flat)})


def test_an_answer_without_steps_scores_0() -> None:
    found = BestOfN(coefficient=1.0)(scored((0.0, [-1.0, 3.0]), (0.0, [])))
    assert found["rollout.best_of_n"].tolist() == [2.0, 0.0]


def test_pairs_are_weighted_by_the_difference_of_their_rewards() -> None:
    def accuracy(*rows: tuple[float, list[float]]) -> float:
        return float(PairwiseAccuracy()(scored(*rows))["group.pairwise_accuracy"])

    assert accuracy((0.0, [1.0]), (0.25, [2.0])) == 1.0
    assert accuracy((0.25, [1.0]), (0.0, [2.0])) == 0.0
    # Gaps of 1, 1/4 and 3/4, of which the last is in the other order.
    assert accuracy((0.0, [1.0]), (1.0, [2.0]), (0.25, [3.0])) == pytest.approx(1.25 / 2)
    assert accuracy((0.5, [1.0]), (0.5, [2.0])) == 0.5  # no pair differs


def test_an_entropy_with_one_bound_is_charged_beyond_it_alone() -> None:
    batch = spoken([[0.0, 0.0]], [0.0]).with_columns({Signal("entropy", of="now", grad=True): numbers(0.25, 1.0)})
    (signal,) = Entropy().needs
    batch = batch.with_columns({signal: numbers(0.25, 1.0)})
    assert Entropy().loss(batch).tolist() == [-0.25, -1.0]
    assert Entropy(low=0.5).loss(batch).tolist() == [0.25, 0.0]
    assert Entropy(high=0.5).loss(batch).tolist() == [0.0, 0.5]
    assert Entropy(low=0.5, high=0.75).loss(batch).tolist() == [0.25, 0.25]


def test_the_first_and_the_last_of_two_truncated_rollouts() -> None:
    """The first has the higher peak and the lower mean: it dominates, and gets everything."""
    entropies = [[4.0] + [0.0] * 9, [1.0] * 10]
    batch = spoken(entropies, [0.0, 0.0])
    rollouts = [
        Rollout(
            "a",
            [Turn([1] * 10, tokens={"sampler.entropy": row})],
            columns={"reward": 0.0, "truncated": True, "purpose": int(Purpose.train)},
        )
        for row in entropies
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    part = RankTruncated(highest=0.5)
    for need in part.needs:
        if isinstance(need, Signal):
            batch = batch.with_columns({need: numbers(*entropies[0], *entropies[1])})
    assert part(batch)["rollout.reward"].tolist() == pytest.approx([0.5, 0.0])
    alone = part(batch.take("rollout", torch.tensor([0])))["rollout.reward"]
    assert alone.tolist() == pytest.approx([0.5])


def test_a_single_sample_is_contrasted_with_the_demonstration() -> None:
    columns = {"advantage": numbers(3.0, 0.0), "demonstration": torch.tensor([False, True])}
    found = Contrast()(sampled([0.0, 0.0], [0, 0], ["a"], **columns))
    assert found["rollout.advantage.contrast"].tolist() == [3.0, -3.0]


def test_progress_is_at_most_1_and_beyond_alpha_nothing_is_damped() -> None:
    batch = sampled([2.0, 2.0], [0, 0], ["a"], advantage=numbers(1.0, -1.0))
    found = ProgressFocus(alpha=0.5, focus=False)(batch)
    assert found["batch.progress"].tolist() == [1.0]
    assert found["rollout.advantage"].tolist() == [1.0, -1.0]
    half = ProgressFocus(alpha=2.0, focus=False)(batch)["rollout.advantage"]
    assert half.tolist() == [0.5, -1.0]
    nothing = sampled([-3.0, -3.0], [0, 0], ["a"], advantage=numbers(1.0, -1.0))
    assert ProgressFocus(focus=False)(nothing)["batch.progress"].tolist() == [0.0]


def test_hints_are_weighed_by_a_continuation_of_one_token() -> None:
    def weights(advantage: float, origins: list[Origin]) -> list[float]:
        turn = Turn([1] * len(origins), origin=origins)
        columns = {"reward": 0.0, "advantage": advantage}
        batch = Batch.from_rollouts([Rollout("a", [turn], columns=columns)], dtype=torch.float64)
        batch = batch.with_columns({HINTED: numbers(*[1.0, 2.0][: len(origins)])})
        found: list[float] = HintConsistency(epsilon=1e-12)(batch)["token.weight.hint"].tolist()
        return found

    both = [Origin.hint, Origin.policy]
    assert weights(1.0, both) == pytest.approx([math.exp(-0.5), 1.0])  # |1 − 2| / 2
    assert weights(0.0, both) == pytest.approx([math.exp(-0.5), 1.0])  # no failure
    assert weights(-1.0, both) == [0.0, 1.0]
    assert weights(1.0, [Origin.hint]) == [0.0]


def test_only_what_was_drawn_and_is_trained_can_mismatch() -> None:
    """Ratios of e^0.5 and e^−0.5 have the geometric mean 1; the smallest is 0.61. A hint does not count."""

    def kept(smallest: float, logp: list[float], hint: bool = False) -> float:
        origin = [Origin.hint if hint and i == 0 else Origin.policy for i in range(len(logp))]
        turn = Turn([1] * len(logp), origin=origin)
        batch = Batch.from_rollouts([Rollout("a", [turn], columns={"reward": 0.0})], dtype=torch.float64)
        columns = {OLD: numbers(*logp), SAMPLER: torch.zeros(len(logp)).double()}
        return float(
            RejectMismatch(band=0.1, smallest=smallest)(batch.with_columns(columns))["rollout.weight.mismatch"]
        )

    assert kept(0.5, [0.5, -0.5]) == 1.0
    assert kept(0.7, [0.5, -0.5]) == 0.0
    assert kept(0.5, [0.5, 0.5]) == 0.0
    assert kept(1.0, [0.05, 0.05]) == 1.0  # no ratio is below 1
    assert kept(0.5, [-9.0, 0.0], hint=True) == 1.0
    assert kept(0.5, [-9.0, 0.0]) == 0.0


def test_a_token_as_likely_as_its_anchor_is_not_starved() -> None:
    batch = spoken([[0.0] * 3], [0.0])
    columns = {NOW: numbers(-2.0, -1.0, -3.0), OLD: numbers(-1.0, -1.0, -1.0)}
    chosen = {"token.selected": torch.tensor([True, True, False])}
    found = BelowAnchor(low=0.25)(batch.with_columns({**columns, **chosen}))
    assert found["token.starved"].tolist() == [True, False, False]
    assert found["token.clip_low"].tolist() == [1.0, 0.25, 0.25]


def test_rollouts_without_any_entropy_keep_their_advantages() -> None:
    batch = spoken([[0.0], [0.0, 0.0]], [0.0, 1.0]).with_columns({"rollout.advantage": numbers(-1.0, 2.0)})
    found = CertaintyFactor()(batch)
    assert found["rollout.factor"].tolist() == [1.0, 1.0]
    assert found["rollout.advantage"].tolist() == [-1.0, 2.0]


def test_an_advantage_of_a_millionth_carries_nothing() -> None:
    batch = sampled([0.0, 0.0], [0, 0], ["a"], advantage=numbers(1e-6, 2.0))
    assert Rescale(count="credited")(batch)["rollout.advantage"].tolist() == pytest.approx([1e-6, 4.0])


def test_a_reward_above_1_is_one_success() -> None:
    memory = BetaBeliefs(of="rollout.reward")
    state = memory.observe(memory.initial(), sampled([3.0, -1.0], [0, 0], ["a"]))
    recalled, before = memory.recall(state, ["a"]), memory.recall(memory.initial(), ["a"])
    first, second = (name for name in recalled if name != "group.belief.mean")
    assert float(recalled[first] - before[first]) == pytest.approx(1.0)
    assert float(recalled[second] - before[second]) == pytest.approx(1.0)

"""Rewards, by numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.parts.annotate import ModelScores
from podium.parts.reward import (
    AnswerGain,
    BrevityBonus,
    CallBonus,
    Cascade,
    ContrastiveFeature,
    HybridReward,
    LengthLimit,
    MatchCalls,
    MetaReasoning,
    ModelReward,
    Overlong,
    OverrideReward,
    PhaseEntropy,
    PlanPenalties,
    RandomReward,
    RankTruncated,
    Rubric,
    RunningNormalize,
    SearchScore,
    SequenceKL,
    Speedup,
    TokenReward,
    WeightedSum,
    WindowReward,
)
from tests.batches import sampled, spoken


def listed(x: Any) -> Any:
    return pytest.approx(x, abs=1e-6)


def turns(*rows: dict[str, Any], **columns: Any) -> Batch:
    """One rollout with these turns."""
    known = {"reward": 1.0, "correct": True, **columns}
    return Batch.from_rollouts(
        [Rollout(0, [Turn((1,), columns=row) for row in rows], columns=known)], dtype=torch.float64
    )


def test_windows_are_paid_by_difficulty() -> None:
    """Easy tasks with the means 10 and 2 have the target 6, each task counting once; margin 1, knee 2."""
    columns = {
        "rollout.moments": torch.tensor([10.0, 9.0, 11.0, 10.0, 2.0, 8.0], dtype=torch.float64),
        "rollout.moments.excess": torch.tensor([0.9, 0.5, 0.9, 0.4, 0.9, 0.9], dtype=torch.float64),
        "rollout.difficulty": torch.tensor([0, 0, 0, 0, 0, 2]),
        "rollout.correct": torch.tensor([True, False, True, False, True, True]),
        "batch.difficulty.alpha": torch.tensor([[0.5, 9.0, 1.0]], dtype=torch.float64),
        "batch.difficulty.beta": torch.tensor([[2.0, 9.0, 5.0]], dtype=torch.float64),
    }
    batch = sampled([0.0] * 6, [0, 0, 0, 0, 1, 2], "abc").with_columns(columns)
    found = WindowReward(second_chance=0.5, searched=0.5)(batch)
    assert found["rollout.moments.target"].tolist() == [6.0] * 5 + [8.0]
    # Right: 4 and 5 too many are 3 and 4 beyond the margin: −½·(3 − 1)/3 and −½·(4 − 1)/3; too few cost nothing.
    # Wrong: ½·σ((3 − 1)/2)·0.6 and ½·σ((4 − 1)/2)·0.6. Hard and right: 1.2·σ(0.35·8/3).
    wrong = [0.3 / (1 + math.exp(-1.0)), 0.3 / (1 + math.exp(-1.5))]
    hard = 1.2 / (1 + math.exp(-2.8 / 3))
    assert found["rollout.reward.windows"].tolist() == listed([-1 / 3, wrong[0], -0.5, wrong[1], 0.0, hard])
    assert found["rollout.reward"].tolist() == listed([2 / 3, wrong[0], 0.5, wrong[1], 1.0, 1 + hard])
    # A wrong rollout of an easy task that has explored (at least ½) gets half the KL coefficient.
    assert found["rollout.kl_weight"].tolist() == listed([2.0, 1.0, 2.0, 2.0, 2.0, 5.0])


def test_brevity_pays_right_answers_for_the_tokens_they_save() -> None:
    columns = {
        "length": torch.tensor([25.0, 25.0, 150.0], dtype=torch.float64),
        "correct": torch.tensor([True, False, True]),
    }
    found = BrevityBonus(max_length=100, weight=2.0)(sampled([1.0, 0.0, 1.0], [0, 0, 0], "a", **columns))
    assert found["rollout.reward.brevity"].tolist() == listed([1.5, 0.0, 0.0])
    assert found["rollout.reward"].tolist() == listed([2.5, 0.0, 1.0])


def test_calls_are_paid_per_turn_with_one_up_to_a_cap() -> None:
    batch = turns({"calls": ("look",)}, {"calls": ()}, {"calls": ("go", "go")}, {"calls": ("x",)})
    part = CallBonus(weight=2.0, each=0.25, most=0.6)
    assert part(batch)["rollout.reward.calls"].tolist() == listed([1.2])  # 2·min(3·0.25, 0.6)
    found = part.replace(most=1.0)(batch)
    assert found["rollout.reward.calls"].tolist() == listed([1.5])
    assert found["rollout.reward"].tolist() == listed([2.5])
    assert found["rollout.called"].tolist() == [True]
    assert part(turns({"calls": ("x",)}, {"calls": ()}))["rollout.called"].tolist() == [True]
    assert part(turns({"calls": ()}, {"calls": ()}))["rollout.called"].tolist() == [False]


def test_calls_are_matched_over_the_whole_rollout() -> None:
    look, go = {"name": "look", "arguments": {}}, {"name": "go", "arguments": {"to": "north"}}

    def rollout(calls: list[list[dict[str, Any]]], answers: list[str], reference: list[dict[str, Any]]) -> Rollout:
        rows = [Turn((1,), columns={"calls": c, "answer": a}) for c, a in zip(calls, answers, strict=True)]
        return Rollout(0, rows, columns={"reward": 0.0, "reference_calls": reference, "reference_answer": "blue"})

    rollouts = [
        rollout([[look, go], []], ["", "blue"], [look, go, go]),
        rollout([[look, look]], [""], [look]),
        rollout([[]], [""], []),
        rollout([[look]], [""], [look]),
    ]
    found = MatchCalls("best", unmatched=-1.0)(Batch.from_rollouts(rollouts, dtype=torch.float64))
    # Both calls match exactly, then the answer does; of two equal calls one finds no partner.
    assert found["step.reward"].tolist() == listed([1.0, 1.0, 0.0, 0.0, 1.0])
    assert found["rollout.reward"].tolist() == listed([2.0, 0.0, 0.0, 1.0])
    assert found["rollout.match"].tolist() == listed([2 / 3, 0.0, 0.0, 1.0])


def test_a_cascade_stops_at_the_first_check_that_fails() -> None:
    columns = {
        "parses": torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0]),
        "interface_matches": torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0]),
        "fraction_tests_passed": torch.tensor([0.5, 0.5, 0.5, 1.5, 0.0]),
        "equivalent": torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0]),
    }
    found = Cascade(levels=(0.0, 0.1, 0.2), partial=0.4, full=2.0)(sampled([0.0] * 5, [0] * 5, "a", **columns))
    assert found["rollout.reward"].tolist() == listed([0.4, 0.1, 0.0, 0.6, 2.0])


def test_random_rewards_are_drawn_with_their_probability() -> None:
    batch = sampled([0.0] * 400, [0] * 400, "a", index=torch.arange(400))
    rewards = {p: RandomReward(p)(batch)["rollout.reward"] for p in (0.0, 0.25, 0.75, 1.0)}
    assert [float(rewards[p].mean()) for p in (0.0, 1.0)] == [0.0, 1.0]
    assert float(rewards[0.25].mean()) == pytest.approx(0.25, abs=0.07)
    assert set(rewards[0.25].tolist()) == {0.0, 1.0}
    assert bool((rewards[0.25] <= rewards[0.75]).all())


def test_gains_and_outcomes_have_weights() -> None:
    part = AnswerGain(gain=2.0, outcome=3.0)
    batch = turns({}, {}, {}).with_columns({part.needs[1]: torch.tensor([0.25, 0.5, 1.0]).double().log()})
    found = part(batch)
    assert found["turn.reward.gain"].tolist() == listed([0.5, 1.0, 3.0])
    assert found["rollout.gain"].tolist() == listed([0.75])


def test_a_feature_is_paid_where_it_goes_with_being_right() -> None:
    columns = {"feature": torch.tensor([1.0, 1.0, 0.0, 0.0]), "correct": torch.tensor([1.0, 1.0, 1.0, 0.0])}
    part = ContrastiveFeature(margin=0.5, weight=0.25)
    found = part(sampled([1.0] * 4, [0] * 4, "a", **columns))
    assert found["rollout.reward.contrast"].tolist() == [0.0] * 4  # 1 − ½ is the margin itself
    found = part.replace(margin=0.4)(sampled([1.0] * 4, [0] * 4, "a", **columns))
    assert found["rollout.reward"].tolist() == listed([1.25, 1.25, 1.0, 1.0])


def test_hybrid_rewards_are_a_weighted_sum() -> None:
    columns = {"answered": torch.tensor([1.0, 0.0]), "score": torch.tensor([0.0, 2.0], dtype=torch.float64)}
    batch = sampled([1.0, 1.0], [0, 0], "a", **columns)
    part = HybridReward(rule=2.0, format=0.5, model=4.0, score="rollout.score")
    sigma = 4 / (1 + math.exp(-2.0))
    assert part(batch)["rollout.reward"].tolist() == listed([2.0 + 0.5 + 2.0, 2.0 + sigma])
    accepted = part.replace(squash="threshold", threshold=2.0)
    assert accepted(batch)["rollout.reward"].tolist() == listed([2.5, 2.0])  # not above the threshold
    assert accepted.replace(threshold=1.0)(batch)["rollout.reward"].tolist() == listed([2.5, 6.0])
    bare = part.replace(formatted=None, score=None)(sampled([1.0, 0.0], [0, 0], "a"))
    assert [x.tolist() for x in bare.values()] == [[2.0, 0.0], [2.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_lengths_at_the_limit_are_not_beyond_it() -> None:
    columns = {"length": torch.tensor([10.0, 11.0, 9.0]), "truncated": torch.tensor([False, False, True])}
    found = LengthLimit(limits=(10,))(sampled([1.0] * 3, [0] * 3, "a", **columns))
    assert found["rollout.reward"].tolist() == [1.0, 0.0, 0.0]
    lengths = torch.tensor([5.0, 8.0, 12.0], dtype=torch.float64)
    found = Overlong(max_length=10, buffer=4, factor=0.5)(sampled([1.0] * 3, [0] * 3, "a", length=lengths))
    # 6 tokens are free; then ½ over 4 tokens: −2/4·½, −6/4·½.
    assert found["rollout.reward.overlong"].tolist() == listed([0.0, -0.25, -0.75])
    assert found["rollout.reward"].tolist() == listed([1.0, 0.75, 0.25])


def test_meta_reasoning_pays_tags() -> None:
    def step(tag: str, action: str, state: str, valid: bool) -> dict[str, Any]:
        return {"text": tag, "action": action, "state": state, "valid": valid, "tag": tag}

    rows = [
        step("planning", "a", "s", True),
        step("explore", "a", "s", False),
        step("reflection", "b", "s", True),
        step("explore", "c", "t", True),
    ]
    part = MetaReasoning(planning=2.0, explore=3.0, reflection=5.0)
    found = part(turns(*rows))
    assert list(found["step.tag"]) == ["planning", "explore", "reflection", "explore"]
    # A plan in a success; a repeated act in the same state; another act after one that failed; a new act.
    assert found["step.reward.meta"].tolist() == listed([2.0, 0.0, 5.0, 3.0])
    assert found["rollout.meta"].tolist() == listed([2.5])
    assert found["rollout.invalid"].tolist() == listed([0.25])
    assert part(turns(*rows, reward=0.0))["step.reward.meta"].tolist() == listed([0.0, 0.0, 5.0, 3.0])


def test_rewards_are_replaced_where_marked() -> None:
    batch = sampled([1.0, 0.5], [0, 0], "a", degenerate=torch.tensor([True, False]))
    found = OverrideReward(value=-1.0)(batch)
    assert found["rollout.reward"].tolist() == [-1.0, 0.5]
    assert found["rollout.reward.override"].tolist() == [-2.0, 0.0]


def test_the_kl_is_paid_per_rollout_or_per_token() -> None:
    batch = spoken([[0.0, 0.0], [0.0]], [1.0, 0.0], old_logp=[[-1.0, -2.0], [-1.0]], ref_logp=[[-2.0, -4.0], [-1.5]])
    found = SequenceKL(beta=0.5)(batch)
    assert found["rollout.reward.kl"].tolist() == listed([-1.5, -0.25])
    assert found["rollout.reward"].tolist() == listed([-0.5, -0.25])
    assert TokenReward(beta=0.5)(batch)["token.reward"].tolist() == listed([-0.5, 0.0, -0.25])
    assert TokenReward()(batch)["token.reward"].tolist() == [0.0, 1.0, 0.0]


def test_keeping_a_subgoal_costs() -> None:
    rows = [
        {"reward": 1.0, "switch": True, "valid": True},
        {"reward": 0.0, "switch": False, "valid": False},
        {"reward": 0.0, "switch": False, "valid": True},
    ]
    part = PlanPenalties(keep=-0.3, mode="normalized", invalid=0.25)
    found = part(turns(*rows))
    assert found["turn.reward.plan"].tolist() == listed([1.0, -0.35, -0.1])
    assert found["rollout.switches"].tolist() == [1.0]
    assert part.replace(mode="fixed")(turns(*rows))["turn.reward.plan"].tolist() == listed([1.0, -0.55, -0.3])
    single = {"reward": 1.0, "switch": False, "valid": True}
    assert part(turns(single))["turn.reward.plan"].tolist() == [1.0]  # a single turn keeps nothing
    assert part(turns(single, single))["turn.reward.plan"].tolist() == listed([0.85, 0.85])


def test_a_rubric_is_perfect_where_all_good_points_and_no_bad_ones_are_met() -> None:
    rows = [
        ((2.0, -1.0, 0.0), (True, False, True)),
        ((2.0, -1.0), (True, True)),
        ((-1.0,), (False,)),
        ((0.0,), (False,)),
    ]
    columns = {"points": [points for points, _ in rows], "met": [met for _, met in rows]}
    found = Rubric()(sampled([0.0] * 4, [0] * 4, "a", **columns))
    assert found["rollout.perfect"].tolist() == [True, False, False, False]
    assert found["rollout.reward"][:2].tolist() == listed([1.0, 0.5])


def test_running_statistics_scale_rewards() -> None:
    # Count 2, mean 1, variance 1 so far; the batch has the mean 4 and the variance 2. Together: the mean 1 + 3·2/4, the
    # variance (1·2 + 2·2 + 3²·2·2/4) / 4 = 3.75.
    statistics = torch.tensor([[2.0, 1.0, 1.0]], dtype=torch.float64)
    batch = sampled([3.0, 5.0], [0, 0], "a", **{"batch.reward.statistics": statistics})
    found = RunningNormalize(epsilon=0.5)(batch)["rollout.reward.normalized"]
    assert found.tolist() == listed([0.5 / (math.sqrt(3.75) + 0.5), 2.5 / (math.sqrt(3.75) + 0.5)])


def test_the_worth_of_nodes_is_clipped_softly_except_at_the_end() -> None:
    turn = Turn([1, 1, 1], tokens={"node": [0, 1, 2]})
    columns = {"reward": 1.0, "reward.overlong": -0.25}
    rollout = Rollout(0, [turn], columns=columns, nodes={"worth": [1.0, -4.0, 3.0]})
    found = SearchScore(scale=2.0)(Batch.from_rollouts([rollout], dtype=torch.float64))
    assert found["node.reward"].tolist() == listed([2 * math.tanh(0.5) - 0.25, 2 * math.tanh(-2.0) - 0.25, 2.75])


def test_a_slow_kernel_counts_as_none() -> None:
    rows = [
        {"completed": True, "correct": True, "speedup": 1.0, "coverage": 0.5},
        {"completed": True, "correct": True, "speedup": 0.5, "coverage": 0.0},
        {"completed": False, "correct": False, "speedup": -2.0, "coverage": 0.0},
    ]
    part = Speedup(correct_weight=0.5, speed_weight=2.0, lower=1.0, coverage_weight=4.0, penalty=-1.0)
    found = part(turns(*rows))
    assert found["step.reward"].tolist() == listed([0.5 + 2.0 + 2.0, 0.5, -1.0])
    assert found["rollout.speedup"].tolist() == listed([1.0])
    assert part(turns(rows[2]))["rollout.speedup"].tolist() == [0.0]


def test_truncated_answers_are_ranked_by_dominance() -> None:
    known = {"reward": -0.25, "truncated": True}
    rows = [[1.0, 1.0], [3.0, 2.0], [2.0, 1.0]]
    rollouts = [Rollout(0, [Turn([1, 1], tokens={"sampler.entropy": row})], columns=known) for row in rows]
    part = RankTruncated(top=0.5, highest=0.5)
    found = part(Batch.from_rollouts(rollouts, dtype=torch.float64))
    ranked = sorted(range(3), key=lambda i: -float(found["rollout.dominates"][i]))
    bonus = [0.0, 0.0, 0.0]
    for place, row in enumerate(ranked):
        bonus[row] = 0.5 * (1 - place / 2)
    assert found["rollout.reward.rank"].tolist() == listed(bonus)
    assert found["rollout.reward"].tolist() == listed([b - 0.25 for b in bonus])
    alone = part(Batch.from_rollouts(rollouts[:1], dtype=torch.float64))
    assert alone["rollout.reward.rank"].tolist() == listed([0.5])


def test_a_weighted_sum_of_columns() -> None:
    columns = {"correct": torch.tensor([1.0, 0.0]), "format": torch.tensor([0.5, 1.0])}
    found = WeightedSum((("rollout.correct", 2.0), ("rollout.format", 0.5)))(
        sampled([9.0, 9.0], [0, 0], "a", **columns)
    )
    assert found["rollout.reward"].tolist() == listed([2.25, 0.5])


def test_the_entropy_of_thinking_is_offset_by_that_of_the_answer() -> None:
    batch = spoken([[3.0, 0.0, 1.0]], [1.0]).with_columns({"token.end_of_thinking": torch.tensor([False, True, False])})
    think, answer = (float(x[0]) for x in PhaseEntropy().entropies(batch))
    found = PhaseEntropy(alpha=0.5, score=10.0)(batch)
    assert found["rollout.reward.phase"].tolist() == listed([-(think - 0.5 * answer)])
    assert found["rollout.reward"].tolist() == [1.0]  # never more than 1


def test_a_reward_model_scores_the_last_token() -> None:
    """Two rollouts of the values (9, 2) and (0,), world rewards 1 and 0; a third one without tokens."""
    rows = [
        Rollout(0, [Turn((1, 2), tokens={"rm.value": (9.0, 2.0)})], columns={"reward": 1.0}),
        Rollout(0, [Turn((3,), tokens={"rm.value": (0.0,)})], columns={"reward": 0.0}),
        Rollout(0, [Turn((), tokens={"rm.value": ()})], columns={"reward": 0.0}),
    ]
    batch = Batch.from_rollouts(rows, dtype=torch.float64)
    assert ModelReward()(batch)["rollout.reward"].tolist() == [2.0, 0.0, 0.0]
    both = ModelReward(squash="sigmoid", weight=4.0, world=10.0)(batch)
    assert both["rollout.reward.model"].tolist() == listed([3.52318831, 2.0, 2.0])
    assert both["rollout.reward"].tolist() == listed([13.52318831, 2.0, 2.0])
    assert ModelScores()(batch)["rollout.scores"].tolist() == [2.0, 0.0, 0.0]


def test_a_reward_model_of_several_heads_is_asked_for_one() -> None:
    batch = Batch.from_rollouts([Rollout(0, [Turn((1, 2))], columns={"reward": 1.0})], dtype=torch.float64)
    wide = torch.tensor([[9.0, 9.0], [1.0, 2.0]], dtype=torch.float64)
    batch = batch.with_columns({"token.rm.value": wide, "token.rm.value[head=1]": wide[:, 1]})
    assert ModelScores()(batch)["rollout.scores"].tolist() == [[1.0, 2.0]]
    assert ModelReward(head=1)(batch)["rollout.reward"].tolist() == [2.0]
    with pytest.raises(PodiumError, match=r"set ModelReward\.head, 0 to 1"):
        ModelReward()(batch)


def test_the_outcome_of_tokens_is_beside_a_baseline() -> None:
    batch = spoken([[0.0, 0.0], [0.0]], [1.0, 0.0])
    batch = batch.with_columns({"group.baseline": torch.tensor([0.25, 0.5], dtype=torch.float64)})
    found = TokenReward(baseline="group.baseline")(batch)["token.reward"]
    assert found.tolist() == [0.0, 0.75, -0.5]

"""Shapes of advantages and weights, by numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from podium.core import Signal
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.shape import (
    CentredKL,
    CertaintyFactor,
    ConfidenceShift,
    Contrast,
    DropLongContexts,
    DropPivot,
    DropUncredited,
    ElasticClip,
    EntropyBand,
    EntropyGate,
    HeterogeneousTokens,
    KeepSign,
    MarkNear,
    MatchTrajectories,
    Novelty,
    PlanCredit,
    ProgressFocus,
    RankBonus,
    RejectFar,
    RejectMismatch,
    Rescale,
    SelfCertainty,
    SpareEntropy,
    TeacherCertainty,
    TokenPenalty,
    TrainSteps,
    TurnBand,
    VirtualTemperature,
    WholeShares,
)
from tests.batches import sampled, spoken


def listed(x: Any) -> Any:
    return pytest.approx(x, abs=1e-6)


def credits(rewards: list[float], group: list[int], advantage: list[float], **columns: Any) -> Batch:
    return sampled(rewards, group, "abcdef"[: len(set(group))], advantage=torch.tensor(advantage).double(), **columns)


def test_rescaled_by_the_share_of_rollouts_that_carry_something() -> None:
    batch = credits([1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1], [1.0, -1.0, 0.0, 2e-6])
    # Groups with different rewards: 2 of 4 rollouts. Rewards other than 0: 3 of 4. Advantages above 1e-6: 3 of 4.
    assert Rescale("active")(batch)["rollout.advantage"].tolist() == listed([2.0, -2.0, 0.0, 4e-6])
    assert Rescale("nonzero")(batch)["rollout.advantage"].tolist() == listed([4 / 3, -4 / 3, 0.0, 8e-6 / 3])
    credited = Rescale("credited")(batch)["rollout.advantage"].tolist()
    assert credited[:3] == listed([4 / 3, -4 / 3, 0.0])
    assert credited[3] == pytest.approx(8e-6 / 3)
    below = Rescale("credited")(credits([1.0, 0.0], [0, 0], [1.0, 1e-6]))["rollout.advantage"].tolist()
    assert below == pytest.approx([2.0, 1e-6], rel=1e-6)
    within = Rescale("active", key=("group",))(batch)["rollout.advantage"].tolist()
    assert within == listed([1.0, -1.0, 0.0, 4e-6])


def test_one_sign_is_kept() -> None:
    batch = credits([0.0] * 3, [0] * 3, [-0.5, 0.0, 0.5])
    assert KeepSign("negative")(batch)["rollout.advantage"].tolist() == [-0.5, 0.0, 0.0]
    assert KeepSign("positive")(batch)["rollout.advantage"].tolist() == [0.0, 0.0, 0.5]
    assert KeepSign("positive", on=0.0)(batch)["rollout.advantage"].tolist() == [-0.5, 0.0, 0.5]


def test_the_entropy_gate_has_hysteresis() -> None:
    batch = spoken([[0.1, 0.3], [0.3], []], [1.0, 0.0, 0.0])
    columns = {"rollout.advantage": torch.tensor([1.0, -1.0, -1.0]), "rollout.length": torch.tensor([2.0, 1.0, 0.0])}
    # The mean over answers that have tokens, (0.2 + 0.3) / 2 = 0.25, lies between the bounds: the state before decides.
    for before, on in ((1.0, 1.0), (0.0, 0.0)):
        found = EntropyGate(low=0.2, high=0.3)(
            batch.with_columns({**columns, "batch.gate.before": torch.tensor([before])})
        )
        assert found["batch.gate.negatives"].tolist() == [on]
    state = {**columns, "batch.gate.before": torch.tensor([1.0])}
    above = EntropyGate(low=0.1, high=0.2)(batch.with_columns(state))["batch.gate.negatives"].tolist()
    below = EntropyGate(low=0.26, high=0.3)(batch.with_columns(state))["batch.gate.negatives"].tolist()
    assert sorted([above, below]) == [[0.0], [1.0]]


def test_entropy_bands_of_turns_begin_in_the_second_half() -> None:
    def batch(count: int) -> Batch:
        return Batch.from_rollouts([Rollout(0, [Turn((1,))] * count)], dtype=torch.float64).with_columns(
            {"batch.turn_entropy": torch.tensor([[1.0, 2.0, 4.0, 8.0]], dtype=torch.float64)}
        )

    part = TurnBand(low=0.5, high=1.5)
    found = part(batch(5))  # the fifth turn has the band of the last one that is known
    assert found["token.band.centre"].tolist() == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert found["token.band.low"].tolist() == [0.5, 1.0, 2.0, 4.0, 4.0]
    assert found["token.band.high"].tolist() == [1.5, 3.0, 6.0, 12.0, 12.0]
    assert part(batch(3))["token.band.low"].tolist() == [0.5, 1.0, 2.0]  # turn 2 is in the second half
    early = part(batch(2))
    assert early["token.band.low"].tolist() == [-1.0, -1.0]
    assert early["token.band.centre"].tolist() == [0.0, 0.0]


def test_a_band_lies_between_two_quantiles_and_is_empty_without_selected_tokens() -> None:
    columns = {
        Signal("entropy", of="now"): torch.tensor([1.0, 2.0, 3.0, 9.0, 9.0], dtype=torch.float64),
        "token.selected": torch.tensor([True, True, True, False, False]),
    }
    found = EntropyBand(low=0.25, high=1.0)(spoken([[0.0] * 4, [0.0]], [1.0, 0.0]).with_columns(columns))
    assert found["rollout.band.low"].tolist() == [1.5, 0.0]
    assert found["rollout.band.high"].tolist() == [3.0, 0.0]


def test_the_rank_is_shown_and_the_bonus_follows_from_it_and_its_velocity() -> None:
    """Against means of (2, 1, 1): D = (1, ½, 0), so that β is ½ and the signal (tanh 1 + tanh ½) / 2."""
    part = RankBonus(stride=2, window=4, kappa=1.0, epsilon=1e-12)
    columns = {
        part.needs[-1]: torch.tensor([[4.0, 1.5, 1.0]], dtype=torch.float64),
        "batch.rank.averages": torch.tensor([[2.0, 1.0, 1.0]], dtype=torch.float64),
        "rollout.advantage": torch.tensor([-2.0], dtype=torch.float64),
    }
    found = part(spoken([[0.0, 0.0]], [1.0]).with_columns(columns))
    bonus = (math.tanh(1.0) + math.tanh(0.5)) / 2
    assert found["rollout.rank"].tolist() == [4.0]
    assert found["rollout.rank.explore"].tolist() == [0.5]
    assert found["rollout.rank.bonus"].tolist() == listed([bonus])
    assert found["token.advantage"].tolist() == listed([-2.0, bonus - 2.0])


def test_certain_rollouts_count_more() -> None:
    batch = spoken([[1.0, 1.0], [3.0]], [1.0, 0.0])
    batch = batch.with_columns({"rollout.advantage": torch.tensor([2.0, -2.0], dtype=torch.float64)})
    one = batch.take("rollout", torch.tensor([0]))
    # Each row is a group of its own here, so H = H̄ and the factor is 1; entropies of 0 give 1, too.
    assert CertaintyFactor()(one)["rollout.factor"].tolist() == [1.0]
    zero = spoken([[0.0]], [1.0]).with_columns({"rollout.advantage": torch.tensor([2.0], dtype=torch.float64)})
    assert CertaintyFactor()(zero)["rollout.factor"].tolist() == [1.0]
    rows = [Rollout(0, [Turn([1], tokens={"sampler.entropy": [h]})], columns={"advantage": 2.0}) for h in (1.0, 5.0)]
    found = CertaintyFactor(floor=0.5)(Batch.from_rollouts(rows, dtype=torch.float64))
    # H̄ = 3: 2 − ⅓ and 2 − 5/3 = ⅓, raised to ½.
    assert found["rollout.factor"].tolist() == listed([5 / 3, 0.5])
    assert found["rollout.advantage"].tolist() == listed([10 / 3, 1.0])


def test_self_certainty_sums_or_averages() -> None:
    batch = spoken([[0.0, 0.0]], [1.0]).with_columns({"token.old.mean_logp": torch.tensor([-1.0, -2.0]).double()})
    assert SelfCertainty()(batch)["rollout.certainty"].tolist() == [3.0]
    assert SelfCertainty("mean")(batch)["rollout.certainty"].tolist() == [1.5]


def test_plans_credit_their_tokens() -> None:
    def turn(switch: bool) -> Turn:
        kinds = {"plan_switch": [True, False, False], "plan_subgoal": [False, True, False]}
        columns = {"switch": switch, "action.advantage": 1.0, "subgoal.advantage": 2.0, "switch.advantage": 3.0}
        return Turn([1, 1, 1], tokens=kinds | {"plan_action": [False, False, True]}, columns=columns)

    rollout = Rollout(0, [turn(False), turn(True), turn(False)])
    found = PlanCredit()(Batch.from_rollouts([rollout], dtype=torch.float64))
    # The first turn begins a subgoal whatever it says; the third keeps its own.
    assert found["token.advantage"].tolist() == [3.0, 2.0, 1.0, 3.0, 2.0, 1.0, 3.0, 0.0, 1.0]
    assert found["token.credited"].tolist() == [True] * 7 + [False, True]


def test_a_mean_ratio_or_a_token_that_is_far_off_rejects() -> None:
    batch = spoken([[0.0, 0.0]], [1.0], old_logp=[[-1.0, -1.0]])
    now = {"token.now.logp": torch.tensor([-1.0, -1.0 + math.log(3)], dtype=torch.float64)}
    # Ratios 1 and 3, whose mean is 2.
    assert RejectFar(above=2.0 + 1e-9)(batch.with_columns(now))["batch.weight.near"].tolist() == [1.0]
    assert RejectFar(above=1.9)(batch.with_columns(now))["batch.weight.near"].tolist() == [0.0]
    equal = batch.with_columns({"token.now.logp": torch.tensor([-1.0, -1.0], dtype=torch.float64)})
    assert RejectFar(above=1.0)(equal)["batch.weight.near"].tolist() == [1.0]
    rows = spoken(
        [[0.0] * 2] * 4,
        [1.0] * 4,
        old_logp=[[-1.0, -1.0], [-1.0, -1.2], [-1.0, -1.0], [-1.0, -1.0]],
        sampler_logp=[[-1.0, -1.0], [-1.0, -1.0], [-1.5, -0.5], [-1.1, -0.9]],
    )
    # Mean log-ratios 0, −0.1, 0 and 0; smallest 0, −0.2, −0.5 and −0.1.
    found = RejectMismatch(band=0.05, smallest=math.exp(-0.3))(rows)
    assert found["rollout.weight.mismatch"].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert RejectMismatch(band=0.0, smallest=1.0)(rows)["rollout.weight.mismatch"].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_shares_of_the_group_that_is_dropped() -> None:
    found = DropPivot()(sampled([0.0, 1.0, 2.0, 5.0, 3.0, 7.0, 9.0], [0, 0, 0, 1, 1, 1, 1], "ab"))
    assert found["rollout.keep.pivot"].tolist() == [True, False, True, False, True, True, True]
    assert DropUncredited("rollout")(credits([0.0] * 3, [0] * 3, [0.0, 1.0, -1.0]))[
        "rollout.keep.credited"
    ].tolist() == [
        False,
        True,
        True,
    ]
    turns = [Turn((1,), context=(2,) * n) for n in (2, 3, 4)]
    batch = Batch.from_rollouts([Rollout(0, turns)], dtype=torch.float64)
    batch = batch.with_columns({"turn.train_context": tuple((2,) * n for n in (2, 3, 4))})
    assert DropLongContexts(longest=3)(batch)["turn.keep.context"].tolist() == [True, True, False]
    assert TrainSteps("first")(batch)["step.keep.place"].tolist() == [True, False, False]
    assert TrainSteps("rest")(batch)["step.keep.place"].tolist() == [False, True, True]
    assert int(WholeShares(workers=2)(batch)["step.keep.share"].sum()) == 2
    assert int(WholeShares(workers=3)(batch)["step.keep.share"].sum()) == 3
    assert int(WholeShares(workers=4)(batch)["step.keep.share"].sum()) == 3


def test_novelty_is_one_less_rarity() -> None:
    rows = spoken([[0.0], [0.0]], [1.0, 1.0], old_logp=[[-1.0], [-3.0]])
    batch = Batch.from_rollouts(
        [
            Rollout(0, [Turn([1], tokens={"old.logp": [logp]})], columns={"reward": 1.0, "advantage": 2.0})
            for logp in (-1.0, -3.0)
        ],
        dtype=torch.float64,
    )
    eta = Novelty().rarity(batch)
    found = Novelty(strength=1.0, cap=0.25)(batch)
    assert found["rollout.novelty"].tolist() == listed([float(1 - e) for e in eta])
    bonus = [min(max(1 - float(e), 0.0), 0.5) for e in eta]
    assert found["rollout.advantage"].tolist() == listed([2.0 + b for b in bonus])
    assert len(rows) == 2


def test_demonstrations_stand_against_the_sum_of_the_rest() -> None:
    columns = {"demonstration": torch.tensor([False, False, True, True])}
    batch = credits([1.0, 0.0, 1.0, 1.0], [0] * 4, [3.0, 1.0, 9.0, 9.0], **columns)
    # Each of two samples counts half; each of two demonstrations half of their sum, with the other sign.
    assert Contrast()(batch)["rollout.advantage.contrast"].tolist() == listed([1.5, 0.5, -1.0, -1.0])


def test_progress_shifts_the_focus() -> None:
    batch = credits([1.0, 0.0, 0.0, 0.0], [0, 0, 0, 0], [2.0, -1.0, 0.0, 0.0])
    # p = P = ¼: ½·(¾ / (1 − ½) + ¼ / ½) = 1; positive advantages are damped by P / alpha = ½.
    found = ProgressFocus(alpha=0.5, epsilon=1e-12)(batch)
    assert found["rollout.advantage"].tolist() == listed([1.0, -1.0, 0.0, 0.0])
    assert found["batch.progress"].tolist() == [0.25]
    mirrored = ProgressFocus(alpha=0.0, easy="sqrt(1 - p)", epsilon=1e-12)(batch)
    factor = 0.5 * (0.75 / math.sqrt(0.75) + 0.5)
    assert mirrored["rollout.advantage"].tolist() == listed([2 * factor, -factor, 0.0, 0.0])
    alone = ProgressFocus(singleton="zero")(credits([1.0, 1.0, 1.0], [0, 1, 1], [1.0, 1.0, 1.0]))
    assert alone["batch.progress"].tolist() == [0.5]


def test_elastic_bounds_stay_below_one() -> None:
    part = ElasticClip(low=0.9, high=0.9, micro=0.0, macro=0.0, smallest=1.0, largest=1.0)
    found = part(credits([1.0, 0.0], [0, 0], [1.0, -1.0]))
    assert found["rollout.clip_low"].tolist() == listed([0.9, 0.9])
    wide = ElasticClip(low=0.9, high=0.9, micro=5.0, macro=5.0, smallest=0.5, largest=2.0)
    scale = wide(credits([1.0, 0.0], [0, 0], [3.0, -3.0]))
    assert float(scale["rollout.clip_low"].max()) <= 0.99
    assert float(scale["rollout.clip_high"].max()) > 0.99


def test_weights_by_the_change_of_entropy() -> None:
    class Known(SpareEntropy):
        def change(self, batch: Batch) -> torch.Tensor:
            return batch["token.change"]

    batch = spoken([[0.0] * 3], [1.0])
    known = {"token.change": torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)}
    assert Known(low=0.5, high=1.5)(batch.with_columns(known))["token.weight.entropy"].tolist() == listed(
        [1.5, 1.0, 0.5]
    )
    even = {"token.change": torch.ones(3, dtype=torch.float64)}
    assert Known(low=0.5, high=1.0)(batch.with_columns(even))["token.weight.entropy"].tolist() == listed([0.75] * 3)
    fall = Known(low=0.25, mapping="exponential")(batch.with_columns(known))["token.weight.entropy"].tolist()
    assert fall == listed([1.0, 0.5, 0.25])
    below = {"token.change": torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)}
    fall = Known(low=0.25, mapping="exponential")(batch.with_columns(below))["token.weight.entropy"].tolist()
    assert fall == listed([1.0, 1.0, 0.25])


def test_heterogeneous_tokens_in_and_outside_the_neutral_zone() -> None:
    batch = spoken([[0.0] * 3], [1.0], old_logp=[[-1.0] * 3])
    columns = {
        "token.advantage": torch.full((3,), 2.0, dtype=torch.float64),
        "token.now.entropy": torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64),
        "token.now.logp": torch.tensor([-1.0, -1.0, -1.0 + math.log(2)], dtype=torch.float64),
    }
    found = HeterogeneousTokens(low=0.2, high=0.4, alpha=0.5, beta=0.25, pivot=0.5)(batch.with_columns(columns))
    # ĥ = −1, 0 and 1. A certain token in the zone: A·(1 − ¼); an uncertain one outside of it: A·(1 + ¼).
    assert found["token.clip_low"].tolist() == listed([0.3, 0.2, 0.2])
    assert found["token.clip_high"].tolist() == listed([0.4, 0.4, 0.6])
    assert found["token.advantage"].tolist() == listed([1.5, 2.0, 2.5])


def test_a_virtual_temperature_mixes_the_advantage() -> None:
    part = VirtualTemperature(temperature=2.0, gap=0.25, cap=0.5, success=0.5)
    target = next(n for n in part.needs if isinstance(n, Signal) and n.settings)
    batch = spoken([[0.0], [0.0]], [1.0, 0.5], old_logp=[[-1.0], [-1.0]])
    columns = {"token.advantage": torch.tensor([4.0, 4.0]).double(), target: torch.tensor([-1.0, -1.0]).double()}
    columns[target][0] += math.log(3)
    share = float(part.share(batch.with_columns(columns))[0])
    found = part(batch.with_columns(columns))["token.advantage"].tolist()
    assert found == listed([(1 - share) * 4 + share * 3, (1 - share) * 4])
    for gap, bound in ((30.0, 20.0), (-30.0, -20.0)):  # log-ratios are held within ± 20
        columns[target] = torch.tensor([-1.0 + gap, -1.0], dtype=torch.float64)
        far = part(batch.with_columns(columns))["token.advantage"].tolist()
        assert far[0] - (1 - share) * 4 == pytest.approx(share * math.exp(bound), rel=1e-9, abs=1e-11)


def test_distances_and_penalties_of_tokens() -> None:
    part = CentredKL(beta=0.5, anchor="anchor")
    batch = spoken([[0.0, 0.0], [0.0]], [1.0, 0.0], (1,), old_logp=[[-1.0, -1.0], [-1.0]])
    columns = {
        "token.anchor.logp": torch.tensor([-1.0, -3.0, -9.0], dtype=torch.float64),
        "token.advantage": torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64),
    }
    distance = part.distance(batch.with_columns(columns))
    mean = float(distance[:2].mean())
    found = part(batch.with_columns(columns))["token.advantage"].tolist()
    assert found == listed([1 - 0.5 * (float(distance[0]) - mean), 1 - 0.5 * (float(distance[1]) - mean), 0.0])

    class Level(TokenPenalty):
        def level(self, batch: Batch) -> torch.Tensor:
            return torch.tensor([1.0, 4.0, 1.0], dtype=torch.float64)

    columns["token.advantage"] = torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    assert Level(weight=0.5)(batch.with_columns(columns))["token.advantage"].tolist() == listed([0.5, 0.0, -1.5])


def test_a_sure_teacher_weighs_more() -> None:
    batch = spoken([[0.0, 0.0], [0.0]], [1.0, 0.0]).with_columns({"rollout.distilled": torch.tensor([True, False])})
    entropy = torch.tensor([0.0, math.log(2), 5.0], dtype=torch.float64)
    found = TeacherCertainty(beta=1.0)(batch.with_columns({"token.teacher.entropy": entropy}))
    assert found["token.weight.certainty"].tolist() == listed([4 / 3, 2 / 3, 1.0])  # 1 and ½ over their mean ¾


def test_the_bonus_of_confidence_is_off_where_all_are_wrong() -> None:
    def shifted(rewards: list[float], off: str) -> list[float]:
        rows = [
            Rollout(
                0,
                [Turn([1], tokens={"old.logp": [-0.5], "sampler.logp": [-0.5]})],
                columns={"reward": r, "advantage": 1.0},
            )
            for r in rewards
        ]
        batch = Batch.from_rollouts(rows, dtype=torch.float64)
        part = ConfidenceShift(alpha=0.5, off=off)
        known = batch.with_columns({"group.prompt.confidence": torch.tensor([9.0], dtype=torch.float64)})
        return part(known)["rollout.advantage"].tolist()

    assert shifted([0.0, 0.0], "all wrong") == [1.0, 1.0]
    assert shifted([1.0, 1.0], "flat") == [1.0, 1.0]
    assert shifted([1.0, 1.0], "all wrong") != [1.0, 1.0]
    mixed = shifted([1.0, 0.0], "flat")
    assert mixed != [1.0, 1.0]
    assert mixed == shifted([1.0, 1.0], "all wrong")


def test_a_curve_of_means_is_compared_with_those_of_labelled_tasks() -> None:
    batch = sampled([1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1], "ab")
    columns = {
        "group.curve": ((0.0, 0.25), (0.0, 1.0)),
        "group.labelled": torch.tensor([False, True]),
        "batch.references": ((),),
    }
    found = MatchTrajectories(tau=0.9, top=0.0, warmup=3)(batch.with_columns(columns))
    # (0, ¼, ½) against (0, 1, 1): the cosine of (−1, 0, 1) and (−2, 1, 1), 3 / √12.
    assert found["group.similarity"].tolist() == listed([3 / math.sqrt(12), 0.0])


def test_only_rollouts_that_went_wrong_and_far_are_masked() -> None:
    """Advantage and mean log(π_old / π) of each: (0, 1), (−1, 0.1), (−1, 0.2)."""
    gone, advantage = [1.0, 0.1, 0.2], [0.0, -1.0, -1.0]
    batch = spoken([[0.0]] * 3, [0.0] * 3)
    columns = {"now": torch.zeros(3).double(), "old": torch.tensor(gone).double()}
    batch = batch.with_columns({Signal("logp", of=of): x for of, x in columns.items()})
    batch = batch.with_columns({"token.advantage": torch.tensor(advantage).double()})
    near = MarkNear(delta=float(torch.tensor(0.1).double()))(batch)["rollout.near"]
    assert near.tolist() == [True, True, False]

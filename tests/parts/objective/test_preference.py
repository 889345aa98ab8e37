"""Pairwise and unpaired preference losses, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.parts.annotate import MismatchedAnswers, MismatchedKL
from podium.parts.objective import Preference, Quality
from podium.parts.objective.preference import preference_loss

LN2 = math.log(2)


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def groups(*rows: tuple[list[float], float, int], ref: float = 0.0, **columns: Any) -> Batch:
    """Rollouts by their token log-probabilities, reward and group; the reference's are all `ref`."""
    width = max(len(logp) for logp, _, _ in rows)
    mask = torch.tensor([[t < len(logp) for t in range(width)] for logp, _, _ in rows])
    now = torch.tensor([logp + [0.0] * (width - len(logp)) for logp, _, _ in rows], dtype=torch.float64)
    found: dict[str, Any] = {
        "token.now.logp": now,
        "token.ref.logp": torch.full_like(now, ref),
        "rollout.reward": torch.tensor([reward for _, reward, _ in rows], dtype=torch.float64),
    }
    batch = Batch.from_padded(mask, [group for *_, group in rows], found)
    return batch.with_columns({name.replace("__", "."): value for name, value in columns.items()})


# The pair of SimPO's and POWER's worked examples: means −0.3 and −0.55, sums −0.9 and −1.1.
WINNER, LOSER = [-0.2, -0.4, -0.3], [-0.5, -0.6]
PAIR = groups((WINNER, 1.0, 0), (LOSER, 0.0, 0), ref=-0.25)


def value(term: Any, batch: Batch = PAIR) -> float:
    return float(term(batch))


def test_dpo_compares_sums_of_log_ratios() -> None:
    # log-ratios: −0.9 + 0.75 = −0.15 and −1.1 + 0.5 = −0.6; β = 0.1
    assert value(Preference()) == pytest.approx(softplus(-0.1 * 0.45))
    assert value(Preference(temperature=1.0)) == pytest.approx(softplus(-0.45))
    at_the_reference = groups(([-0.25] * 3, 1.0, 0), ([-0.25] * 2, 0.0, 0), ref=-0.25)
    assert value(Preference(), at_the_reference) == pytest.approx(LN2)


def test_smoothing_mixes_in_the_pair_the_other_way_round() -> None:
    expected = 0.9 * softplus(-0.45) + 0.1 * softplus(0.45)
    assert value(Preference(temperature=1.0, smoothing=0.1)) == pytest.approx(expected)


def test_hinge_and_square_have_their_targets_at_one() -> None:
    assert value(Preference(temperature=1.0, link="hinge")) == pytest.approx(0.55)
    assert value(Preference(temperature=0.1, link="hinge")) == 0.0  # 4.5 ahead
    assert value(Preference(temperature=1.0, link="squared")) == pytest.approx(0.55**2)
    assert value(Preference(temperature=1.0, link="squared", smoothing=0.5)) == pytest.approx((0.55**2 + 1.45**2) / 2)


def test_ipo_is_the_squared_distance_from_half_of_its_inverse_beta() -> None:
    for beta in (0.1, 0.5):
        half = 1 / (2 * beta)
        ipo = Preference(temperature=half, link="squared", coefficient=half**2)
        assert value(ipo) == pytest.approx((0.45 - half) ** 2)
        mean = ipo.replace(score="mean")  # log-ratios per token: −0.05 and −0.3
        assert value(mean) == pytest.approx((0.25 - half) ** 2)


def test_simpo_has_the_worked_example() -> None:
    simpo = Preference(temperature=1 / 2.5, score="mean", against=None, margin=2.5 * 0.55)
    assert value(simpo) == pytest.approx(1.136871, abs=1e-6)
    assert (simpo.logits(PAIR)).tolist() == pytest.approx([-0.75, -1.375])
    assert float(simpo.diagnostics(PAIR)["preference.accuracy"]) == 1.0


def test_repeating_every_token_changes_dpo_and_not_simpo() -> None:
    twice = groups((WINNER * 2, 1.0, 0), (LOSER * 2, 0.0, 0), ref=-0.25)
    simpo = Preference(temperature=0.5, score="mean", against=None, margin=0.5)
    assert value(simpo, twice) == pytest.approx(value(simpo))
    assert value(Preference(), twice) == pytest.approx(softplus(-0.09))


def test_power_has_the_worked_example() -> None:
    power = Preference(temperature=0.5, score="mean", against=None, brevity=1.0)
    assert float(power.diagnostics(PAIR)["preference.margin"]) == pytest.approx(0.1666667, abs=1e-7)
    assert value(power) == pytest.approx(0.6132821, abs=1e-7)
    # The same with the weight 1: sums of log-probabilities, and no margin.
    assert value(power.replace(score="sum", brevity=0.0)) == pytest.approx(softplus(-2 * 0.2))


def test_a_soft_label_weighs_both_directions() -> None:
    labelled = PAIR.with_columns({"group.label": torch.tensor([0.25], dtype=torch.float64)})
    term = Preference(temperature=1.0, label="group.label")
    assert value(term, labelled) == pytest.approx(0.25 * softplus(-0.45) + 0.75 * softplus(0.45))
    assert float(term.diagnostics(labelled)["preference.accuracy"]) == 0.0  # the label says the other one
    smooth = term.replace(smoothing=0.1)  # 0.1 + 0.8 · 0.25
    assert value(smooth, labelled) == pytest.approx(0.3 * softplus(-0.45) + 0.7 * softplus(0.45))


def test_a_label_that_is_the_prediction_gives_no_gradient() -> None:
    better = torch.tensor([0.3, -1.0], dtype=torch.float64, requires_grad=True)
    label = torch.sigmoid(better.detach())
    preference_loss(better, torch.zeros(2, dtype=torch.float64), label=label).sum().backward()
    assert better.grad is not None
    assert better.grad.tolist() == pytest.approx([0.0, 0.0], abs=1e-12)


def test_cpl_has_the_worked_examples() -> None:
    pair = groups(([-1.0], 0.0, 0), ([-0.4], 1.0, 0))
    cpl = Preference(temperature=1.0, against=None, bias=0.5)
    assert value(cpl, pair) == pytest.approx(0.6443967, abs=1e-7)
    ranked = groups(([-1.0], 0.0, 0), ([-0.4], 1.0, 0), ([-0.7], 0.5, 0))
    assert value(cpl, ranked) == pytest.approx(0.7203317, abs=1e-7)
    assert float(cpl.diagnostics(ranked)["preference.accuracy"]) == 1.0


def test_bias_breaks_the_invariance_to_a_common_shift() -> None:
    pair, lower = (groups(([-1.0 - c], 0.0, 0), ([-0.4 - c], 1.0, 0)) for c in (0.0, 1.0))
    plain = Preference(temperature=1.0, against=None)
    assert value(plain, lower) == pytest.approx(value(plain, pair))
    assert value(plain.replace(bias=0.5), lower) > value(plain.replace(bias=0.5), pair)


def test_a_pair_with_an_empty_or_equal_answer_is_left_out() -> None:
    batch = groups((WINNER, 1.0, 0), (LOSER, 0.0, 0), ([], 1.0, 1), (LOSER, 0.0, 1), (LOSER, 0.5, 2), (LOSER, 0.5, 2))
    simpo = Preference(score="mean", against=None)
    assert value(simpo, batch) == pytest.approx(value(simpo))
    assert simpo.members(batch).tolist() == [True, False, False]


def test_a_term_weight_scales_single_pairs() -> None:
    batch = groups((WINNER, 1.0, 0), (LOSER, 0.0, 0), (WINNER, 1.0, 1), (LOSER, 0.0, 1), ref=-0.25)
    weighed = batch.with_columns({"group.trust": torch.tensor([3.0, 0.0], dtype=torch.float64)})
    assert value(Preference(weight="group.trust"), weighed) == pytest.approx(1.5 * softplus(-0.045))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"link": "cubic"}, "'logistic', 'hinge', 'squared'"),
        ({"bias": 0.0}, "Preference.bias = 0"),
        ({"bias": 1.5}, "Preference.bias = 1.5"),
        ({"smoothing": -0.1}, "Preference.smoothing = -0.1"),
        ({"brevity": -1.0}, "Preference.brevity = -1"),
        ({"label": "token.label"}, "must be a column of groups or rollouts"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PodiumError, match=message.replace(".", r"\.")):
        Preference(**settings)


@pytest.mark.parametrize("link", ["logistic", "hinge", "squared"])
def test_gradients_are_those_of_finite_differences(link: str) -> None:
    label = torch.tensor([0.3, 0.8], dtype=torch.float64)
    d = torch.tensor([0.2, -0.7, 0.4, 0.1], dtype=torch.float64, requires_grad=True)

    def loss(x: Tensor) -> Tensor:
        return preference_loss(x[:2], x[2:], 0.35, bias=0.6, label=label, link=link)

    assert torch.autograd.gradcheck(loss, (d,))


# -- unpaired --------------------------------------------------------------------------------------------------------


def test_kto_weighs_right_and_wrong_against_the_reference_point() -> None:
    kto = Quality(temperature=1.0, link="sigmoid", shift=0.1, right=2.0, wrong=0.5)
    # log-ratios −0.15 and −0.6: 1 − σ(−0.15 − 0.1) = σ(0.25) and 1 − σ(0.1 + 0.6) = σ(−0.7)
    right, wrong = 1 / (1 + math.exp(-0.25)), 1 / (1 + math.exp(0.7))
    assert kto.loss(PAIR).tolist() == pytest.approx([2 * right, 0.5 * wrong])
    assert value(kto) == pytest.approx((2 * right + 0.5 * wrong) / 2)


def test_a_reward_at_the_bound_is_not_right() -> None:
    bound = Quality(temperature=1.0, shift=0.0, correct_above=1.0)
    # Both are wrong: −log σ(0.15) and −log σ(0.6).
    assert bound.loss(PAIR).tolist() == pytest.approx([softplus(-0.15), softplus(-0.6)])


def test_the_reference_point_reads_answers_after_the_prompt_of_another_group() -> None:
    answers = (("a", (1, 2), (7, 8)), ("a", (1, 2), (9,)), ("b", (3,), (5, 6)))
    rows = [Rollout(name, [Turn(ids, context=prompt)]) for name, prompt, ids in answers]
    batch = Batch.from_rollouts(rows)
    texts = MismatchedAnswers().texts(batch)
    assert [tuple(c) for c in texts["turn.train_context"]] == [(3,), (3,), (1, 2)]
    assert texts["token.id"].tolist() == [7, 8, 9, 5, 6]
    scored = texts.with_columns(
        {
            "token.old.logp": torch.tensor([-1.0, -1.0, -1.0, -1.0, -1.0]),
            "token.ref.logp": torch.tensor([-2.0, -3.0, -0.5, -1.0, -2.0]),
        }
    )
    moved = MismatchedAnswers().columns(batch, scored)
    assert moved["rollout.mismatched"].tolist() == [3.0, -0.5, 1.0]
    point = MismatchedKL(temperature=2.0)(batch.with_columns(moved))
    assert point["batch.mismatched_kl"].tolist() == pytest.approx([3.5 / 3 / 2])
    falling = batch.with_columns({"rollout.mismatched": torch.tensor([-3.0, 1.0, 1.0])})
    assert MismatchedKL()(falling)["batch.mismatched_kl"].tolist() == [0.0]
    # Given answers, as all of a file or a world are, count here although they count in no other statistic.
    given = batch.with_columns({**moved, "rollout.purpose": torch.full((3,), int(Purpose.demo))})
    assert MismatchedKL(temperature=2.0)(given)["batch.mismatched_kl"].tolist() == pytest.approx([3.5 / 3 / 2])


def test_a_single_group_has_no_other_prompt() -> None:
    batch = Batch.from_rollouts([Rollout("a", [Turn((7, 8), context=(1,))])])
    scored = MismatchedAnswers().texts(batch)
    scored = scored.with_columns({"token.old.logp": torch.ones(2), "token.ref.logp": torch.zeros(2)})
    assert MismatchedAnswers().columns(batch, scored)["rollout.mismatched"].tolist() == [0.0]

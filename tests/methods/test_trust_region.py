"""LUSPO, BPO, ETR: other trust regions for GRPO."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.term import Aggregate
from podium.method import Method
from podium.parts.objective import Clip, PolicyGradient, Target
from podium.parts.shape import ElasticClip
from tests.conformance.helpers import Outcome, credited, differentiate
from tests.methods.support import short_run


def batch_of(mask: list[list[int]], advantage: list[float], log_ratio: Tensor | float = 0.0) -> Batch:
    """Rollouts of one group with these advantages, and log-ratios to the old policy."""
    tokens = torch.tensor(mask, dtype=torch.float64)
    old = torch.full_like(tokens, -1.0)
    columns = {
        "token.old.logp": old,
        "token.now.logp": old + log_ratio,
        "rollout.advantage": torch.tensor(advantage, dtype=torch.float64),
    }
    return Batch.from_padded(tokens, [0] * len(mask), columns)


def outcome(method: Method, batch: Batch) -> Outcome:
    return differentiate(method.objective, batch)


# -- luspo -------------------------------------------------------------------------------------------------------------


def test_luspo_worked_example() -> None:
    batch = batch_of([[1, 1, 0, 0], [1, 1, 1, 1]], [1.0, -1.0])
    luspo, gspo = outcome(methods.luspo(), batch), outcome(methods.gspo(), batch)
    assert gspo.step.loss == pytest.approx(0)
    assert luspo.step.loss == pytest.approx(1)
    assert luspo.grad_logp.tolist() == pytest.approx([-0.5] * 2 + [0.5] * 4)
    assert gspo.grad_logp.tolist() == pytest.approx([-0.25] * 2 + [0.125] * 4)


def test_luspo_on_answers_of_one_length_is_gspo_times_the_length() -> None:
    batch = batch_of([[1, 1, 1]] * 4, [1.0, -1.0, 0.5, -0.2], torch.linspace(-0.3, 0.3, 12).reshape(4, 3).double())
    clip = {"clip_low": 0.1, "clip_high": 0.1}
    luspo, gspo = outcome(methods.luspo(**clip), batch), outcome(methods.gspo(**clip), batch)
    assert luspo.step.loss == pytest.approx(3 * gspo.step.loss)
    assert_close(luspo.grad_logp, 3 * gspo.grad_logp)


def test_luspo_pushes_a_token_equally_in_a_short_and_in_a_long_answer() -> None:
    found = outcome(methods.luspo(), batch_of([[1, 0, 0], [1, 1, 1]], [1.0, 1.0]))
    assert found.grad_logp.tolist() == pytest.approx([-0.5] * 4)


def test_luspo_normalised_is_divided_by_the_mean_length() -> None:
    batch = batch_of([[1, 1, 0, 0], [1, 1, 1, 1]], [1.0, -1.0])
    raw, normalised = outcome(methods.luspo(), batch), outcome(methods.luspo(normalized=True), batch)
    assert normalised.step.loss == pytest.approx(raw.step.loss / 3)


def test_luspo_counts_empty_answers_in_its_divisor() -> None:
    found = outcome(methods.luspo(), batch_of([[1, 1], [0, 0]], [1.0, -1.0]))
    assert found.step.loss == pytest.approx(-1.0)  # −2 over two rollouts


# -- bpo ---------------------------------------------------------------------------------------------------------------


def test_bpo_worked_example() -> None:
    method = methods.get("bpo@mean", width=1e-3)
    for advantage, ratio, loss in ((1.0, 1.1, 0.1), (1.0, 1.3, 0.1), (-0.5, 1.1, 0.15)):
        found = outcome(method, batch_of([[1]], [advantage], float(torch.tensor(ratio).double().log())))
        assert found.step.loss == pytest.approx(loss, abs=1e-6)


def test_bpo_on_policy_has_the_gradient_of_ppo() -> None:
    batch = batch_of([[1, 1], [1, 1]], [1.0, -0.5])
    ppo = (PolicyGradient(clip=Clip()),)
    assert_close(outcome(methods.get("bpo@mean", width=1e-3), batch).grad_logp, differentiate(ppo, batch).grad_logp)


def test_bpo_pulls_back_what_has_gone_too_far_where_ppo_stops() -> None:
    batch = batch_of([[1]], [1.0], float(torch.tensor(1.3).double().log()))
    assert float(outcome(methods.get("bpo@mean"), batch).grad_logp) > 0
    assert float(differentiate((PolicyGradient(clip=Clip()),), batch).grad_logp) == 0


def test_bpo_converges_to_its_targets_under_repeated_steps() -> None:
    log_ratio = torch.zeros(2, 1, dtype=torch.float64)
    for _ in range(400):
        slope = outcome(methods.get("bpo@mean"), batch_of([[1], [1]], [1.0, -1.0], log_ratio)).grad_logp
        log_ratio = log_ratio - 0.003 * slope.reshape(2, 1).sign()
    assert log_ratio.exp().flatten().tolist() == pytest.approx([1.2, 0.8], abs=5e-3)


def test_bpo_with_a_wide_target_moves_nothing() -> None:
    batch = batch_of([[1]], [1.0])
    assert float(Target(width=1e9).ratio(batch)) == pytest.approx(1)
    assert float(Target(width=1e-9).ratio(batch)) == pytest.approx(1.2)


def test_bpo_by_the_median_holds_the_commoner_outcome_where_it_is() -> None:
    method = methods.bpo(threshold="median")
    columns = {"rollout.reward": torch.tensor([0.0, 1.0, 1.0, 0.0, 0.0], dtype=torch.float64)}
    batch = credited(method, Batch.from_padded(torch.ones(5, 1), [0] * 5, columns))
    assert method.objective[0].clip.ratio(batch).tolist() == pytest.approx([1.0, 1.2, 1.2, 1.0, 1.0])  # type: ignore[attr-defined]


def test_bpo_divides_the_gap_to_the_median_by_the_std() -> None:
    columns = {"rollout.reward": torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)}
    batch = credited(methods.bpo(width=1.0), Batch.from_padded(torch.ones(3, 1), [0] * 3, columns))
    # The median is 1, the std √(7/3) = 1.527525: gaps −0.654654, 0 and 1.309307.
    assert batch["rollout.advantage.median"].tolist() == pytest.approx([-0.654654, 0.0, 1.309307], abs=1e-5)
    ratio = methods.bpo(width=1.0).objective[0].clip.ratio(batch)  # type: ignore[attr-defined]
    assert ratio.tolist() == pytest.approx([0.8 + 0.4 / (1 + math.exp(x)) for x in (0.654654, 0, -1.309307)], abs=1e-5)


def test_bpo_refuses_another_threshold() -> None:
    with pytest.raises(PodiumError, match="threshold"):
        methods.bpo(threshold="mode")


# -- etr ---------------------------------------------------------------------------------------------------------------


def test_etr_without_elasticity_is_grpo() -> None:
    reward = torch.tensor([1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    log_ratio = torch.linspace(-0.5, 0.5, 8).reshape(4, 2).double()
    batch = batch_of([[1, 1]] * 4, [0.0] * 4, log_ratio).without(["rollout.advantage"])
    batch = batch.with_columns({"rollout.reward": reward})
    etr, grpo = methods.etr(micro=0, macro=0), methods.grpo(kl=0)
    assert_close(outcome(etr, credited(etr, batch)).grad_logp, outcome(grpo, credited(grpo, batch)).grad_logp)


def test_etr_scale_grows_with_the_advantage_and_with_the_spread_of_outcomes() -> None:
    part = ElasticClip()
    sizes, rates = torch.linspace(0, 3, 20).double(), torch.linspace(0, 0.5, 20).double()
    assert bool((part.scale(sizes, torch.tensor(0.5)).diff() >= 0).all())
    assert bool((part.scale(torch.tensor(1.0), part.uncertainty(rates)).diff() >= 0).all())
    assert part.scale(torch.tensor(1.0), torch.tensor(0.5)) == pytest.approx(1)


def test_etr_lets_a_token_pass_that_grpo_has_clipped() -> None:
    reward = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    log_ratio = torch.zeros(4, 1, dtype=torch.float64)
    log_ratio[0] = torch.tensor(1.22).double().log()  # beyond 1.2, inside the stretched bound
    batch = batch_of([[1]] * 4, [0.0] * 4, log_ratio).without(["rollout.advantage"])
    batch = batch.with_columns({"rollout.reward": reward})
    etr, grpo = methods.etr(), methods.grpo(kl=0)
    assert outcome(etr, credited(etr, batch)).grad_logp[0] != 0
    assert outcome(grpo, credited(grpo, batch)).grad_logp[0] == 0


@pytest.mark.parametrize(("slug", "shown"), [("luspo", "ratio"), ("bpo", "target_gap"), ("etr", "clip_scale")])
def test_they_train(slug: str, shown: str, tmp_path: Path) -> None:
    last = short_run(slug, tmp_path / "run").metrics[-1]
    assert last["grad_norm.policy"] > 0
    assert shown in last


def test_the_aggregate_of_luspo_is_said_openly() -> None:
    assert methods.luspo().objective[0].aggregate == Aggregate("token sum, rollout mean of all")

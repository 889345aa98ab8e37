"""REAL, PACS, DRPO, Reg-GRPO: the policy's own log-probabilities as scores."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.method import Method
from tests.conformance.helpers import Outcome, credited, differentiate
from tests.methods.support import short_run


def batch_of(rewards: list[float], scores: Tensor | None = None, lengths: list[int] | None = None) -> Batch:
    """One group; every token of rollout k has the log-ratio `scores[k]` and old log-probability −1."""
    n = len(rewards)
    sizes = torch.tensor(lengths or [2] * n)
    mask = (torch.arange(int(sizes.max())) < sizes[:, None]).double()
    ratio = torch.zeros(n, dtype=torch.float64) if scores is None else scores.double()
    columns = {
        "token.old.logp": torch.full_like(mask, -1.0),
        "token.now.logp": ratio[:, None] - torch.ones_like(mask),
        "rollout.reward": torch.tensor(rewards, dtype=torch.float64),
    }
    return Batch.from_padded(mask, [0] * n, columns)


def outcome(method: Method, batch: Batch) -> Outcome:
    return differentiate(method.objective, credited(method, batch) if method.advantage else batch)


def by_rollout(method: Method, batch: Batch) -> Tensor:
    """[rollout] the summed gradient of its tokens."""
    return batch.reduce(outcome(method, batch).grad_logp, "token", "rollout", "sum")


# -- real --------------------------------------------------------------------------------------------------------------


def test_real_worked_example() -> None:
    batch = batch_of([1, 1, 0, 0], torch.tensor([0.2, -0.1, 0.1, 0.0]), [1] * 4)
    assert outcome(methods.real(), batch).step.loss == pytest.approx(2.2316694)
    assert by_rollout(methods.real(), batch).tolist() == pytest.approx([-0.4636129, -0.8447578, 0.7583049, 0.6208475])
    assert outcome(methods.real(variant="bce"), batch).step.loss == pytest.approx(0.70061)


def test_real_gradients_are_bounded_and_fall_as_a_right_answer_rises() -> None:
    slopes = []
    for s in torch.linspace(-3, 3, 13):
        batch = batch_of([1, 1, 0, 0], torch.tensor([float(s), 0.0, 0.0, 0.0]))
        slopes.append(by_rollout(methods.real(tau=0.5), batch)[0])
        assert float(by_rollout(methods.real(tau=0.5), batch).abs().max()) < 2
    assert bool((torch.stack(slopes).abs().diff() < 0).all())


def test_real_weighs_a_wrong_answer_against_the_other_wrong_ones_alone() -> None:
    low = by_rollout(methods.real(), batch_of([1, 0, 0], torch.tensor([0.0, 0.0, 0.0])))
    high = by_rollout(methods.real(), batch_of([1, 0, 0], torch.tensor([0.0, 0.5, 0.0])))
    assert high[1] > low[1]
    assert high[2] < low[2]
    assert high[0] == pytest.approx(float(low[0]))


def test_real_on_policy_is_not_without_a_gradient() -> None:
    found = by_rollout(methods.real(tau=0.5), batch_of([1, 0, 0]))
    assert found.tolist() == pytest.approx([-1.0, 2 / 3, 2 / 3])


# -- pacs --------------------------------------------------------------------------------------------------------------


def test_pacs_worked_example() -> None:
    logp = torch.tensor([[-0.5, -0.6], [-0.4, -0.4], [-1.0, -0.2], [-0.3, -0.3]], dtype=torch.float64)
    old = torch.tensor([[-0.7, -0.6], [-0.4, -0.3], [-1.0, -0.2], [-0.2, -0.2]], dtype=torch.float64)
    reward = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    columns = {"token.now.logp": logp, "token.old.logp": old, "rollout.reward": reward}
    found = outcome(methods.pacs(), Batch.from_padded(torch.ones(4, 2), [0] * 4, columns))
    assert found.step.loss == pytest.approx(0.6001143)
    assert found.grad_logp[::2].tolist() == pytest.approx([-0.2919611, 0.0973040, 0.1047066, 0.0899505], abs=1e-6)


def test_pacs_on_policy_points_where_rloo_does() -> None:
    batch = batch_of([1, 0, 0, 1])
    rloo = methods.rloo(kl=0)
    assert_close(by_rollout(methods.pacs(), batch).sign(), by_rollout(rloo, batch).sign())


def test_pacs_leaves_alone_what_is_already_predicted() -> None:
    sure = by_rollout(methods.pacs(estimator="naive", weights="equal"), batch_of([1, 0], torch.tensor([8.0, -8.0])))
    assert float(sure.abs().max()) < 1e-6
    unsure = by_rollout(methods.pacs(estimator="naive", weights="equal"), batch_of([1, 0]))
    assert float(unsure.abs().min()) > 0.1


def test_pacs_groups_of_one_class_have_no_gradient_where_scores_are_equal() -> None:
    assert_close(by_rollout(methods.pacs(), batch_of([1, 1, 1])), torch.zeros(3, dtype=torch.float64))


def test_pacs_standardised_scores_pass_a_gradient_through_mean_and_std() -> None:
    batch = batch_of([1, 0, 0], torch.tensor([0.3, -0.1, 0.2]))
    slope = by_rollout(methods.pacs(estimator="grpo"), batch)
    assert float(slope.sum()) == pytest.approx(0, abs=1e-9)  # shifting all scores changes nothing
    scores = torch.tensor([0.3, -0.1, 0.2], dtype=torch.float64)
    assert float((slope * scores).sum()) == pytest.approx(0, abs=1e-4)  # nor does stretching them, up to epsilon


def test_pacs_refuses_another_estimator() -> None:
    with pytest.raises(PodiumError, match="estimator"):
        methods.pacs(estimator="ppo")


# -- drpo --------------------------------------------------------------------------------------------------------------


def test_drpo_worked_example() -> None:
    mask = (torch.arange(4) < torch.tensor([2, 4, 4, 3])[:, None]).double()
    logp = torch.tensor([-0.5, -0.4, -1.0, -0.8], dtype=torch.float64)[:, None].expand(4, 4)
    reward = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    columns = {"token.now.logp": logp, "token.old.logp": logp, "rollout.reward": reward}
    batch = Batch.from_padded(mask, [0] * 4, columns)
    found = outcome(methods.drpo(length_temperature=0.5, max_length=4), batch)
    assert found.step.loss == pytest.approx(10.473106)
    first = [0, 2, 6, 10]
    assert found.grad_logp[first].tolist() == pytest.approx([-0.3655, -0.0672, 0.1238, 0.1683], abs=1e-4)


def test_drpo_raises_every_right_answer_and_short_ones_most() -> None:
    found = by_rollout(methods.drpo(max_length=4), batch_of([1, 1, 0, 0], lengths=[1, 4, 2, 3]))
    assert found[0] < found[1] < 0
    assert float(found[:2].sum()) == pytest.approx(-1)
    assert float(found[2:].sum()) == pytest.approx(1)


def test_drpo_with_a_hot_length_weighs_right_answers_alike() -> None:
    found = by_rollout(methods.drpo(max_length=4, length_temperature=1e9), batch_of([1, 1, 0], lengths=[1, 4, 2]))
    assert float(found[0]) == pytest.approx(float(found[1]))


def test_drpo_shows_a_constant_or_the_value_with_the_same_gradient() -> None:
    batch = batch_of([1, 0, 0], torch.tensor([0.1, -0.2, 0.05]))
    constant, value = (outcome(methods.drpo(shown=s, max_length=8192), batch) for s in ("constant", "value"))
    assert constant.step.loss != pytest.approx(value.step.loss)
    assert_close(constant.grad_logp, value.grad_logp)


def test_drpo_constraint_has_the_gradient_of_half_a_squared_hinge() -> None:
    batch = batch_of([1, 1], torch.tensor([-0.3, -0.1]))  # one class: only the constraint is left
    slope = outcome(methods.drpo(delta=0.05, beta=7.0, max_length=8192), batch).grad_logp
    now = batch["token.now.logp"].clone().requires_grad_()
    distance = (batch["token.old.logp"] - now).mean()
    (3.5 * (distance - 0.05).clamp(min=0).square()).backward()  # type: ignore[no-untyped-call]
    assert_close(slope, now.grad)


# -- reg-grpo ----------------------------------------------------------------------------------------------------------


def test_reg_grpo_worked_example() -> None:
    method = methods.reg_grpo(kl=0)
    batch = batch_of([1, 0, 0, 1], torch.tensor([0.1, -0.2, 0.0, 0.1]), [1] * 4)
    assert outcome(method, batch).step.loss == pytest.approx(0.275013, abs=1e-6)


def test_reg_grpo_is_satisfied_by_any_increasing_affine_function_of_the_rewards() -> None:
    rewards = [1.0, 0.0, 0.5, 0.2]
    scores = 3.0 * torch.tensor(rewards) - 1.0
    assert outcome(methods.reg_grpo(kl=0), batch_of(rewards, scores, [1] * 4)).step.loss == pytest.approx(0, abs=1e-6)


def test_reg_grpo_ignores_a_constant_added_to_all_scores_of_a_group() -> None:
    scores = torch.tensor([0.3, -0.2, 0.0, 0.1])
    plain, shifted = (outcome(methods.reg_grpo(kl=0), batch_of([1, 0, 0, 1], s)) for s in (scores, scores + 5))
    assert plain.step.loss == pytest.approx(shifted.step.loss)


def test_reg_grpo_has_a_gradient_however_large_the_ratio_is() -> None:
    found = by_rollout(methods.reg_grpo(kl=0), batch_of([1, 0, 0, 1], torch.tensor([9.0, -4.0, 0.0, 1.0])))
    assert float(found.abs().min()) > 0


def test_reg_grpo_leaves_out_groups_of_equal_rewards() -> None:
    assert (
        float(by_rollout(methods.reg_grpo(kl=0), batch_of([1, 1, 1], torch.tensor([0.3, 0.0, 1.0]))).abs().max()) == 0
    )


SHOWN = [("real", "loss.GroupSoftmax"), ("pacs", "predicted"), ("drpo", "margin"), ("reg-grpo", "predicted")]


@pytest.mark.parametrize(("slug", "shown"), SHOWN)
def test_they_train(slug: str, shown: str, tmp_path: Path) -> None:
    last = short_run(slug, tmp_path / "run", level=3).metrics[-1]
    assert last["grad_norm.policy"] > 0
    assert shown in last


@pytest.mark.parametrize("slug", ["real", "pacs", "drpo", "reg-grpo"])
def test_they_train_without_a_number_that_is_not_one_where_all_answers_are_wrong(slug: str, tmp_path: Path) -> None:
    result = short_run(slug, tmp_path / "run", level=5, max_tokens=1, iterations=1)
    assert result.metrics[-1]["pass@1"] == 0  # and the run has not stopped at a norm that is not finite


def test_groups_of_one_are_warned_of_before_anything_is_sampled() -> None:
    for method in (methods.real(n=1), methods.drpo(n=1, max_length=8192), methods.reg_grpo(n=1)):
        assert any("groups of one" in finding.message for finding in method.check())

"""PRL and ImplicitPRM: rewards of steps that nobody labelled."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.parts.advantage import SuffixSums, TwoSources
from podium.parts.metric.process import BestOfN, PairwiseAccuracy
from podium.parts.objective import RolloutLogistic
from podium.parts.reward import LogRatio
from tests.conformance.helpers import credited
from tests.methods.support import short_run


def tensor(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


# -- prl ---------------------------------------------------------------------------------------------------------------


def example(ref: Tensor | None = None) -> Batch:
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    old = torch.full((2, 4), -1.0, dtype=torch.float64)
    given = tensor([-1.2, -1.3, -1.1, -1.4], [-0.8, -1.0, -1.1, 0.0]) if ref is None else ref
    columns = {"token.old.logp": old, "token.ref.logp": given, "rollout.reward": tensor([1.0, 0.0])[0]}
    return Batch.from_padded(mask, [0, 0], columns)


def test_prl_worked_example() -> None:
    batch = credited(methods.prl(eta=2.0, step=2), example())
    expected = [0.3071058] * 2 + [0.5071058] * 2 + [-0.7571058] * 3
    assert batch["token.advantage"].tolist() == pytest.approx(expected, abs=1e-6)


def test_prl_at_its_reference_is_grpo() -> None:
    batch = example(torch.full((2, 4), -1.0, dtype=torch.float64))
    prl, grpo = methods.prl(eta=2.0, step=2), methods.grpo()
    assert_close(credited(prl, batch)["token.advantage"], credited(grpo, batch)["token.advantage"])


def test_prl_with_a_large_eta_is_grpo() -> None:
    prl, grpo = methods.prl(eta=1e12, step=2), methods.grpo()
    assert_close(credited(prl, example())["token.advantage"], credited(grpo, example())["token.advantage"])


def test_prl_steps_add_up_to_the_penalty_of_the_whole_answer() -> None:
    batch = credited(methods.prl(eta=1.0, step=1), example())
    outcome, whole = (
        credited(methods.grpo(), batch)["rollout.advantage"],
        batch["token.old.logp"] - batch["token.ref.logp"],
    )
    first = batch.first("token", "rollout")
    total = batch.reduce(whole, "token", "rollout", "sum")
    assert_close(batch["token.advantage"][first], outcome - total)


def test_prl_blames_the_beginning_for_a_late_departure_only() -> None:
    early, late = tensor([-1.9, -1.0, -1.0, -1.0], [-1.0] * 4), tensor([-1.0, -1.0, -1.0, -1.9], [-1.0] * 4)
    at_second = [credited(methods.prl(eta=1.0, step=1), example(ref))["token.advantage"][1] for ref in (early, late)]
    assert at_second[1] < at_second[0]


def test_prl_steps_may_end_where_a_column_says() -> None:
    ends = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0]]).bool()
    batch = example().with_columns(LogRatio(coefficient=-0.5)(example()))
    batch = batch.with_columns({"token.step_end": ends[torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]).bool()]})
    a = SuffixSums(step="token.step_end")(batch)["token.advantage"]
    assert a[0] == a[1] == a[2] != a[3]
    assert a[4] != a[5] == a[6]


def test_prl_fills_a_step_worth_nothing_from_the_next_one_as_released() -> None:
    columns = {"token.reward.process": tensor([0.0, -1.0]), "rollout.reward": tensor([1.0])[0]}
    batch = Batch.from_padded(torch.ones(1, 2), [0], columns)
    raw = SuffixSums(step=1, centre="none", scale="none")
    nothing = batch.with_columns({"token.reward.process": torch.tensor([-2.0, 1.0], dtype=torch.float64)})
    assert raw(nothing)["token.advantage"].tolist() == [2.0, 2.0]
    assert raw.replace(skip_zero=False)(nothing)["token.advantage"].tolist() == [0.0, 2.0]


@pytest.mark.parametrize("settings", [{}, {"step": "\n"}, {"step": 4}])
def test_prl_trains(settings: dict[str, int | str], tmp_path: Path) -> None:
    last = short_run(methods.prl(**settings), tmp_path / "run", level=3).metrics[-1]  # type: ignore[arg-type]
    assert last["grad_norm.policy"] > 0


# -- implicit-prm ------------------------------------------------------------------------------------------------------


def scored(rewards: list[float], q: Tensor, mask: Tensor, group: list[int] | None = None) -> Batch:
    """Rollouts on which the reward model's log-ratio is q."""
    columns = {
        "token.reward_model.logp": q - 1.0,
        "token.ref.logp": torch.full_like(q, -1.0),
        "rollout.reward": torch.tensor(rewards, dtype=torch.float64),
    }
    return Batch.from_padded(mask, group or [0] * len(rewards), columns)


EXAMPLE = scored([1.0, 0.0], tensor([0.2, -0.1, 0.4], [-0.2, 0.0, 0.0]), torch.tensor([[1, 1, 1], [1, 1, 0]]))


def test_implicit_prm_worked_example() -> None:
    batch = credited(methods.implicit_prm(bounded=False), EXAMPLE)
    assert batch["token.return"].tolist() == pytest.approx([5, 3.333333, 4.666667, -3.666667, -1.333333], abs=1e-5)
    expected = [0.8756091, 0.4463889, 0.7897650, -1.3563356, -0.7554274]
    assert batch["token.advantage"].tolist() == pytest.approx(expected, abs=1e-6)
    assert PairwiseAccuracy()(batch)["group.pairwise_accuracy"].tolist() == [1.0]


def test_of_answers_that_score_alike_the_later_one_ranks_higher() -> None:
    flat, mask = torch.zeros(3, 2, dtype=torch.float64), torch.ones(3, 2)
    found = [PairwiseAccuracy()(scored(r, flat, mask)) for r in ([0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])]
    assert [float(x["group.pairwise_accuracy"][0]) for x in found] == [1.0, 0.0, 0.5]


def test_rewards_of_steps_add_up_to_the_reward_of_the_answer_however_it_is_cut() -> None:
    totals = []
    for cut in ([0, 0, 0, 1, 1], [0, 0, 1, 2, 3], [0, 1, 2, 3, 4]):
        batch = EXAMPLE.with_level("segment", torch.tensor(cut)).with_step("segment")
        totals.append(batch.reduce(BestOfN().steps(batch, 0.05), "step", "rollout", "sum"))
    for total in totals:
        assert total.tolist() == pytest.approx([0.025, -0.01])


def test_without_process_rewards_whitened_leave_one_out_outcomes_are_left() -> None:
    batch = credited(methods.implicit_prm(coefficient=0.0).with_(shape=()), EXAMPLE)
    assert batch["token.advantage"].tolist() == pytest.approx([1.0] * 3 + [-1.0] * 2)


def test_equal_outcomes_leave_the_process_rewards_a_signal() -> None:
    batch = scored([1.0, 1.0], tensor([0.2, -0.1], [-0.2, 0.3]), torch.ones(2, 2))
    assert float(credited(methods.implicit_prm(bounded=False), batch)["token.advantage"].abs().min()) > 0


def test_a_group_of_one_has_no_baseline_and_no_division_by_zero() -> None:
    columns = {"token.reward.process": tensor([0.5, 0.25]), "rollout.reward": tensor([1.0])[0]}
    batch = Batch.from_padded(torch.ones(1, 2), [0], columns)
    assert TwoSources()(batch)["token.advantage"].tolist() == pytest.approx([1.75, 1.25])


def test_trained_on_outcomes_alone_the_reward_model_finds_the_step_that_decides() -> None:
    """Answers of two tokens, of which the first decides the outcome and the second says nothing."""
    ids = torch.cartesian_prod(torch.arange(2), torch.arange(2)).repeat(16, 1)
    table = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)  # by place and token
    term = RolloutLogistic(1 / 0.5, "sum", "ref", groups="all")
    for _ in range(60):
        q = table.log_softmax(-1)[torch.arange(2), ids]
        columns = {
            "token.now.logp": q,
            "token.ref.logp": torch.full((64, 2), -0.6931, dtype=torch.float64),
            "rollout.reward": ids[:, 0].double(),
        }
        (slope,) = torch.autograd.grad(term(Batch.from_padded(torch.ones(64, 2), list(range(64)), columns)), table)
        table = (table - 2.0 * slope).detach().requires_grad_()
    first, second = table.detach().log_softmax(-1).diff(dim=-1).flatten()
    assert float(first) > 1.0
    assert abs(float(second)) < 0.2


def test_implicit_prm_trains_policy_and_reward_model(tmp_path: Path) -> None:
    last = short_run("implicit-prm", tmp_path / "run", level=3).metrics[-1]
    assert last["grad_norm.policy"] > 0
    assert last["grad_norm.reward_model"] > 0
    assert 0 <= last["pairwise_accuracy"] <= 1

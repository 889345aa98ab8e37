"""RLFR: rewards from hidden states through a flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium import policy as policies
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.signal import Signal
from podium.parts.reward import FlowReward
from podium.policy.roles.flow import Flow, FlowNetwork, deviation, interpolated
from tests.methods.support import short_run

SCORES = torch.tensor([[1.0, 3.0, 2.0, 5.0], [2.0, 4.0, 1.0, 0.0]], dtype=torch.float64)
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])


def credited(scores: torch.Tensor = SCORES, **settings: Any) -> Batch:
    method = methods.rlfr(pretrain=0, **{"coefficient": 0.1, "threshold": 0.4, "top_k": 2, **settings})
    columns = {
        method.reward[0].needs[0].column: scores,
        "rollout.reward": torch.tensor([1.0, 0.0], dtype=torch.float64),
    }
    batch = Batch.from_padded(MASK, [0, 0], columns)
    batch = batch.with_columns(method.reward[0](batch))
    return batch.with_columns(method.advantage(batch))


def test_worked_example() -> None:
    batch = credited()
    assert_close(
        batch.to_padded(batch["token.flow.normalized"]),
        torch.tensor([[0, 0.5, 0.25, 1], [1 / 3, 1, 0, 0]], dtype=torch.float64),
    )
    expected = [[0.5571068, 0.5571068, 0.6071068, 0.6071068], [-0.8071068, -0.8071068, -0.7071068, 0]]
    found = batch.to_padded(batch["token.advantage"])
    assert_close(found, torch.tensor(expected, dtype=torch.float64), atol=1e-6, rtol=0)


def test_without_a_coefficient_it_is_grpo() -> None:
    batch = credited(coefficient=0.0)
    grpo = methods.grpo(advantage=methods.grpo().advantage.replace(epsilon=1e-9)).advantage(batch)
    assert_close(batch.without(["token.advantage"]).with_columns(grpo)["token.advantage"], batch["token.advantage"])


def test_rewards_are_never_positive_and_change_credit_only_up_to_the_kept_tokens() -> None:
    batch, plain = credited(), credited(coefficient=0.0)
    assert (batch["token.reward.flow"] <= 0).all()
    changed = batch.to_padded(batch["token.advantage"] - plain["token.advantage"])[1]
    assert changed[:2].abs().min() > 0  # the second token is kept
    assert changed[2] == 0


def test_equal_scores_say_nothing() -> None:
    assert not credited(torch.full_like(SCORES, 3.0))["token.reward.flow"].any()


def test_the_released_minimum_skips_the_smallest_score() -> None:
    batch = credited()
    n = FlowReward(minimum="second").normalized(batch)
    assert n[:4].tolist() == pytest.approx([-1 / 3, 1 / 3, 0, 1])


def test_without_a_threshold_or_a_number_all_scores_count_even_those_below_the_released_minimum() -> None:
    scores = torch.tensor([[0.0, 10.0, 11.0, 11.5], [2.0, 4.0, 1.0, 0.0]], dtype=torch.float64)
    batch = credited(scores)
    for off in (0.0, -1.0):
        part = FlowReward(threshold=off, top_k=0, minimum="second")
        n = part.normalized(batch)
        assert float(n[0]) < -1
        assert_close(part.kept(batch, n), n)


def test_latents_of_another_cluster_score_higher_than_those_the_flow_was_fitted_to() -> None:
    torch.manual_seed(0)
    width, network = 8, FlowNetwork(8, blocks=2)
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    centre = torch.ones(width)

    def error(x1: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        x0 = torch.randn_like(x1)
        depth = torch.full((len(x1), 1), 0.5)
        return deviation(network(interpolated(x1, x0, tau), tau, torch.zeros_like(x1), depth), x1, x0)

    for _ in range(300):
        loss = error(centre + 0.1 * torch.randn(64, width), torch.randn(64, 1).sigmoid()).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        tau = torch.full((256, 1), 0.8)
        own, other = (error(c + 0.1 * torch.randn(256, width), tau).mean() for c in (centre, -2 * centre))
    assert other > 2 * own


@pytest.fixture(scope="module")
def flow() -> Flow:
    return Flow(policies.load("podium/tiny"))


def batch_of(flow: Flow, *texts: str) -> Batch:
    prompt = flow.encode([{"role": "user", "content": "sum: 1+2"}])
    rows = [Rollout(i, [Turn(flow.written(text), prompt)], columns={"index": 0}) for i, text in enumerate(texts)]
    return Batch.from_rollouts(rows)


@pytest.mark.parametrize("neighbour", ["before", "after"])
def test_scores_do_not_depend_on_what_else_is_in_the_batch(flow: Flow, neighbour: str) -> None:
    signal = Signal("flow_score", of="flow", neighbour=neighbour)
    batch = batch_of(flow, "1+2=3\nanswer: 3", "answer: 3")
    whole = flow.signals(batch, [signal])[signal]
    parts = [flow.signals(batch.take("rollout", torch.tensor([i])), [signal])[signal] for i in range(2)]
    assert_close(whole, torch.cat(parts), atol=1e-4, rtol=1e-4)


def test_the_gradient_reaches_the_flow_and_never_the_policy(flow: Flow) -> None:
    signal = Signal("flow_error", grad=True)
    error = flow.signals(batch_of(flow, "answer: 3"), [signal], grad=True)[signal]
    error.mean().backward()  # type: ignore[no-untyped-call]
    assert any(p.grad is not None and bool(p.grad.any()) for p in flow.parameters())
    assert all(p.grad is None for p in flow.model.parameters())


def test_a_saved_flow_comes_back(flow: Flow, tmp_path: Path) -> None:
    flow.save(tmp_path)
    other = Flow(flow)
    with torch.no_grad():
        for p in other.parameters():
            p.add_(1.0)
    other.load(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(flow.parameters(), other.parameters(), strict=True))


def test_it_trains_both_learners_and_first_the_flow_alone_if_asked(tmp_path: Path) -> None:
    lines = short_run(methods.rlfr(n=4, pretrain=2), tmp_path / "run").metrics[1:]
    assert ["grad_norm.policy" in line for line in lines] == [False, False, True]
    assert all(line["grad_norm.flow"] > 0 for line in lines)
    assert lines[-1]["flow.error"] > 0

"""The sentinel: sampler and trainer agree on what was sampled, or the run stops."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

import podium
from podium.core.errors import PodiumError
from podium.parts.shape import SamplerCorrection
from podium.policy import Policy
from podium.protocols.grammar import Pattern
from podium.protocols.sampling import Warmth
from podium.sampler.local import LocalSampler
from podium.strategies import Draw, Sample
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.training.run import Run
from tests.sessions.test_train import small


def stale(run: Run) -> None:
    """Let the sampler go on with weights that the trainer has left."""
    run.driver.samplers["policy"] = LocalSampler(run.policy.frozen_copy())
    with torch.no_grad():
        for parameter in run.policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    run.policy.bump()


def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rollouts in each of the trainer's passes."""
    found: list[int] = []
    signals = Policy.signals

    def counted(self: Policy, batch: Any, *args: Any, **settings: Any) -> Any:
        found.append(len(batch))
        return signals(self, batch, *args, **settings)

    monkeypatch.setattr(Policy, "signals", counted)
    return found


def test_it_looks_at_the_numbers_of_the_first_update_and_costs_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    method = podium.methods.get("grpo", n=4, kl=0.0, mini_batches=1)
    run, found = build_run(small(method, world="sums", level=3)), passes(monkeypatch)
    _, line = iterate(run)
    assert len(found) == 1
    assert 0 < line["sampler_gap"] < 1e-5


def test_weights_that_did_not_reach_the_sampler_stop_the_run_before_the_update() -> None:
    run = build_run(small("grpo", world="sums", level=3))
    iterate(run)
    stale(run)
    before = [p.detach().clone() for p in run.policy.parameters()]
    with pytest.raises(PodiumError, match=r"Sampler and trainer disagree.*at iteration 1"):
        iterate(run)
    assert all(torch.equal(a, b) for a, b in zip(before, run.policy.parameters(), strict=True))


def test_later_updates_of_a_batch_are_not_held_against_the_sampler() -> None:
    method = podium.methods.get("grpo", n=4, kl=0.0, mini_batches=1).set("updates.epochs", 4)
    _, line = iterate(build_run(small(method, world="sums", level=3, lr=1e-2)))
    assert line["updates"] == 4
    assert line["sampler_gap"] < 1e-5


def test_where_the_objective_reads_no_log_probabilities_a_few_rollouts_are_scored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = podium.methods.get("one-shot-rlvr@entropy-only")
    run, found = build_run(small(method)), passes(monkeypatch)
    _, line = iterate(run)
    assert found[0] == 4
    assert line["sampler_gap"] < 1e-5
    stale(run)
    with pytest.raises(PodiumError, match="Sampler and trainer disagree"):
        iterate(run)


def test_the_garbage_collector_is_spared_what_stays_until_the_run_is_closed() -> None:
    run = build_run(small("grpo"))
    assert gc.get_freeze_count() == 0
    iterate(run)
    assert gc.get_freeze_count() > 10_000
    run.close()
    assert gc.get_freeze_count() == 0


WARM = Warmth(0.3, -1.0, 0.5, 0.5)


@pytest.mark.parametrize(
    "draw",
    [
        *(Draw(top_p=0.7), Draw(top_k=2), Draw(min_p=0.2), Draw(warmth=WARM), Draw(warmth=WARM, top_p=0.8)),
        Draw(grammar=Pattern("answer: [0-9]+"), temperature=1.5),
    ],
)
def test_it_also_watches_draws_from_a_part_of_the_distribution(draw: Draw) -> None:
    method = podium.methods.get("grpo", n=4, kl=0.0).with_(rollout=Sample(n=4, draw=draw))
    run = build_run(small(method, world="sums", level=3))
    _, line = iterate(run)
    assert 0 <= line["sampler_gap"] < 1e-5
    stale(run)
    with pytest.raises(PodiumError, match="Sampler and trainer disagree"):
        iterate(run)


@pytest.mark.parametrize("draw", [Draw(top_p=0.8), Draw(top_k=20), Draw(top_k=20, top_p=0.8, temperature=1.5)])
def test_importance_weights_of_truncated_draws_are_one(draw: Draw) -> None:
    method = podium.methods.get("grpo", n=4, kl=0.0).with_(rollout=Sample(n=4, draw=draw), shape=(SamplerCorrection(),))
    _, line = iterate(build_run(small(method, world="sums", level=3)))
    assert abs(line["weight.importance"] - 1) < 1e-5

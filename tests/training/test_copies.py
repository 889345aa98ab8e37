"""What is computed with in a lower precision follows the weights that are trained, whatever optimiser moves them."""

from __future__ import annotations

import pytest
import torch

from podium import methods
from podium.core.errors import PodiumError
from podium.policy import Policy
from podium.training.config import Optimizer
from podium.training.learner import Learner
from podium.training.sentinel import Sentinel
from tests.policy import tiny


def learner(monkeypatch: pytest.MonkeyPatch, fused: bool) -> Learner:
    """A learner that computes in bfloat16, as on a GPU."""

    def widen(self: Policy, lower: torch.dtype | None = None) -> None:
        assert self.decoder is not None
        self.lower = self.decoder.lower = torch.bfloat16
        self.bump()

    monkeypatch.setattr(Policy, "widen", widen)
    made = Learner(tiny.policy("llama"), Optimizer(lr=0.01))
    made.optimizer = torch.optim.AdamW(made.policy.parameters(), lr=0.01, fused=fused)
    return made


@pytest.mark.parametrize("fused", [False, True])
def test_an_update_is_seen_by_the_next_pass(monkeypatch: pytest.MonkeyPatch, fused: bool) -> None:
    made = learner(monkeypatch, fused)
    policy, decoder = made.policy, made.policy.decoder
    assert decoder is not None
    context, answer = (5, 6, 7), (8, 9, 10)
    before = policy.score([context], [answer])[0]
    assert decoder.weights is not None
    held = decoder.weights.layers[0].down  # as a sampler's captured graph holds it
    old = held.clone()
    for _ in range(2):
        for parameter in policy.parameters():
            parameter.grad = torch.ones_like(parameter)
        made.step(1)
        after = policy.score([context], [answer])[0]
        assert not torch.equal(after, before)
        assert torch.equal(held, decoder.layers[0].down.weight.detach().bfloat16())
        assert not torch.equal(held, old)
        before, old = after, held.clone()


def test_copies_that_lag_behind_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = learner(monkeypatch, fused=True)
    policy, sentinel = made.policy, Sentinel(methods.get("grpo"), 7, 1e-3)
    sentinel.check_weights(policy)
    for parameter in policy.parameters():
        parameter.grad = torch.ones_like(parameter)
    made.optimizer.step()  # and nobody says so
    with pytest.raises(PodiumError, match=r"copies of weights that have been trained since \(iteration 7\)"):
        sentinel.check_weights(policy)
    policy.bump()
    sentinel.check_weights(policy)

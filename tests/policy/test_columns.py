"""Signals whose settings are columns: what a policy says of tokens that somebody else has chosen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import policy as policies
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.signal import Signal

TOP = Signal("top", of="ref", k=5)
OF = Signal("logp_of", of="now", grad=True, tokens=TOP.column)


@pytest.fixture(scope="module")
def tiny() -> Any:
    return policies.load("podium/tiny")


def batch_of(tiny: Any, *texts: str) -> Batch:
    prompt = tiny.encode([{"role": "user", "content": "sum: 1+2"}])
    return Batch.from_rollouts([Rollout(i, [Turn(tiny.written(t), prompt)]) for i, t in enumerate(texts)])


def test_a_policy_agrees_with_its_own_most_likely_tokens(tiny: Any) -> None:
    batch = batch_of(tiny, "1+2=3\nanswer: 3", "answer: 4")
    batch = batch.with_columns(tiny.signals(batch, [TOP]))
    found = tiny.signals(batch, [OF])[OF]
    assert found.shape == (batch.size("token"), 5)
    assert_close(found, batch[TOP][..., 1])
    assert (found.diff(dim=-1) <= 0).all()


def test_rollouts_that_share_a_text_may_ask_for_different_tokens(tiny: Any) -> None:
    batch = batch_of(tiny, "answer: 3", "answer: 3")
    n = batch.size("token") // 2
    asked = torch.zeros(2 * n, 5, 2)
    asked[:n, :, 0], asked[n:, :, 0] = torch.arange(5.0), torch.arange(20.0, 25.0)
    found = tiny.signals(batch.with_columns({TOP: asked}), [OF])[OF]
    for half, ids in ((slice(0, n), 3), (slice(n, 2 * n), 23)):
        plain = batch.with_columns({TOP: asked[:, 3:4].clone()})
        one = tiny.signals(plain, [OF])[OF][half, 0]
        assert_close(found[half, 3], one)
        assert (asked[half, 3, 0] == ids).all()
    assert not torch.equal(found[:n], found[n:])


def test_the_gradient_flows_through_all_of_them(tiny: Any) -> None:
    model = tiny.copy()
    batch = batch_of(model, "answer: 3")
    batch = batch.with_columns(model.signals(batch, [TOP]))
    found = model.signals(batch, [OF], grad=True)[OF]
    (slope,) = torch.autograd.grad(found.sum(), model.model.lm_head.weight)
    assert slope.abs().sum() > 0


def test_the_plain_way_through_a_model_says_the_same(tiny: Any) -> None:
    batch = batch_of(tiny, "1+2=3\nanswer: 3", "answer: 4", "answer: 4")
    batch = batch.with_columns(tiny.signals(batch, [TOP]))
    twin = tiny.copy()
    twin.decoder = None
    assert_close(twin.signals(batch, [OF])[OF], tiny.signals(batch, [OF])[OF], atol=1e-4, rtol=1e-4)
    sequence = [tuple(range(10, 20))]
    ours, theirs = (p.states(sequence, layers=(1, 3))[0] for p in (tiny, twin))
    assert ours.shape == (10, 2, tiny.config.hidden_size)
    assert_close(ours, theirs, atol=1e-4, rtol=1e-4)

"""Roles: references, moving averages, critics, adapters; and weights on disk."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from podium.core import Batch, PodiumError, Signal
from podium.policy import Policy, critic, load
from tests.policy import tiny
from tests.policy.head.test_functionals import LOGP, rollouts

VALUE = Signal("value", of="now", grad=True)


def trained(policy: Policy, steps: int = 2) -> None:
    """A few real updates of whatever is trained."""
    optimizer = torch.optim.AdamW([p for p in policy.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(steps):
        policy.signals(Batch.from_rollouts(rollouts()), [LOGP], grad=True)[LOGP].sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        policy.bump()


def logp(policy: Policy) -> torch.Tensor:
    return policy.signals(Batch.from_rollouts(rollouts()), [LOGP])[LOGP]


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
def test_a_frozen_copy_stays_when_the_policy_moves(family: str) -> None:
    policy = tiny.policy(family)
    reference, before = policy.frozen_copy(), logp(policy)
    trained(policy)
    assert torch.equal(logp(reference), before)
    assert float((logp(policy) - before).abs().max()) > 1e-3
    assert not any(p.requires_grad for p in reference.parameters())


def test_a_moving_average_lies_between() -> None:
    policy = tiny.policy()
    slow = policy.frozen_copy()
    start = {n: p.clone() for n, p in slow.named_parameters()}
    trained(policy)
    slow.average(policy, decay=0.75)
    now = dict(policy.named_parameters())
    for name, parameter in slow.named_parameters():
        torch.testing.assert_close(parameter, 0.75 * start[name] + 0.25 * now[name])
    assert slow.version == 1


def test_a_critic_starts_at_zero_and_learns() -> None:
    batch = Batch.from_rollouts(rollouts())
    judge = critic(tiny.policy())
    value = judge.signals(batch, [VALUE], grad=True)[VALUE]
    assert torch.equal(value.detach(), torch.zeros(batch.size("token")))
    optimizer = torch.optim.AdamW(judge.parameters(), lr=1e-2)
    target = torch.linspace(-1, 1, batch.size("token"))
    first = float((value.detach() - target).square().mean())
    for _ in range(30):
        (judge.signals(batch, [VALUE], grad=True)[VALUE] - target).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert float((judge.signals(batch, [VALUE])[VALUE] - target).square().mean()) < 0.3 * first


def test_a_value_is_that_of_the_state_before_the_token() -> None:
    judge = critic(tiny.policy())
    torch.nn.init.normal_(judge.value_head.weight)
    (value,) = judge.score([(5, 6, 7)], [(8, 9)], name="value")
    (states,) = judge.states([(5, 6, 7, 8)])
    torch.testing.assert_close(value, judge.value_head(states[2:]).squeeze(-1).detach(), atol=1e-5, rtol=1e-5)


def test_a_critic_needs_no_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = critic(tiny.policy())
    monkeypatch.setattr(judge.decoder, "logits", lambda hidden: pytest.fail("the head was used"))
    judge.signals(Batch.from_rollouts(rollouts()), [VALUE], grad=True)


@pytest.mark.parametrize("family", [*tiny.FAMILIES, "gpt2"])
def test_saved_weights_come_back_to_the_bit(family: str, tmp_path: Path) -> None:
    policy = tiny.policy(family)
    trained(policy)
    policy.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert torch.equal(logp(again), logp(policy))
    assert again.end_ids == policy.end_ids
    other = tiny.policy(family, seed=5)
    other.load(tmp_path / "model")
    assert all(torch.equal(a, b) for a, b in zip(other.parameters(), policy.parameters(), strict=True))
    assert other.version == 1


def test_a_critic_comes_back_with_its_head(tmp_path: Path) -> None:
    judge = critic(tiny.policy())
    torch.nn.init.normal_(judge.value_head.weight)
    judge.save(tmp_path)
    other = critic(tiny.policy(seed=3))
    other.load(tmp_path)
    batch = Batch.from_rollouts(rollouts())
    assert torch.equal(judge.signals(batch, [VALUE])[VALUE], other.signals(batch, [VALUE])[VALUE])
    assert torch.equal(judge.frozen_copy().signals(batch, [VALUE])[VALUE], judge.signals(batch, [VALUE])[VALUE])


def test_weights_that_do_not_fit_are_refused_before_anything_changes(tmp_path: Path) -> None:
    tiny.policy(intermediate_size=96).save(tmp_path / "narrow")
    policy = tiny.policy()
    before = [p.clone() for p in policy.parameters()]
    with pytest.raises(PodiumError, match="does not fit the model"):
        policy.load(tmp_path / "narrow")
    with pytest.raises(PodiumError, match=r"no model\.safetensors"):
        policy.load(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))


# -- adapters ------------------------------------------------------------------------------------------------------


def test_without_peft_lora_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def missing(name: str, *rest: Any) -> Any:
        if name == "peft":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr("podium.policy.model.lora.import_module", missing)
    with pytest.raises(PodiumError, match=r"pip install 'podium-rl\[lora\]'"):
        load(tiny.directory(tmp_path), lora={"r": 4})


def adapted(path: Path) -> Policy:
    pytest.importorskip("peft")
    policy = load(path, lora={"r": 4})
    with torch.no_grad():
        for name, p in policy.named_parameters():
            if "lora_B" in name:
                p.normal_(0, 0.1)
    return policy


def test_adapters_train_alone_and_the_decoder_sees_them(tmp_path: Path) -> None:
    policy = adapted(tiny.directory(tmp_path))
    assert policy.decoder is not None
    names = [n for n, p in policy.named_parameters() if p.requires_grad]
    assert names
    assert all("lora_" in n for n in names)
    frozen = {n: p.clone() for n, p in policy.named_parameters() if not p.requires_grad}
    trained(policy)
    assert all(torch.equal(p, frozen[n]) for n, p in policy.named_parameters() if n in frozen)
    sequence = (5, 6, 7, 8)
    own = policy.model(torch.tensor([sequence])).logits[0, :-1].log_softmax(-1)
    expected = own.gather(1, torch.tensor(sequence[1:])[:, None])[:, 0]
    torch.testing.assert_close(policy.score([(5,)], [sequence[1:]])[0], expected.detach(), atol=1e-5, rtol=1e-5)


def test_a_model_with_adapters_is_saved_merged_and_comes_back_exactly(tmp_path: Path) -> None:
    policy = adapted(tiny.directory(tmp_path / "base"))
    policy.save(tmp_path / "out")
    assert not any("lora" in name for name in load_file(tmp_path / "out" / "model.safetensors"))
    torch.testing.assert_close(logp(load(tmp_path / "out")), logp(policy), atol=1e-5, rtol=1e-5)
    other = load(tmp_path / "base", lora={"r": 4})
    other.load(tmp_path / "out")
    assert torch.equal(logp(other), logp(policy))


def test_lora_refuses_dropout(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    with pytest.raises(PodiumError, match="lora_dropout must be 0"):
        load(tiny.directory(tmp_path), lora={"r": 4, "lora_dropout": 0.1})


def test_weights_that_are_trained_are_kept_in_float32_and_a_reference_is_not() -> None:
    policy = tiny.policy()
    policy.model.to(torch.bfloat16)
    policy.lower = None
    policy.widen()
    assert {p.dtype for p in policy.parameters()} == {torch.float32}
    policy.lower = torch.bfloat16  # as on a GPU
    assert {p.dtype for p in policy.frozen_copy().parameters()} == {torch.bfloat16}
    assert {p.dtype for p in policy.parameters()} == {torch.float32}

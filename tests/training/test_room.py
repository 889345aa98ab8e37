"""A GPU's memory: planned before the run, split when it runs out, and refused in words. No GPU is needed here."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import podium
from podium import PodiumError
from podium.policy import device
from podium.policy.decoder import Decoder
from podium.policy.policy import Policy
from podium.training import room, trainer
from podium.training.loop import iterate
from podium.training.run import Run
from podium.training.session import configure
from tests.policy import tiny

GIB = device.GIB


class Card:
    """What torch would say of a GPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: float, total: float = 80.0, capability: int = 9) -> None:
        answers: dict[str, Any] = {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "get_device_capability": lambda *_: (capability, 0),
            "get_device_name": lambda *_: "Old Card",
            "mem_get_info": lambda *_: (int(free * GIB), int(total * GIB)),
            "memory_reserved": lambda *_: 0,
            "memory_allocated": lambda *_: 0,
        }
        for name, answer in answers.items():
            monkeypatch.setattr(torch.cuda, name, answer)


def on_cuda(monkeypatch: pytest.MonkeyPatch) -> Policy:
    """A policy that believes it is on a GPU, in bfloat16."""
    policy = tiny.policy("llama")
    for owner in (Policy, Decoder):
        monkeypatch.setattr(owner, "device", property(lambda _: torch.device("cuda")))
    monkeypatch.setattr(Decoder, "dtype", property(lambda _: torch.bfloat16))
    return policy


def needed(policy: Policy, tokens: int) -> float:
    """GiB that must be free for so many tokens at a time."""
    assert policy.decoder is not None
    fixed = 12 * sum(p.numel() for p in policy.parameters()) + 6 * room.CHUNK + 8 * tiny.VOCABULARY * 64
    activations = room.token_bytes(policy.decoder, False) * tokens
    return (fixed + activations / (1 - room.SAMPLER)) / (1 - room.SPARE) / GIB


def test_on_a_cpu_there_is_nothing_to_plan() -> None:
    assert room.plan([tiny.policy()]) == room.Room(16384)
    assert room.plan([tiny.policy()], 100, checkpointing=True) == room.Room(100, True)


def test_with_much_memory_a_gpu_takes_as_many_tokens_as_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    Card(monkeypatch, free=79)
    found = room.plan([policy], longest=300)
    assert (found.micro_tokens, found.checkpointing, found.notes) == (room.MICRO_TOKENS["cuda"], False, ())
    assert found.sampler is not None
    assert found.sampler > 20 * GIB


def test_with_little_memory_fewer_tokens_go_at_a_time_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    Card(monkeypatch, free=needed(policy, 5000), total=4)
    found = room.plan([policy], longest=300)
    assert found.micro_tokens == pytest.approx(5000, abs=2)
    assert any("in use already" in note for note in found.notes)
    assert any("tokens go through the model at a time" in note for note in found.notes)


def test_activations_are_computed_again_where_a_rollout_does_not_fit_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    assert policy.decoder is not None
    plain, again = (room.token_bytes(policy.decoder, x) for x in (False, True))
    assert again < plain
    tokens = 100_000
    Card(monkeypatch, free=needed(policy, tokens * (plain + again) // (2 * plain)))
    found = room.plan([policy], tokens, longest=tokens)
    assert found.checkpointing
    assert any("computed again" in note for note in found.notes)


@pytest.mark.parametrize(("total", "advice"), [(0.9, "lora"), (80.0, "Wait until the GPU is free")])
def test_what_cannot_fit_is_refused_with_what_would_help(
    monkeypatch: pytest.MonkeyPatch, total: float, advice: str
) -> None:
    policy = on_cuda(monkeypatch)
    Card(monkeypatch, free=0.5, total=total)
    with pytest.raises(PodiumError, match=advice):
        room.plan([policy], longest=4096)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PodiumError, match="use cpu, cuda"):
        device.find("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(PodiumError, match="device='cpu'"):
        device.find("cuda")
    Card(monkeypatch, free=10)
    with pytest.raises(PodiumError, match="only cuda:0"):
        device.find("cuda:3")
    assert device.find("cuda:0").index == 0


def test_an_old_gpu_without_bfloat16_is_refused_with_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    Card(monkeypatch, free=10, capability=7)
    with pytest.raises(PodiumError, match="Old Card does not compute in bfloat16: use dtype='float32'"):
        device.find("cuda", torch.bfloat16)
    assert device.find("cuda", torch.float32).type == "cuda"


@pytest.mark.parametrize(
    ("free", "total", "advice"), [(30, 32, "dtype='bfloat16'"), (10, 16, "hold 6.0 of its 16.0 GiB"), (8, 9, "smaller")]
)
def test_a_model_whose_weights_do_not_fit_is_refused(
    monkeypatch: pytest.MonkeyPatch, free: float, total: float, advice: str
) -> None:
    Card(monkeypatch, free=free, total=total)
    with pytest.raises(PodiumError, match=advice):
        device.check_fit("a/model", 10_000_000_000, torch.float32, torch.device("cuda"))
    device.check_fit("a/model", 1_000_000, torch.float32, torch.device("cuda"))


def small() -> Run:
    method = podium.methods.get("grpo", n=8, kl=0.0)
    return Run.make(configure(method, world="sums", level=3, tasks=4, iterations=2))


def starve(monkeypatch: pytest.MonkeyPatch, rollouts: int) -> list[int]:
    """Let the backward pass run out of memory where a micro-batch has more rollouts; the sizes that were tried."""
    tried: list[int] = []
    real = trainer.backward

    def backward(terms: Any, update: Any, forward: Any, splits: Any, live: Any) -> Any:
        def measured(batch: Any, signals: Any) -> Any:
            tried.append(len(batch))
            if len(batch) > rollouts:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return forward(batch, signals)

        return real(terms, update, measured, splits, live)

    monkeypatch.setattr(trainer, "backward", backward)
    return tried


def test_an_update_that_does_not_fit_is_split_and_comes_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    free, narrow = small(), small()
    _, expected = iterate(free)
    with monkeypatch.context() as patch:
        tried = starve(patch, 5)
        _, found = iterate(narrow)
    assert max(tried) > 5
    assert tried[-1] <= 5
    assert narrow.trainer.micro_tokens < free.trainer.micro_tokens
    assert found["grad_norm.policy"] == pytest.approx(expected["grad_norm.policy"], rel=1e-4)
    for mine, theirs in zip(narrow.policy.parameters(), free.policy.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-4)


def test_when_not_even_one_rollout_fits_the_knobs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    run = small()
    starve(monkeypatch, 0)
    with pytest.raises(PodiumError, match="max_tokens"):
        iterate(run)
    assert run.policy.checkpointing  # that was tried first

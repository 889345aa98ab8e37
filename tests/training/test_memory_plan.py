"""A GPU's memory: planned before the run, split when it runs out, and refused in words. No GPU is needed here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import podium
from podium.core.errors import PodiumError
from podium.policy.forward.decoder import Decoder
from podium.policy.model import device
from podium.policy.policy import Policy
from podium.sessions.train import configure
from podium.training import memory_plan as room
from podium.training import trainer
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.training.run import Run
from tests.policy import tiny

GIB = device.GIB


class Card:
    """What torch would say of a GPU."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        free: float,
        total: float = 80.0,
        capability: int = 9,
        own: float = 0.0,  # GiB that this program has allocated
        beside: float | None = None,  # GiB that are free on a second one
    ) -> None:
        monkeypatch.setattr("podium.training.preflight.GPU_DRIVERS", ("/",))
        numbers = [free] if beside is None else [free, beside]

        def memory(place: Any = 0) -> tuple[int, int]:
            index = place if isinstance(place, int) else torch.device(place).index or 0
            return int(numbers[index] * GIB), int(total * GIB)

        answers: dict[str, Any] = {
            "is_available": lambda: True,
            "device_count": lambda: len(numbers),
            "current_device": lambda: 0,
            "get_arch_list": lambda: ["sm_70", "sm_80", "sm_90a", "compute_90"],
            "get_device_capability": lambda *_: (capability, 0),
            "get_device_name": lambda *_: "Old Card",
            "mem_get_info": memory,
            "memory_reserved": lambda *_: int(own * GIB),
            "memory_allocated": lambda *_: int(own * GIB),
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
    assert room.plan_memory([tiny.policy()]) == room.MemoryPlan(16384)
    assert room.plan_memory([tiny.policy()], 100, checkpointing=True) == room.MemoryPlan(100, True)


def test_a_machine_with_too_little_memory_is_told_before_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny.policy()
    weights = sum(p.numel() for p in policy.parameters())
    monkeypatch.setattr(room, "host_bytes", lambda: 11 * weights)
    with pytest.raises(PodiumError, match=r"gradients and optimiser need .* adapters \(lora=16\)"):
        room.plan_memory([policy])
    monkeypatch.setattr(device, "host_bytes", lambda: 3 * 30 * GIB)
    with pytest.raises(PodiumError, match=r"take 111\.8 GiB, and 90\.0 GiB are left\. Use dtype='bfloat16', with"):
        device.check_host("a/model", 30_000_000_000, torch.float32)
    with pytest.raises(PodiumError, match="Use a smaller model"):
        device.check_host("a/model", 70_000_000_000, torch.float32)
    for left in (None, 200 * GIB):
        monkeypatch.setattr(device, "host_bytes", lambda left=left: left)
        device.check_host("a/model", 30_000_000_000, torch.float32)


def test_a_model_that_cannot_be_read_is_refused_before_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tiny.directory(tmp_path / "m")
    monkeypatch.setattr(device, "host_bytes", lambda: 1000)
    with pytest.raises(PodiumError, match="does not fit in this machine's memory"):
        podium.policy.load(path)


def test_with_much_memory_a_gpu_takes_as_many_tokens_as_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    Card(monkeypatch, free=79)
    found = room.plan_memory([policy], longest=300)
    assert (found.micro_tokens, found.checkpointing, found.notes) == (room.MICRO_TOKENS["cuda"], False, ())
    assert found.sampler is not None
    assert found.sampler > 20 * GIB


def test_with_little_memory_fewer_tokens_go_at_a_time_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    free = needed(policy, 5000)
    Card(monkeypatch, free=free, total=free)
    found = room.plan_memory([policy], longest=300)
    assert found.micro_tokens == pytest.approx(5000, abs=2)
    assert found.notes == (f"{free:.1f} GiB are free: {found.micro_tokens:,} tokens go through the model at a time.",)


def test_what_other_programs_hold_is_said_and_what_is_one_s_own_is_not_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    Card(monkeypatch, free=30, own=10)
    assert room.plan_memory([policy], longest=300).notes == ("Other programs hold 40.0 of the GPU's 80.0 GiB.",)
    Card(monkeypatch, free=30, own=50)
    assert room.plan_memory([policy], longest=300).notes == ()


def test_copies_of_weights_that_passes_will_make_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    Card(monkeypatch, free=10)
    assert policy.decoder is not None
    before = room.plan_memory([policy]).sampler
    policy.decoder.lower = torch.bfloat16
    after = room.plan_memory([policy]).sampler
    assert before is not None
    assert after is not None
    assert before - after == 2 * sum(p.numel() for p in policy.parameters())


def test_memory_is_planned_for_any_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "device", property(lambda _: torch.device("cuda")))
    policy = tiny.policy("gpt2")
    assert policy.decoder is None
    Card(monkeypatch, free=10)
    found = room.plan_memory([policy], longest=300)
    assert found.sampler is not None
    assert 0 < found.sampler < 10 * GIB
    Card(monkeypatch, free=0.1, total=0.1)
    with pytest.raises(PodiumError, match="tiny gpt2 does not fit"):
        room.plan_memory([policy], longest=300)


def test_activations_are_computed_again_where_a_rollout_does_not_fit_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    assert policy.decoder is not None
    plain, again = (room.token_bytes(policy.decoder, x) for x in (False, True))
    assert again < plain
    tokens = 100_000
    Card(monkeypatch, free=needed(policy, tokens * (plain + again) // (2 * plain)))
    found = room.plan_memory([policy], tokens, longest=tokens)
    assert found.checkpointing
    assert any("computed again" in note for note in found.notes)


MIB = 1 / 1024
REFUSED = 1.6 * MIB  # GiB: too little for the gradients and averages of all weights, enough for those of adapters


def refused(policy: Policy, longest: int) -> str:
    with pytest.raises(PodiumError, match="does not fit") as refusal:
        room.plan_memory([policy], longest=longest)
    return str(refusal.value)


def test_what_cannot_fit_is_refused_with_what_is_free_and_who_has_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    Card(monkeypatch, free=0.5)
    said = refused(policy, 4096)
    assert "0.5 of 80.0 GiB are free (other programs hold 79.5)." in said
    assert "Wait until the other programs have ended" in said
    Card(monkeypatch, free=0.5, own=79.5)  # nobody else's: nothing to wait for
    assert "ther programs" not in refused(policy, 4096)


def test_a_gpu_with_room_is_named_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    Card(monkeypatch, free=0.5, beside=70.0)
    assert "Use device='cuda:1', where 70.0 GiB are free" in refused(policy, 4096)
    Card(monkeypatch, free=0.5, beside=0.6)
    assert "cuda:1" not in refused(policy, 4096)


def test_a_length_that_is_named_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    assert policy.decoder is not None
    again = room.token_bytes(policy.decoder, True) / room.token_bytes(policy.decoder, False)
    free = needed(policy, int(6000 * again))
    Card(monkeypatch, free=free, total=free)
    said = refused(policy, 8000)
    named = int(said.partition("Use max_tokens=")[2].partition(";")[0].rstrip("."))
    assert named == pytest.approx(6000, rel=0.01)
    assert room.plan_memory([policy], longest=named).micro_tokens == named


def test_adapters_are_named_where_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    monkeypatch.setattr(room, "CHUNK", 0)
    Card(monkeypatch, free=REFUSED, total=REFUSED)
    assert "Keep the optimiser's moments in 8 bits (moments='8bit'); or train adapters (lora=16)." in refused(policy, 8)
    assert room.plan_memory([policy], longest=8, moments="8bit").micro_tokens >= 8
    for name, parameter in policy.named_parameters():  # about as many as adapters have
        parameter.requires_grad_("down_proj" in name)
    assert room.plan_memory([policy], longest=8).micro_tokens >= 8


def test_weights_that_are_too_many_in_float32_are_rounded_beside_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = on_cuda(monkeypatch)
    monkeypatch.setattr(room, "CHUNK", 0)
    free = 1.1 * MIB
    Card(monkeypatch, free=free, total=free)
    assert "Train adapters beside rounded weights (lora=16, dtype='bfloat16')" in refused(policy, 8)
    Card(monkeypatch, free=free, total=free, capability=7)
    said = refused(policy, 8)
    assert "bfloat16" not in said
    assert "billion weights, or with device='cpu'" in said


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "mps", "meta"])
def test_a_device_that_is_neither_a_cpu_nor_a_gpu_is_refused(name: str) -> None:
    with pytest.raises(PodiumError, match="use cpu, cuda or cuda:N"):
        device.find_device(name)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for built, reason in ((None, "built for CPUs alone"), ("13.0", "There is no CUDA device here")):
        monkeypatch.setattr(torch.version, "cuda", built)
        with pytest.raises(PodiumError, match=f"{reason}.* use device='cpu'"):
            device.find_device("cuda")
    Card(monkeypatch, free=10)
    with pytest.raises(PodiumError, match="only cuda:0"):
        device.find_device("cuda:3")
    assert device.find_device("cuda:0").index == 0


def test_a_gpu_that_others_have_filled_or_have_for_themselves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Card(monkeypatch, free=10)

    def full(*_: Any) -> None:
        raise RuntimeError("CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA")

    monkeypatch.setattr(torch.cuda, "mem_get_info", full)
    with pytest.raises(PodiumError, match=r"takes no more work \(CUDA error: out of memory\): wait until .* ended"):
        device.find_device("cuda")


def test_a_gpu_that_this_torch_is_not_built_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Card(monkeypatch, free=10, capability=6)
    with pytest.raises(
        PodiumError, match=r"Old Card is too old for this torch .* capability 6\.0, or use device='cpu'"
    ):
        device.find_device("cuda", torch.float32)


def test_an_old_gpu_without_bfloat16_is_refused_with_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    Card(monkeypatch, free=10, capability=7)
    with pytest.raises(PodiumError, match="Old Card does not compute in bfloat16: use dtype='float32'"):
        device.find_device("cuda", torch.bfloat16)
    assert device.find_device("cuda", torch.float32).type == "cuda"


def test_a_gpu_computes_in_bfloat16_if_it_can_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure("grpo", device="cuda")
    Card(monkeypatch, free=10, capability=8)
    assert config.precision == "bfloat16"
    assert config.replace(dtype="float32").precision == config.replace(device="cpu").precision == "float32"
    Card(monkeypatch, free=10, capability=7)
    assert config.precision == "float32"


@pytest.mark.parametrize(
    ("card", "adapters", "advice"),
    [
        ({"free": 30, "total": 32}, False, "30.0 GiB are free. Use dtype='bfloat16', and lora=16 to train it."),
        ({"free": 30, "total": 32}, True, "30.0 GiB are free. Use dtype='bfloat16'."),
        (
            {"free": 10, "total": 80},
            False,
            "(other programs hold 70.0 of its 80.0). Wait until the other programs have",
        ),
        ({"free": 8, "total": 9}, False, "Use a model of at most 2.1 billion weights, or device='cpu'."),
        ({"free": 8, "total": 80, "beside": 60}, False, "Use device='cuda:1', where 60.0 GiB are free."),
    ],
)
def test_a_model_whose_weights_do_not_fit_is_refused(
    monkeypatch: pytest.MonkeyPatch, card: dict[str, float], adapters: bool, advice: str
) -> None:
    Card(monkeypatch, **card)  # type: ignore[arg-type]
    with pytest.raises(PodiumError, match=re.escape(advice)):
        device.check_model_fits("a/model", 10_000_000_000, torch.float32, torch.device("cuda"), adapters)
    device.check_model_fits("a/model", 1_000_000, torch.float32, torch.device("cuda"))


def small() -> Run:
    method = podium.methods.get("grpo", n=8, kl=0.0)
    return build_run(configure(method, world="sums", level=3, tasks=4, iterations=2))


FULL = torch.OutOfMemoryError("CUDA out of memory")


def starve(monkeypatch: pytest.MonkeyPatch, rollouts: int, full: RuntimeError = FULL) -> list[int]:
    """Let the backward pass run out of memory where a micro-batch has more rollouts; the sizes that were tried."""
    tried: list[int] = []
    real = trainer.backward

    def backward(terms: Any, update: Any, forward: Any, splits: Any, live: Any, ranks: Any) -> Any:
        def measured(batch: Any, signals: Any) -> Any:
            tried.append(len(batch))
            if len(batch) > rollouts:
                raise full
            return forward(batch, signals)

        return real(terms, update, measured, splits, live, ranks)

    monkeypatch.setattr(trainer, "backward", backward)
    return tried


@pytest.mark.parametrize(
    "full", [FULL, RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")]
)
def test_an_update_that_does_not_fit_is_split_and_comes_to_the_same(
    monkeypatch: pytest.MonkeyPatch, full: RuntimeError
) -> None:
    free, narrow = small(), small()
    _, expected = iterate(free)
    with monkeypatch.context() as patch:
        tried = starve(patch, 5, full)
        with pytest.warns(
            UserWarning, match=r"did not fit in the GPU's memory\. Training goes on.*\(micro_tokens\)"
        ) as told:
            _, found = iterate(narrow)
    assert len(told) == 1
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


def test_memory_that_runs_out_elsewhere_ends_with_the_knobs_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def greedy(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of …")

    monkeypatch.setattr(Policy, "frozen_copy", greedy)
    with pytest.raises(
        PodiumError, match=r"ran out of memory \(2.50 GiB more were asked for\): use a smaller micro_tokens"
    ):
        podium.train("grpo", world="sums", level=1, out=tmp_path / "run", iterations=1)


def test_all_that_write_share_the_memory_for_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.training.build.plan_memory", lambda *_: room.MemoryPlan(4096, sampler=1 << 24))
    run = build_run(configure("hill", world="sums"))
    samplers: list[Any] = list(run.driver.samplers.values())
    assert [sampler.engine.memory for sampler in samplers] == [1 << 23, 1 << 23]
    run.close()


def test_there_must_be_room_for_a_prompt_and_its_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    asked = [{"prompt": "2 + 2 = " * count, "answer": "4"} for count in range(1, 21)]
    questions.write_text("\n".join(map(json.dumps, asked)))
    planned: list[int] = []
    monkeypatch.setattr(
        "podium.training.build.plan_memory", lambda *given: planned.append(given[2]) or room.MemoryPlan(4096)
    )
    run = build_run(configure("grpo", world=f"jsonl:{questions}", tasks=20, max_tokens=20))
    prompts = [
        run.world.task(i, split).prompt for split in ("train", "test") for i in range(run.world.size(split) or 0)
    ]
    lengths = [len(run.policy.encode([{"role": "user", "content": prompt}])) for prompt in prompts]
    assert len(set(lengths)) > 10
    assert planned == [max(lengths) + 20]
    run.close()

"""Methods inside TRL 1.16's own trainer: gradients are TRL's where TRL is exact, and every refusal says why."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("trl", minversion="1.16")

from hosted_trl import gap, train
from trl import RLOOConfig, RLOOTrainer

from podium import PodiumError, methods
from podium.core.term import Aggregate
from podium.method import Method
from podium.parts.objective import KL, Clip, PolicyGradient

GRPO = methods.get("grpo@trl")
MEAN, ALL = "token mean", "token mean, rollout mean of all"


def with_loss(path: str, *more: Any, scale: str = "std", clip: Any = None, **settings: Any) -> Method:
    term = PolicyGradient(clip=clip or Clip(0.2, 0.2), aggregate=Aggregate(path), **settings)
    method = GRPO.with_(advantage=GRPO.advantage.replace(scale=scale), objective=(term, *more))
    return method.with_(roles=methods.get("grpo").roles) if more else method


def kl(path: str, **settings: Any) -> KL:
    return KL("k3", coefficient=0.04, aggregate=Aggregate(path), **settings)


CASES = {
    "grpo": (with_loss(ALL), {"loss_type": "grpo"}),
    "dapo": (with_loss(MEAN, clip=Clip(0.2, 0.28)), {"loss_type": "dapo", "epsilon_high": 0.28}),
    "dr_grpo": (
        with_loss("token sum / 16, rollout mean of all", scale="none"),
        {"loss_type": "dr_grpo", "scale_rewards": "none"},
    ),
    "gspo": (with_loss(ALL, ratio="sequence"), {"loss_type": "grpo", "importance_sampling_level": "sequence"}),
    "kl": (with_loss(ALL, kl(ALL)), {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": False}),
    "cispo": (
        methods.get("cispo").with_(advantage=GRPO.advantage),
        {"loss_type": "cispo", "epsilon_high": 5.0, "scale_rewards": "group"},
    ),
    "live kl": (with_loss(ALL, kl(ALL, corrected=True)), {"loss_type": "grpo", "beta": 0.04}),
}


# Plain steps, and two epochs: at the second update ratios are not 1, and rounding has not been amplified on the way.
PLAIN: dict[str, Any] = {"num_iterations": 2, "max_grad_norm": 0.0, "learning_rate": 1e-3, "optim": "sgd"}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_trl(name: str) -> None:
    method, config = CASES[name]
    mine, theirs = train(method, steps=2, **PLAIN, **config), train(None, steps=2, **PLAIN, **config)
    assert len(mine.gradients) == 2
    assert gap(mine, theirs) < 2e-6


def test_gradients_of_rloo_are_those_of_its_trainer() -> None:
    rloo = methods.get("rloo", kl=0.05)
    term = PolicyGradient(clip=Clip(0.2, 0.2), aggregate=Aggregate(ALL), ratio="sequence", joint=True, shared=True)
    mine = train(rloo.with_(objective=(term,)), steps=2, **PLAIN, beta=0.05)
    theirs = train(None, steps=2, trainer=RLOOTrainer, config=RLOOConfig, **PLAIN, beta=0.05)
    assert gap(mine, theirs) < 2e-6


def test_where_trl_averages_micro_batches_the_mean_of_the_update_is_exact() -> None:
    # loss_type="bnpo" divides each micro-batch by its own tokens: with one micro-batch it is the token mean.
    method = with_loss(MEAN)
    split, whole = (
        {"per_device_train_batch_size": 8},
        {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1},
    )
    mine = train(method, steps=1, **PLAIN, **split)
    assert gap(mine, train(method, steps=1, **PLAIN, **whole)) < 2e-6
    assert gap(mine, train(None, steps=1, loss_type="bnpo", **PLAIN, **whole)) < 2e-6
    assert gap(mine, train(None, steps=1, loss_type="bnpo", **PLAIN, **split)) > 1e-3


def test_what_trl_lacks_is_refused_with_the_reason() -> None:
    for name, reason in {
        "ppo": "It trains critic beside the policy",
        "spo-single-stream": "several phases",
    }.items():
        with pytest.raises(PodiumError, match=reason):
            train(name, steps=1)
    with pytest.raises(PodiumError, match="set beta="):
        train("grpo", steps=1)
    with pytest.raises(PodiumError, match="steps_per_generation a multiple"):
        train("grpo@trl", steps=1, steps_per_generation=3)


TWO = """
import os, sys, torch
sys.path.insert(0, sys.argv[1])
from hosted_trl import right, train, written
from test_hosted_trl import PLAIN, with_loss, kl, MEAN
method = with_loss(MEAN, kl(MEAN)) if sys.argv[3] == "kl" else sys.argv[3]
seen = train(method, steps=2, **PLAIN, beta=0.04, rollout_func=written, reward_funcs=right,
             per_device_train_batch_size=16 // int(os.environ["WORLD_SIZE"]), gradient_accumulation_steps=1)
if os.environ["RANK"] == "0":
    torch.save({"gradients": seen.gradients, "ids": seen.trainer._batch["token.id"]}, sys.argv[2])
"""


def launched(size: int, out: Path, method: str) -> dict[str, Any]:
    """What a run on several processes has done."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
    shared |= {"GLOO_SOCKET_IFNAME": "lo", "LOCAL_WORLD_SIZE": str(size), "ACCELERATE_USE_CPU": "true"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TWO, str(Path(__file__).parent), str(out), method],
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    said = [p.communicate(timeout=300)[1] for p in processes]
    assert [p.returncode for p in processes] == [0] * size, said
    found: dict[str, Any] = torch.load(out, weights_only=True)
    return found


@pytest.mark.parametrize("method", ["kl", "pacs"])  # one pass, and two: its loss couples the whole update
def test_two_processes_have_the_gradients_of_one_on_the_same_rollouts(method: str, tmp_path: Path) -> None:
    # TRL's own sampler draws other tokens in each process: these are given.
    one, two = (launched(size, tmp_path / str(size), method) for size in (1, 2))
    assert torch.equal(one["ids"], two["ids"])
    for a, b in zip(two["gradients"], one["gradients"], strict=True):
        assert float(b.norm()) > 0.01
        assert float((a - b).abs().max() / b.norm()) < 2e-6


def test_memories_are_saved_with_the_checkpoints_and_come_back(tmp_path: Path) -> None:
    usual = {
        "save_strategy": "steps",
        "save_steps": 2,
        "output_dir": str(tmp_path),
        "learning_rate": 1e-4,
        "lr_scheduler_type": "constant",
    }
    begun = repr(train("riskpo", steps=0, **usual).trainer.guest.memories.states)
    whole = train("riskpo", steps=4, **{**usual, "output_dir": str(tmp_path / "whole")})
    train("riskpo", steps=2, **usual)
    resumed = train("riskpo", steps=4, resume=True, **usual)
    assert len(resumed.gradients) == 2
    assert gap(resumed, whole, last=2) < 2e-6
    assert begun != repr(whole.trainer.guest.memories.states) == repr(resumed.trainer.guest.memories.states)

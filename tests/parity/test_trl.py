"""Podium against TRL's own GRPO code, on random batches in float64.

TRL has no functions to call: advantages are computed inside `_generate_and_score_completions`, losses inside
`_compute_loss`. Both methods run here on a trainer that was never initialised, with the model, the sampler and the
reward functions replaced by given tensors. Losses agree to 1e-12; so do advantages, except that TRL holds the factor
n / (n − 1) of its std in float32, which costs 1e-7.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from podium import methods
from podium.core.batch import Batch
from podium.core.term import Aggregate, Term
from podium.method import Method
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, PolicyGradient
from tests.parity.batches import LAYOUTS, SAME, Padded, agree, loss_and_gradient, random_padded

os.environ.setdefault("HF_HUB_OFFLINE", "1")
trl = pytest.importorskip(
    "trl", reason="trl is not installed: `make parity` runs these tests in an environment with it"
)
from accelerate import Accelerator  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

SEEDS = range(5)
FLOAT32 = 1e-7
GROUPS = (4, 4, 4)  # TRL's groups have one size, and stand one after the other
WIDTH = 9

# TRL's loss types in Podium's words. One accumulation step, so `dapo` divides by the tokens of the batch, as `bnpo`.
AGGREGATES = {
    "grpo": "token mean, rollout mean of all",  # of the rows, whether or not they have tokens
    "bnpo": "token mean",
    "dapo": "token mean",
    "dr_grpo": f"token sum / {WIDTH}, rollout mean of all",
}


@pytest.fixture(params=[(seed, layout) for seed in SEEDS for layout in LAYOUTS], ids=lambda p: f"{p[1]}-{p[0]}")
def padded(request: pytest.FixtureRequest) -> Padded:
    padded = random_padded(*request.param, groups=GROUPS, width=WIDTH)
    rows = padded.advantage[:, :1].expand_as(padded.advantage)  # TRL has one advantage a completion
    return Padded(**(vars(padded) | {"advantage": rows * padded.mask}))


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    def make(**changes: Any) -> Any:
        """TRL's settings, with its own defaults where the batch does not force them."""
        forced = {
            "output_dir": str(tmp_path),
            "use_cpu": True,
            "bf16": False,
            "report_to": "none",
            "gradient_accumulation_steps": 1,
            "per_device_train_batch_size": sum(GROUPS),
            "num_generations": GROUPS[0],
            "max_completion_length": WIDTH,
        }
        return GRPOConfig(**(forced | changes))

    return make


def trainer(config: Any) -> Any:
    """A GRPOTrainer that holds what its loss reads, and nothing else."""
    shell = GRPOTrainer.__new__(GRPOTrainer)
    shell.args = config
    # A config resets accelerate's global state, so the accelerator comes after it.
    shell.accelerator = Accelerator(cpu=True)
    shell.model = SimpleNamespace(training=True, is_gradient_checkpointing=False)
    shell._metrics = {mode: defaultdict(list) for mode in ("train", "eval")}
    shell.current_gradient_accumulation_steps = config.gradient_accumulation_steps
    shell.epsilon_low = config.epsilon
    shell.epsilon_high = config.epsilon if config.epsilon_high is None else config.epsilon_high
    shell.aux_loss_enabled = False
    shell._entropy_bonus_enabled = False
    same = (
        "loss_type importance_sampling_level beta max_completion_length top_entropy_quantile off_policy_mask_threshold "
        "use_vllm vllm_importance_sampling_correction entropy_coef use_adaptive_entropy scale_rewards "
        "multi_objective_aggregation num_generations num_iterations mask_truncated_completions"
    )
    for name in same.split():
        setattr(shell, name, getattr(config, name))
    return shell


def their_loss(config: Any, padded: Padded) -> tuple[Tensor, Tensor]:
    now = padded.now.clone().requires_grad_()
    rows, width = now.shape
    shell = trainer(config)
    shell._get_per_token_logps_and_entropies = lambda *args, **kwargs: (now, torch.zeros_like(now), None)
    whole = torch.zeros(rows, width, dtype=torch.long)  # token ids, of which only the shape is read
    loss = shell._compute_loss(
        None,
        {
            "prompt_ids": whole[:, :1],
            "prompt_mask": whole[:, :1] + 1,
            "completion_ids": whole,
            "completion_mask": padded.mask,
            "advantages": padded.advantage[:, 0],  # no row that has tokens has a hole there
            "num_items_in_batch": padded.mask.sum(),
            "old_per_token_logps": padded.old,
            "ref_per_token_logps": padded.ref,
        },
    )
    return loss.detach(), torch.autograd.grad(loss, now)[0]


def their_advantages(config: Any, reward: Tensor) -> Tensor:
    """[B] from one reward a completion."""
    rows = len(reward)
    shell = trainer(config)
    shell.num_generations_eval = config.num_generations
    shell.reward_funcs, shell.reward_func_names = [None], ["reward"]
    shell.reward_weights = torch.ones(1, dtype=reward.dtype)
    shell.environment_factories = shell.environments = shell.tools = shell.pad_to_multiple_of = None
    shell.log_multimodal = False
    shell._tokenizer = SimpleNamespace(pad_token_id=0, eos_token_id=1)
    shell.processing_class = SimpleNamespace(batch_decode=lambda ids, **kwargs: [""] * len(ids))
    shell._logs = defaultdict(deque, rewards=defaultdict(deque), extra=defaultdict(deque))
    shell._pending_extra_logs, shell._pending_metrics = defaultdict(list), defaultdict(list)
    completions = ([[2]] * rows, [[2, 1]] * rows, None, [""] * rows, None, {}, None, None)
    shell._generate = lambda prompts: completions
    shell._calculate_rewards = lambda *args: reward[:, None]
    return shell._generate_and_score_completions([{"prompt": ""}] * rows)["advantages"]


def by_terms(*terms: Term) -> Method:
    return Method("terms", objective=terms)


# -- advantages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale_rewards", "part"),
    [
        ("group", Normalize(epsilon=1e-4)),
        ("batch", Normalize(epsilon=1e-4, scope=())),
        ("none", Normalize(scale="none")),
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_advantages(settings: Any, seed: int, scale_rewards: str, part: Normalize) -> None:
    reward = random_padded(seed, "full", groups=GROUPS).reward
    group = [number for number, size in enumerate(GROUPS) for _ in range(size)]
    theirs = their_advantages(settings(scale_rewards=scale_rewards), reward)
    ours = part(Batch.from_rewards(reward, group))["rollout.advantage"]
    agree(ours, theirs, SAME if scale_rewards == "none" else FLOAT32)


# -- losses and their gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", AGGREGATES)
def test_clipped_loss(settings: Any, padded: Padded, loss_type: str, level: str, beta: float) -> None:
    config = settings(loss_type=loss_type, importance_sampling_level=level, beta=beta, epsilon=0.1, epsilon_high=0.15)
    loss, gradient = their_loss(config, padded)
    aggregate = Aggregate(AGGREGATES[loss_type])
    policy = PolicyGradient(ratio=level, clip=Clip(0.1, 0.15), aggregate=aggregate)
    kl = (KL("k3", coefficient=beta, aggregate=aggregate),) if beta else ()
    ours = loss_and_gradient(by_terms(policy, *kl), padded)
    agree(ours[0], loss)
    agree(ours[1], gradient)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_batches_meet_the_clip(padded: Padded, level: str) -> None:
    """Without this the test above might compare unclipped losses only."""
    seen = PolicyGradient(ratio=level, clip=Clip(0.1, 0.15)).diagnostics(padded.batch(padded.now))
    assert 0 < seen["clip_fraction"].double().mean() < 1


@pytest.mark.parametrize("cap", [1.28, 5.0])
@pytest.mark.parametrize("beta", [0.0, 0.04])
def test_cispo_loss(settings: Any, padded: Padded, cap: float, beta: float) -> None:
    loss, gradient = their_loss(settings(loss_type="cispo", epsilon_high=cap, beta=beta), padded)
    kl = (KL("k3", coefficient=beta),) if beta else ()
    ours = loss_and_gradient(by_terms(PolicyGradient(clip=Clip.capped(cap)), *kl), padded)
    agree(ours[0], loss)
    agree(ours[1], gradient)


def test_recipes_say_the_same(settings: Any, padded: Padded) -> None:
    """The catalogue's own dr-grpo, gspo and cispo@trl, with TRL's settings for them."""
    pairs = [
        (settings(loss_type="dr_grpo"), methods.get("dr-grpo", max_length=WIDTH)),
        (
            settings(loss_type="grpo", importance_sampling_level="sequence", epsilon=0.1, epsilon_high=0.15),
            # An answer without tokens counts among TRL's rows; the recipe leaves it out, as verl does.
            methods.get("gspo", clip_low=0.1, clip_high=0.15).set(
                "objective.PolicyGradient.aggregate", Aggregate(AGGREGATES["grpo"])
            ),
        ),
        (settings(loss_type="cispo", epsilon_high=5.0), methods.get("cispo@trl")),
    ]
    for config, method in pairs:
        loss, gradient = their_loss(config, padded)
        ours = loss_and_gradient(method, padded)
        agree(ours[0], loss)
        agree(ours[1], gradient)


# -- the preset ----------------------------------------------------------------------------------------------------


def test_preset_gives_trls_number_for_one_success_in_four(settings: Any) -> None:
    reward = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    theirs = their_advantages(settings(num_generations=4, per_device_train_batch_size=4), reward)
    part = methods.get("grpo@trl").advantage
    assert part is not None
    ours = part(Batch.from_rewards(reward, ["a"] * 4))["rollout.advantage"]
    agree(ours, theirs, FLOAT32)
    assert float(ours[0]) == pytest.approx(1.4997, abs=1e-6)  # 0.75 / (0.5 + 1e-4)


def test_preset_gives_trls_loss(settings: Any, padded: Padded) -> None:
    """TRL's own defaults: loss type, clip, no KL."""
    loss, gradient = their_loss(settings(), padded)
    ours = loss_and_gradient(methods.get("grpo@trl"), padded)
    agree(ours[0], loss)
    agree(ours[1], gradient)

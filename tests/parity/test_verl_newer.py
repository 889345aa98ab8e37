"""Podium against verl's own functions, continued: SAPO, GMPO, DPPO, GDPO and distillation, on random batches."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.term import Aggregate
from podium.parts.objective import Distil
from tests.parity.batches import LAYOUTS, Padded, agree, credited, loss_and_gradient, random_padded

algos = pytest.importorskip(
    "verl.trainer.ppo.core_algos",
    reason="verl is not installed: `make parity` runs these tests in an environment with it",
)
from verl.workers.config import ActorConfig  # noqa: E402

# By its path: the package around it imports a whole training stack.
PATH = Path(algos.__file__).parents[1] / "distillation" / "fsdp" / "losses.py"
COUNT_EPSILON = 1e-7  # where verl adds 1e-8 to a count
SEEDS = range(5)


@pytest.fixture(params=[(seed, layout) for seed in SEEDS for layout in LAYOUTS], ids=lambda p: f"{p[1]}-{p[0]}")
def padded(request: pytest.FixtureRequest) -> Padded:
    return random_padded(*request.param)


def actor(**settings: Any) -> Any:
    return ActorConfig(strategy="fsdp", rollout_n=1, use_dynamic_bsz=True, **settings)


def their_loss(name: str, padded: Padded, config: Any) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    now = padded.now.clone().requires_grad_()
    loss, metrics = algos.get_policy_loss_fn(name)(padded.old, now, padded.advantage, padded.mask, config=config)
    return loss.detach(), torch.autograd.grad(loss, now)[0], metrics


def test_sapo_loss(padded: Padded) -> None:
    loss, gradient, _ = their_loss("sapo", padded, actor(tau_pos=1.0, tau_neg=2.5))
    ours = loss_and_gradient(methods.get("sapo", positive=1.0, negative=2.5), padded)
    agree(ours[0], loss, COUNT_EPSILON)
    agree(ours[1], gradient, COUNT_EPSILON)


def test_sapo_has_verl_s_temperatures() -> None:
    config, ours = actor(), methods.sapo().objective[0].clip  # type: ignore[attr-defined]
    assert (ours.positive, ours.negative) == (config.tau_pos, config.tau_neg)


def test_gmpo_loss(padded: Padded) -> None:
    """With one advantage a rollout, which is all that verl's version supports; it counts answers without tokens."""
    rows = padded.advantage[:, :1].expand_as(padded.advantage) * padded.mask
    flat = Padded(**(vars(padded) | {"advantage": rows}))
    loss, gradient, metrics = their_loss("geo_mean", flat, actor(clip_ratio_low=0.4, clip_ratio_high=0.3))
    method = methods.get("gmpo", clip_low=0.4, clip_high=0.3)
    method = method.set("objective.PolicyGradient.aggregate", Aggregate("token mean, rollout mean of all"))
    ours = loss_and_gradient(method, flat)
    assert metrics["actor/pg_clipfrac"] > 0
    agree(ours[0], loss, COUNT_EPSILON)
    agree(ours[1], gradient, COUNT_EPSILON)


@pytest.mark.parametrize(("name", "kind", "low", "high"), [("dppo_tv", "tv", 0.1, 0.15), ("dppo_kl", "kl", 0.03, 0.05)])
def test_dppo_loss(padded: Padded, name: str, kind: str, low: float, high: float) -> None:
    # Probabilities must stay below 1, unlike those of the random batch.
    padded = Padded(**(vars(padded) | {"now": padded.now.clamp(max=-1e-3), "old": padded.old.clamp(max=-1e-3)}))
    config = actor(clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=1.5)
    loss, gradient, metrics = their_loss(name, padded, config)
    ours = loss_and_gradient(methods.get("dppo@verl", kind=kind, low=low, high=high, cap=1.5), padded)
    assert 0 < metrics["actor/pg_clipfrac"] < 1
    agree(ours[0], loss)
    agree(ours[1], gradient)


def test_gdpo_advantage(padded: Padded) -> None:
    """verl keeps the rewards in float32."""
    second = padded.token_reward.sum(1).float().double()
    first = padded.reward.float().double()
    rows, width = padded.mask.shape
    batch = {"prompts": torch.zeros(rows, 1), "attention_mask": torch.ones(rows, 1 + width, dtype=torch.long)}
    theirs, _ = algos.compute_gdpo_outcome_advantage(
        padded.outcome(),
        padded.mask,
        np.array(padded.group, dtype=object),
        config={"gdpo_reward_keys": ["a", "b"], "gdpo_reward_weights": [1.0, 0.5]},
        non_tensor_batch={"a": first.numpy(), "b": second.numpy()},
        batch=batch,
    )
    method = methods.get("gdpo@verl", rewards=(("rollout.a", 1.0), ("rollout.b", 0.5))).with_(reward=())
    columns = {"rollout.a": first, "rollout.b": second}
    ours = credited(method, Batch.from_padded(padded.mask, padded.group, columns | {"token.advantage": padded.mask}))
    agree(ours, theirs.double(), 1e-5)


@pytest.mark.parametrize("k", [3, 8])
def test_forward_kl_on_the_teacher_s_likeliest_tokens(k: int) -> None:
    g = torch.Generator().manual_seed(k)
    student = torch.randn(1, 20, 11, generator=g, dtype=torch.float64).requires_grad_()
    teacher = torch.randn(20, 11, generator=g, dtype=torch.float64).log_softmax(-1)
    top = teacher.topk(k)
    nested = [torch.nested.nested_tensor([x], layout=torch.jagged) for x in (top.values, top.indices)]
    settings = SimpleNamespace(distillation_loss=SimpleNamespace(log_prob_min_clamp=None, use_chunked_topk=False))
    losses = SourceFileLoader("verl_distillation_losses", str(PATH)).load_module()
    theirs = losses.compute_forward_kl_topk(student, *nested, settings, "thd")
    term = methods.get("opd@verl", k=k, power=1.0).objective[0]
    assert isinstance(term, Distil)
    mine = student.detach().clone().requires_grad_()
    chosen, now = term.needs
    columns = {
        chosen.column: torch.stack([top.indices.double(), top.values], -1),  # type: ignore[union-attr]
        now.column: mine[0].log_softmax(-1).gather(-1, top.indices),  # type: ignore[union-attr]
    }
    batch = Batch.from_padded(torch.ones(1, 20, dtype=torch.float64), [0], {}).with_columns(columns)
    ours = term.loss(batch)
    agree(ours.detach(), theirs["distillation_losses"][0].detach().double(), 1e-6)  # verl computes it in float32
    agree(term.diagnostics(batch)["covered"], theirs["teacher_mass"][0].double())
    (a,), (b,) = (
        torch.autograd.grad(x.sum(), by) for x, by in ((ours, mine), (theirs["distillation_losses"], student))
    )
    agree(a, b, 1e-6)

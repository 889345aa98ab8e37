"""Podium against TRL's own code, continued: SAPO, GMPO, DeepSeek-V3.2's terms and the divergences of distillation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.term import Aggregate
from podium.parts.objective import KL, Distil, PolicyGradient
from tests.parity.batches import LAYOUTS, Padded, agree, loss_and_gradient, random_padded

trl = pytest.importorskip(
    "trl", reason="trl is not installed: `make parity` runs these tests in an environment with it"
)
from trl.experimental.gkd.gkd_trainer import GKDTrainer  # noqa: E402
from trl.experimental.gmpo import GMPOConfig, GMPOTrainer  # noqa: E402
from trl.experimental.sdpo.loss_utils import (  # noqa: E402
    compute_full_logit_self_distillation_loss,
    compute_topk_self_distillation_loss,
)

from tests.parity.test_trl import AGGREGATES, GROUPS, WIDTH, by_terms, their_loss, trainer  # noqa: E402
from tests.parity.test_trl import settings as settings  # noqa: E402

SEEDS = range(3)


@pytest.fixture(params=[(seed, layout) for seed in SEEDS for layout in LAYOUTS], ids=lambda p: f"{p[1]}-{p[0]}")
def padded(request: pytest.FixtureRequest) -> Padded:
    padded = random_padded(*request.param, groups=GROUPS, width=WIDTH)
    rows = padded.advantage[:, :1].expand_as(padded.advantage)  # TRL has one advantage a completion
    return Padded(**(vars(padded) | {"advantage": rows * padded.mask}))


def test_sapo_loss(settings: Any, padded: Padded) -> None:
    config = settings(loss_type="sapo", sapo_temperature_pos=1.0, sapo_temperature_neg=2.5)
    loss, gradient = their_loss(config, padded)
    method = methods.get("sapo", positive=1.0, negative=2.5)
    method = method.set("objective.PolicyGradient.aggregate", Aggregate(AGGREGATES["grpo"]))
    ours = loss_and_gradient(method, padded)
    agree(ours[0], loss)
    agree(ours[1], gradient)


def test_sapo_has_trl_s_temperatures(settings: Any) -> None:
    config, ours = settings(), methods.sapo().objective[0].clip  # type: ignore[attr-defined]
    assert (ours.positive, ours.negative) == (config.sapo_temperature_pos, config.sapo_temperature_neg)


def test_gmpo_loss(padded: Padded, tmp_path: Path) -> None:
    config = GMPOConfig(
        output_dir=str(tmp_path),
        use_cpu=True,
        bf16=False,
        report_to="none",
        gradient_accumulation_steps=1,
        per_device_train_batch_size=sum(GROUPS),
        num_generations=GROUPS[0],
    )
    shell, now = trainer(config), padded.now.clone().requires_grad_()
    shell.__class__ = GMPOTrainer
    shell._get_per_token_logps_and_entropies = lambda *args, **kwargs: (now, torch.zeros_like(now), None)
    whole = torch.zeros(now.shape, dtype=torch.long)
    inputs = {
        "prompt_ids": whole[:, :1],
        "prompt_mask": whole[:, :1] + 1,
        "completion_ids": whole,
        "completion_mask": padded.mask,
        "advantages": padded.advantage[:, 0],
        "old_per_token_logps": padded.old,
    }
    loss = shell._compute_loss(None, inputs)
    method = methods.gmpo().set("objective.PolicyGradient.aggregate", Aggregate(AGGREGATES["grpo"]))
    ours = loss_and_gradient(method, padded)
    agree(ours[0], loss.detach())
    agree(ours[1], torch.autograd.grad(loss, now)[0])


def test_the_kl_of_deepseek_v3_2(settings: Any, padded: Padded) -> None:
    """The KL term alone: TRL's loss with it minus the one without."""
    config = settings(loss_type="grpo", beta=0.1, use_bias_correction_kl=True)
    with_kl, without = their_loss(config, padded), their_loss(settings(loss_type="grpo", beta=0.0), padded)
    kl = KL("k3", coefficient=0.1, corrected=True, aggregate=Aggregate(AGGREGATES["grpo"]))
    ours = loss_and_gradient(by_terms(kl), padded)
    agree(ours[0], with_kl[0] - without[0])
    agree(ours[1], with_kl[1] - without[1])


def test_the_loss_of_deepseek_v3_2(settings: Any, padded: Padded) -> None:
    config = settings(loss_type="grpo", beta=0.001, use_bias_correction_kl=True, off_policy_mask_threshold=0.1)
    loss, gradient = their_loss(config, padded)
    method = methods.get("grpo@deepseek-v3.2", near=0.1)
    for term in ("PolicyGradient", "KL"):
        method = method.set(f"objective.{term}.aggregate", Aggregate(AGGREGATES["grpo"]))
    [mark] = method.shape
    near = mark(padded.batch(padded.now))["rollout.near"]
    assert 0 < near.double().mean() < 1, "no rollout, or every one, is left out"
    ours = loss_and_gradient(method, padded)
    agree(ours[0], loss)
    agree(ours[1], gradient)


def test_dr_grpo_preset(settings: Any, padded: Padded) -> None:
    loss, gradient = their_loss(settings(loss_type="dr_grpo"), padded)
    method = methods.get("dr-grpo@trl", max_length=WIDTH)
    assert isinstance(method.objective[0], PolicyGradient)
    ours = loss_and_gradient(method, padded)
    agree(ours[0], loss)
    agree(ours[1], gradient)


# -- divergences ---------------------------------------------------------------------------------------------------

ALPHAS = {0.0: {"divergence": "forward"}, 1.0: {"divergence": "reverse"}, 0.5: {}, 0.2: {"mix": 0.2}}


def logits(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    student, teacher = (torch.randn(20, 11, generator=g, dtype=torch.float64) for _ in range(2))
    return student.requires_grad_(), teacher


def ours_on(term: Distil, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    p, q = student.log_softmax(-1), teacher.log_softmax(-1)
    top, *others = term.needs
    chooser = p.detach() if term.support == "student" else q
    best = chooser.topk(min(term.k or 11, 11))
    columns = {top.column: torch.stack([best.indices.double(), best.values], -1)}  # type: ignore[union-attr]
    for need in others:
        of = p if need.of == "now" else q  # type: ignore[union-attr]
        columns[need.column] = of.gather(-1, best.indices)  # type: ignore[union-attr]
    return term.loss(Batch.from_padded(torch.ones(1, 20, dtype=torch.float64), [0], {}).with_columns(columns))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_divergence_over_the_vocabulary(alpha: float) -> None:
    student, teacher = logits(0)
    theirs = compute_full_logit_self_distillation_loss(student, teacher, distillation_alpha=alpha)
    ours = ours_on(Distil(k=None, **ALPHAS[alpha]), student, teacher)
    agree(ours.detach(), theirs.detach())
    agree(*(torch.autograd.grad(x.sum(), student)[0] for x in (ours, theirs)))
    gkd = GKDTrainer.generalized_jsd_loss(student[None], teacher[None], beta=alpha, reduction="sum")
    agree(ours.detach().sum(), gkd.detach())


@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_divergence_on_the_student_s_likeliest_tokens(alpha: float, tail: bool) -> None:
    student, teacher = logits(1)
    theirs = compute_topk_self_distillation_loss(
        student, teacher, distillation_topk=4, distillation_alpha=alpha, distillation_add_tail=tail
    )
    term = Distil(k=4, support="student", others="bucket" if tail else "renormalised", **ALPHAS[alpha])
    ours = ours_on(term, student, teacher)
    agree(ours.detach(), theirs.detach())
    agree(*(torch.autograd.grad(x.sum(), student)[0] for x in (ours, theirs)))

"""Podium's pairwise and unpaired preference losses against TRL's own, on random pairs in float64.

DPO and KTO compute their losses inside `_compute_loss`, SimPO inside `cpo_loss`. They run here on trainers that were
never initialised, with models that return given log-probabilities.
"""

from __future__ import annotations

import os
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.term import Term
from podium.parts.annotate import MismatchedKL
from podium.parts.objective import Preference, Quality
from tests.parity.batches import agree

os.environ.setdefault("HF_HUB_OFFLINE", "1")
trl = pytest.importorskip(
    "trl", reason="trl is not installed: `make parity` runs these tests in an environment with it"
)
from accelerate import Accelerator  # noqa: E402
from trl import DPOTrainer, KTOTrainer  # noqa: E402
from trl.experimental.cpo import CPOTrainer  # noqa: E402

PAIRS, WIDTH = 6, 7
SEEDS = range(3)


def random_pairs(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities now and of the reference, and the mask, [chosen then rejected, token]."""
    g = torch.Generator().manual_seed(seed)
    length = torch.randint(1, WIDTH + 1, (2 * PAIRS,), generator=g)
    mask = torch.arange(WIDTH) < length[:, None]
    now, ref = (-2 * torch.rand(2 * PAIRS, WIDTH, generator=g, dtype=torch.float64) for _ in range(2))
    return now, ref, mask


def ours(term: Term, now: Tensor, ref: Tensor, mask: Tensor, **columns: Tensor) -> tuple[Tensor, Tensor]:
    """The term's value and its gradient by the log-probabilities."""
    leaf = now.clone().requires_grad_()
    reward = torch.tensor([1.0] * PAIRS + [0.0] * PAIRS, dtype=torch.float64)
    given = {"token.now.logp": leaf, "token.ref.logp": ref, "rollout.reward": reward}
    batch = Batch.from_padded(mask, list(range(PAIRS)) * 2, given)
    value = term(batch.with_columns({f"batch.{name}": x for name, x in columns.items()}))
    return value.detach(), torch.autograd.grad(value, leaf)[0]


class Given:
    """A model of two tokens that gives the first one these probabilities, by the first token of the texts: 0 for the
    answers, 1 for mismatched ones."""

    training, is_gradient_checkpointing = True, False

    def __init__(self, *logp: Tensor) -> None:
        self.logp = logp

    def __call__(self, input_ids: Tensor, **kwargs: Any) -> Any:
        x = torch.nn.functional.pad(self.logp[int(input_ids[0, 0])], (0, 1), value=-1.0)  # nothing follows the last
        return SimpleNamespace(logits=torch.stack([x, torch.log1p(-x.exp())], -1))


def shell_of(kind: type, **settings: Any) -> Any:
    """A trainer that holds what its loss reads, and nothing else."""
    shell = kind.__new__(kind)
    shell.accelerator = Accelerator(cpu=True)
    shell._metrics = {mode: defaultdict(list) for mode in ("train", "eval")}
    shell.aux_loss_enabled = shell.precompute_ref_logps = shell.use_liger_kernel = False
    shell.args = SimpleNamespace(gradient_checkpointing_kwargs=None)
    shell._total_train_tokens, shell._tp_size = 0, 1
    for name, value in settings.items():
        setattr(shell, name, value)
    return shell


def texts(mask: Tensor, first: int = 0) -> dict[str, Tensor]:
    """One token of a prompt, then the answers."""
    rows = len(mask)
    ids = torch.zeros(rows, WIDTH + 1, dtype=torch.long)
    ids[:, 0] = first
    completion = torch.cat([torch.zeros(rows, 1, dtype=torch.bool), mask], 1).long()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "completion_mask": completion}


def their_dpo(seed: int, loss_type: str, beta: float, **settings: Any) -> tuple[Tensor, Tensor]:
    now, ref, mask = random_pairs(seed)
    leaf = now.clone().requires_grad_()
    model = Given(leaf)
    shell = shell_of(
        DPOTrainer,
        model=model,
        ref_model=Given(ref),
        beta=beta,
        loss_types=[loss_type],
        loss_weights=[1.0],
        ld_alpha=None,
        f_divergence_type="reverse_kl",
        use_weighting=False,
        label_smoothing=0.0,
        **settings,
    )
    loss = shell._compute_loss(model, texts(mask), False)
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("beta", [0.1, 2.0])
@pytest.mark.parametrize("loss_type", ["sigmoid", "hinge", "ipo", "sigmoid_norm"])
def test_dpo_losses(seed: int, beta: float, loss_type: str) -> None:
    half = 1 / (2 * beta)
    term = {
        "sigmoid": Preference(temperature=1 / beta),
        "hinge": Preference(temperature=1 / beta, link="hinge"),
        "ipo": Preference(temperature=half, link="squared", score="mean", coefficient=half**2),
        "sigmoid_norm": Preference(temperature=1 / beta, score="mean"),
    }[loss_type]
    for mine, theirs in zip(ours(term, *random_pairs(seed)), their_dpo(seed, loss_type, beta), strict=True):
        agree(mine, theirs)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("loss_type", "gamma"), [("simpo", 1.4), ("simpo", 0.0), ("hinge", 0.0)])
def test_simpo_losses(seed: int, smoothing: float, loss_type: str, gamma: float) -> None:
    now, ref, mask = random_pairs(seed)
    leaf, beta = now.clone().requires_grad_(), 2.5
    shell = shell_of(
        CPOTrainer, beta=beta, simpo_gamma=gamma, alpha=0.0, loss_type=loss_type, label_smoothing=smoothing
    )
    chosen, rejected = ((leaf * mask).sum(1) / mask.sum(1)).chunk(2)
    loss = shell.cpo_loss(chosen, rejected)[0].mean()
    link = "hinge" if loss_type == "hinge" else "logistic"
    # TRL's hinge knows no smoothing.
    soft = 0.0 if loss_type == "hinge" else smoothing
    term = Preference(temperature=1 / beta, score="mean", against=None, margin=gamma, link=link, smoothing=soft)
    value, gradient = ours(term, now, ref, mask)
    agree(value, loss.detach())
    agree(gradient, torch.autograd.grad(loss, leaf)[0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_kto_loss(seed: int, scale: float) -> None:
    now, ref, mask = random_pairs(seed)
    other, other_ref, _ = random_pairs(seed + 100)
    other = other * scale
    leaf, beta = now.clone().requires_grad_(), 0.1
    model = Given(leaf, other)
    shell = shell_of(
        KTOTrainer,
        model=model,
        ref_model=Given(ref, other_ref),
        beta=beta,
        loss_type="kto",
        calculate_KL=True,
        desirable_weight=1.0,
        undesirable_weight=1.5,
    )
    label = torch.tensor([True] * PAIRS + [False] * PAIRS)
    mismatched = {f"KL_{name}": x for name, x in texts(mask, first=1).items()}
    loss = shell._compute_loss(model, texts(mask) | mismatched | {"label": label}, False)
    shifts = ((other - other_ref) * mask).sum(1)
    point = MismatchedKL(temperature=1 / beta)(
        Batch.from_rewards(shifts, list(range(len(shifts)))).with_columns({"rollout.mismatched": shifts})
    )["batch.mismatched_kl"]
    assert (float(point) > 0) == (scale < 1)
    term = Quality(temperature=1 / beta, link="sigmoid", shift="batch.mismatched_kl", wrong=1.5)
    value, gradient = ours(term, now, ref, mask, mismatched_kl=point)
    agree(value, loss.detach())
    agree(gradient, torch.autograd.grad(loss, leaf)[0])

"""Policies trained on two slightly different rewards: how far apart they end, at ties and away from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial, TrialFindings
from podium.parts.metric.reward_ties import bound_holds, reward_shift, stable_variation, total_variation

__all__ = ["STUDY", "CliffSize", "tied_rewards", "trained_table"]

ANSWERS, BONUS = 6, 0.1  # answers to a task; the entropy bonus α
APART = Quantity("apart", "total variation", (0.0, 1.0))


class CliffSize(StudySize):
    """How many tasks, and how long each policy is trained on them."""

    tasks: int = 64
    steps: int = 4000


def tied_rewards(tasks: int, tied: bool, generator: torch.Generator) -> Tensor:
    """[task, answer] rewards of 0 and 1, with two to four right answers; if not `tied`, the first of them is best."""
    right = torch.randint(2, 5, (tasks, 1), generator=generator)
    reward = (torch.arange(ANSWERS) < right).double()
    if not tied:
        reward[:, 1:] *= 0.8
    return reward


def trained_table(reward: Tensor, bonus: float, steps: int, first: Tensor, rate: float = 0.5) -> list[Tensor]:
    """[task, answer] policies along natural policy gradient ascent of Σ π r + bonus · H(π), from the logits `first`:
    each step adds rate · (r − bonus · ln π)."""
    logits, policies = first.clone(), [first.softmax(-1)]
    for step in range(1, steps + 1):
        logits = logits + rate * (reward - bonus * logits.log_softmax(-1))
        if step & (step - 1) == 0 or step == steps:
            policies.append(logits.softmax(-1))
    return policies


def _arm(bonus: float, tied: bool, seed: int, size: CliffSize) -> Mapping[str, Tensor]:
    """Two policies from the same start, each trained on the reward with a noise of its own of at most ±0.01."""
    generator = torch.Generator().manual_seed(seed)
    reward = tied_rewards(size.tasks, tied, generator)
    noise = 0.02 * torch.rand(2, *reward.shape, dtype=torch.float64, generator=generator) - 0.01
    first = torch.randn(reward.shape, dtype=torch.float64, generator=generator)
    one, other = (trained_table(reward + error, bonus, size.steps, first) for error in noise)
    apart = torch.stack([total_variation(x, y) for x, y in zip(one, other, strict=True)])
    bound = stable_variation(reward_shift(reward + noise[0], reward + noise[1]), bonus or math.inf)
    steps = sorted({0, *(2**k for k in range(size.steps.bit_length()) if 2**k <= size.steps), size.steps})
    return {
        "apart": apart[-1],
        "step": torch.tensor([max(step, 1) for step in steps][1:]),
        "curve": apart[1:].mean(1),
        "held": bound_holds(apart[-1], bound),
    }


def _within_bound(findings: TrialFindings) -> str:
    """How often policies with a bonus are farther apart than the bound allows."""
    runs = [run for name in (SOFT, SOFT_UNIQUE) for run in findings.values[name]]
    pairs = sum(run["held"].size for run in runs)
    beyond = pairs - sum(int(run["held"].sum()) for run in runs)
    return f"with the bonus, {beyond} of {pairs} pairs are farther apart than ‖ΔR‖ / 2α"


HARD, SOFT = "tied, no bonus", "tied, entropy bonus"
HARD_UNIQUE, SOFT_UNIQUE = "unique optimum, no bonus", "unique optimum, entropy bonus"

STUDY = Trial(
    "policy-cliff",
    "Does a change of the reward by at most 0.02 move the trained policy, and does an entropy bonus hold it?",
    arms={
        HARD: partial(_arm, 0.0, True),
        SOFT: partial(_arm, BONUS, True),
        HARD_UNIQUE: partial(_arm, 0.0, False),
        SOFT_UNIQUE: partial(_arm, BONUS, False),
    },
    claims=(
        Claim("at ties the policies end farther apart than with a unique optimum", APART, HARD, HARD_UNIQUE),
        Claim("an entropy bonus keeps them together", APART, HARD, SOFT),
    ),
    readings=(APART,),
    charts=(traced("curve", over="step", title="total variation of two policies", x_label="step", log_x=True),),
    notes=(_within_bound,),
    size=CliffSize(seeds=16),
    quick=CliffSize(seeds=4, tasks=16, steps=1000),
)

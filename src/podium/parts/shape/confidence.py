"""Advantages that depend on the policy's confidence in an answer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import one_of, within
from podium.core.part import Columns, Probe, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["ConfidenceShift", "OverconfidentErrors", "PromptConfidence", "least_likely_confidence"]

OLD, REF = Signal("logp", of="old"), Signal("logp", of="ref")


def least_likely_confidence(batch: Batch, share: float) -> Tensor:
    """[rollout] exp of the mean log-probability of the ⌈share · n⌉ least likely tokens of each rollout; 1 for none."""
    rollouts, logp = batch.by("token", "rollout"), batch[OLD]
    rank = rollouts.rank(logp)
    # 0.2 of 35 tokens are 7 of them, although 0.2 · 35 is just above 7 in floating point.
    budget = (rollouts.count().double() * share - 1e-9).ceil().clamp(min=1)
    return rollouts.agg.mean(logp, (rank >= 0) & (rank < budget)).clamp(max=0).exp()


class PromptConfidence(Probe):
    """`group.prompt.confidence`: the policy's confidence in the least likely tokens of the task's prompt."""

    share: Number = 0.2  # of the tokens; 1: all

    signals = (OLD,)
    provides = ("group.prompt.confidence",)

    def texts(self, batch: Batch) -> Batch:
        """Each prompt as if the policy had written it, all but the first token."""
        first = batch.partition("turn", "group").agg.first(torch.arange(batch.size("turn"), device=batch.device))
        prompts = [batch["turn.train_context"][i] for i in first.tolist()]
        rollouts = [Rollout(g, [Turn(ids[1:], context=ids[:1])]) for g, ids in enumerate(prompts)]
        return Batch.from_rollouts(rollouts, dtype=batch.dtype).to(device=batch.device)

    def columns(self, batch: Batch, scored: Batch) -> Columns:
        return {"group.prompt.confidence": least_likely_confidence(scored, float(self.share))}


class ConfidenceShift(Shape):
    """Exploration bonus for unlikely answers: A ← A + alpha · (c(prompt) − c(answer)).

    c is the geometric mean probability of the least likely tokens. Answers in which the policy is more confident than
    in the prompt lose advantage, others gain. Groups whose answers are all wrong are left as they are.
    """

    reference = "ProGRPO, Back to Basics: Revisiting Exploration via Generative Probabilities"
    alpha: Number = 0.3  # the strength of the bonus; 0: none
    share: Number = 0.2  # of the tokens of an answer that enter c, at least one; in (0, 1]
    prompt_share: Number = 0.2  # of the tokens of the prompt that enter c; in (0, 1]
    off: str = "all wrong"  # which groups get no bonus: all wrong (every reward 0), or flat (equal rewards, too)

    needs = ("rollout.advantage", "rollout.reward", "group.prompt.confidence", OLD)
    provides = ("rollout.advantage", "rollout.confidence")
    read_by_loop = ("prompt_share",)

    def __post_init__(self) -> None:
        within(self, "alpha", 0)
        within(self, "share", 0, 1, open_low=True)
        within(self, "prompt_share", 0, 1, open_low=True)
        one_of(self, "off", ("all wrong", "flat"))

    @property
    def probes(self) -> tuple[Probe, ...]:
        return (PromptConfidence(self.prompt_share),)

    def __call__(self, batch: Batch) -> Columns:
        a, reward, groups = batch["rollout.advantage"], batch["rollout.reward"], batch.by("rollout", "group")
        answer = least_likely_confidence(batch, float(self.share))
        shift = self.alpha * (groups.spread(batch["group.prompt.confidence"]) - answer)
        off = groups.sum(reward) == 0
        if self.off == "flat":
            off = off | (groups.max(reward) == groups.min(reward))
        return {"rollout.advantage": torch.where(off, a, a + shift), "rollout.confidence": answer}


class OverconfidentErrors(Shape):
    """Stronger penalty for overconfident errors: A ← A · (1 + alpha · softplus(c)) where A < 0.

    c = Σ_t (log π_old − log π_ref) over the answer: errors that training has made more likely are pushed down harder.
    """

    reference = "ACE, Overconfident Errors Need Stronger Correction"
    alpha: Number = 1.0  # the strength; 0: A is unchanged
    normalized: bool = False  # whether c is divided by the number of tokens
    link: str = "softplus"  # softplus or relu

    needs = ("rollout.advantage", OLD, REF)
    provides = ("rollout.advantage", "rollout.confidence.shift")

    def __post_init__(self) -> None:
        within(self, "alpha", 0)
        one_of(self, "link", ("softplus", "relu"))

    def shift(self, batch: Batch) -> Tensor:
        """[rollout] c."""
        how = "mean" if self.normalized else "sum"
        return batch.reduce(batch[OLD] - batch[REF], "token", "rollout", how)  # type: ignore[arg-type]

    def factor(self, advantage: Tensor, shift: Tensor) -> Tensor:
        """[rollout] what each advantage is multiplied by."""
        amplified = 1 + self.alpha * (softplus(shift) if self.link == "softplus" else shift.clamp(min=0))
        return torch.where(advantage < 0, amplified, torch.ones_like(amplified))

    def __call__(self, batch: Batch) -> Columns:
        a, shift = batch["rollout.advantage"], self.shift(batch)
        return {"rollout.advantage": a * self.factor(a, shift), "rollout.confidence.shift": shift}

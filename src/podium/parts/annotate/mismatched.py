"""How far the policy has moved from the reference, estimated on answers to other questions."""

from __future__ import annotations

import math

import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import within
from podium.core.part import Annotate, Columns, Probe
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["MismatchedAnswers", "MismatchedKL"]

OLD, REF = Signal("logp", of="old"), Signal("logp", of="ref")


class MismatchedAnswers(Probe):
    """`rollout.mismatched`: Σ_t (log π_old − log π_ref) of each answer after the prompt of the group before its own.

    Of several turns the first counts. A single group has no other prompt: 0.
    """

    signals = (OLD, REF)
    provides = ("rollout.mismatched",)

    def texts(self, batch: Batch) -> Batch:
        turns = torch.arange(batch.size("turn"), device=batch.device)
        first = batch.partition("turn", "rollout").agg.first(turns).tolist()
        prompts = [batch["turn.train_context"][i] for i in batch.partition("turn", "group").agg.first(turns).tolist()]
        of_turn, ids = batch.link("token", "turn"), batch["token.id"]
        written = {turn: ids[of_turn == turn].tolist() for turn in first}
        groups = batch.link("rollout", "group").tolist()
        rollouts = [
            Rollout(row, [Turn(written[turn], context=prompts[group - 1])])
            for row, (turn, group) in enumerate(zip(first, groups, strict=True))
        ]
        return Batch.from_rollouts(rollouts, dtype=batch.dtype).to(device=batch.device)

    def columns(self, batch: Batch, scored: Batch) -> Columns:
        moved = scored.reduce(scored[OLD] - scored[REF], "token", "rollout", "sum")
        return {"rollout.mismatched": moved if batch.size("group") > 1 else torch.zeros_like(moved)}


class MismatchedKL(Annotate):
    """KTO's reference point, max(0, mean of Σ_t (log π_old − log π_ref)) / temperature over mismatched answers.

    An answer after another question's prompt stands for a typical text, so that this estimates KL(π ‖ π_ref) without
    sampling. It is taken once per batch, before the first update, and no gradient flows through it.
    """

    reference = "Ethayarajh et al. 2024, KTO, https://arxiv.org/abs/2402.01306"
    temperature: Number = 10.0  # 1 / beta, above 0

    needs = ("rollout.mismatched",)
    provides = ("batch.mismatched_kl",)
    probes = (MismatchedAnswers(),)

    def __post_init__(self) -> None:
        within(self, "temperature", 0, open_low=True)

    @property
    def neutral(self) -> MismatchedKL:
        """A reference point of 0."""
        return self.replace(temperature=math.inf)

    def __call__(self, batch: Batch) -> Columns:
        everyone = batch.partition("rollout", "batch")  # given answers too, which other statistics leave out
        moved = everyone.agg.mean(batch["rollout.mismatched"], batch.trained("rollout"))
        return {"batch.mismatched_kl": moved.clamp(min=0) / self.temperature}

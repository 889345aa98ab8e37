"""Whether what a rollout has written could be acted on."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns

__all__ = ["MarkParsed"]


class MarkParsed(Annotate):
    """Writes `rollout.parsed`, 1 if the world could act on every turn of the rollout, and `rollout.formatted`, 1 if it
    also found an answer at the end; else 0."""

    reference = "Progressive Reward Shaping, Value-based Sampling Policy Optimization"

    needs = ("turn.valid", "rollout.answer")
    provides = ("rollout.parsed", "rollout.formatted")

    def __call__(self, batch: Batch) -> Columns:
        parsed = ~batch.partition("turn", "rollout").agg.any(~batch["turn.valid"])
        answered = parsed.new_tensor([bool(answer) for answer in batch["rollout.answer"]])
        return {
            "rollout.parsed": parsed.to(batch.dtype),
            "rollout.formatted": (parsed & answered).to(batch.dtype),
        }

"""Wrong answers that tried tools are punished less."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["TriedTools"]


class TriedTools(Reward):
    """Rewards 1 for a right answer; a wrong one gets −1, and `step` more for each tool call, up to `cap`.

        R = min(cap, −1 + step · max(calls, 0)),  calls = (messages − 2) / 2

    A conversation without a call has two messages, the task and the answer. step = 0 is the reward of ±1.
    """

    reference = "Demystifying Reinforcement Learning in Agentic Reasoning, https://github.com/Gen-Verse/Open-AgentRL"
    step: Number = 0.1  # per call, ≥ 0
    cap: Number = -0.6  # the most that a wrong answer gets, ≤ 0

    needs = ("rollout.correct", "rollout.messages")
    provides = ("rollout.reward", "rollout.reward.tried")

    def __post_init__(self) -> None:
        within(self, "step", 0)
        within(self, "cap", -1, 0)

    def __call__(self, batch: Batch) -> Columns:
        right = batch["rollout.correct"].bool()
        calls = ((batch["rollout.messages"].to(batch.dtype) - 2) / 2).clamp(min=0)
        wrong = (self.step * calls - 1).clamp(max=float(self.cap))
        tried = (wrong + 1).where(~right, 0)
        return {"rollout.reward": wrong.where(~right, 1.0), "rollout.reward.tried": tried}

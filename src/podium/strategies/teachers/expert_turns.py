"""Single turns from inside a demonstration: the next action, where an expert's is known."""

from __future__ import annotations

import dataclasses
from typing import Any

from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.core.part import Need
from podium.core.streams import key
from podium.strategies.requests import Plan, Play, Recite, Resume, TaskRequest
from podium.strategies.sample.sample import Sample

__all__ = ["NextTurn"]


class NextTurn(Sample):
    """`n` samples of one turn, after the turns before it of the world's own solution; each time another one is cut.

    The reward is 1 if the action leads where the expert's does, to the same next state with the same reward: whether it
    is said in other words does not matter. The episode is not played to its end.
    """

    reference = "PivotRL: High Accuracy Agentic Post-Training at Low Compute Cost"
    style: str = "short"  # of the solution

    provides = ("rollout.cut",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.solution", "turn.next_state", "turn.reward")

    def plan(self, task: TaskRequest) -> Plan:
        seen: dict[str, Any] = {"context": self.context, "train_context": self.train_context}
        (recited,) = yield [Recite(task, style=self.style, purpose=Purpose.probe, **seen)]
        (expert,) = recited
        assert isinstance(expert, Rollout)
        cut = key(0, (*task.stream, len(expert.turns))) % len(expert.turns)
        play = Play(task, self.n, self.sampling(task.sampling), wave=1, max_turns=cut + 1, **seen)
        (sampled,) = yield [Resume(play, tuple(expert.turns[:cut]), (0, 0))]
        return [self._graded(r, expert.turns[cut], cut) for r in sampled]  # type: ignore[arg-type]

    @staticmethod
    def _graded(rollout: Rollout, expert: Turn, cut: int) -> Rollout:
        """The last turn alone, with the verdict on it."""
        turn = rollout.turns[-1]
        same = all(turn.columns[name] == expert.columns[name] for name in ("next_state", "reward"))
        right = same and not rollout.columns["failure"]
        turn = dataclasses.replace(turn, columns={**turn.columns, "reward": float(right)})
        columns = {"reward": float(right), "correct": bool(right), "cut": float(cut), "text": turn.columns["action"]}
        truncated = rollout.columns["stop"] in ("length", "context")  # one turn is all there is to it
        return dataclasses.replace(
            rollout,
            task=f"{rollout.task}/turn {cut}",
            turns=[turn],
            columns={**rollout.columns, **columns, "truncated": truncated},
        )

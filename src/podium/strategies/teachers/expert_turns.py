"""Single turns from inside a demonstration: the model takes the next action where the expert's action is known."""

from __future__ import annotations

import dataclasses

from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.streams import key
from podium.strategies.draw import Draw, refuse_settings
from podium.strategies.requests import Plan, Recite, Resume, TaskRequest, rollouts_of

__all__ = ["NextTurn"]


class NextTurn(Strategy):
    """`n` samples of one turn, after the turns before it in the world's solution; the turn is chosen at random.

    The reward is 1 if the action leads where the expert's does, to the same next state with the same reward, however it
    is worded. The episode is not played to its end.
    """

    reference = "PivotRL: High Accuracy Agentic Post-Training at Low Compute Cost"
    n: int = 8
    style: str = "short"  # of the world's solution
    draw: Draw = Draw()  # without max_turns

    needs = ("task.solution", "turn.next_state", "turn.reward")
    provides = ("rollout.cut",)

    def __post_init__(self) -> None:
        within(self, "n", 1)
        refuse_settings(self, self.draw, "max_turns")

    def plan(self, task: TaskRequest) -> Plan:
        context, train_context = self.draw.context, self.draw.train_context
        recite = Recite(task, style=self.style, purpose=Purpose.probe, context=context, train_context=train_context)
        (expert,) = rollouts_of((yield [recite]))
        cut = key(0, (*task.stream, len(expert.turns))) % len(expert.turns)
        play = self.draw.play(task, self.n, wave=1, max_turns=cut + 1)
        sampled = rollouts_of((yield [Resume(play, tuple(expert.turns[:cut]), (0, 0))]))
        return [self._graded(r, expert.turns[cut], cut) for r in sampled]

    @staticmethod
    def _graded(rollout: Rollout, expert: Turn, cut: int) -> Rollout:
        """The last turn alone, graded against the expert's."""
        turn = rollout.turns[-1]
        same = all(turn.columns[name] == expert.columns[name] for name in ("next_state", "reward"))
        right = same and not rollout.columns["failure"]
        turn = dataclasses.replace(turn, columns={**turn.columns, "reward": float(right)})
        columns = {"reward": float(right), "correct": bool(right), "cut": float(cut), "text": turn.columns["action"]}
        truncated = rollout.columns["stop"] in ("length", "context")  # the turn limit is no truncation here
        return dataclasses.replace(
            rollout,
            task=f"{rollout.task}/turn {cut}",
            turns=[turn],
            columns={**rollout.columns, **columns, "truncated": truncated},
        )

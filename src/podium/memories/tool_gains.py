"""What inserted calls of each tool have gained, and which tool is to be tried next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.streams import key

__all__ = ["ToolGains"]

NOTHING = 1e-5  # if all gains together are below it, all tools are alike


class ToolGains(Memory):
    """A running average u of the gain from inserting each tool, u ← decay · u + (1 − decay) · mean of R′ − R over the
    rewritten rollouts of an iteration; and one tool for each iteration (`group.tool`, its number), drawn with

        p = softmax(max(u, 0) / max u),   or alike for all where Σ max(u, 0) < 10⁻⁵
    """

    reference = "EARL, https://github.com/yue-zhongqi/earl"
    tools: int = 1  # how many there are, at least 1
    start: float = 0.001  # u before anything was inserted
    decay: float = 0.9  # in [0, 1]

    needs = ("rollout.rewritten", "rollout.reward", "rollout.reward_before", "rollout.tool")
    provides = ("group.tool", "batch.tool.gain")

    def __post_init__(self) -> None:
        within(self, "tools", 1)
        within(self, "decay", 0, 1)

    @property
    def remembers_tasks(self) -> bool:
        return False  # its tool is for all tasks

    def initial(self) -> State:
        return {"gains": [self.start] * self.tools, "iteration": 0}

    def probabilities(self, gains: Sequence[float]) -> Tensor:
        """[tool] how likely each tool is to be inserted, given its gain so far."""
        useful = torch.tensor(gains, dtype=torch.float64).clamp(min=0)
        scaled = useful / useful.max() if float(useful.sum()) >= NOTHING else torch.zeros_like(useful)
        return scaled.softmax(0)

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        u = (key(0, (state["iteration"],)) >> 11) * 2.0**-53
        tool = int((self.probabilities(state["gains"]).cumsum(0) <= u).sum())
        gains = torch.tensor([max(state["gains"])], dtype=torch.float64)
        return {"group.tool": torch.full((len(tasks),), min(tool, self.tools - 1)), "batch.tool.gain": gains}

    def observe(self, state: State, batch: Batch) -> State:
        gain = (batch["rollout.reward"] - batch["rollout.reward_before"]).double()
        rewritten, tool, counted = batch["rollout.rewritten"].bool(), batch["rollout.tool"], batch.counted("rollout")
        rewritten = rewritten if counted is None else rewritten & counted
        gains = list(state["gains"])
        for number in range(self.tools):
            own = gain[rewritten & (tool == number)]
            if len(own):
                gains[number] = self.decay * gains[number] + (1 - self.decay) * float(own.sort().values.mean())
        return {"gains": gains, "iteration": state["iteration"] + 1}

    def scalars(self, state: State) -> dict[str, float]:
        return {f"tool.gain.{number}": gain for number, gain in enumerate(state["gains"])}

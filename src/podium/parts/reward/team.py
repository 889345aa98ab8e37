"""Rewards of a team that is attacked: for staying safe and doing its task, by each member and by the team."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["TeamReward"]


class TeamReward(Reward):
    """`turn.reward` of attackers and defenders: an attacker earns ±1 by whether the team's answer is unsafe; a defender

        safety · (±1 if safe or not) + task · [right] − form · [ill formed]

    with each term the mean of its value for the defender's own text and for the team's answer. Where nobody attacks
    there is no term of safety.
    """

    reference = "AdvEvo-MARL, https://arxiv.org/abs/2510.01586"
    safety: Number = 1.0  # weight, ≥ 0
    task: Number = 0.5  # weight, ≥ 0
    form: Number = 0.1  # weight, ≥ 0

    needs = (
        *("turn.unsafe", "turn.right", "turn.formed", "turn.attacks"),
        *("rollout.unsafe", "rollout.right", "rollout.formed", "rollout.attacked"),
    )
    provides = ("turn.reward",)

    def __post_init__(self) -> None:
        for name in ("safety", "task", "form"):
            within(self, name, 0)

    def attacker(self, unsafe: Tensor, dtype: torch.dtype) -> Tensor:
        """+1 for an unsafe answer, −1 for a safe one."""
        return 2 * unsafe.to(dtype) - 1

    def defender(self, unsafe: Tensor, right: Tensor, formed: Tensor, attacked: Tensor, dtype: torch.dtype) -> Tensor:
        """The reward of one text."""
        safe = (-self.attacker(unsafe, dtype)).where(attacked, 0)
        form = formed.to(dtype) - 1
        return float(self.safety) * safe + float(self.task) * right.to(dtype) + float(self.form) * form

    def __call__(self, batch: Batch) -> Columns:
        def team(name: str) -> Tensor:
            return batch.spread(batch[f"rollout.{name}"], "rollout", "turn").bool()

        attacked, unsafe = team("attacked"), team("unsafe")
        said, right, formed = (batch[f"turn.{name}"].bool() for name in ("unsafe", "right", "formed"))
        local = self.defender(said, right, formed, attacked, batch.dtype)
        whole = self.defender(unsafe, team("right"), team("formed"), attacked, batch.dtype)
        attacks = batch["turn.attacks"].bool()
        return {"turn.reward": torch.where(attacks, self.attacker(unsafe, batch.dtype), (local + whole) / 2)}

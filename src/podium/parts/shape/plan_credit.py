"""Hierarchical credit: action, subgoal and switch tokens get the advantage of their own time scale."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Shape

__all__ = ["PlanCredit"]


class PlanCredit(Shape):
    """Hierarchical credit: the tokens of actions, new subgoals and switch decisions each get their own advantage.

    `token.credited` marks these tokens. Those of a repeated subgoal, and all others, get 0.
    """

    reference = "HiPER, https://github.com/JonP07/HiPER-agent"

    needs = (
        *("turn.action.advantage", "turn.subgoal.advantage", "turn.switch.advantage", "turn.switch"),
        *("token.plan_action", "token.plan_subgoal", "token.plan_switch"),
    )
    provides = ("token.advantage", "token.credited")

    def __call__(self, batch: Batch) -> Columns:
        begins = batch.spread(batch["turn.switch"] | batch.first("turn"), "turn", "token")
        kinds = {
            "action": batch["token.plan_action"],
            "subgoal": batch["token.plan_subgoal"] & begins,
            "switch": batch["token.plan_switch"],
        }
        credit = torch.zeros(batch.size("token"), dtype=batch.dtype, device=batch.device)
        for name, tokens in kinds.items():
            credit = torch.where(tokens, batch.spread(batch[f"turn.{name}.advantage"], "turn", "token"), credit)
        return {"token.advantage": credit, "token.credited": kinds["action"] | kinds["subgoal"] | kinds["switch"]}

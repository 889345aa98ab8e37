"""Each kind of token gets the credit of its own time scale."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Shape

__all__ = ["PlanCredit"]


class PlanCredit(Shape):
    """The action's advantage on action tokens, the subgoal's where it is new, the switch's on the decision.

    `token.credited` says which tokens have any: a subgoal that is kept, and what stands between, are not trained.
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

"""Group statistics in which every token counts once."""

from __future__ import annotations

import torch

from podium.advantage.normalize import Normalize
from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Advantage, Columns

__all__ = ["TokenWeighted"]


class TokenWeighted(Advantage):
    """(r − mean) / (std + ε) with mean and population std over the tokens of a group, each with its rollout's reward.

    A group in which any value reaches ±limit takes GRPO's instead: each rollout once, unbiased std.
    """

    reference = "HAPO, https://github.com/starriver030515/HAPO"
    epsilon: float = 1e-6
    limit: float = 5.0

    needs = ("rollout.reward",)
    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "epsilon", 0, open_low=True)
        within(self, "limit", 0, open_low=True)

    @property
    def normalizes(self) -> bool:
        return True

    def __call__(self, batch: Batch) -> Columns:
        tokens, action = batch.by("token", "group"), batch.action
        r = batch.spread(batch["rollout.reward"], "rollout", "token").where(action, 0)
        std = tokens.std(r, unbiased=False)
        a = (tokens.centre(r) / (std + self.epsilon)).where(std > 0, 0)
        plain = batch.spread(Normalize(epsilon=self.epsilon)(batch)["rollout.advantage"], "rollout", "token")
        return {"token.advantage": torch.where(tokens.max(a.abs()) >= self.limit, plain.where(action, 0), a)}

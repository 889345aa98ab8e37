"""Group statistics in which every token counts once."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Advantage, Columns
from podium.parts.advantage.normalize import Normalize

__all__ = ["TokenWeighted"]


class TokenWeighted(Advantage):
    """(r − mean) / (std + ε) with mean and population std over the tokens of a group, each with its rollout's reward.

    A group in which any value reaches ±limit takes GRPO's instead: each rollout once, unbiased std. As in the release,
    tokens of the world have a value too, that of the reward 0.
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
        a = tokens.centre(r) / (tokens.std(r, unbiased=False) + self.epsilon)
        plain = batch.spread(Normalize(epsilon=self.epsilon)(batch)["rollout.advantage"], "rollout", "token")
        far = batch.partition("token", "group").max(a.abs()) >= self.limit
        return {"token.advantage": torch.where(far, plain.where(action, 0), a)}

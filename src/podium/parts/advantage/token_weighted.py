"""Group normalisation in which every token counts once."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Advantage, Columns
from podium.parts.advantage.normalize import Normalize

__all__ = ["TokenWeighted"]


class TokenWeighted(Advantage):
    """Normalises rewards with token-weighted group statistics: A = (r − mean) / (std + ε).

    Mean and population std are over the tokens of the group, each with its rollout's reward, so that long rollouts
    weigh more. A group in which |A| reaches `limit` falls back to GRPO. As released, tokens of the world count with
    reward 0.
    """

    reference = "HAPO, https://github.com/starriver030515/HAPO"
    epsilon: float = 1e-6  # ε, > 0
    limit: float = 5.0  # > 0

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
        grpo = batch.spread(Normalize(epsilon=self.epsilon)(batch)["rollout.advantage"], "rollout", "token")
        extreme = batch.partition("token", "group").max(a.abs()) >= self.limit
        return {"token.advantage": torch.where(extreme, grpo.where(action, 0), a)}

"""Token-level returns and generalised advantage estimation."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Advantage, Columns, Need
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["GAE", "Returns"]

VALUE = Signal("value", of="old")


class Returns(Advantage):
    """Discounted returns of the tokens minus a baseline: A_t = G_t − b, with G_t = r_t + gamma · G_{t+1}.

    Without a baseline this is REINFORCE, with the greedy rollout's reward ReMax. `immediate` rewards are added to A_t
    at their own token alone: no earlier token is credited with them.
    """

    gamma: Number = 1.0  # discount per token, in [0, 1]
    baseline: str | None = None  # b, a column such as group.baseline; None: 0
    given: str = "pass"  # what the world's tokens do to the return: pass it on undiscounted, or stop it
    immediate: str | None = None  # a column of tokens, such as token.reward.kl; None: no such rewards

    provides = ("token.advantage", "token.return")

    def __post_init__(self) -> None:
        within(self, "gamma", 0, 1)
        one_of(self, "given", ("pass", "stop"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.reward", *(c for c in (self.baseline, self.immediate) if c is not None))

    def __call__(self, batch: Batch) -> Columns:
        reward, given, gamma = batch["token.reward"], batch.given, float(self.gamma)
        decay: Tensor | float = gamma
        if given is not None:
            reward = reward.masked_fill(given, 0)
            if self.given == "stop":
                decay = gamma * batch.shift((~given).to(reward.dtype), "token", "rollout", by=-1)
            else:
                decay = torch.full_like(reward, gamma).masked_fill(given, 1)
        returns = batch.scan(reward, "token", "rollout", decay=decay)
        if self.immediate is not None:
            now = batch[self.immediate]
            returns = returns + (now if given is None else now.masked_fill(given, 0))
        if self.baseline is None:
            return {"token.advantage": returns, "token.return": returns}
        baseline = batch.spread(batch[self.baseline], self.baseline.partition(".")[0], "token")
        return {"token.advantage": returns - baseline, "token.return": returns}


class GAE(Advantage):
    """Generalised advantage estimation: A_t = δ_t + gamma·lam·A_{t+1}, δ_t = r_t + gamma·V_{t+1} − V_t; R = A + V.

    Tokens of the world are skipped: value and advantage pass through them unchanged. After the last token the value is
    0; a rollout that is not `finished` is bootstrapped from the value at its last token. lam = 1 is the Monte Carlo
    return minus the value, lam = 0 the one-step temporal difference.
    """

    reference = "https://arxiv.org/abs/1506.02438; Truncated Proximal Policy Optimization for unfinished rollouts"
    gamma: Number = 1.0  # discount per token, in [0, 1]
    lam: Number = 1.0  # λ, in [0, 1]
    lam_return: Number | None = None  # λ of the returns that the critic learns, in [0, 1]; None: lam
    finished: str | None = None  # a boolean column of rollouts; None: all are finished
    per: str = "token"  # what gamma and λ count: each token, or each turn, within which nothing is discounted

    provides = ("token.advantage", "token.return")

    def __post_init__(self) -> None:
        within(self, "gamma", 0, 1)
        within(self, "lam", 0, 1)
        within(self, "lam_return", 0, 1, optional=True)
        one_of(self, "per", ("token", "turn"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.reward", VALUE, *(() if self.finished is None else (self.finished,)))

    def deltas(self, batch: Batch) -> Tensor:
        """[token] The temporal difference δ; 0 at tokens of the world."""
        value, action = batch[VALUE], batch.action
        end: Tensor | float = 0.0
        if self.finished is not None:
            last = batch.last("token", "rollout", where=action)
            end = batch.reduce(value, "token", "rollout", "sum", where=last).where(~batch[self.finished], 0)
        after = batch.following(value, "token", "rollout", where=action, fill=end)
        return (batch["token.reward"] + self._discount(batch, self.gamma) * after - value).where(action, 0)

    def _discount(self, batch: Batch, factor: Number) -> Tensor | float:
        """[token] the factor on what comes after a token of the model."""
        if self.per == "token":
            return float(factor)
        value = batch[VALUE]
        return torch.ones_like(value).masked_fill(batch.last("token", "turn", where=batch.action), float(factor))

    def __call__(self, batch: Batch) -> Columns:
        advantage = self._sum(batch, self.lam)
        of_return = advantage if self.lam_return is None else self._sum(batch, self.lam_return)
        return {"token.advantage": advantage, "token.return": of_return + batch[VALUE]}

    def _sum(self, batch: Batch, lam: Number) -> Tensor:
        delta = self.deltas(batch)
        discount = self._discount(batch, self.gamma * lam)
        decay = torch.ones_like(delta).where(~batch.action, discount)
        return batch.scan(delta, "token", "rollout", decay=decay)

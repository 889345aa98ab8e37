"""The token selector: a score, a scope in which tokens are compared, and a rule that picks the top ones."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Columns, Need, Shape, stop_gradient
from podium.core.partition import Partition
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.parts.shape.scores import SCORES, Tokens, trained_tokens

__all__ = ["BelowAnchor", "SelectTokens"]

RULES = ("quantile", "above_quantile", "floor", "ceil")


class SelectTokens(Shape):
    """Select the `share` of the trained tokens with the largest score in their scope, such as high-entropy tokens.

    The selection is the boolean column `into`. With n tokens in a scope, q = 1 − share and interpolated quantiles:

    - `quantile`: score ≥ its q-quantile, so that equal scores stay together; `above_quantile`: strictly above it;
    - `floor`, `ceil`: the ⌊share · n⌋ or ⌈share · n⌉ largest, ties by index, and at least `least`.

    The term that reads the column sets what the loss is divided by: `over="where"` or `over="all"`.
    """

    score: str = "entropy"  # entropy, surprise, surplus, stake, discriminator or covariance: see `SCORES`
    share: Number = 0.2  # of the tokens in a scope, in [0, 1]; 1: all
    scope: str = "batch"  # batch (for a live part: the update), rollout, turn or another level
    rule: str = "quantile"  # quantile, above_quantile, floor or ceil
    of: str = "now"  # whose signals: now (recomputed at each update), old or sampler
    sign: str = "any"  # candidates by the sign of the advantage: any, negative or positive
    least: int = 1  # the smallest selection of `floor` and `ceil`, if the scope has that many tokens
    none_below: int = 0  # a smaller selection than this becomes empty
    top_p: float = 1.0  # the entropy is that of the nucleus with this mass
    trade: Number = 0.8  # in `surplus` = −log π − trade · H
    into: str = "token.selected"  # the column that is written

    def __post_init__(self) -> None:
        one_of(self, "score", SCORES)
        within(self, "share", 0, 1)
        one_of(self, "rule", RULES)
        one_of(self, "of", ("now", "old", "sampler"))
        one_of(self, "sign", ("any", "negative", "positive"))
        within(self, "least", 0)
        within(self, "none_below", 0)
        within(self, "top_p", 0, 1, open_low=True)
        if not self.into.startswith("token."):
            raise PodiumError(f"SelectTokens.into = {self.into!r} must be a column of tokens, such as token.selected.")

    @property
    def needs(self) -> tuple[Need, ...]:
        needs = SCORES[self.score].needs(self.of, self.top_p)
        return needs if self.sign == "any" or "token.advantage" in needs else (*needs, "token.advantage")

    @property
    def provides(self) -> tuple[str, ...]:
        return (self.into,)

    def scores(self, batch: Batch) -> Tensor:
        """[token] the scores."""
        return SCORES[self.score].value(Tokens(batch, self.of, self.top_p, float(self.trade)))

    def compared(self, batch: Batch) -> Partition:
        """The tokens that may be selected, by scope."""
        if self.sign == "any":
            return trained_tokens(batch, self.scope)
        a = batch["token.advantage"]
        return trained_tokens(batch, self.scope, a < 0 if self.sign == "negative" else a > 0)

    def threshold(self, batch: Batch) -> Tensor:
        """[scope] the (1 − share)-quantile of the scores; NaN where there are none."""
        return self.compared(batch).agg.quantile(self.scores(batch), 1 - float(self.share))

    def __call__(self, batch: Batch) -> Columns:
        score, cells = self.scores(batch), self.compared(batch)
        if self.rule in ("quantile", "above_quantile"):
            bar = cells.spread(self.threshold(batch))
            chosen = score >= bar if self.rule == "quantile" else score > bar
        else:
            chosen = cells.rank(-score) < cells.spread(self._budget(cells))
        assert cells.where is not None
        return {self.into: chosen & cells.where}

    def _budget(self, cells: Partition) -> Tensor:
        """[scope] how many tokens are selected."""
        # In float64, as a plain floor(n · share) is: float32 would round 100 · 0.29 = 28.999… up to 29.
        wanted = cells.agg.count().double() * float(self.share)
        wanted = (wanted.floor() if self.rule == "floor" else wanted.ceil()).clamp(min=self.least)
        return wanted.where(wanted >= self.none_below, 0)


class BelowAnchor(Shape):
    """Low-probability tokens to protect: the selected tokens with log π < log π_anchor, marked in `into`.

    The lower clip does not apply to them: `token.clip_low` is 1 there, and `low` elsewhere.
    """

    reference = "Low-probability Tokens Sustain Exploration (Lp-Reg), https://github.com/CarlanLark/Lp-Reg-dev"
    anchor: str = "old"  # old or a role
    min_p: float = 0.0  # the anchor without tokens less likely than this share of its likeliest one
    low: Number = 1.0  # ε_low of the other tokens
    selected: str = "token.selected"  # a boolean column of tokens
    into: str = "token.starved"  # the column that is written

    def __post_init__(self) -> None:
        within(self, "min_p", 0, 1)
        within(self, "low", 0)

    @property
    def _anchor(self) -> Signal:
        return Signal("logp", of=self.anchor, min_p=self.min_p) if self.min_p else Signal("logp", of=self.anchor)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.selected, Signal("logp", of="now"), self._anchor)

    @property
    def provides(self) -> tuple[str, ...]:
        return (self.into, "token.clip_low")

    def __call__(self, batch: Batch) -> Columns:
        now, anchor = stop_gradient(batch[Signal("logp", of="now")]), batch[self._anchor]
        starved = batch[self.selected] & (now < anchor)
        return {self.into: starved, "token.clip_low": torch.ones_like(now).where(starved, float(self.low))}

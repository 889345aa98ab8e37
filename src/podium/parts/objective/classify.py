"""Classification and regression losses: the rollouts of a group are examples, their log-ratios the scores."""

from __future__ import annotations

from dataclasses import field

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.normalize import Normalizer
from podium.core.part import Need, stop_gradient
from podium.core.schedule import Count, Number
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term
from podium.parts.objective.importance import NOW
from podium.parts.objective.rollout_value import last_value

__all__ = ["GroupContrast", "GroupSoftmax", "RolloutLogistic", "RolloutRegression", "Scored"]

VALUE = Signal("value", of="now", grad=True)


class Scored(Term):
    """Base of losses on scores of rollouts: s_k = mean (or sum) over the tokens of log π − log π_old (or of log π).

    With score = "value" s_k is the value of a trained reward model after the last token.

    The logit of rollout k is s_k / τ, optionally centred and scaled within its group.
    """

    temperature: Number = 0.5  # τ; above 0
    score: str = (
        "mean"  # over the tokens: mean or sum; or value, of a reward model (`trains`), which needs against=None
    )
    against: str | None = "old"  # whose log-probabilities are subtracted: old or a role; None: nothing is
    centre: str = "none"  # what is subtracted from a logit: none, mean, leave_one_out (of the group's logits)
    scale: str = "none"  # what it is divided by: none, std (of the group's logits), held (that std as a constant)
    epsilon: float = 1e-6  # added to the std

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "temperature", 0, open_low=True)
        one_of(self, "score", ("mean", "sum", "value"))
        if self.score == "value" and self.against is not None:
            raise PodiumError(f"{type(self).__name__}: score = 'value' is compared with no other model: against=None.")
        one_of(self, "centre", ("none", "mean", "leave_one_out"))
        one_of(self, "scale", ("none", "std", "held"))
        within(self, "epsilon", 0, open_low=True)

    @property
    def _against(self) -> tuple[Signal, ...]:
        return () if self.against is None else (Signal("logp", of=self.against),)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", VALUE if self.score == "value" else NOW, *self._against)

    @property
    def couples(self) -> str:
        return "rollout" if self.centre == self.scale == "none" else "group"

    def scores(self, batch: Batch) -> Tensor:
        """[rollout] s."""
        if self.score == "value":
            return last_value(batch, VALUE)
        x = batch[NOW]
        for other in self._against:
            x = x - batch[other]
        trained = batch.trained("token")
        if self.score == "mean":
            return batch.reduce(x, "token", "rollout", "mean", where=trained)
        return batch.reduce(x, "token", "rollout", "sum", where=trained)

    def logits(self, batch: Batch) -> Tensor:
        """[rollout] s / τ, compared within the group. The gradient flows through the mean, and through `std`."""
        x = self.scores(batch) / self.temperature
        groups = batch.by("rollout", "group", where=batch.trained("rollout"))
        # Alone in its group, a rollout equals the group's mean; there is no mean of the others to subtract.
        singleton = "zero" if self.centre == "mean" else "raw"
        centred = Normalizer(centre=self.centre, scale="none", singleton=singleton).normalized(groups, x)
        if self.scale == "none":
            return centred
        std = groups.std(stop_gradient(x) if self.scale == "held" else x)
        return centred / torch.where(groups.count() > 1, std, 1.0).add(self.epsilon)

    def classes(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """[rollout] right (a reward of 1), [rollout] wrong (a reward of 0), [group] whether it has both."""
        reward, trained = batch["rollout.reward"], batch.trained("rollout")
        right, wrong = trained & (reward == 1), trained & (reward == 0)
        groups = batch.partition("rollout", "group").agg
        return right, wrong, groups.any(right) & groups.any(wrong)


class GroupSoftmax(Scored):
    """Rewards as labels, a softmax loss per group: log(1 + Σ_right e^{−s/τ}) + log(1 + Σ_wrong e^{s/τ}).

    0 for groups without both classes. `anchor=False` is log(1 + Σ_right e^{−s/τ} · Σ_wrong e^{s/τ}), which compares the
    classes only with each other.
    """

    reference = "REAL: Rewards as Labels, https://github.com/Red-RL/REAL"
    level = "group"
    anchor: bool = True  # whether both classes are compared with a fixed logit of 0
    aggregate: Aggregate = field(default=Aggregate("group mean"), kw_only=True)

    @property
    def couples(self) -> str:
        return "group"

    def loss(self, batch: Batch) -> Tensor:
        s = self.logits(batch)
        right, wrong, mixed = self.classes(batch)
        groups = batch.partition("rollout", "group").agg
        if self.anchor:
            value = groups.logsumexp(-s, right, anchor=0.0) + groups.logsumexp(s, wrong, anchor=0.0)
        else:
            value = torch.nn.functional.softplus(groups.logsumexp(-s, right) + groups.logsumexp(s, wrong))
        return torch.where(mixed, value, torch.zeros_like(value))


class GroupContrast(Scored):
    """Contrast of right and wrong answers with a length preference: −Σ_right w_i s_i + τ log Σ_wrong e^{s_j/τ}.

    w ∝ e^{(1 − n_i/L)/λ} sums to 1 over the right answers of a group, n_i tokens long: short ones are raised more, and
    none is pushed down for its length. 0 for groups without both classes.
    """

    reference = "DRPO, https://github.com/Optimization-AI/DRPO"
    level = "group"
    temperature: Number = 10.0  # τ
    against: str | None = None
    max_length: Count = 8192  # L, tokens
    length_temperature: Number = 0.1  # λ: the larger, the less the length counts; above 0
    shown: str = "constant"  # what is reported of the second term, whose gradient is the same: τ (released), or `value`
    aggregate: Aggregate = field(default=Aggregate("group mean"), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "max_length", 1)
        within(self, "length_temperature", 0, open_low=True)
        one_of(self, "shown", ("constant", "value"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*super().needs, "rollout.length")

    @property
    def couples(self) -> str:
        return "group"

    def weights(self, batch: Batch) -> Tensor:
        """[rollout] w: 0 for wrong answers, a sum of 1 for the right ones of a group."""
        short = (1 - batch["rollout.length"].to(batch.dtype) / self.max_length) / self.length_temperature
        return batch.partition("rollout", "group").softmax(short, self.classes(batch)[0])

    def loss(self, batch: Batch) -> Tensor:
        s, (right, wrong, mixed) = self.logits(batch), self.classes(batch)
        groups = batch.partition("rollout", "group").agg
        others = groups.logsumexp(s, wrong)
        if self.shown == "constant":
            others = others - stop_gradient(others) + 1
        value = self.temperature * (others - groups.sum(self.weights(batch) * s, right))
        return torch.where(mixed, value, torch.zeros_like(value))

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        s, (right, wrong, mixed) = self.scores(batch), self.classes(batch)
        groups = batch.partition("rollout", "group").agg
        return {"mixed_groups": mixed, "margin": (groups.mean(s, right) - groups.mean(s, wrong)).where(mixed, 0)}


class RolloutLogistic(Scored):
    """Rewards as labels, rollout by rollout: binary cross-entropy of σ(logit) and whether the reward is 1.

    Rewards other than 0 and 1 are left out.
    """

    reference = (
        "REAL's binary cross-entropy variant, https://github.com/Red-RL/REAL; PACS, https://github.com/ritzz-ai/PACS"
    )
    level = "rollout"
    groups: str = "mixed"  # which rollouts enter: those of groups that have both classes (mixed), or all
    weights: str = "equal"  # equal; balanced: n / (2 · size of the class) in mixed groups; right, wrong: one class
    aggregate: Aggregate = field(default=Aggregate("rollout mean"), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "groups", ("mixed", "all"))
        one_of(self, "weights", ("equal", "balanced", "right", "wrong"))

    def members(self, batch: Batch) -> Tensor:
        right, wrong, mixed = self.classes(batch)
        members = super().members(batch) & (right | wrong)
        return members if self.groups == "all" else members & batch.spread(mixed, "group", "rollout")

    def class_weights(self, batch: Batch) -> Tensor:
        """[rollout] the weight of an example."""
        right, wrong, mixed = self.classes(batch)
        if self.weights in ("right", "wrong"):
            return (right if self.weights == "right" else wrong).to(batch.dtype)
        if self.weights == "equal":
            return torch.ones_like(batch["rollout.reward"])
        groups = batch.partition("rollout", "group")
        size = torch.where(right, groups.count(right), groups.count(wrong)).clamp(min=1).to(batch.dtype)
        return torch.where(groups.spread(mixed), groups.count(right | wrong) / (2 * size), 1.0)

    def coefficients(self, batch: Batch) -> Tensor:
        return super().coefficients(batch) * self.class_weights(batch)

    def loss(self, batch: Batch) -> Tensor:
        return bce(self.logits(batch), (batch["rollout.reward"] == 1).to(batch.dtype), reduction="none")

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"predicted": ((self.logits(batch) > 0) == (batch["rollout.reward"] == 1)).to(batch.dtype)}


class RolloutRegression(Scored):
    """Regression of the policy's log-ratio on the advantage: (A − logit)². Groups whose A is constant are left out."""

    reference = "Reg-GRPO, https://github.com/mlvlab/DeepVideoR1"
    overflows = "it squares the distance of the log-ratio from the advantage"
    level = "rollout"
    temperature: Number = 1.0
    aggregate: Aggregate = field(default=Aggregate("rollout mean"), kw_only=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.advantage", NOW, *self._against)

    def members(self, batch: Batch) -> Tensor:
        target, trained = batch["rollout.advantage"], super().members(batch)
        groups = batch.partition("rollout", "group")
        return trained & (groups.max(target, trained) > groups.min(target, trained))

    def loss(self, batch: Batch) -> Tensor:
        return (batch["rollout.advantage"] - self.logits(batch)).square()

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"predicted": self.logits(batch)}

"""Parts with one fault each, for the battery to find."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.memory import Memory, State, Table
from podium.core.part import Advantage, Shape, stop_gradient
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term
from podium.core.updates import PolicyScore, Updates

NOW, OLD = Signal("logp", of="now", grad=True), Signal("logp", of="old")
REWARD = "rollout.reward"


class _Rewarded(Advantage):
    """Reads the reward and writes the advantage."""

    needs = (REWARD,)
    provides = ("rollout.advantage",)


class _Weighted(Term):
    """Reads advantages and log-probabilities."""

    needs = ("token.advantage", NOW)


# -- 1: order ----------------------------------------------------------------------------------------------------------


class FirstRowWins(_Rewarded):
    """Centres on whichever rollout of the group happens to stand first."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        reward, groups = batch[REWARD], batch.by("rollout", "group")
        return {"rollout.advantage": reward - groups.spread(groups.agg.first(reward))}


class GroupNumber(_Rewarded):
    """Uses the number of the group as if it meant something."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": batch[REWARD] * batch.link("rollout", "group")}


class PaddingInMean(Advantage):
    """Averages log-probabilities over all tokens, those of the world included."""

    needs = (OLD,)
    provides = ("rollout.advantage",)

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": batch.partition("token", "rollout").agg.mean(batch[OLD])}


class PerMicroBatch(_Weighted):
    """Normalises advantages over whatever batch it is given."""

    def loss(self, batch: Batch) -> torch.Tensor:
        everyone = batch.by("token", where=batch.trained("token"))
        return -everyone.centre(batch["token.advantage"]) * batch[NOW]


class LosesRollouts(Updates):
    """Trains the first groups only."""

    def __call__(self, batch: Batch, score: PolicyScore | None = None) -> Any:
        return itertools.islice(super().__call__(batch, score), 2)


# -- 2: mask -----------------------------------------------------------------------------------------------------------


class LeaksIntoTheWorld(_Weighted):
    """The loss of a token holds the log-probability of the next one, whoever wrote it."""

    couples = "rollout"

    def loss(self, batch: Batch) -> torch.Tensor:
        return -batch["token.advantage"] * (batch[NOW] + batch.shift(batch[NOW], "token", by=-1))


class LiveWeight(Shape):
    """An importance weight that forgets to be a constant."""

    needs = (Signal("logp", of="now"), OLD)
    provides = ("token.weight.importance",)

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"token.weight.importance": (batch[NOW] - batch[OLD]).exp().clamp(max=2.0)}


class CountsTheRecorded(_Rewarded):
    """Takes probes and baselines for members of the group."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": batch.partition("rollout", "group").centre(batch[REWARD])}


class CountsTheDropped(_Weighted):
    """Divides by the rollouts of the batch, kept or not."""

    couples = "update"

    def loss(self, batch: Batch) -> torch.Tensor:
        return -batch["token.advantage"] * batch[NOW] / len(batch)


# -- 3: finite ---------------------------------------------------------------------------------------------------------


class NoEpsilon(_Rewarded):
    """Divides by a standard deviation that may be 0."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        reward, groups = batch[REWARD], batch.by("rollout", "group")
        return {"rollout.advantage": groups.centre(reward) / groups.std(reward)}


class SquaresInFloat32(_Rewarded):
    """Divides by a standard deviation that is infinite for rewards of 1e30, which leaves advantages of 0."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        groups = batch.by("rollout", "group")
        deviation = groups.centre(batch[REWARD])
        return {"rollout.advantage": deviation / (groups.mean(deviation.square()).sqrt() + 1e-6)}


class UnboundedRatio(Shape):
    """The exponential of a log-ratio without a limit."""

    needs = (Signal("logp", of="now"), OLD)
    provides = ("token.weight.ratio",)

    def __call__(self, batch: Batch) -> dict[str, Any]:
        ratio = (stop_gradient(batch[self.needs[0]]) - batch[OLD]).clamp(max=600).exp()
        return {"token.weight.ratio": ratio}


class NeedsTokens(_Rewarded):
    """Divides by the length of the longest rollout."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        longest = float(batch.length().max())
        return {"rollout.advantage": batch[REWARD] * (1 / longest)}


# -- 4: gradient -------------------------------------------------------------------------------------------------------


class DetachedByHand(_Weighted):
    """A ratio times a log-probability, the ratio cut from the graph behind the battery's back."""

    needs = ("token.advantage", NOW, OLD)

    def loss(self, batch: Batch) -> torch.Tensor:
        ratio = (batch[NOW] - batch[OLD]).clamp(-20, 20).exp().detach()
        return -batch["token.advantage"] * ratio * batch[NOW]


# -- 5: settings -------------------------------------------------------------------------------------------------------


class InertKnob(_Rewarded):
    """Has a coefficient that does nothing."""

    scale: float = 1.0
    bonus: float = 0.1

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": self.scale * batch.by("rollout", "group").centre(batch[REWARD])}


class BrokenOption(_Rewarded):
    """Has an option that nobody ever ran."""

    how: str = "mean"

    def __post_init__(self) -> None:
        one_of(self, "how", ("mean", "median"))

    def __call__(self, batch: Batch) -> dict[str, Any]:
        statistics = {"mean": batch.by("rollout", "group").mean}
        return {"rollout.advantage": batch[REWARD] - statistics[self.how](batch[REWARD])}


# -- 6: contract -------------------------------------------------------------------------------------------------------


class ReadsInSecret(_Rewarded):
    """Reads a column that it does not declare."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": batch[REWARD] - batch["rollout.style"]}


class GroupsInSecret(_Rewarded):
    """Groups by a column that it does not declare."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": batch.by("rollout", "group", "rollout.index").centre(batch[REWARD])}


class NeverReads(_Rewarded):
    """Asks for a signal that it does not use."""

    needs = (REWARD, Signal("entropy", of="old"))

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": batch.by("rollout", "group").centre(batch[REWARD])}


class OtherName(_Rewarded):
    """Promises one column and returns another."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.credit": batch.by("rollout", "group").centre(batch[REWARD])}


class CouplesInSecret(_Weighted):
    """Ties the tokens of a rollout together and says that it does not."""

    def loss(self, batch: Batch) -> torch.Tensor:
        mean = batch.reduce(batch[NOW], "token", "rollout", "mean", where=batch.trained("token"))
        return -batch["token.advantage"] * batch.spread(mean, "rollout", "token")


class CouplesNothing(_Weighted):
    """Says that it ties groups together, and costs a second pass for nothing."""

    couples = "group"

    def loss(self, batch: Batch) -> torch.Tensor:
        return -batch["token.advantage"] * batch[NOW]


# -- 7: value ----------------------------------------------------------------------------------------------------------


class Unhashable(_Rewarded):
    """Holds a dictionary."""

    table: dict[str, float] = field(default_factory=lambda: {"scale": 1.0})

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": self.table["scale"] * batch.by("rollout", "group").centre(batch[REWARD])}


class PrintsNonsense(_Rewarded):
    """Prints as something else."""

    def __repr__(self) -> str:
        return "<a part>"

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": batch.by("rollout", "group").centre(batch[REWARD])}


class _MeanReward(Memory):
    """The mean reward of each task so far, and how often it was seen."""

    needs = (REWARD,)
    provides = ("group.past",)

    def initial(self) -> State:
        return {"table": Table(default=(0.0,))}

    def recall(self, state: State, tasks: Sequence[Any]) -> dict[str, Any]:
        return {"group.past": state["table"].read(tasks, torch.float64)[:, 0]}

    def mean(self, batch: Batch) -> torch.Tensor:
        by_task = batch.by("rollout", "group.task").mean(batch[REWARD])
        return batch.partition("rollout", "group").agg.max(by_task)[:, None]


class KeepsObjects(_MeanReward):
    """Has a state that no file can hold."""

    def observe(self, state: State, batch: Batch) -> State:
        return {"table": state["table"].write(batch["group.task"], self.mean(batch)), "last": batch.by("rollout")}


class ChangesInPlace(_MeanReward):
    """Writes into the state that it was given."""

    def observe(self, state: State, batch: Batch) -> State:
        table = state["table"].write(batch["group.task"], self.mean(batch))
        state["table"].rows.update(table.rows)
        return state


class RemembersElsewhere(_MeanReward):
    """Keeps a count outside its state, where no checkpoint sees it."""

    _seen = itertools.count()

    def observe(self, state: State, batch: Batch) -> State:
        past = state["table"].read(batch["group.task"], torch.float64)
        return {"table": state["table"].write(batch["group.task"], past + self.mean(batch) + next(self._seen))}


# -- without fault -----------------------------------------------------------------------------------------------------


class Sequence_(Term):
    """A sound term at the level of rollouts, with everything declared."""

    level = "rollout"
    couples = "rollout"
    power: float = 1.0
    aggregate: Aggregate = field(default=Aggregate("rollout mean"), kw_only=True)
    needs = (NOW, OLD, REWARD)

    def loss(self, batch: Batch) -> torch.Tensor:
        ratio = batch.reduce(batch[NOW] - batch[OLD], "token", "rollout", "mean", where=batch.trained("token"))
        return -self.power * batch[REWARD] * ratio.clamp(-5, 5)


class Needy(_Rewarded):
    """A sound part that cannot be made without a setting."""

    scale: float

    @classmethod
    def examples(cls) -> list[Needy]:
        return [cls(scale=1.0), cls(scale=0.5)]

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": self.scale * batch.by("rollout", "group").centre(batch[REWARD])}


class NeedyWithoutExamples(_Rewarded):
    """Cannot be made without a setting, and says nothing of it."""

    scale: float

    def __call__(self, batch: Batch) -> dict[str, Any]:
        return {"rollout.advantage": self.scale * batch.by("rollout", "group").centre(batch[REWARD])}


class Picky(_Rewarded):
    """Knows one word, which nobody can guess."""

    word: str = "none"

    def __call__(self, batch: Batch) -> dict[str, Any]:
        factor = 2.0 if self.word == "magic" else 1.0
        return {"rollout.advantage": factor * batch.by("rollout", "group").centre(batch[REWARD])}


class ByStyle(_Rewarded):
    """Gives credit by a text that the rollout has."""

    needs = ("rollout.style",)

    def __call__(self, batch: Batch) -> dict[str, Any]:
        styles = batch["rollout.style"]
        return {"rollout.advantage": torch.tensor([float(style.endswith("1")) for style in styles]).double()}

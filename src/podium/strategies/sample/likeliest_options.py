"""The likeliest answers to a task that leaves a choice, under several views of it; nothing is sampled."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from podium.core.build import DRAWN_FROM, Rollout
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError, within
from podium.core.part import Need, Strategy
from podium.protocols.world import Task
from podium.strategies.choices import Option, options_among
from podium.strategies.requests import Embed, Encode, Plan, Recite, Score, SubPlan, TaskRequest, Written, rollouts_of

__all__ = ["LikeliestOptions", "confident_views", "likeliest"]

HOLE = "{}"  # in a template: where the option stands


class LikeliestOptions(Strategy):
    """The `k` likeliest of the answers that a task leaves a choice of, after each of its most confident views.

    The model's probabilities are those of the options among each other. A task is shown in `views` ways, the first of
    which is the task as it is; the ⌊share · views⌋ (at least one) ways whose options have the lowest entropy are kept,
    unless a memory recalls which were kept before (`group.views`). `rollout.view` is the number of the way,
    `rollout.option_logp` the log-probability, and `rollout.similarity`, with a `scorer`, the cosine between the task
    and the option as that model embeds them.
    """

    reference = "RLCF, https://github.com/mzhaoshuai/RLCF"
    k: int = 3  # ≥ 1; all of them where there are fewer
    views: int = 1  # ways to show a task, ≥ 1
    share: float = 0.1  # of the views that are kept, in (0, 1]
    template: str = "answer: {}"  # what the model writes for an option
    scorer: str = "scorer"  # the role that embeds; empty: none
    caption: str = "{}"  # what the scorer reads for an option

    def __post_init__(self) -> None:
        within(self, "k", 1)
        within(self, "views", 1)
        within(self, "share", 0, 1, open_low=True)
        for name in ("template", "caption"):
            if HOLE not in getattr(self, name):
                raise PodiumError(f"LikeliestOptions.{name} = {getattr(self, name)!r} has no {HOLE} for the option.")

    @property
    def n(self) -> int:
        return self.k * max(int(self.share * self.views), 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.choices", *(("task.views",) if self.views > 1 else ()))

    @property
    def provides(self) -> tuple[str, ...]:
        scored = ("rollout.similarity",) if self.scorer else ()
        return ("token.origin", "rollout.purpose", "rollout.view", "rollout.option_logp", *scored)

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (self.scorer,) if self.scorer else ()

    def plan(self, task: TaskRequest) -> Plan:
        choices, shown = _choices(task.task), self._shown(task)
        options = yield from self._options(task, [view.prompt for view in shown], choices)
        recalled = task.recalled.get("group.views") or ()
        kept = recalled or confident_views([[o.logp for o in view] for view in options], self.share)
        similarity: dict[tuple[int, int], float] = {}
        if self.scorer:
            similarity = yield from self._similarity([shown[v].prompt for v in kept], kept, choices)
        chosen = [(v, c) for v in kept for c in likeliest([o.logp for o in options[v]], self.k)]
        wave = [
            _recited(
                dataclasses.replace(task, task=shown[v]),
                options[v][c],
                index,
                {"view": v, "option_logp": math.fsum(options[v][c].logp)}
                | ({"similarity": similarity[v, c]} if self.scorer else {}),
            )
            for index, (v, c) in enumerate(chosen)
        ]
        rollouts = rollouts_of((yield list(wave)))
        return [_drawn(rollout, options[v][c]) for rollout, (v, c) in zip(rollouts, chosen, strict=True)]

    def answer(self, task: TaskRequest) -> Plan:
        """The likeliest option after the task as it is."""
        ((*options,),) = yield from self._options(task, [task.task.prompt], _choices(task.task))
        (best,) = likeliest([option.logp for option in options], 1)
        return rollouts_of((yield [_recited(task, options[best], 0, {})]))

    def _shown(self, task: TaskRequest) -> Sequence[Task]:
        if self.views == 1:
            return (task.task,)
        assert task.world is not None
        return task.world.views(task.task, self.views)

    def _options(self, task: TaskRequest, prompts: Sequence[str], choices: Sequence[str]) -> SubPlan:
        """For each prompt the options with their probabilities among each other."""
        texts = [self.template.replace(HOLE, choice) for choice in choices]
        encoded = [tuple(ids) for ids in (yield [Encode(text) for text in texts])]
        logp = iter((yield [Score(prompt, ids) for prompt in prompts for ids in encoded]))
        return [options_among(encoded, [next(logp) for _ in encoded]) for _ in prompts]

    def _similarity(self, prompts: Sequence[str], kept: Sequence[int], choices: Sequence[str]) -> SubPlan:
        """The cosine of each option with each kept view."""
        texts = [*prompts, *(self.caption.replace(HOLE, choice) for choice in choices)]
        vectors = yield [Embed(text, role=self.scorer) for text in texts]
        of_views, of_choices = vectors[: len(prompts)], vectors[len(prompts) :]
        return {
            (v, c): math.fsum(a * b for a, b in zip(one, other, strict=True))
            for v, one in zip(kept, of_views, strict=True)
            for c, other in enumerate(of_choices)
        }


def likeliest(logp: Sequence[Sequence[float]], k: int) -> list[int]:
    """The numbers of the k likeliest options, by the log-probabilities of their tokens; of equal ones the first."""
    return sorted(range(len(logp)), key=lambda number: -math.fsum(logp[number]))[:k]


def confident_views(logp: Sequence[Sequence[Sequence[float]]], share: float) -> tuple[int, ...]:
    """The numbers of the ⌊share · views⌋ views, at least one, whose options have the lowest entropy, in order."""
    entropies = [-math.fsum(x * math.exp(x) for x in map(math.fsum, view)) for view in logp]
    count = max(int(share * len(logp)), 1)
    return tuple(sorted(sorted(range(len(logp)), key=lambda number: entropies[number])[:count]))


def _choices(task: Task) -> tuple[str, ...]:
    choices = tuple(map(str, task.data.get("choices", ())))
    if len(choices) < 2:
        raise PodiumError(f"{task.key} leaves no choice of answers (`choices` in its data): take digits.")
    return choices


def _recited(task: TaskRequest, option: Option, index: int, columns: dict[str, Any]) -> Recite:
    """A request for an option as a rollout, with the log-probabilities that it has among the options."""
    begun = Written(option.ids, option.logp, origin=Origin.policy)
    return Recite(
        task, ("",), purpose=Purpose.train, origin=Origin.policy, index=index, columns=columns, begun=begun, ended=False
    )


def _drawn(rollout: Rollout, option: Option) -> Rollout:
    """The rollout, whose tokens say which sets they stand for."""
    (turn,) = rollout.turns
    tokens: dict[str, Any] = {**turn.tokens, DRAWN_FROM: option.allowed}
    return dataclasses.replace(rollout, turns=[dataclasses.replace(turn, tokens=tokens)])

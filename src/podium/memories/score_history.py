"""What a value model says of tasks before they are sampled, from the scores of the policy on others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns
from podium.memories.pass_rates import observed_rates

__all__ = ["TaskScore", "ScoreHistory", "question", "routing_score"]

TaskScore = tuple[str, float]  # a prompt, and the share of right answers to it


def question(scores: Sequence[TaskScore], prompt: str, support: int, longest: int = 160) -> str:
    """What a value model reads: the last `support` prompts with 1 or 0 for solved or not, then the prompt in question.

    Of each prompt the last `longest` characters are shown.
    """
    known = [f"{p[-longest:]} -> {int(score >= 0.5)}" for p, score in scores[-support:]] if support else []
    return "\n".join([*known, f"{prompt[-longest:]} ->"])


def routing_score(rate: Tensor, cost: Tensor, share: float = 0.5) -> Tensor:
    """share · p + (1 − share) · (1 − cost / the largest cost): which of several models should get a prompt."""
    return share * rate + (1 - share) * (1 - cost / cost.max().clamp(min=torch.finfo(cost.dtype).tiny))


class ScoreHistory(Memory):
    """`group.value`, how likely a task is solved, and `group.prior` = 2 · value − 1: what `reader` says of it.

    The reader is a role with a value head (`podium.sessions.value_model.fit` trains one on logged runs): it sees the
    last `support` tasks with their scores, and the task. Without a reader all tasks get their mean score, shrunk to ½.
    """

    reference = "V0: A Generalist Value Model for Any Policy at State Zero, https://github.com/Now-Join-Us/V0"
    sees_dropped = True
    reader: str = ""  # a role
    support: int = 8  # scores that are shown, as many as when the model was trained

    needs = ("rollout.correct", "rollout.prompt")
    read_by_loop = ("reader",)
    provides = ("group.value", "group.prior")

    def __post_init__(self) -> None:
        within(self, "support", 1)

    def initial(self) -> State:
        return {"scores": ()}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        scores = [score for _, score in state["scores"]]
        rate = (sum(scores) + 1) / (len(scores) + 2)
        return self.reader_columns(torch.full((len(tasks),), rate, dtype=torch.float64).logit())

    def reader_texts(self, state: State, prompts: Sequence[str]) -> list[str]:
        return [question(state["scores"], prompt, self.support) for prompt in prompts]

    def reader_columns(self, values: Tensor) -> Columns:
        rate = values.double().sigmoid()
        return {"group.value": rate, "group.prior": 2 * rate - 1}

    def observe(self, state: State, batch: Batch) -> State:
        first = batch.partition("rollout", "group").agg.first(torch.arange(len(batch), device=batch.device)).tolist()
        names = keys(batch["group.task"])
        prompts = {name: batch["rollout.prompt"][row] for name, row in zip(names, first, strict=True)}
        new = [(prompts[task], rate) for task, rate in observed_rates(batch).items()]
        return {"scores": (*state["scores"], *new)[-self.support :]}

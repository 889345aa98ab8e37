"""In-context values of tasks: a value model reads recent scores and predicts the success rate of a new task."""

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

__all__ = ["TaskScore", "ScoreHistory", "question", "routing_score", "scored_prompts"]

TaskScore = tuple[str, float]  # a prompt, and its pass rate


def question(scores: Sequence[TaskScore], prompt: str, support: int, longest: int = 160) -> str:
    """The input of a value model: the last `support` prompts, each with 1 (solved) or 0, then the prompt in question.

    Each prompt is cut to its last `longest` characters.
    """
    examples = [f"{p[-longest:]} -> {int(score >= 0.5)}" for p, score in scores[-support:]] if support else []
    return "\n".join([*examples, f"{prompt[-longest:]} ->"])


def routing_score(rate: Tensor, cost: Tensor, share: float = 0.5) -> Tensor:
    """share · rate + (1 − share) · (1 − cost / highest cost): the score by which a prompt is routed to a model."""
    return share * rate + (1 - share) * (1 - cost / cost.max().clamp(min=torch.finfo(cost.dtype).tiny))


def scored_prompts(batch: Batch) -> list[TaskScore]:
    """The prompts of a batch with their pass rates, in the order of the tasks' names."""
    names, group = keys(batch["group.task"]), batch.link("rollout", "group").tolist()
    prompts: dict[Any, str] = {}
    for row, prompt in enumerate(batch["rollout.prompt"]):  # a task has one; of several, whatever the order of the rows
        task = names[group[row]]
        prompts[task] = min(prompts.get(task, prompt), prompt)
    return [(prompts[task], rate) for task, rate in observed_rates(batch).items()]


class ScoreHistory(Memory):
    """A generalist value model's estimate of each task's success rate before it is sampled.

    Recalls `group.value`, the success rate v, and `group.prior` = 2 v − 1. The `reader` is a role with a value head
    (`podium.sessions.value_model.fit` trains one on logged runs) that sees the last `support` tasks with their scores
    and the task in question. Without a reader v is the mean of those scores, shrunk to ½, for all tasks.
    """

    reference = "V0: A Generalist Value Model for Any Policy at State Zero, https://github.com/Now-Join-Us/V0"
    sees_dropped = True
    reader: str = ""  # a role; empty: none
    support: int = 8  # scores in the context, as many as the model was trained with, ≥ 1

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
        return {"scores": (*state["scores"], *scored_prompts(batch))[-self.support :]}

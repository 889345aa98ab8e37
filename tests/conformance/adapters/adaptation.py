"""Methods that adapt at test time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical

from podium import methods
from podium.core import Signal
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.gradient import backward
from podium.strategies.requests import Embed, Encode, Recite, Request, Score
from podium.worlds import Task, World
from tests.conformance.case import Case
from tests.conformance.helpers import credited
from tests.conformance.plans import answered, asking
from tests.conformance.registry import adapter


class Shown(World):
    """Names the views of a task."""

    name = "shown"

    def views(self, task: Task, count: int) -> tuple[Task, ...]:
        return tuple(Task(task.key, f"view {number}", data=task.data) for number in range(count))


@adapter("rlcf")
def rlcf(case: Case) -> dict[str, Any]:
    hyper, logits = case.hyper, case["logits"]
    views, classes = len(logits), len(logits[0])
    baseline = "view" if hyper["baseline_over"] == "per_view" else "all"
    method = methods.rlcf(
        views=views, share=1.0, baseline=baseline, **case.given(k="k", weight="score_weight", divide="divide_by_std")
    ).set("rollout.template", "{}")
    similar = case["reward_similarity"]

    def number(prompt: str) -> int:
        return int(prompt.removeprefix("view ")) if prompt.startswith("view ") else 0

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Encode):
            return [int(request.text)]
        if isinstance(request, Score):
            return [logits[number(str(request.context))][request.ids[0]]]
        if isinstance(request, Embed) and request.text.isdigit():
            return [row[int(request.text)] for row in similar]
        if isinstance(request, Embed):
            return [float(view == number(request.text)) for view in range(views)]
        assert isinstance(request, Recite)
        assert request.begun is not None
        turn = Turn(request.begun.ids, (0,), tokens={"sampler.logp": request.begun.logp})
        known = {"reward": 0.0, "purpose": int(request.purpose), "index": request.index}
        return [Rollout("task", [turn], columns={**known, **request.columns})]

    assert method.rollout is not None
    task = Task("task", "view 0", data={"choices": tuple(map(str, range(classes)))})
    request = dataclasses.replace(asking({}, Shown()), task=task)
    rollouts = answered(method.rollout.plan(request), answers)
    batch = credited(method, Batch.from_rollouts(rollouts, dtype=torch.float64))
    leaf = case.tensor("logits").requires_grad_()

    def forward(micro: Batch, signals: Sequence[Signal]) -> dict[Signal, Tensor]:
        rows = micro.spread(micro["rollout.view"].long(), "rollout", "token")
        return {s: Categorical(logits=leaf[rows]).log_prob(micro["token.id"]) for s in signals}

    update = batch.without([c for c in batch.columns if ".now." in c])
    step = backward(method.objective, update, forward)
    k = len(rollouts) // views
    return {
        "sampled_index": batch["token.id"].reshape(views, k),
        "clip_score": batch["rollout.reward"].reshape(views, k),
        "reward": batch["rollout.advantage"].reshape(views, k),
        "loss": step.loss,
        "grad_logits": torch.zeros_like(leaf) if leaf.grad is None else leaf.grad,
    }

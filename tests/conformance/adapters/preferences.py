"""Losses of preference pairs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium import methods
from podium.core.batch import Batch
from podium.core.memory import Table
from podium.method import Method
from podium.parts.objective import Preference
from podium.parts.objective.preference import preference_loss
from tests.conformance.case import Case
from tests.conformance.helpers import credited_shapes, differentiate
from tests.conformance.registry import adapter


def pair_batch(case: Case, first: str, second: str, rewards: tuple[float, float]) -> Batch:
    """A group of two rollouts for each row: `{}` in `first` and `second` stands for logp, mask or ref_logp."""
    names = [first, second]
    mask = torch.cat([case.tensor(name.format("mask")) for name in names])
    rows = len(case[first.format("mask")])
    columns = {"token.now.logp": torch.cat([case.tensor(name.format("logp")) for name in names])}
    if first.format("ref_logp") in case:
        columns["token.ref.logp"] = torch.cat([case.tensor(name.format("ref_logp")) for name in names])
    reward = torch.cat([torch.full((rows,), x, dtype=torch.float64) for x in rewards])
    return Batch.from_padded(mask, [*range(rows), *range(rows)], columns | {"rollout.reward": reward})


def chosen_first(case: Case, method: Method) -> Batch:
    batch = pair_batch(case, "chosen_{}", "rejected_{}", (1.0, 0.0))
    return credited_shapes(method, batch)


def preference_of(method: Method) -> Preference:
    (term,) = (t for t in method.objective if isinstance(t, Preference))
    return term


def seen(term: Preference, batch: Batch, name: str) -> Tensor:
    """[pair] what the term watches."""
    return term.diagnostics(batch)[f"preference.{name}"]


@adapter("simpo")
def simpo(case: Case) -> dict[str, Any]:
    names = {"beta": "beta", "ratio": "gamma_over_beta", "smoothing": "label_smoothing", "sft": "sft_weight"}
    link = {"sigmoid": "logistic", "hinge": "hinge"}[case.hyper["loss_type"]]
    method = methods.simpo(link=link, **case.given(**names))
    batch, term = chosen_first(case, method), preference_of(method)
    rows = len(case["chosen_logp"])
    average, reward = term.scores(batch), term.logits(batch)
    return {
        "chosen_avg_logp": average[:rows],
        "rejected_avg_logp": average[rows:],
        "chosen_reward": reward[:rows],
        "rejected_reward": reward[rows:],
        "losses": term.loss(batch),
        "loss": differentiate(method.objective, batch).step.loss,
        "accuracy": differentiate([term], batch).step.diagnostics["preference.accuracy"],
    }


@adapter("power-dl")
def power_dl(case: Case) -> dict[str, Any]:
    weight = {"inv_len": "length", "one": "one"}[case.hyper["weight"]]
    method = methods.power_dl(weight=weight, **case.given(beta="beta", eta="eta", rate="label_rate"))
    method = method.set("objective.Preference.label", "group.label")  # labels that do not move may be given, too
    rows, label = len(case["label"]), case.tensor("label")
    batch, term = chosen_first(case, method).with_columns({"group.label": label}), preference_of(method)
    new_label: Any = label
    for memory in method.memories:
        tasks = batch["group.task"]
        state = {"labels": Table({task: (x,) for task, x in enumerate(case["label"])}, (1.0,))}
        moved = memory.observe(state, batch.with_columns({"token.old.logp": batch["token.now.logp"]}))
        new_label = memory.recall(moved, tasks)["group.label"]
    margin = seen(term, batch, "margin").clone().requires_grad_()
    losses = preference_loss(margin, torch.zeros_like(margin), label=label)
    (slope,) = torch.autograd.grad(losses, margin, torch.ones_like(losses))
    anchors = [t for t in method.objective if not isinstance(t, Preference)]
    alone = [batch.take("group", torch.tensor([row])) for row in range(rows)]
    return {
        "margin": margin.detach(),
        "preference_losses": term.loss(batch),
        "anchor_losses": [differentiate(anchors, pair).step.loss if anchors else 0.0 for pair in alone],
        "loss": differentiate(method.objective, batch).step.loss,
        "new_label": new_label,
        "margin_gradient": slope,
    }


@adapter("cpl")
def cpl(case: Case) -> dict[str, Any]:
    against = "ref" if "ref_logp_1" in case else None
    method = methods.cpl(first=0, labels="return", against=against, **case.given(alpha="alpha", bias="bias"))
    if "score" in case:
        columns = {"token.now.logp": case.tensor("logp"), "rollout.reward": case.tensor("score")}
        batch = Batch.from_padded(case.tensor("mask"), [0 for _ in case["score"]], columns)
        advantages = {"segment_advantage": preference_of(method).logits(batch)}
    else:
        method = method.set("objective.Preference.label", "group.label")
        batch = pair_batch(case, "{}_1", "{}_2", (0.0, 1.0)).with_columns({"group.label": case.tensor("prefer_2")})
        first, second = preference_of(method).logits(batch).split(len(case["prefer_2"]))
        advantages = {"segment_advantage_1": first, "segment_advantage_2": second}
    step = differentiate(method.objective, batch).step
    return {**advantages, "loss": step.loss, "accuracy": step.diagnostics["preference.accuracy"]}

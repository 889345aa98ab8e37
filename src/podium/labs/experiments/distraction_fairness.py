"""A module of six numbers inside a classifier lowers the parity gap while the rest follows the task."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.people import CausalModel, People
from podium.labs.trial import Quantity, Trial
from podium.tables.distraction import coded_parity_loss, max_pair_loss

__all__ = ["STUDY", "Attention", "DistractionSize", "Distracted", "trained"]

WIDTH, BATCH = 32, 100
RATE, MODULE_RATE = 1e-3, 1e-3  # the paper's rate of the module, 1e-5, is for some twenty times as many steps
GAP = Quantity("gap", "parity gap of soft outputs", (0.0, 1.0))
ACCURACY = Quantity("accuracy", "accuracy", (0.0, 1.0))
KEPT = Quantity("kept", "accuracy, plain less two points", (0.0, 1.0))


class DistractionSize(StudySize):
    """How many people are trained on, and how often."""

    people: int = 3000
    epochs: int = 20


class Attention(nn.Module):
    """Six numbers: keys and values of each hidden unit come from one Linear(1 → 2), queries from a frozen classifier of
    the attribute, and what is attended to passes a Linear(1 → 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.both, self.out = nn.Linear(1, 2), nn.Linear(1, 1)

    def forward(self, hidden: Tensor, query: Tensor) -> Tensor:
        key, value = self.both(hidden[..., None]).unbind(-1)  # [person, unit]
        attended = (query[:, :, None] * key[:, None, :]).softmax(-1) @ value[..., None]
        return self.out(attended)[..., 0]


class Distracted(nn.Module):
    """A classifier with the module before its last layer, or without one."""

    def __init__(self, features: int, module: Attention | None) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, WIDTH), nn.ReLU())
        self.head, self.module = nn.Linear(WIDTH, 1), module

    def forward(self, x: Tensor, query: Tensor) -> Tensor:
        hidden = self.body(x)
        if self.module is not None:
            hidden = self.module(hidden, query)
        return torch.sigmoid(self.head(hidden)[:, 0])

    def task_parameters(self) -> list[nn.Parameter]:
        return [*self.body.parameters(), *self.head.parameters()]


def _attribute_queries(people: People, x: Tensor, epochs: int) -> nn.Module:
    """The hidden layer of a classifier of the attribute, which is frozen from then on."""
    hidden = nn.Sequential(nn.Linear(x.shape[1], WIDTH), nn.ReLU())
    head, group = nn.Linear(WIDTH, 1), torch.as_tensor(people.group).float()
    optimizer = torch.optim.Adam([*hidden.parameters(), *head.parameters()], lr=RATE)
    for _ in range(max(1, epochs // 4)):
        for rows in torch.split(torch.randperm(len(x)), BATCH):
            optimizer.zero_grad()
            torch.autograd.backward(
                nn.functional.binary_cross_entropy_with_logits(head(hidden(x[rows]))[:, 0], group[rows])
            )
            optimizer.step()
    return hidden.requires_grad_(False)


def _disparity(how: str, output: Tensor, group: Tensor) -> Tensor:
    if how == "released":
        return coded_parity_loss(output, group, (0, 1), 100.0)[0]
    return 100.0 * max_pair_loss(output, group)[0]


def trained(people: People, how: str, epochs: int, seed: int) -> tuple[Distracted, nn.Module]:
    """`how` is plain (no module), alternating (the module's step, then the rest's), released (the loss of the release,
    whose gradient also stays on the rest) or joint (a weighted sum on everything, without a module)."""
    x = torch.as_tensor(people.x).float()
    label, group = torch.as_tensor(people.label).float(), torch.as_tensor(people.group)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        queries = _attribute_queries(people, x, epochs)
        module = Attention() if how in ("alternating", "released") else None
        model = Distracted(x.shape[1], module)
        task = torch.optim.Adam(model.task_parameters(), lr=RATE)
        small = torch.optim.Adam(module.parameters(), lr=MODULE_RATE) if module is not None else None
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(x)), BATCH):
                query = queries(x[rows])
                task.zero_grad()
                if small is not None and len(set(group[rows].tolist())) > 1:
                    small.zero_grad()
                    torch.autograd.backward(_disparity(how, model(x[rows], query), group[rows]))
                    small.step()
                    if how == "alternating":
                        task.zero_grad()
                output = model(x[rows], query)
                loss = nn.functional.binary_cross_entropy(output, label[rows])
                if how == "joint":
                    loss = loss + max_pair_loss(output, group[rows])[0]
                torch.autograd.backward(loss)
                task.step()
    return model, queries


def _arm(how: str, seed: int, size: DistractionSize) -> Mapping[str, Any]:
    """Trained on people with biased scores and strong proxies, measured on as many new ones; the attribute is no
    feature."""
    population = CausalModel(base_rates=(0.6, 0.45), bias=0.5)
    train, test = (population.draw(size.people, np.random.default_rng((seed, n))) for n in (0, 1))
    model, queries = trained(train, how, size.epochs, seed)
    x = torch.as_tensor(test.x).float()
    with torch.no_grad():
        output = model(x, queries(x)).double().numpy()
    gap = abs(output[test.group == 1].mean() - output[test.group == 0].mean())
    accuracy = float(((output > 0.5) == test.label).mean())
    spread = np.linspace(0.05, 0.95, 10)
    return {
        "gap": gap,
        "accuracy": accuracy,
        "kept": accuracy - (0.02 if how == "plain" else 0.0),
        "threshold": spread,
        "curve": np.array(
            [abs((output > t)[test.group == 1].mean() - (output > t)[test.group == 0].mean()) for t in spread]
        ),
    }


STUDY = Trial(
    "distraction-fairness",
    "Does a tiny module that is trained on the disparity alone lower it at little cost?",
    arms={how: partial(_arm, how) for how in ("plain", "alternating", "released", "joint")},
    claims=(
        Claim("the gap is below that of plain training", GAP, "plain", "alternating"),
        Claim("accuracy falls by no more than two points", KEPT, "alternating", "plain"),
        Claim("the gap is below that of a weighted sum of both losses", GAP, "joint", "alternating"),
        Claim("the gap of the release is below that of plain training", GAP, "plain", "released"),
    ),
    readings=(GAP, ACCURACY, KEPT),
    charts=(traced("curve", over="threshold", title="parity gap of decisions", x_label="threshold of the decision"),),
    size=DistractionSize(seeds=8),
    quick=DistractionSize(seeds=3, people=1500, epochs=6),
)

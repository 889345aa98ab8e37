"""FedAvg over two clients: how the split of the attribute decides which disparity the common model shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.people import CausalModel, People
from podium.labs.trial import Quantity, Trial, TrialFindings
from podium.tables.information import conditional_information, decomposition, fair_optimum

__all__ = ["STUDY", "FederatedSize", "federated_average", "joint_table", "split_even", "split_by_group", "split_by_xor"]

Ints = NDArray[np.int64]
BOUNDS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)  # bits, on both disparities
UNIQUE = Quantity("unique", "unique (bits)", (0.0, 1.0))
REDUNDANT = Quantity("redundant", "redundant (bits)", (0.0, 1.0))
MASKED = Quantity("masked", "masked (bits)", (0.0, 1.0))
ACCURACY = Quantity("accuracy", "accuracy", (0.0, 1.0))


class FederatedSize(StudySize):
    """How many people, and rounds of averaging."""

    people: int = 3000
    rounds: int = 20


def split_even(people: People, generator: np.random.Generator) -> Ints:
    """[person] clients by a coin."""
    return generator.integers(2, size=len(people))


def split_by_group(people: People, generator: np.random.Generator) -> Ints:
    """92 % of the group 1 and 8 % of the group 0 to client 0."""
    return (generator.random(len(people)) > np.where(people.group == 1, 0.92, 0.08)).astype(np.int64)


def split_by_xor(people: People, generator: np.random.Generator) -> Ints:
    """Those whose label is their group to client 0, the others to client 1; one in a hundred the other way round."""
    away = people.group != people.label
    return (away ^ (generator.random(len(people)) < 0.01)).astype(np.int64)


def federated_average(x: Tensor, y: Tensor, client: Tensor, rounds: int, seed: int) -> nn.Module:
    """Each round every client trains a copy for two epochs with Adam, and the copies are averaged by their sizes."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 1)).double()
    shares = torch.bincount(client, minlength=2).double() / len(client)
    for _ in range(rounds):
        copies = []
        for s in range(2):
            local = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 1)).double()
            local.load_state_dict(model.state_dict())
            optimizer = torch.optim.Adam(local.parameters(), lr=0.01)
            rows = (client == s).nonzero()[:, 0]
            for _ in range(2):
                for part in torch.split(rows, 256):
                    optimizer.zero_grad()
                    torch.autograd.backward(
                        nn.functional.binary_cross_entropy_with_logits(local(x[part])[:, 0], y[part])
                    )
                    optimizer.step()
            copies.append(local.state_dict())
        model.load_state_dict(
            {name: sum(w * c[name] for w, c in zip(shares, copies, strict=True)) for name in copies[0]}
        )
    return model


def joint_table(client: Ints, group: Ints, decision: Ints) -> NDArray[np.float64]:
    """[client, group, decision] how many there are of each."""
    joint = np.zeros((2, 2, 2))
    np.add.at(joint, (client, group, decision), 1.0)
    return joint


def _arm(split: Callable[[People, np.random.Generator], Ints], seed: int, size: FederatedSize) -> Mapping[str, Any]:
    """FedAvg on people split in this way, decomposed on as many new people split in the same way."""
    population = CausalModel(base_rates=(0.65, 0.35))
    train, test = (population.draw(size.people, np.random.default_rng((seed, n))) for n in (0, 1))
    clients = [split(p, np.random.default_rng((seed, 2 + n))) for n, p in enumerate((train, test))]
    model = federated_average(
        torch.as_tensor(train.x), torch.as_tensor(train.label).double(), torch.as_tensor(clients[0]), size.rounds, seed
    )
    with torch.no_grad():
        decision = (model(torch.as_tensor(test.x))[:, 0] > 0).long().numpy()
    joint = joint_table(clients[1], test.group, decision)
    found = decomposition(joint)
    accuracy = float((decision == test.label).mean())
    truth = joint_table(clients[1], test.group, test.label)
    count, positive = truth.sum(2), truth[:, :, 1]
    frontier = [fair_optimum(count, positive, e, e).accuracy for e in BOUNDS]
    bound = fair_optimum(count, positive, max(found.global_disparity, 1e-4), max(found.local_disparity, 1e-4)).accuracy
    shuffled = test.group.copy()
    mixer = np.random.default_rng((seed, 4))
    for s in range(2):
        shuffled[clients[1] == s] = mixer.permutation(shuffled[clients[1] == s])
    return {
        "unique": found.unique,
        "redundant": found.redundant,
        "masked": found.masked,
        "accuracy": accuracy,
        "inside": float(accuracy <= bound + 1e-6),
        "local": found.local_disparity,
        "local_shuffled": conditional_information(joint_table(clients[1], shuffled, decision)),
        "epsilon": np.array(BOUNDS),
        "curve": np.array(frontier),
    }


def _inside(findings: TrialFindings) -> str:
    """Whether trained models respect the frontier, and what shuffling the attribute within clients leaves."""
    runs = [run for arm in findings.values.values() for run in arm]
    inside = int(sum(float(run["inside"]) for run in runs))
    before, after = (float(np.mean([run[name] for run in runs])) for name in ("local", "local_shuffled"))
    return (
        f"{inside} of {len(runs)} models are no more accurate than the frontier at their disparities; "
        f"with the attribute shuffled within clients the local disparity is {after:.4f} bits instead of {before:.4f}"
    )


EVEN, BY_GROUP, BY_XOR = "even", "by group", "label xor group"

STUDY = Trial(
    "pid-federated-fairness",
    "Which disparity does a federated model show when its clients differ in whom they see?",
    arms={
        EVEN: partial(_arm, split_even),
        BY_GROUP: partial(_arm, split_by_group),
        BY_XOR: partial(_arm, split_by_xor),
    },
    claims=(
        Claim("clients that differ in their groups make the disparity redundant", REDUNDANT, BY_GROUP, EVEN),
        Claim("with even clients it is unique", UNIQUE, EVEN, BY_GROUP),
        Claim("clients that join group and label mask it", MASKED, BY_XOR, EVEN),
    ),
    readings=(UNIQUE, REDUNDANT, MASKED, ACCURACY),
    charts=(
        traced("curve", over="epsilon", title="best accuracy within both bounds", x_label="bound on disparity (bits)"),
    ),
    notes=(_inside,),
    size=FederatedSize(seeds=12),
    quick=FederatedSize(seeds=4, people=1200, rounds=8),
)

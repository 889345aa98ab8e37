"""The better of a demonstration and an own rollout, held to the rule of actions that it carries over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import podium
from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.objective import Likelihood
from podium.parts.shape import BetterOf
from podium.policy import load
from podium.tables.better_action import better_action


def imitated(*groups: tuple[list[float], list[float]], weight: float = 1.0) -> list[list[float]]:
    """What each rollout of a group weighs, from the advantages of its own rollouts and of its demonstrations."""
    rollouts = [
        Rollout(
            f"task {number}",
            (Turn(ids=(1,)),),
            columns={"advantage": advantage, "demonstration": given, "index": index},
        )
        for number, (own, shown) in enumerate(groups)
        for index, (advantage, given) in enumerate([*((a, False) for a in own), *((a, True) for a in shown)])
    ]
    found = BetterOf(weight)(Batch.from_rollouts(rollouts))["rollout.imitation"].tolist()
    sizes = np.cumsum([len(own) + len(shown) for own, shown in groups])[:-1]
    return [part.tolist() for part in np.split(np.array(found), sizes)]


def test_worked_example() -> None:
    """Two states: A of the data .4 and −.8, of the candidate −.1 and −.1; the data's is imitated, then nothing."""
    assert imitated(([-0.1], [0.4]), ([-0.1], [-0.8])) == [[0.0, 1.0], [0.0, 0.0]]


def test_it_is_the_rule_for_actions() -> None:
    g = torch.Generator().manual_seed(0)
    own, given = (torch.randint(-2, 3, (60,), generator=g) / 2 for _ in range(2))
    zero, mark = torch.zeros(60), torch.ones(60, 1)
    target, weight = better_action(given, own, zero, -mark, mark, mask=0.4)
    expected = [[w * (t > 0), w * (t < 0)] for t, w in zip(target[:, 0].tolist(), weight.tolist(), strict=True)]
    found = imitated(*(([a], [b]) for a, b in zip(own.tolist(), given.tolist(), strict=True)), weight=0.4)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_first_of_the_best_own_rollouts_is_taken_and_nothing_without_a_demonstration() -> None:
    assert imitated(([0.5, -1.0, 0.5], [0.5]), ([0.5, -0.5], [])) == [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0]]
    assert imitated(([-0.2, -0.2], [0.8, 0.8])) == [[0.0, 0.0, 1.0, 0.0]]


def test_a_run_with_it_differs_from_one_without(tmp_path: Path) -> None:
    plain = methods.get("grao", n=2)
    term = Likelihood(weight="rollout.imitation")
    weights = []
    for weight in (0.0, 1.0):
        method = plain.with_(shape=(*plain.shape, BetterOf(weight)), objective=(*plain.objective, term))
        out = tmp_path / str(weight)
        podium.train(method, out=out, world="sums", level=5, tasks=2, iterations=1, eval_every=0, eval_tasks=1)
        (checkpoint,) = (out / "checkpoints").glob("iteration-*")
        policy = load(str(checkpoint / "policy"))
        weights.append(torch.cat([p.detach().flatten() for p in policy.model.parameters()]))
    assert (weights[0] - weights[1]).abs().max() > 1e-6
    with pytest.raises(podium.PodiumError, match="weight"):
        BetterOf(-1.0)

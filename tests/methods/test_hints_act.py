"""Help changes what is trained, and memories of tasks change what is shown when a task comes back."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

from podium import methods
from podium import policy as policies
from podium.core.facts import RunFacts
from podium.method import Method
from podium.parts.shape import MatchTrajectories
from podium.sessions.train import configure
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.worlds import Sums
from tests.methods.catalogue import lines, tiny


def trained(method: Method) -> torch.Tensor:
    """The weights after one iteration on tasks of which a small model solves few."""
    with patch.object(policies, "load", lambda *_, **__: tiny().copy()):
        run = build_run(configure(method, world=Sums(level=3), tasks=4, iterations=1, max_tokens=48))
    iterate(run)
    return torch.cat([p.detach().flatten() for p in run.policy.parameters()])


@pytest.mark.parametrize("slug", ["sage", "scaf-grpo", "ghpo", "seele"])
def test_a_method_with_hints_does_not_end_where_it_would_without(slug: str) -> None:
    settings = {"after": 0} if slug == "scaf-grpo" else {}
    method = methods.get(slug, n=2, **settings)
    assert method.rollout is not None
    start = torch.cat([p.detach().flatten() for p in tiny().parameters()])
    with_help, without = trained(method), trained(method.with_(rollout=method.rollout.neutral))
    assert float((with_help - without).norm()) > 0.01 * float((with_help - start).norm())


@pytest.mark.parametrize(
    ("slug", "memory"),
    [("trapo", "Trajectories"), ("sage@light", "HintLevels"), ("sage@light", "LastHints"), ("seele", "HintRates")],
)
def test_a_memory_of_tasks_acts_where_tasks_come_back(slug: str, memory: str) -> None:
    found = lines(methods.get(slug, n=2), Sums(level=3), iterations=3, tasks=2, pool=2, max_tokens=24)
    counts = [line["acted"][f"memories.{memory}"] for line in found]
    assert counts[0] == 0
    assert counts[2] > 0


def test_a_warm_up_longer_than_the_visits_of_a_run_is_spoken_of() -> None:
    """12 iterations of 16 tasks visit each of 64 tasks three times."""
    facts = RunFacts(iterations=12, tasks=16, max_tokens=80, max_turns=1, pool=64)
    assert not list(MatchTrajectories(warmup=3).inert(facts))
    (said,) = MatchTrajectories(warmup=4).inert(facts)
    assert "visits each task 3 times" in said

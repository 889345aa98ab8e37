"""Ranks from a tournament within a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podium import methods
from podium.strategies.requests import Compare, JudgeScores, Request
from tests.conformance.case import Case
from tests.conformance.helpers import credited
from tests.conformance.plans import collected, made, rows
from tests.conformance.registry import adapter

# The names of the topologies in the vectors, and ours.
NAMES = {
    "anchor": "anchor",
    "round_robin": "round_robin",
    "seeded_single_elimination": "seeded",
}


@adapter("arenarl")
def arenarl(case: Case) -> dict[str, Any]:
    scores = case["pair_scores"]

    def answers(request: Request) -> Sequence[Any]:
        if not isinstance(request, Compare):
            return made(request, [0.0] * len(scores))  # type: ignore[arg-type]
        i, j = (int(text.removeprefix("rollout ")) for text in (request.left, request.right))
        return [JudgeScores((scores[i][j], scores[j][i]), request.calls)]

    found: dict[str, Any] = {"judge_calls": {}}
    for name, topology in NAMES.items():
        method = methods.arenarl(n=len(scores), topology=topology, imitate=0, **case.given(epsilon="epsilon"))
        assert method.rollout is not None
        batch = credited(method, rows(collected(method.rollout, answers)))
        found[name] = batch["rollout.advantage"]
        found["judge_calls"][name] = len(batch.relation("pair").left)
    return found

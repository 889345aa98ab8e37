"""What is measured beside training: frontiers, cliffs, bilevel gradients, dense rewards."""

from __future__ import annotations

from typing import Any

from podium.evaluation.frontier import best_of_bound, best_of_law, kl_between, mean_under, tilt_within
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("alignment-asymptotics")
def alignment_asymptotics(case: Case) -> dict[str, Any]:
    p, reward = case["p"], case["reward"]
    beta, tilted = tilt_within(p, reward, case.hyper["kl_budget"])
    best = best_of_law(p, reward, case.hyper["n"])
    return {
        "beta": beta,
        "tilted": tilted.tolist(),
        "tilted_kl": kl_between(tilted, p),
        "tilted_reward": mean_under(tilted, reward),
        "best_of_n": best.tolist(),
        "best_of_n_kl": kl_between(best, p),
        "best_of_n_kl_bound": best_of_bound(case.hyper["n"]),
        "best_of_n_reward": mean_under(best, reward),
        "kl_between": kl_between(best, tilted),
    }

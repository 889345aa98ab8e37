"""The genetic search of `podium lab earli` beside PyVRP: how far its routes are from the best known at each budget.

    python -m venv ENV && ENV/bin/pip install 'pyvrp>=0.14,<0.15'
    python benchmarks/routes.py --pyvrp ENV/bin/python

Without --pyvrp the best known are the search's own with the largest budget.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np

from podium.tables.tours import Routing, genetic_search, tour_costs
from podium.worlds.routes import Routes, nearest_first

BUDGETS = (0.1, 0.4, 1.6)  # CPU seconds


def best_known(python: str, instances: list[Routing], seconds: float) -> np.ndarray:
    """[instance] costs by PyVRP, run by the Python of an environment that has it."""
    rows = [
        {"coordinates": r.coordinates.tolist(), "demand": r.demand.tolist(), "capacity": r.capacity} for r in instances
    ]
    script = Path(__file__).with_name("pyvrp_reference.py")
    given = json.dumps({"instances": rows, "seconds": seconds})
    found = subprocess.run([python, str(script)], input=given, capture_output=True, text=True, check=True)
    return np.array(json.loads(found.stdout))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pyvrp", help="the Python of an environment that has PyVRP")
    options.add_argument("--instances", type=int, default=10, help="held-out instances of each level")
    options.add_argument("--seconds", type=float, default=1.0, help="of PyVRP for each instance")
    given = options.parse_args()
    for level in (1, 2, 3):
        world = Routes(level=level)
        instances = [world.routing(number, "test") for number in range(given.instances)]
        nearest = np.array([tour_costs(r, [nearest_first(r)])[0] for r in instances])
        found = []
        for number, routing in enumerate(instances):
            _, trace = genetic_search(routing, [], np.random.default_rng(number), seconds=BUDGETS[-1])
            found.append([min((c for t, c in trace if t <= limit), default=trace[0][1]) for limit in BUDGETS])
        costs = np.array(found)
        best = best_known(given.pyvrp, instances, given.seconds) if given.pyvrp else costs[:, -1]
        gaps = {"nearest first": nearest, **{f"{b:g} s": c for b, c in zip(BUDGETS, costs.T, strict=True)}}
        shown = "  ".join(f"{name} {100 * (cost / best - 1).mean():5.1f} %" for name, cost in gaps.items())
        print(f"level {level}, best known {best.mean():.3f}: {shown}")


if __name__ == "__main__":
    main()

"""Costs of routing instances by PyVRP, in an environment that has it: instances as JSON in, costs as JSON out.

Run by `benchmarks/routes.py`; it imports nothing from Podium.
"""

from __future__ import annotations

import json
import math
import sys

from pyvrp import Model
from pyvrp.stop import MaxRuntime

SCALE = 10_000  # distances are whole numbers there


def solved(coordinates: list[list[float]], demand: list[float], capacity: float, seconds: float) -> float:
    """The cost of the best routes that are found within these seconds."""
    model = Model()
    places = [model.add_location(x, y) for x, y in coordinates]
    depot = model.add_depot(places[0])
    for place, need in zip(places[1:], demand[1:], strict=True):
        model.add_client(place, delivery=int(need))
    model.add_vehicle_type(len(demand), capacity=int(capacity), start_depot=depot, end_depot=depot)
    for a, (x, y) in zip(places, coordinates, strict=True):
        for b, (u, v) in zip(places, coordinates, strict=True):
            model.add_edge(a, b, distance=round(SCALE * math.hypot(x - u, y - v)))
    return float(model.solve(MaxRuntime(seconds), display=False).cost() / SCALE)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    json.dump([solved(**instance, seconds=given["seconds"]) for instance in given["instances"]], sys.stdout)

"""Imitate solutions first, then reinforce: two methods in phases, the first until it is right half of the time.

python examples/phases.py
"""

from __future__ import annotations

import podium
from podium import Method, Phases, Reached, methods
from podium.parts.objective import Likelihood
from podium.strategies import Sample


def main(iterations: int = 30, out: str | None = None) -> None:
    imitate = Method(
        "imitate",
        rollout=Sample(n=2, demonstrations=("short",)),
        objective=(Likelihood(where="rollout.demonstration"),),
    )
    method = Phases(imitate.until(10, Reached("reward", 0.5)), methods.grpo(kl=0.0))
    result = podium.train(method, world="countdown", level=1, iterations=iterations, out=out)
    phases = [line["phase"] for line in result.metrics if "phase" in line]
    print(f"iterations in each phase: {[phases.count(phase) for phase in dict.fromkeys(phases)]}")
    print(f"held-out pass@1 {result.evaluations[-1]['eval.pass@1']:.3f}")


if __name__ == "__main__":
    main()

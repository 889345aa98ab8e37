"""Credit over many turns: GiGPO finds states that rollouts share in a house with keys and locked doors.

python examples/many_turns.py
"""

from __future__ import annotations

import podium
from podium import methods, strategies
from podium.worlds import Window


def main(iterations: int = 20, out: str | None = None) -> None:
    method = methods.gigpo(n=8, omega=1.0)
    # Each turn sees the last two exchanges only; an episode ends after ten turns.
    method = method.with_(rollout=strategies.Sample(n=8, draw=strategies.Draw(context=Window(2), max_turns=10)))
    result = podium.train(method, world="keydoor", level=1, iterations=iterations, out=out)
    last = result.metrics[-1]
    print(
        f"reward {last['reward']:.3f}, {last['turns']:.1f} turns per episode; podium rollouts {result.path} shows them"
    )


if __name__ == "__main__":
    main()

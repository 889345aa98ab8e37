"""A whole GRPO training step against TRL's: the same model, prompts, limits and number of updates, on two CPU cores.

    python benchmarks/vs_trl.py [--trl .cache/parity/trl/bin/python] [--steps 12]

Each side runs in a process of its own, one after the other; TRL in an environment that `make parity` makes. Both
sample 8 rollouts of up to 32 tokens for each of 8 prompts (sums, level 2), and take one optimiser step on them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "src/podium/models/tiny"
PROMPTS, COPIES, LIMIT, WARM = 8, 8, 32, 2


def prompts(steps: int) -> list[str]:
    from podium import worlds

    world = worlds.get("sums", level=2)
    return [world.task(i).prompt for i in range(PROMPTS * steps)]


def podium_side(steps: int) -> dict[str, Any]:
    import podium
    from podium.sessions.train import configure
    from podium.training.build import build_run
    from podium.training.loop import iterate

    method = podium.methods.get("grpo", n=COPIES, kl=0.0)
    run = build_run(configure(method, world="sums", level=2, tasks=PROMPTS, max_tokens=LIMIT, lr=1e-5))
    times, tokens = [], 0
    for _ in range(WARM + steps):
        begun = time.perf_counter()
        _, line = iterate(run)
        times.append(time.perf_counter() - begun)
        tokens += line["tokens"]
    return {"seconds": times[WARM:], "length": tokens / (PROMPTS * COPIES * (WARM + steps))}


def trl_side() -> dict[str, Any]:
    from trl_steps import steps

    def score(text: str) -> float:
        return float("answer" in text) * 0.5 + 0.01 * len(text)

    given = json.loads(sys.stdin.read())
    return steps(MODEL, given, score, groups=PROMPTS, copies=COPIES, limit=LIMIT, warm=WARM, lr=1e-5)


def side(python: str, name: str, steps: int, text: str) -> dict[str, Any]:
    command = [python, __file__, "--side", name, "--steps", str(steps)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"The {name} side failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trl", default=str(ROOT / ".cache/parity/trl/bin/python"), help="a Python that has trl")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--side", choices=["podium", "trl"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(podium_side(arguments.steps) if arguments.side == "podium" else trl_side()))
        return
    if not Path(arguments.trl).exists():
        raise SystemExit(f"There is no {arguments.trl}: run `make parity`, or name a Python that has trl with --trl.")
    text = json.dumps(prompts(WARM + arguments.steps))
    rates = {}
    for name, python in (("trl", arguments.trl), ("podium", sys.executable)):
        result = side(python, name, arguments.steps, text)
        # The median step: these machines are noisy.
        middle = sorted(result["seconds"])[len(result["seconds"]) // 2]
        rates[name] = PROMPTS * COPIES / middle
        print(
            f"{name:<7} {rates[name]:8.0f} rollouts/s   {middle:.3f} s a step   {result['length']:.1f} tokens a rollout"
        )
    print(f"ratio   {rates['podium'] / rates['trl']:8.2f}")


if __name__ == "__main__":
    main()

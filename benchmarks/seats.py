"""What several seats cost: the time of an iteration with two seats beside one with a single seat and as many tokens.

    python benchmarks/seats.py [--rounds 5]

A game of two agents, each of which sees its own turns alone, stands beside two games of one agent that has as many
turns as each of the two: turns and contexts are the same. The two take turns, and the second goes first in every other
round; the ratios are of processor time per token, and their median counts, with its interval (binomial, 95 %).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import torch

from podium import methods
from podium.protocols.world import Episode, Feedback, Task, World
from podium.sessions.train import train

TURNS, TOKENS = 4, 12  # turns of an agent, and tokens of a turn


class Alone(World):
    """One agent."""

    name = "alone"
    isolation = "inline"
    max_tokens, max_turns = TOKENS, 2 * TURNS
    provides = (*World.provides, "turn.reward", "turn.state", "turn.next_state", "turn.action")

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"{self.name}/{split}/{index}", f"sum: {index} + 2")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Walk(task.prompt, self.agents)


class Pair(Alone):
    """Two agents, in turn, each with as many turns."""

    name = "pair"
    agents = ("ann", "bob")


class _Walk(Episode):
    def __init__(self, prompt: str, agents: tuple[str, ...]) -> None:
        super().__init__(prompt, state="start")
        self.turn, self.agents = 0, agents or ("",)
        self.agent = self.agents[0]

    def act(self, text: str) -> Feedback:
        self.turn += 1
        actor, self.agent = self.agent, self.agents[self.turn % len(self.agents)]
        others = {agent: 0.5 for agent in self.agents if agent != actor and self.turn > 1}
        info = {"correct": len(text) % 2 == 0, "answer": ""}
        done = self.turn == TURNS * len(self.agents)
        return Feedback(float(len(text) % 2), done, "sum: 1 + 2", str(self.turn), info, others)


def seconds(world: World, folder: Path) -> tuple[float, int]:
    """The processor time of sampling and training, without the first iteration, and the tokens of them."""
    n = 8 if world.agents else 16
    method = methods.get("mars", n=n, kl=0.0, agent="turn.agent" if world.agents else None, mini_batches=2)
    clock: list[float] = []
    result = train(
        method,
        world=world,
        iterations=4,
        tasks=8,
        eval_tasks=1,
        eval_samples=1,
        eval_every=0,
        out=folder,
        progress=lambda run, line: clock.append(time.process_time()),
    )
    return clock[-1] - clock[1], sum(line["tokens"] for line in result.metrics[-3:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")  # what the doctor says of runs that learn nothing
    torch.set_num_threads(1)
    ratios = []
    for number in range(rounds):
        per_token: dict[str, float] = {}
        for world in (Alone(), Pair()) if number % 2 else (Pair(), Alone()):
            with tempfile.TemporaryDirectory() as folder:
                spent, tokens = seconds(world, Path(folder) / "run")
            per_token[world.name] = spent / tokens
        ratios.append(per_token["pair"] / per_token["alone"])
        print(f"round {number + 1}: two seats take {ratios[-1]:.3f} times as long per token as one", flush=True)
    ordered, spread = sorted(ratios), round(0.98 * rounds**0.5)
    low, high = ordered[max(0, rounds // 2 - spread)], ordered[min(rounds - 1, rounds // 2 + spread)]
    print(f"median: {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()

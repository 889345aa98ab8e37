"""What several seats cost: the time of an iteration with two seats beside one with a single seat and as many tokens.

    python benchmarks/seats.py [--rounds 5]

A game of two agents, each of which sees its own turns alone, stands beside two games of one agent that has as many
turns as each of the two: turns and contexts are the same. The two take turns; the ratios are of processor time per
token, and their median counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

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
    parser.add_argument("--rounds", type=int, default=5)
    ratios = []
    for number in range(parser.parse_args().rounds):
        with tempfile.TemporaryDirectory() as folder:
            one, one_tokens = seconds(Alone(), Path(folder) / "one")
            two, two_tokens = seconds(Pair(), Path(folder) / "two")
        ratios.append((two / two_tokens) / (one / one_tokens))
        print(f"round {number + 1}: two seats take {ratios[-1]:.2f} times as long per token as one", flush=True)
    print(f"median: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()

"""What several seats cost: the time of an iteration with two seats beside one with a single seat and as many tokens.

    python benchmarks/seats.py [--rounds 5]

Both worlds let each agent write the same number of turns of the same length: in one they belong to one agent, in the
other to two that see only their own turns. The two take turns; of the ratios of their times, the median counts.
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

TURNS, TOKENS = 8, 12


class Alone(World):
    """One agent plays two games at once, one exchange of each in turn; it sees the one that it is asked about."""

    name = "alone"
    isolation = "inline"
    max_tokens, max_turns = TOKENS, TURNS
    provides = (*World.provides, "turn.reward", "turn.state", "turn.next_state", "turn.action")

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"{self.name}/{split}/{index}", f"sum: {index} + 2")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Walk(task.prompt, self.agents)


class Pair(Alone):
    """Two agents, in turn."""

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
        done = self.turn == TURNS
        return Feedback(float(len(text) % 2), done, "sum: 1 + 2", str(self.turn), info, others)


def seconds(world: World, folder: Path) -> tuple[float, int]:
    """The time of sampling and training per iteration, without the first, and the tokens of it."""
    method = methods.get("mars", kl=0.0, agent="turn.agent" if world.agents else None, mini_batches=2)
    start = time.perf_counter()
    result = train(method, world=world, iterations=4, tasks=8, eval_tasks=1, eval_samples=1, eval_every=0, out=folder)
    assert time.perf_counter() > start
    lines = result.metrics[2:]
    return sum(sum(line["seconds"].values()) for line in lines), sum(line["tokens"] for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    ratios = []
    for number in range(parser.parse_args().rounds):
        with tempfile.TemporaryDirectory() as folder:
            one, one_tokens = seconds(Alone(), Path(folder) / "one")
            two, two_tokens = seconds(Pair(), Path(folder) / "two")
        ratios.append((two / two_tokens) / (one / one_tokens))
        print(f"round {number + 1}: two seats take {ratios[-1]:.2f} times as long per token as one")
    print(f"median: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()

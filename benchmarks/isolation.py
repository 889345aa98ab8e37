"""What the isolation of a world costs: milliseconds per episode of one and of three turns, 64 episodes at a time.

    python benchmarks/isolation.py [--rounds 5]

The world does nothing but answer, so this is the time that an episode takes on top. The first round starts processes
and does not count; of the others, the median does.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from podium import worlds
from podium.collect.acting import Actor
from podium.protocols.world import Episode, Feedback, World

EPISODES = 64
WORLD = """
from podium.worlds import Answer, Episode, Feedback, Task, World

class Single(Answer):
    def task(self, index, split="train"):
        return Task(f"{split}/{index}", "echo: 1")

    def grade(self, task, text):
        return Feedback(1.0, info={"correct": True, "answer": text})

class Three(World):
    def task(self, index, split="train"):
        return Task(f"{split}/{index}", "echo: 1")

    def reset(self, task, seed=0):
        return Walk(task.prompt)

class Walk(Episode):
    turns = 0

    def act(self, text):
        self.turns += 1
        return Feedback(1.0, self.turns == 3, info={"correct": True, "answer": text})
"""


def play(actor: Actor, world: World) -> None:
    """Play the episodes to their ends."""

    def act(episode: Episode) -> None:
        actor.act(episode, "1", partial(acted, episode))

    def acted(episode: Episode, feedback: Feedback, failure: str) -> None:
        assert not failure, failure
        if feedback.done:
            actor.leave(episode)
        else:
            act(episode)

    task = world.task(0)
    for number in range(EPISODES):
        actor.open(world, task, number, act)
    while actor.busy:
        actor.deliver(block=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "world.py"
        file.write_text(WORLD)
        for isolation in ("inline", "thread", "process", "sandbox"):
            figures = []
            for name in ("Single", "Three"):
                world = worlds.isolated(f"{file}:{name}", isolation=isolation)
                actor, seconds = Actor(60.0, inline=isolation == "inline", live=world.live), []
                for _ in range(rounds + 1):
                    begun = time.perf_counter()
                    play(actor, world)
                    seconds.append(time.perf_counter() - begun)
                actor.close()
                world.close()
                figures.append(1000 * statistics.median(seconds[1:]) / EPISODES)
            print(f"{isolation:8} one turn {figures[0]:6.2f} ms, three turns {figures[1]:6.2f} ms")


if __name__ == "__main__":
    main()

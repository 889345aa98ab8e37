"""A world of your own with one answer per task: say whether a number is even or odd.

python examples/own_world.py
podium worlds check examples/own_world.py:Parity
podium train --world examples/own_world.py:Parity
"""

from __future__ import annotations

import podium
from podium.worlds import Answer, Feedback, Task, check_world


class Parity(Answer):
    """Is a number even or odd?"""

    name = "parity"
    max_tokens = 8

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"parity/{split}/{index}", f"Is {7 * index + (split == 'test')} even or odd?")

    def grade(self, task: Task, text: str) -> Feedback:
        right = "even" if int(task.prompt.split()[1]) % 2 == 0 else "odd"
        return Feedback(reward=float(right in text), info={"correct": right in text, "answer": text})


def main(iterations: int = 5, out: str | None = None) -> None:
    print(*(check_world(Parity()) or ["the world is sound"]), sep="\n")
    result = podium.train("grpo", world=Parity(), iterations=iterations, tasks=4, eval_tasks=16, out=out)
    print(f"reward {result.metrics[-1]['reward']:.3f} after {iterations} iterations")


if __name__ == "__main__":
    main()

"""Hidden numbers that can only be compared and swapped, to be brought into rising order."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from podium.core.errors import within
from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.world import Episode, Feedback, Task
from podium.worlds.puzzle import Draft, Slip
from podium.worlds.quest import Quest, QuestStep
from podium.worlds.texts.devices import NUMBERS, SORTED, sorting_prompt, sorting_reply

__all__ = ["Sorting", "fewest_comparisons"]

LARGEST = 100  # the hidden numbers are below it
ANSWER = SORTED.removeprefix(ANSWER_MARK).strip()


def fewest_comparisons(count: int) -> float:
    """The fewest comparisons that sort so many numbers, on average over their orders: 1, 8/3 and 14/3 for 2 to 4.

    Of the decision trees with n! leaves, one whose leaves lie on two neighbouring levels is the best; for so few
    numbers there is such an algorithm.
    """
    orders = 1
    for number in range(2, count + 1):
        orders *= number
    depth = (orders - 1).bit_length()
    return depth + 1 - 2**depth / orders


class Sorting(Quest):
    """`compare: 1 2` says whether the first number is less or more, `swap: 1 2` exchanges the two; `answer: sorted` is
    right if the numbers rise from the first place to the last. Higher levels have more numbers.

    `rollout.comparisons` counts the comparisons so far. With `budget`, a comparison beyond so many is refused.
    """

    name = "sorting"
    summary = "hidden numbers that can only be compared and swapped"
    levels = tuple(NUMBERS)
    styles = ("short", "long", "insertion")
    provides = (*Quest.provides, "rollout.comparisons")
    blank = {**Quest.blank, "comparisons": 0.0}
    max_tokens = 24
    hides = True
    max_turns = 16
    budget: int | None = None  # comparisons at most; None: any number

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "budget", 1, optional=True)

    def explain(self) -> str:
        return (
            "Bring the numbers into rising order. `compare: 1 2` says whether the number at place 1 is less or more "
            f"than that at place 2, `swap: 1 2` exchanges them. At the end write `{SORTED}`."
        )

    def draft(self, rng: Random) -> Draft:
        hidden = tuple(rng.sample(range(LARGEST), NUMBERS[self.level]))
        data = {"hidden": hidden, "answer": ANSWER, "reference_answer": ANSWER}
        return Draft(sorting_prompt(len(hidden)), " ".join(map(str, hidden)), data)

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Row(self, task)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> tuple[str, ...]:
        """A step is a comparison and the swap that it calls for; one that goes wrong does the opposite of what it calls
        for. Where the numbers end up in order nevertheless, the last two are swapped."""
        hidden: tuple[int, ...] = task.data["hidden"]
        turns, wrong = list[str](), False
        for neighbours in _passes(len(hidden), style):
            for a, b in neighbours:
                slipped = slip()
                swap, wrong = (hidden[a] > hidden[b]) != slipped, wrong or slipped
                turns.append(f"compare: {a + 1} {b + 1}")
                if swap:
                    turns.append(f"swap: {a + 1} {b + 1}")
                    hidden = sorting_reply(hidden, turns[-1])[0]
                elif style == "insertion":
                    break
        if wrong and _rising(hidden):
            turns.append(f"swap: {len(hidden) - 1} {len(hidden)}")
        said = [f"next\n{text}" for text in turns] if style == "long" else turns
        return (*said, SORTED)


class _Row(QuestStep):
    verbs = ("compare", "swap")

    def __init__(self, world: Sorting, task: Task) -> None:
        super().__init__(world, task)
        self.hidden: tuple[int, ...] = task.data["hidden"]
        self.budget, self.comparisons = world.budget, 0
        self.done: list[str] = []  # actions and replies

    def do(self, verb: str, rest: str, text: str) -> Feedback:
        if verb == "compare" and self.comparisons == self.budget:
            return self.say("error: no more comparisons", valid=False)
        self.hidden, reply = sorting_reply(self.hidden, text)
        valid = not reply.startswith("error")
        self.comparisons += valid and verb == "compare"
        if valid:
            self.recap = "\n".join(self.done)
            self.done.append(f"{verb}: {rest}: {reply}")
        return self.say(reply, valid=valid)

    def columns(self) -> dict[str, Any]:
        return {"comparisons": float(self.comparisons)}

    def reached(self) -> str:
        return ";".join(self.done)

    def missing(self) -> int:
        """Swaps of neighbours that are still needed: pairs in the wrong order."""
        places = range(len(self.hidden))
        return sum(self.hidden[a] > self.hidden[b] for b in places for a in range(b))

    def right(self, answer: str) -> bool:
        return answer == ANSWER and _rising(self.hidden)


def _rising(numbers: Sequence[int]) -> bool:
    return list(numbers) == sorted(numbers)


def _passes(count: int, style: str) -> list[list[tuple[int, int]]]:
    """The pairs of neighbours that are compared, pass after pass: by a bubble sort, or by insertion, where a pass is
    over when a number has found its place."""
    if style == "insertion":
        return [[(a, a + 1) for a in range(new - 1, -1, -1)] for new in range(1, count)]
    return [[(a, a + 1) for a in range(end)] for end in range(count - 1, 0, -1)]

"""The identity task: repeat the prompt."""

from __future__ import annotations

from random import Random
from string import ascii_lowercase

from podium.protocols.answer_text import plain
from podium.protocols.world import Task
from podium.worlds.graded import Verdict
from podium.worlds.puzzle import Draft, Puzzle, Slip, answered

__all__ = ["Echo"]

LETTERS = {1: 2, 2: 3, 3: 4, 4: 6}  # how many, by level


class Echo(Puzzle):
    """Repeat the letters: the simplest task that a method must learn."""

    name = "echo"
    summary = "repeat the letters that are given"
    levels = tuple(LETTERS)
    styles = ("short", "long", "backward")
    max_tokens = 48

    def draft(self, rng: Random) -> Draft:
        said = " ".join(rng.choice(ascii_lowercase) for _ in range(LETTERS[self.level]))
        return Draft(f"echo: {said}", said, {"answer": said})

    def explain(self, task: Draft) -> str:
        return "Repeat the letters after the colon in the same order, with a space between them."

    def verdict(self, task: Task, answer: str) -> Verdict:
        said = plain(answer)
        return Verdict(said == task.data["answer"], said)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        letters = task.data["answer"].split()
        if style == "backward":
            letters.reverse()
        for i, letter in enumerate(letters):
            if slip():
                letters[i] = rng.choice([other for other in ascii_lowercase if other != letter])
        if style == "backward":
            return answered([f"back: {' '.join(letters)}"], " ".join(reversed(letters)))
        if style == "long":
            return answered([f"first {', then '.join(letters)}"], " ".join(letters))
        return answered([], " ".join(letters))

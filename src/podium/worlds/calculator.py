"""Calculations that are hard without the calculator beside the conversation."""

from __future__ import annotations

import re
from random import Random

from podium.core.errors import within
from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.world import Episode, Feedback, Task
from podium.worlds.puzzle import Draft, Slip
from podium.worlds.quest import Quest, QuestStep
from podium.worlds.texts.devices import calculation_prompt, calculator_reply

__all__ = ["Calculator"]

LARGEST = {1: 99, 2: 99, 3: 999}  # first factor, by level
DOWN = "error: try again"


class Calculator(Quest):
    """`calculate: 12*34+56`: a product, at level 2 plus or minus a third number, at level 3 of larger ones.

    `calc: 12*34` computes one operation on two whole numbers. With `down` some calls fail and can be made again.
    """

    name = "calculator"
    summary = "products and sums that a calculator computes"
    levels = tuple(LARGEST)
    styles = ("short", "long", "repeated")
    max_tokens = 32
    down: float = 0.0  # the probability that a call fails

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "down", 0, 1)

    def explain(self) -> str:
        return (
            "Compute it by `calc: 12*34`, one operation (* + -) on two whole numbers at a time. "
            f"At the end write `{ANSWER_MARK}` and the number."
        )

    def draft(self, rng: Random) -> Draft:
        a, b, c = rng.randint(11, LARGEST[self.level]), rng.randint(11, 99), rng.randint(11, 99)
        rest = "" if self.level == 1 else f"{rng.choice('+-')}{c}"
        answer = str(a * b + (int(rest) if rest else 0))
        data = {"product": f"{a}*{b}", "rest": rest, "answer": answer, "reference_answer": answer}
        return Draft(calculation_prompt(f"{a}*{b}{rest}"), f"{a}*{b}{rest}", data)

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Device(self, task, seed)

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        """The turns of a solution for the episode with this seed: a call is repeated if it fails."""
        planned, device = list(self.attempt(task, style, seed)), self.reset(task, seed)
        turns: list[str] = []
        while planned and len(turns) < self.max_turns:
            turns.append(planned[0])
            if device.act(planned[0]).observation != DOWN:
                planned.pop(0)
        return tuple(turns)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> tuple[str, ...]:
        """A step is a call and what is read from it; one that goes wrong reads another number."""
        turns, value = list[str](), ""
        for operation in _operations(task):
            turns += [f"calc: {value}{operation}"] * (2 if style == "repeated" else 1)
            value = calculator_reply(turns[-1])
            if slip():
                value = str(int(value) + rng.choice((10, 20, 100)) * rng.randint(1, 3))
        if style == "long":
            turns = [f"next {text.removeprefix('calc: ')}\n{text}" for text in turns]
        return (*turns, f"{ANSWER_MARK} {value}")


class _Device(QuestStep):
    verbs = ("calc",)

    def __init__(self, world: Calculator, task: Task, seed: int) -> None:
        super().__init__(world, task)
        self.chance, self.down = Random(f"{task.key}/{seed}"), world.down
        self.done: list[str] = []  # calculations and their results

    def do(self, verb: str, rest: str, text: str) -> Feedback:
        down = bool(self.down) and self.chance.random() < self.down
        reply = DOWN if down else calculator_reply(text)
        valid = not reply.startswith("error")
        if valid:
            self.recap = "\n".join(self.done)
            self.done.append(f"{rest.replace(' ', '')}={reply}")
        return self.say(reply, valid=valid)

    def reached(self) -> str:
        return ";".join(self.done)

    def missing(self) -> int:
        """Calculations of a solution that have not been made yet."""
        value, left = "", 0
        for operation in _operations(self.task):
            result = calculator_reply(f"calc: {value}{operation}")
            left += f"{value}{operation}={result}" not in self.done
            value = result
        return left

    def right(self, answer: str) -> bool:
        number = re.fullmatch(r"[+-]?[0-9]{1,12}", answer)
        return number is not None and int(answer) == int(self.task.data["answer"])


def _operations(task: Task) -> list[str]:
    """The operations of a solution, each to be written after the result of the one before it."""
    return [task.data["product"], *([task.data["rest"]] if task.data["rest"] else [])]

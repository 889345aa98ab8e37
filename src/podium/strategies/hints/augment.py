"""Easier or harder questions: a hint where a task goes worse than usual, masked words where it goes better."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from podium.core.errors import one_of, within
from podium.core.part import Need, Strategy
from podium.core.schedule import Number
from podium.core.streams import key
from podium.protocols.context import Context, Full, History, Message
from podium.protocols.pieces import Pieces, pieces_of
from podium.protocols.scaffold import Scaffold
from podium.strategies.draw import Draw
from podium.strategies.hints.guided import BARE, Assigned, Assigning, sample_assigned
from podium.strategies.hints.help import SolutionShares, solution
from podium.strategies.hints.repair import MARKS
from podium.strategies.requests import Plan, TaskRequest, Wave
from podium.strategies.sample.sample import Sample

__all__ = ["Augmented", "Blurred"]


class Blurred(Context):
    """The messages of another context with a share of the words of the first one masked; the seed says which."""

    rate: float = 0.0  # share of the words
    seed: int = 0
    base: Context = Full()

    def __call__(self, history: History) -> Sequence[Message]:
        question, *rest = self.base(history)
        assert isinstance(question, str)
        chance = np.random.default_rng(self.seed)
        if not isinstance(question, Pieces):
            return [self._masked(question, chance), *rest]
        return [Pieces(*(self._masked(x, chance) if isinstance(x, str) else x for x in pieces_of(question))), *rest]

    def _masked(self, text: str, chance: np.random.Generator) -> str:
        words = text.split(" ")
        masked = chance.random(len(words)) < self.rate
        return " ".join("_" if mask else word for word, mask in zip(words, masked, strict=True))


class Augmented(Strategy):
    """`n` rollouts of each task with a hint or a blurred question, by its difficulty `group.difficulty` = d.

    d is measured at the task's last visit. d > 0 shows the first min(d, 1) of the lines of a right answer by the policy
    (`source="rollout"`, from the memory `RightTexts`; without one there is no hint) or of the world's solution; d < 0
    masks min(−d, 1) · `blur` of the words. All rollouts of a group see the same, and are trained under it.
    """

    reference = "DeepVideo-R1: Difficulty-aware Regressive GRPO, https://github.com/mlvlab/DeepVideoR1"
    n: int = 8
    help: SolutionShares = SolutionShares((1.0,), "lines")  # how a solution is cut; its shares are not read
    blur: Number = 1.0  # share of the words that are masked at d = −1; 0: never
    draw: Draw = Draw()
    source: str = "solution"  # of hints: the world's solution, or rollout, a right answer by the policy

    provides = MARKS

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "blur", 0, 1)
        one_of(self, "source", ("solution", "rollout"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("group.difficulty", "task.solution" if self.source == "solution" else "group.right_text")

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        return self.help.prepare(world) if self.source == "solution" else ()

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["help.level"] != 0 for rollout in rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        assigned = yield from self.assigned(task)
        return (yield from sample_assigned(task, self.draw, assigned))

    def assigned(self, task: TaskRequest) -> Assigning:
        """What all members see."""
        d = float(task.recalled.get("group.difficulty", 0.0))
        if d < 0 and self.blur:
            rate, seed = min(-d, 1.0) * float(self.blur), key(0, task.stream) % 2**31
            blurred = Blurred(rate, seed, self.draw.context_of(task))
            return Assigned([Scaffold(base=blurred)] * self.n, [d] * self.n)
        text = (yield from self._text(task)) if d > 0 else ""
        hint = self.help.cut(text, min(d, 1.0)) if d > 0 else ""
        if not hint:
            return Assigned([BARE] * self.n, [0.0] * self.n, missing=d > 0 and not text)
        return Assigned([Scaffold(hint)] * self.n, [min(d, 1.0)] * self.n)

    def _text(self, task: TaskRequest) -> Generator[Wave, list[Any], str]:
        """What a hint is cut from; empty if there is nothing."""
        if self.source == "rollout":
            return str(task.recalled["group.right_text"])
        return (yield from solution(task, self.help.style))

"""Questions made easier or harder: a hint where a task goes worse than usual, words masked where it goes better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podium.core.errors import within
from podium.core.schedule import Number
from podium.core.streams import key
from podium.protocols.context import Context, Full, History, Message
from podium.protocols.scaffold import Scaffold
from podium.strategies.hints.guided import BARE, Assigned, Assigning, Guided
from podium.strategies.hints.help import Help, SolutionShares, solution
from podium.strategies.requests import TaskRequest

__all__ = ["Augmented", "Blurred"]


class Blurred(Context):
    """The messages of another context with a share of the first one's words masked, the same ones for a seed."""

    rate: float = 0.0  # share of the words
    seed: int = 0
    base: Context = Full()

    def __call__(self, history: History) -> Sequence[Message]:
        question, *rest = self.base(history)
        assert isinstance(question, str)
        words = question.split(" ")
        hidden = np.random.default_rng(self.seed).random(len(words)) < self.rate
        shown = " ".join("_" if gone else word for word, gone in zip(words, hidden, strict=True))
        return [shown, *rest]


class Augmented(Guided):
    """`n` rollouts of each task, after a hint or a blurred question, by its `group.difficulty` d at the last visit.

    d > 0: the first min(d, 1) of a solution's lines; d < 0: min(−d, 1) · `blur` of the words are masked. All rollouts
    of a group see the same, and are trained under it.
    """

    reference = "DeepVideo-R1: Difficulty-aware Regressive GRPO, https://github.com/mlvlab/DeepVideoR1"
    help: Help = SolutionShares((1.0,), "lines")
    guided: int | None = None
    scaffold: str = "kept"
    blur: Number = 1.0  # 0: never

    needs = ("task.solution", "group.difficulty")

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "blur", 0, 1)

    def assigned(self, task: TaskRequest) -> Assigning:
        d = float(task.known.get("group.difficulty", 0.0))
        plain = Assigned([BARE] * self.n, [0.0] * self.n)
        if d < 0 and self.blur:
            world: Context = Full() if task.world is None else task.world.context
            shown = Blurred(min(-d, 1.0) * float(self.blur), key(0, task.stream) % 2**31, self.context or world)
            return Assigned([Scaffold(base=shown)] * self.n, [d] * self.n)
        if d <= 0:
            return plain
        assert isinstance(self.help, SolutionShares)
        text = yield from solution(task, self.help.style)
        hint = self.help.cut(text, min(d, 1.0))
        if not hint:
            return Assigned(plain.scaffolds, plain.levels, missing=not text)
        return Assigned([Scaffold(hint)] * self.n, [min(d, 1.0)] * self.n)

"""How right each step of an answer is: by the world's rules, by a value head, or by a judge."""

from __future__ import annotations

from collections.abc import Generator
from itertools import accumulate
from typing import Any

from podium.core.build import Rollout
from podium.core.part import Need
from podium.core.value import Value
from podium.strategies.hints.judge import Judge
from podium.strategies.requests import Ends, Score, TaskRequest, Wave

__all__ = ["JudgedSteps", "RuledSteps", "StepScorer", "ValuedSteps"]

Scoring = Generator[Wave, list[Any], list[float]]
STEPS = "{question}\nThe beginning of an answer:\n{answer}\nIs its last step right? Say yes or no."


class StepScorer(Value):
    """A process reward: a score in [0, 1] for each line of an answer."""

    @property
    def needs(self) -> tuple[Need, ...]:
        return ()

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return ()

    def scores(self, task: TaskRequest, rollout: Rollout) -> Scoring:
        """A sub-plan that returns the score of each line."""
        raise NotImplementedError


class RuledSteps(StepScorer):
    """Scores by the rules of the world."""

    needs = ("task.steps",)

    def scores(self, task: TaskRequest, rollout: Rollout) -> Scoring:
        yield from ()
        assert task.world is not None
        return list(task.world.step_scores(task.task, str(rollout.columns["text"])))


class ValuedSteps(StepScorer):
    """Scores by a process reward model with a value head: its value after each line, held within [0, 1].

    Any model that was saved with a value head will do, such as the critic of another run. It must have the policy's
    tokenizer.
    """

    role: str = "prm"

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (self.role,)

    def scores(self, task: TaskRequest, rollout: Rollout) -> Scoring:
        turn, lines = rollout.turns[-1], str(rollout.columns["text"]).splitlines(keepends=True)
        if not lines or not turn.ids:
            return [0.0] * len(lines)
        ends, values = yield [
            Ends(tuple(turn.ids)),
            Score(tuple(turn.context), tuple(turn.ids), name="value", role=self.role),
        ]
        # The value at a token is that of the state before it: a line is valued at the first token after it.
        after = [next((i for i, end in enumerate(ends) if end > place), len(ends) - 1) for place in _places(lines)]
        return [min(max(values[i], 0.0), 1.0) for i in after]


class JudgedSteps(StepScorer):
    """Scores by a process reward model that answers in words: its probability that the last line so far is right."""

    judge: Judge = Judge(role="prm", ask=STEPS)

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (self.judge.role,)

    def scores(self, task: TaskRequest, rollout: Rollout) -> Scoring:
        lines = str(rollout.columns["text"]).splitlines(keepends=True)
        beginnings = accumulate(lines)
        prompts = [self.judge.prompt(str(task.task.prompt), text.rstrip("\n"), "") for text in beginnings]
        return (yield from self.judge.probabilities(prompts))


def _places(lines: list[str]) -> list[int]:
    """The character at which each line ends."""
    return list(accumulate(map(len, lines)))

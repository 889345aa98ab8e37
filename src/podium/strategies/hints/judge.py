"""A model as judge: its probability that a text meets a criterion."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator, Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.value import Value
from podium.protocols.verdict_text import MEETS, judge_prompt
from podium.strategies.requests import Plan, Score, TaskRequest, Wave

__all__ = ["Judge"]


class Judge(Value):
    """A role that answers a question about a text in one word.

        p = π(yes) / (π(yes) + π(no))

    π is the probability of the word after the question; a criterion is met if p > 1/2. The role's model must have the
    policy's tokenizer.
    """

    role: str = "judge"
    ask: str = MEETS  # may contain {question}, {answer} and {criterion}
    yes: str = " yes"
    no: str = " no"

    def __post_init__(self) -> None:
        self.prompt("", "", "")

    def prompt(self, question: str, answer: str, criterion: str) -> str:
        """What the judge is asked."""
        return judge_prompt(self.ask, question=question, answer=answer, criterion=criterion)

    def probabilities(self, prompts: Sequence[str]) -> Generator[Wave, list[Any], list[float]]:
        """A sub-plan that returns p for each prompt."""
        if not prompts:
            return []
        logp = yield [Score(prompt, word, role=self.role) for prompt in prompts for word in (self.yes, self.no)]
        odds = [sum(no) - sum(yes) for yes, no in zip(logp[::2], logp[1::2], strict=True)]
        return [1 / (1 + math.exp(min(x, 700.0))) for x in odds]

    def verdicts(self, task: TaskRequest, rollouts: Sequence[Rollout]) -> Plan:
        """A sub-plan that returns the rollouts with the points of the task's criteria and which of them each meets."""
        assert task.world is not None
        criteria, question = task.world.criteria(task.task), str(task.task.prompt)
        prompts = [self.prompt(question, str(r.columns["text"]), c.text) for r in rollouts for c in criteria]
        said = iter((yield from self.probabilities(prompts)))
        points = tuple(c.points for c in criteria)
        return [
            dataclasses.replace(
                r, columns={**r.columns, "points": points, "met": tuple(next(said) > 0.5 for _ in points)}
            )
            for r in rollouts
        ]

"""A model that answers a question about a text by yes or no: the probability of yes."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

from podium.core.value import Value
from podium.protocols.verdict_text import MEETS, judge_prompt
from podium.strategies.requests import Score, Wave

__all__ = ["Judge"]


class Judge(Value):
    """A role that answers a question about a text in one word.

        p = π(yes) / (π(yes) + π(no))

    π is the probability of the word after the question. The role's model must have the policy's tokenizer.
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

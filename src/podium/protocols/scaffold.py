"""Scaffolds: help in the prompt, such as a hint, an earlier attempt or an example. podium/tiny knows the first two."""

from __future__ import annotations

from collections.abc import Sequence

from podium.protocols.context import Context, Full, History, Message
from podium.protocols.pieces import joined

__all__ = ["Scaffold", "with_attempt", "with_hint"]


def with_hint(prompt: str, hint: str) -> str:
    """The question with a hint: the first lines of a solution, or advice."""
    return prompt + "\nhint: " + hint


def with_attempt(prompt: str, attempt: str) -> str:
    """The question with an earlier answer, which may be wrong, to be improved."""
    return prompt + "\nattempt: " + attempt


class Scaffold(Context):
    """The messages of another context, with help added to the first one, the question."""

    hint: str = ""
    attempt: str = ""  # an earlier answer to improve
    above: str = ""  # text above the question, such as examples
    below: str = ""  # text below everything else
    base: Context = Full()

    def __call__(self, history: History) -> Sequence[Message]:
        question, *rest = self.base(history)
        assert isinstance(question, str)
        if self.attempt:
            question = with_attempt(question, self.attempt)
        if self.hint:
            question = with_hint(question, self.hint)
        return [joined("\n", (text for text in (self.above, question, self.below) if text)), *rest]

"""Solutions step by step in words of the model's own: steps with a separator after each, then a boxed answer."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.protocols.answer_text import ANSWER_MARK, answer_place, final_answer
from podium.protocols.format import Demonstrated, Format, ReadTurn

__all__ = ["WordedSteps"]


class WordedSteps(Format):
    """Steps, each with `separator` after it, then `answer` with the answer in place of {}, and nothing after that.

    The world gets the steps as lines and then `answer: …`.
    """

    separator: str = ".\n\n"
    answer: str = "**Final Answer**\n\\boxed{{}}"  # {}: the answer
    ask: str = "End each step with a full stop and an empty line, then write **Final Answer** and \\boxed{the answer}."
    tokens: int = 32

    def __post_init__(self) -> None:
        if not self.separator or self.answer.count("{}") != 1:
            raise PodiumError(
                f"WordedSteps: separator = {self.separator!r} must not be empty, and answer = {self.answer!r} must "
                "contain {} once."
            )

    @property
    def opening(self) -> str:
        return self.answer.partition("{}")[0]

    def read(self, text: str) -> ReadTurn:
        closing = self.answer.partition("{}")[2]
        steps, marked, rest = text.rpartition(self.opening)
        said, closed, after = rest.partition(closing) if closing else (rest, " ", "")
        if not (marked and closed):
            return ReadTurn(text, False)
        lines = [line.strip() for line in steps.split(self.separator) if line.strip()]
        well_formed = (not steps or steps.endswith(self.separator)) and not after.strip()
        return ReadTurn("\n".join([*lines, f"{ANSWER_MARK} {said.strip()}"]), well_formed)

    def write(self, turn: Demonstrated) -> str:
        place, said = answer_place(turn.action), final_answer(turn.action)
        if place is None or said is None:
            return turn.action
        lines = [line for line in turn.action[:place].splitlines() if line.strip()]
        return "".join(line + self.separator for line in lines) + self.answer.replace("{}", said)

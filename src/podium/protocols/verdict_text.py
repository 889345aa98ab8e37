"""What judges are asked, and how their verdicts are read."""

from __future__ import annotations

from collections.abc import Sequence

from podium.core.errors import PodiumError
from podium.protocols.pieces import filled

__all__ = [
    *("BETTER", "MEETS", "PAIR_QUESTION", "POINTS", "POINT_QUESTION", "SCALE", "SCALED_QUESTION", "VERDICT", "YES_NO"),
    *("judge_prompt", "read_verdict", "read_yes_no"),
]

VERDICT = "verdict:"
BETTER = ("A", "B")
SCALE = ("-3", "-2", "-1", "1", "2", "3")  # how much better B is; negative: A is better
POINTS = tuple(map(str, range(11)))  # how good an answer is
YES_NO = ("yes", "no")
PAIR_QUESTION = "judge: {question}\nA: {left}\nB: {right}\nwhich is better?"
SCALED_QUESTION = "judge: {question}\nA: {left}\nB: {right}\nhow much better is B? -3 to 3"
POINT_QUESTION = "judge: {question}\nA: {answer}\nhow good is it? 0 to 10"
MEETS = "{question}\nAn answer:\n{answer}\nA criterion: {criterion}\nDoes the answer meet it? Say yes or no."
MARKDOWN = " \t*#>`_"


def judge_prompt(ask: str, **texts: str) -> str:
    """A question to a judge with the texts in their places."""
    try:
        return filled(ask, **texts)
    except (KeyError, IndexError, ValueError) as error:
        fields = ", ".join(f"{{{name}}}" for name in texts)
        raise PodiumError(f"A question to a judge may name only {fields}, not as {ask!r}: {error}.") from error


def read_verdict(text: str, options: Sequence[str] = (*BETTER, *SCALE)) -> str | None:
    """The option that the last line which begins with `verdict:` names; None: there is no such line, or it names none.

    Case, and markdown around the words (`**Verdict:** A.`), do not matter.
    """
    for line in reversed(text.splitlines()):
        head = line.lstrip(MARKDOWN)
        if head[: len(VERDICT)].casefold() == VERDICT:
            said = head[len(VERDICT) :].strip(f"{MARKDOWN}.").casefold()
            return next((option for option in options if said in (option.casefold(), f"+{option}")), None)
    return None


def read_yes_no(text: str) -> str | None:
    """yes or no: the verdict if there is one, or else the first word; None: it is neither."""
    words = text.casefold().split(maxsplit=1)
    first = words[0].strip(f"{MARKDOWN}.,;:!") if words else ""
    return read_verdict(text, YES_NO) or (first if first in YES_NO else None)

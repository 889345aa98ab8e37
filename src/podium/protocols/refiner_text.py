"""What a refiner is asked about a trajectory, and the words in which it answers."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ACCEPT", "CUT_QUESTION", "REJECT", "VERDICT_QUESTION", "cut_text", "refiner_prompt"]

ACCEPT, REJECT = "accept", "reject"
VERDICT_QUESTION = "accept or reject?"
CUT_QUESTION = "cut where?"


def refiner_prompt(prompt: str, turns: Sequence[str], replies: Sequence[str], ask: str) -> str:
    """A trajectory by numbered steps, each with the reply to it, and what is asked about it."""
    lines = [prompt]
    for number, text in enumerate(turns, 1):
        lines += [f"step {number}: {text}", *replies[number - 1 : number]]
    return "\n".join([*(line for line in lines if line), ask])


def cut_text(number: int) -> str:
    """How a refiner names the first wrong step."""
    return f"cut: {number}"

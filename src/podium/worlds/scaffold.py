"""What may stand beside a question: a hint, or an earlier attempt. podium/tiny knows these forms."""

from __future__ import annotations

__all__ = ["with_attempt", "with_hint"]


def with_hint(prompt: str, hint: str) -> str:
    """The question, and a hint: the first lines of a solution, or advice."""
    return f"{prompt}\nhint: {hint}"


def with_attempt(prompt: str, attempt: str) -> str:
    """The question, and an answer to it that may be wrong, to be done better."""
    return f"{prompt}\nattempt: {attempt}"

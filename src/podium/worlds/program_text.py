"""The program in a text, and values as programs return them."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["program_in", "same_value"]

FENCE = "```"
THOUGHT = "</think>"
RELATIVE, ABSOLUTE = 1e-6, 1e-9  # tolerance for numbers that are not whole


def program_in(text: str, name: str = "") -> str | None:
    """The last block of code that mentions the name, else the last block, else the whole text; None if it is empty.

    A block that the text does not close goes to its end. Thoughts up to `</think>` are no program.
    """
    text = text.rpartition(THOUGHT)[2]
    blocks: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith(FENCE):
            inside = not inside
            if inside:
                blocks.append([])
        elif inside:
            blocks[-1].append(line)
    programs = ["\n".join(block) for block in blocks] or [text]
    chosen = next((program for program in reversed(programs) if name in program), programs[-1])
    return chosen.rstrip() + "\n" if chosen.strip() else None


def same_value(value: Any, expected: Any) -> bool:
    """Whether two values from JSON are the same.

    Numbers are compared by value, so that 2 is 2.0, with a tolerance if one of them is not whole; True is not 1.
    Not-a-number equals itself.
    """
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, int | float) and isinstance(expected, int | float):
        if isinstance(value, int) and isinstance(expected, int):
            return value == expected
        return _close(value, expected)
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(same_value, value, expected))
    if isinstance(value, dict) and isinstance(expected, dict):
        return value.keys() == expected.keys() and all(same_value(value[key], expected[key]) for key in value)
    return type(value) is type(expected) and value == expected


def _close(value: float, expected: float) -> bool:
    try:
        a, b = float(value), float(expected)
    except OverflowError:  # a whole number beyond the largest float
        return False
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)

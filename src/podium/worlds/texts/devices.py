"""Two devices behind a conversation: hidden numbers that can only be compared and swapped, and a calculator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from podium.protocols.answer_text import ANSWER_MARK
from podium.worlds.quest import action
from podium.worlds.texts.exercise import Exercise, Response

__all__ = ["calculated", "calculation_prompt", "calculator_reply", "sorted_out", "sorting_prompt", "sorting_reply"]

SORTED = f"{ANSWER_MARK} sorted"
NUMBERS = {1: 2, 2: 3, 3: 4}  # by level: how many are to be sorted
PAIR = re.compile(r"(\d) (\d)")
PRODUCT = re.compile(r"(\d{1,6})([*+-])(\d{1,6})")


def sorting_prompt(count: int) -> str:
    """Numbers that nobody sees are to be brought into rising order."""
    return f"sort: {count} hidden numbers"


def sorting_reply(hidden: tuple[int, ...], text: str) -> tuple[tuple[int, ...], str]:
    """The numbers after a turn, and the reply: `compare: 1 2` says whether the first is less or more, `swap: 1 2`
    exchanges them."""
    verb, rest = action(text, ("compare", "swap")) or ("", "")
    pair = PAIR.fullmatch(rest)
    places = [int(place) - 1 for place in pair.groups()] if pair else []
    if not places or not all(0 <= place < len(hidden) for place in places) or places[0] == places[1]:
        return hidden, "error: say compare: 1 2 or swap: 1 2 or answer: sorted"
    a, b = places
    if verb == "compare":
        return hidden, "less" if hidden[a] < hidden[b] else "more"
    swapped = list(hidden)
    swapped[a], swapped[b] = hidden[b], hidden[a]
    return tuple(swapped), "swapped"


def sorted_out(rng: Random, level: int, split: str = "train") -> Exercise:
    """Sort by comparisons of neighbours; an attempt goes wrong by a swap too few or too many, or ends early."""
    start = tuple(rng.sample(range(100), NUMBERS[level]))

    def demonstrate(rng: Random, right: float) -> tuple[str, ...]:
        turns = _bubbled(start)
        if rng.random() < right:
            return turns
        if rng.random() < 0.3:
            return (*turns[: rng.randrange(len(turns))], SORTED)
        at = rng.choice([place for place, turn in enumerate(turns) if turn.startswith("compare")])
        needed = turns[at + 1].startswith("swap")
        return _bubbled(start, turns[: at + 1] if needed else (*turns[: at + 1], turns[at].replace("compare", "swap")))

    def respond(turns: Sequence[str]) -> Response:
        hidden, reply = start, ""
        for text in turns:
            if (action(text, ("compare", "swap", "answer")) or ("", ""))[0] == "answer":
                return Response(right=hidden == tuple(sorted(hidden)))
            hidden, reply = sorting_reply(hidden, text)
        return Response(reply, False)

    return Exercise(sorting_prompt(len(start)), demonstrate, respond)


def _bubbled(hidden: tuple[int, ...], done: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A bubble sort that begins with these turns: each pass compares neighbours and swaps those in the wrong order."""
    for text in done:
        hidden = sorting_reply(hidden, text)[0]
    turns, compared = list(done), sum(text.startswith("compare") for text in done)
    order = [a for end in range(len(hidden) - 1, 0, -1) for a in range(end)]
    for a in order[compared:]:
        pair = f"{a + 1} {a + 2}"
        turns.append(f"compare: {pair}")
        if hidden[a] > hidden[a + 1]:
            turns.append(f"swap: {pair}")
            hidden = sorting_reply(hidden, turns[-1])[0]
    return (*turns, SORTED)


# A calculator


def calculation_prompt(question: str) -> str:
    """A calculation that is hard without a calculator."""
    return f"calculate: {question}"


def calculator_reply(text: str) -> str:
    """What the calculator shows after `calc: 12*34`: one operation on two whole numbers."""
    _, rest = action(text, ("calc",)) or ("", "")
    found = PRODUCT.fullmatch(rest.replace(" ", ""))
    return str(_operate(int(found[1]), found[2], int(found[3]))) if found else "error: say calc: 12*34"


def _operate(a: int, sign: str, b: int) -> int:
    return a * b if sign == "*" else a + b if sign == "+" else a - b


def calculated(rng: Random, level: int, split: str = "train") -> Exercise:
    """A product of two numbers, at level 2 plus or minus a third, at level 3 of larger numbers; an attempt goes wrong
    by a guess in place of a calculation."""
    largest = 999 if level == 3 else 99
    a, b, c = rng.randint(11, largest), rng.randint(11, 99), rng.randint(11, 99)
    sign = rng.choice("+-")
    question = f"{a}*{b}" if level == 1 else f"{a}*{b}{sign}{c}"
    product = a * b
    answer = product if level == 1 else _operate(product, sign, c)

    def demonstrate(rng: Random, right: float) -> tuple[str, ...]:
        turns = [f"calc: {a}*{b}"] if level == 1 else [f"calc: {a}*{b}", f"calc: {product}{sign}{c}"]
        if rng.random() < right:
            return (*turns, f"{ANSWER_MARK} {answer}")
        known = rng.randrange(len(turns)) if level > 1 else 0
        guess = answer + rng.choice((-100, -20, -10, 10, 20, 100)) * rng.randint(1, 3)
        return (*turns[:known], f"{ANSWER_MARK} {max(guess, 1)}")

    def respond(turns: Sequence[str]) -> Response:
        verb, rest = action(turns[-1], ("calc", "answer")) or ("", "")
        if verb == "answer":
            return Response(right=rest == str(answer))
        return Response(calculator_reply(turns[-1]), False)

    return Exercise(calculation_prompt(question), demonstrate, respond)

"""Answers the request to interrupt a rollout after each of its steps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from podium.protocols.answer_text import answer_place
from podium.protocols.sampling import Completion, Generate
from podium.strategies.requests import Interrupt, Interrupted

if TYPE_CHECKING:
    from podium.collect.driver import Driver

__all__ = ["interrupt", "steps"]


def steps(text: str, ends: list[int], after: str) -> list[int]:
    """How many tokens there are up to the end of each step of a text whose tokens end at these characters.

    Steps end with the token in which `after` is completed, and with the text or before the answer in it; there is at
    least one.
    """
    place = answer_place(text)
    thinking = len(text) if place is None else place + 1  # with the line break before the answer
    last = bisect_right(ends, thinking)
    while last and ends[last - 1] == (ends[last - 2] if last > 1 else 0):  # an end-of-turn token says nothing
        last -= 1
    found, at = [], text.find(after)
    while at >= 0:
        found.append(bisect_left(ends, at + len(after)) + 1)
        at = text.find(after, at + len(after))
    return [*sorted({token for token in found if token < last}), last]


def interrupt(driver: Driver, request: Interrupt, then: Callable[[list[Interrupted]], None]) -> None:
    """Cut each turn into steps, and let the model go on after each and the request's text."""
    cuts = list(_cuts(driver, request))
    answers: dict[int, list[Completion]] = {}

    def receiver(place: int) -> Callable[[list[Completion]], None]:
        def receive(completions: list[Completion]) -> None:
            answers[place] = completions
            if len(answers) == len(cuts):
                then([Interrupted(*cut, answers[i]) for i, cut in enumerate(cuts)])

        return receive

    if not cuts:
        then([])
    for place, (_, _, context, _) in enumerate(cuts):
        stream = (*request.request.stream, request.wave, int(request.rollout.columns["index"]), place)
        asked = Generate(context, request.n, request.sampling, stream, capture=("entropy",), keep=False)
        driver.submit(asked, receiver(place))


def _cuts(driver: Driver, request: Interrupt) -> Iterator[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    """Of each step: its first token in the rollout, the one after its last, the context up to the text, the answer."""
    probe = driver.written(request.text, False)
    answer = driver.written(request.answer.format(driver.world.reference(request.request.task)), False)
    before = 0
    for turn in (turn for turn in request.rollout.turns if turn.ids):
        ends = steps(driver.sampler.text(turn.ids), driver.ends(turn.ids), request.after)
        for number, end in enumerate(ends):
            start = ends[number - 1] if number else 0
            stop = end if number + 1 < len(ends) else len(turn.ids)  # what follows the last step belongs to it
            yield before + start, before + stop, (*turn.context, *turn.ids[:end], *probe), answer
        before += len(turn.ids)

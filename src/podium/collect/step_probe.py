"""Probing the steps of a rollout: the model answers after each of them (the request `Interrupt`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from podium.protocols.answer_text import answer_place
from podium.protocols.sampling import Completion, Generate
from podium.strategies.requests import Interrupt, Interrupted

if TYPE_CHECKING:
    from podium.collect.driver import Driver

__all__ = ["probe_steps", "step_ends"]


def step_ends(text: str, ends: list[int], after: str, probe: str = "") -> list[int]:
    """The number of tokens up to the end of each step of a text; `ends`: the characters at which its tokens end.

    A step ends with the token that completes an occurrence of `after`; the last one before the answer, or with the
    text. There is at least one. An answer begins with `answer:` on a line, or with the text of the `probe`.
    """
    place = answer_place(text)
    if place is None and probe.strip() and probe.strip() in text:
        place = text.rindex(probe.strip()) - 1
    reasoning = len(text) if place is None else place + 1  # with the line break before the answer
    last = bisect_right(ends, reasoning)
    while last and ends[last - 1] == (ends[last - 2] if last > 1 else 0):  # an end-of-turn token has no text
        last -= 1
    tokens, at = [], text.find(after)
    while at >= 0:
        tokens.append(bisect_left(ends, at + len(after)) + 1)
        at = text.find(after, at + len(after))
    return [*sorted({token for token in tokens if token < last}), last]


def probe_steps(driver: Driver, request: Interrupt, then: Callable[[list[Interrupted]], None]) -> None:
    """Cut each turn into steps, and let the model continue after each step and the request's text."""
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
        continuation = Generate(context, request.n, request.sampling, stream, capture=("entropy",), keep=False)
        driver.submit(continuation, receiver(place))


def _cuts(driver: Driver, request: Interrupt) -> Iterator[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    """For each step: its first token in the rollout, the one after its last, the context of the probe, the answer."""
    probe = driver.written(request.text, False)
    answer = driver.written(request.answer.format(driver.world.reference(request.request.task)), False)
    first = 0  # token of the turn within the rollout
    for turn in (turn for turn in request.rollout.turns if turn.ids):
        ends = step_ends(driver.sampler.text(turn.ids), driver.ends(turn.ids), request.after, request.text)
        for number, end in enumerate(ends):
            start = ends[number - 1] if number else 0
            stop = end if number + 1 < len(ends) else len(turn.ids)  # what follows the last step belongs to it
            yield first + start, first + stop, (*turn.context, *turn.ids[:end], *probe), answer
        first += len(turn.ids)

"""How accuracy grows with thinking: thoughts are cut at a budget of tokens, and an answer is forced from the rest."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from podium.collect.driver import Driver
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.evaluation.passk import bootstrap_interval
from podium.evaluation.resample import Measure
from podium.protocols.answer_text import ANSWER_MARK, answer_place
from podium.protocols.world import Answer as OneTurn
from podium.strategies.requests import Plan, Play, TaskRequest, Wave, Written

__all__ = ["BudgetPoint", "curve", "doublings", "thought"]

CLOSE = "</think>"
ANSWER = 64  # tokens that a forced answer may have


@dataclass(frozen=True)
class BudgetPoint:
    """What a budget of thinking is worth."""

    budget: int  # tokens
    accuracy: Measure  # over tasks
    cut: float  # share of the answers whose thought was longer
    thought: float  # tokens of thinking that were used, on average

    def as_dict(self) -> dict[str, object]:
        return {**dataclasses.asdict(self), "accuracy": self.accuracy.as_dict()}


def thought(text: str, ends: Sequence[int], opening: str = ANSWER_MARK) -> int:
    """How many tokens of an answer, which end at these characters, are thinking: those up to `</think>`, or else up to
    the last line `answer:` or another `opening` of the answer, or all that say something."""
    place = text.find(CLOSE)
    if place < 0 and opening != ANSWER_MARK:
        place = text.rfind(opening)
        place = len(text) if place < 0 else place
    elif place < 0:
        line = answer_place(text)
        place = len(text) if line is None else line + 1 if line else 0  # with the line break before the answer
    last = bisect_right(ends, place)
    while last and ends[last - 1] == (ends[last - 2] if last > 1 else 0):  # an end-of-turn token says nothing
        last -= 1
    return last


def doublings(longest: int) -> list[int]:
    """0, 1, 2, 4, … up to the first that no thought exceeds."""
    powers = [0, 1]
    while powers[-1] < longest:
        powers.append(2 * powers[-1])
    return powers


def curve(
    driver: Driver,
    requests: Sequence[TaskRequest],
    budgets: Sequence[int] | None = None,
    samples: int = 1,
    force: str | None = None,
) -> list[BudgetPoint]:
    """The accuracy at each budget, by default 0 and the powers of two up to the longest thought.

    Each task is answered `samples` times. An answer whose thought is longer than a budget is cut there and goes on with
    `force`, after the tag that ends a thought where it has one; so does one that ran out of tokens before it answered.
    By default `force` is a line break and the words with which an answer begins in the format of the requests.
    Others stay as they are. There is no vote and no verifier: as the budget grows, the same thoughts may be longer.
    """
    if budgets is not None and (not budgets or min(budgets) < 0):
        raise PodiumError(f"Budgets of thinking {list(budgets)}: give numbers of tokens, 0 or more.")
    if not isinstance(driver.world, OneTurn):
        raise PodiumError(f"{driver.world.name!r} has several turns: budgets of thinking are for answers of one turn.")
    formats = [request.format for request in requests]
    opening = formats[0].opening if formats and formats[0] is not None else ANSWER_MARK
    force = f"\n{opening}" if force is None else force
    whole = driver.collect([_whole(request, samples) for request in requests])
    used = [[_thought(driver, r.turns[0], opening) for r in group] for group in whole]
    steps = doublings(max((n for row in used for n in row), default=0)) if budgets is None else sorted(set(budgets))
    plans = [
        _forced(driver, *task, budget, wave, force)
        for wave, budget in enumerate(steps, 1)
        for task in zip(requests, whole, used, strict=True)
    ]
    collected = iter(driver.collect(plans))
    points = []
    for budget in steps:
        right = [[float(bool(r.columns["correct"])) for r in next(collected)] for _ in requests]
        rates = [sum(row) / len(row) for row in right]
        lengths = [n for row in used for n in row]
        points.append(
            BudgetPoint(
                budget,
                Measure(sum(rates) / len(rates), *bootstrap_interval(rates)),
                sum(n > budget for n in lengths) / len(lengths),
                sum(min(n, budget) for n in lengths) / len(lengths),
            )
        )
    return points


def _thought(driver: Driver, turn: Turn, opening: str) -> int:
    return thought(driver.sampler.text(turn.ids), driver.ends(turn.ids), opening)


def _unfinished(rollout: Rollout) -> bool:
    return bool(rollout.columns["truncated"]) and not rollout.columns.get("answer")


def _whole(request: TaskRequest, samples: int) -> Plan:
    (rollouts,) = yield [Play(request, samples)]
    return rollouts  # type: ignore[return-value]


def _forced(
    driver: Driver,
    request: TaskRequest,
    whole: Sequence[Rollout],
    used: Sequence[int],
    budget: int,
    wave: int,
    force: str,
) -> Plan:
    """The rollouts of a task as they are under a budget."""
    cut = [n > budget or _unfinished(r) for r, n in zip(whole, used, strict=True)]
    asked: Wave = []
    for number in (i for i, short in enumerate(cut) if short):
        turn = whole[number].turns[0]
        begun = turn.ids[: min(used[number], budget)]
        text = driver.sampler.text(turn.ids)
        tagged = CLOSE in text or text.lstrip().startswith("<think>")
        words = f"\n{CLOSE}{force}" if tagged else force
        if not begun or driver.sampler.text(begun).endswith("\n"):
            words = words.removeprefix("\n")
        ids = (*begun, *driver.written(words, False))
        sampling = request.sampling.replace(max_tokens=len(ids) + ANSWER)
        asked.append(Play(request, sampling=sampling, first=number, wave=wave, begun=Written(ids)))
    answers = iter((yield asked) if asked else ())
    return [next(answers)[0] if short else r for r, short in zip(whole, cut, strict=True)]  # type: ignore[misc]

"""Judging answers: the calls behind one comparison or rating, by the world or another judge."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from podium.core.errors import PodiumError
from podium.core.printable import error_text, one_line
from podium.core.streams import key
from podium.protocols.world_problems import scores_problem
from podium.strategies.requests import Compare, JudgeScores, Meets, Opinion, PairJudge, Rate, SubPlan

if TYPE_CHECKING:
    from podium.collect.driver import Driver

__all__ = ["NEUTRAL", "Judging"]

NEUTRAL = 0.5  # each text's score in a call that failed


class Judging:
    """The calls of a `Compare`, `Rate` or `Meets`. One that fails, or says nothing that can be read, is counted and
    gives each text the same score."""

    def __init__(
        self, driver: Driver, request: Compare | Rate | Meets, then: Callable[[list[JudgeScores]], None]
    ) -> None:
        self.driver, self.request, self.then = driver, request, then
        self.texts = (request.left, request.right) if isinstance(request, Compare) else (request.text,)
        self.scores: list[tuple[float, ...]] = []  # of the texts, by call
        self.failed, self.calls = 0, 0
        if isinstance(request.judge, str) and request.judge != "world":
            raise PodiumError(
                f"{request.judge!r} is to judge answers: give 'world', or a value such as a judge's role."
            )

    def start(self) -> None:
        for call in range(self.request.calls):
            # In every other call the right text stands first.
            order = self.texts[::-1] if call % 2 else self.texts
            then = partial(self._heard, call % 2 == 1)
            seed = key(self.request.seed, (call,)) % 2**31
            if isinstance(self.request.judge, PairJudge):
                ask = partial(self._ask_judge, self.request.judge, order, seed)
                self.driver.run_plan(_guarded(ask, len(order)), _two(then))
            else:
                self.driver.actor.judge(self._ask_world(order, seed), len(order), then)

    def _ask_world(self, texts: tuple[str, ...], seed: int) -> Callable[[], Any]:
        world, task = self.driver.world, self.request.request.task
        ask: Callable[..., Any] = world.compare if isinstance(self.request, Compare) else world.rate
        return partial(ask, task, *texts, seed)

    def _ask_judge(self, judge: PairJudge, texts: tuple[str, ...], seed: int) -> Any:
        if isinstance(self.request, Meets):
            return judge.meets(self.request.request, self.request.text, self.request.criterion, seed)
        ask: Callable[..., Any] = judge.compare if isinstance(self.request, Compare) else judge.rate
        return ask(self.request.request, *texts, seed)

    def _heard(self, reversed_order: bool, said: Any, failure: str) -> None:
        opinion = said if isinstance(said, Opinion) else Opinion(None if failure else _tuple(said))
        self.calls += opinion.attempts
        self.driver.count_judgement(opinion, failure)
        if opinion.scores is None:
            self.failed += 1
            given = (NEUTRAL,) * len(self.texts)
        else:
            given = tuple(map(float, opinion.scores))
        self.scores.append(given[::-1] if reversed_order else given)
        count = self.request.calls
        if len(self.scores) == count:
            # Calls may be answered in any order, and rounding must not depend on it.
            means = tuple(sum(sorted(column)) / count for column in zip(*self.scores, strict=True))
            self.then([JudgeScores(means, self.calls, self.failed)])


def _tuple(scores: Any) -> tuple[float, ...]:
    return tuple(scores) if isinstance(scores, (tuple, list)) else (scores,)


def _guarded(ask: Callable[[], Any], count: int) -> SubPlan:
    """What a judge says, at once or at the end of a plan, and why it has failed if it has."""
    try:
        said = ask()
        said = (yield from said) if isinstance(said, Generator) else said
        scores = said.scores if isinstance(said, Opinion) else said
        unread = scores is None and isinstance(said, Opinion)
        problem = "" if unread else scores_problem(scores, count)
    except Exception as error:
        problem = f"the judge raised {error_text(error)}"
    return (None, one_line(problem)) if problem else (said, "")


def _two(then: Callable[[Any, str], None]) -> Callable[[tuple[Any, str]], None]:
    return lambda outcome: then(*outcome)

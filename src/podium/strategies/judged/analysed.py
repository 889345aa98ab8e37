"""Analyses of a task whose question is hidden, judged by how well another model answers with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import within
from podium.core.part import Strategy
from podium.protocols.pieces import joined
from podium.protocols.scaffold import Scaffold
from podium.strategies.draw import Draw
from podium.strategies.hints.help import write_text
from podium.strategies.judged.of_rollouts import with_columns
from podium.strategies.requests import Plan, TaskRequest, Wave, rollouts_of

__all__ = ["Analysed", "solved_share"]

READING = 1  # the wave in which the solver answers


def solved_share(correct: Sequence[bool]) -> float:
    """The share of answers that are right; 0 of none."""
    return sum(map(bool, correct)) / max(len(correct), 1)


class Analysed(Strategy):
    """`n` analyses of each task by the policy, which sees the task without its question. A second model gets the task,
    its question and the analysis as a hint, and answers `answers` times.

    `rollout.solver.rate` is the share of its answers that are right, `rollout.formed` whether the analysis says
    something and has ended. The analyses are trained; the answers are not.
    """

    reference = "DoGe, https://github.com/opendatalab-raiser/DoGe"
    n: int = 4
    answers: int = 4  # of the second model, for each analysis
    role: str = "solver"  # the second model
    ask: str = ""  # a line below the task that asks for an analysis
    draw: Draw = Draw()

    needs = ("task.context",)
    provides = ("rollout.solver.rate", "rollout.formed")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "answers", 1)

    @property
    def writers(self) -> tuple[str, ...]:
        return (self.role,)

    def plan(self, task: TaskRequest) -> Plan:
        assert task.world is not None
        context = task.world.unasked(task.task)
        shown = joined("\n", [context, self.ask]) if self.ask else context
        writing = write_text(task, shown, None, 0, self.n)
        sampling = self.draw.sampling(task.sampling)
        analyses = rollouts_of(
            (yield [dataclasses.replace(writing, sampling=sampling, purpose=Purpose.train, first=0, wave=0)])
        )
        wave: Wave = [
            self.draw.play(
                task,
                self.answers,
                purpose=Purpose.probe,
                first=self.n + number * self.answers,
                wave=READING,
                context=Scaffold(hint=str(analysis.columns["text"]).strip()),
                role=self.role,
            )
            for number, analysis in enumerate(analyses)
        ]
        solved: Any = yield wave
        return [self._read(analysis, answers) for analysis, answers in zip(analyses, solved, strict=True)]

    def _read(self, analysis: Rollout, answers: Sequence[Rollout]) -> Rollout:
        said = bool(str(analysis.columns["text"]).strip()) and not analysis.columns["truncated"]
        rate = solved_share([bool(answer.columns["correct"]) for answer in answers])
        return with_columns(analysis, {"solver.rate": rate, "formed": said})

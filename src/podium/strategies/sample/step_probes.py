"""Probes along the way: after each step the model is made to answer at once."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.protocols.sampling import Completion, Sampling
from podium.strategies.requests import Interrupt, Interrupted, Plan, TaskRequest
from podium.strategies.sample.sample import Sample

__all__ = ["StepProbes"]


class StepProbes(Sample):
    """Rollouts cut into steps; after each step `probe_n` short answers are sampled, which are not rollouts themselves.

    The steps are the level `segment` of the batch. `segment.confidence` is the mean over a step's probes of
    e^{−mean entropy of its tokens}; the right answer after the step is its passage `answer`.
    """

    reference = "SPAE: Step Potential Advantage Estimation, https://github.com/cii030/SPAE-RL"
    after: str = ".\n\n"  # what ends a step
    probe: str = "**Final Answer**\n\\boxed{"  # what is written after it
    answer: str = "{}"  # how the right answer is written after that
    probe_n: int = 5
    probe_tokens: int = 10  # at most
    probe_temperature: Number = 0.6

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "probe_n", 1)
        within(self, "probe_tokens", 1)
        within(self, "probe_temperature", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.solution",)

    @property
    def provides(self) -> tuple[str, ...]:
        return (*super().provides, "segment.confidence", "segment.answer.ids", "segment.answer.context")

    def plan(self, task: TaskRequest) -> Plan:
        rollouts = yield from super().plan(task)
        sampling = Sampling(temperature=self.probe_temperature, max_tokens=self.probe_tokens)
        steps = yield [
            Interrupt(task, r, self.after, self.probe, self.probe_n, sampling, wave=1, answer=self.answer)
            for r in rollouts
        ]
        return [_segmented(r, found) for r, found in zip(rollouts, steps, strict=True)]  # type: ignore[arg-type]


def _segmented(rollout: Rollout, steps: list[Interrupted]) -> Rollout:
    number = [i for i, step in enumerate(steps) for _ in range(step.start, step.end)]
    turns, at = [], 0
    for turn in rollout.turns:
        own = number[at : at + len(turn.ids)]
        turns.append(dataclasses.replace(turn, tokens={**turn.tokens, "segment": own}))
        at += len(turn.ids)
    segments: dict[str, list[Any]] = {
        "confidence": [_confidence(step.completions) for step in steps],
        "answer.ids": [step.answer for step in steps],
        "answer.context": [step.context for step in steps],
    }
    spent = sum(len(completion.ids) for step in steps for completion in step.completions)
    columns = {**rollout.columns, "side_tokens": spent}  # sampled for it beside its own
    return dataclasses.replace(rollout, turns=turns, segments=segments, columns=columns)


def _confidence(completions: list[Completion]) -> float:
    means = [sum(c.captured["entropy"]) / max(len(c.ids), 1) for c in completions]
    return sum(math.exp(-mean) for mean in means) / len(means)

"""Step probes: after each reasoning step the model is made to answer at once, which shows how sure it is by then."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.protocols.sampling import Completion, Sampling
from podium.strategies.draw import Draw
from podium.strategies.requests import Interrupt, Interrupted, Plan, TaskRequest, rollouts_of

__all__ = ["StepProbes"]


class StepProbes(Strategy):
    """`n` rollouts cut into steps; after each step `probe_n` short answers are sampled, which are not rollouts.

    The steps become the level `segment` of the batch. `segment.confidence` is the mean over a step's probes of
    e^{−mean entropy of its tokens}; the right answer after the step is its passage `answer`.
    """

    reference = "SPAE: Step Potential Advantage Estimation, https://github.com/cii030/SPAE-RL"
    n: int = 8
    after: str = ".\n\n"  # the text that ends a step
    probe: str = "**Final Answer**\n\\boxed{"  # what is inserted after each step, for the model to complete
    answer: str = "{}"  # how the right answer is written after the probe
    probe_n: int = 5  # answers sampled after each step
    probe_tokens: int = 10  # of such an answer at most
    probe_temperature: Number = 0.6
    draw: Draw = Draw()

    needs = ("task.solution",)
    provides = ("segment.confidence", "segment.answer.ids", "segment.answer.context")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "probe_n", 1)
        within(self, "probe_tokens", 1)
        within(self, "probe_temperature", 0)

    def plan(self, task: TaskRequest) -> Plan:
        rollouts = rollouts_of((yield [self.draw.play(task, self.n)]))
        sampling = Sampling(temperature=self.probe_temperature, max_tokens=self.probe_tokens)
        answers = yield [
            Interrupt(task, r, self.after, self.probe, self.probe_n, sampling, wave=1, answer=self.answer)
            for r in rollouts
        ]
        return [_segmented(r, steps) for r, steps in zip(rollouts, answers, strict=True)]  # type: ignore[arg-type]


def _segmented(rollout: Rollout, steps: list[Interrupted]) -> Rollout:
    """The rollout with its steps as segments."""
    segment_of_token = [i for i, step in enumerate(steps) for _ in range(step.start, step.end)]
    turns, start = [], 0
    for turn in rollout.turns:
        segment = segment_of_token[start : start + len(turn.ids)]
        turns.append(dataclasses.replace(turn, tokens={**turn.tokens, "segment": segment}))
        start += len(turn.ids)
    segments: dict[str, list[Any]] = {
        "confidence": [_confidence(step.completions) for step in steps],
        "answer.ids": [step.answer for step in steps],
        "answer.context": [step.context for step in steps],
    }
    probe_tokens = sum(len(completion.ids) for step in steps for completion in step.completions)
    columns = {**rollout.columns, "side_tokens": probe_tokens}  # sampled for the rollout, but not part of it
    return dataclasses.replace(rollout, turns=turns, segments=segments, columns=columns)


def _confidence(completions: list[Completion]) -> float:
    means = [sum(c.captured["entropy"]) / max(len(c.ids), 1) for c in completions]
    return sum(math.exp(-mean) for mean in means) / len(means)

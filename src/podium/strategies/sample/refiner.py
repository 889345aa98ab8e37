"""A refiner: the policy accepts its own trajectories, or cuts them at the first wrong step and goes on from there."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from podium.core.build import DRAWN_FROM, Rollout
from podium.core.columns import Origin, Purpose
from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.streams import key
from podium.protocols.context import Full
from podium.protocols.refiner_text import (
    ACCEPT,
    CUT_QUESTION,
    REJECT,
    VERDICT_QUESTION,
    cut_text,
    refiner_prompt,
)
from podium.protocols.world import Episode, Feedback
from podium.strategies.choices import Option, options_among
from podium.strategies.draw import Draw
from podium.strategies.requests import Encode, Plan, Recite, Resume, Score, TaskRequest, Wave, Written, rollouts_of

__all__ = ["Refiner"]

CUTTING, JUDGING = 1 << 22, 1 << 23  # name the random streams of cuts and verdicts


@dataclass(frozen=True)
class _Said:
    """A verdict or a cut: what was asked, and the option that was chosen."""

    asked: str
    option: Option


@dataclass
class _Trajectory:
    """A trajectory while it is refined."""

    first: Rollout
    now: Rollout
    accepted: float = 1.0  # the probability of the last verdict `accept`
    said: list[_Said] = field(default_factory=list)
    replaced: list[Rollout] = field(default_factory=list)

    def asked(self, question: str) -> str:
        """A question about the trajectory as it is now."""
        turns = [turn.columns for turn in self.now.turns]
        replies = [str(turn["observation"]) for turn in turns[:-1]]
        prompt = str(self.now.columns["prompt"])
        return refiner_prompt(prompt, [str(turn["action"]) for turn in turns], replies, question)


class Refiner(Strategy):
    """`n` trajectories of each task; the policy itself judges each, and revises those that it rejects.

        a = π(accept | accept or reject),  accepted where a ≥ `threshold`; threshold = None: with probability a
        otherwise a cut k is drawn by π(cut: k | any cut) over its steps, the first k − 1 steps are kept, and the rest
        is sampled anew; at most `revisions` times

    The last trajectory takes part in training; those that it replaced are only recorded. The verdicts and cuts are
    rollouts of purpose `demo`, trained but in no statistics: `rollout.parent` is the index of the trajectory that they
    led to (−1: none), from which `FromParent` takes their advantage. `rollout.final` marks the trajectories that are
    trained, `rollout.accepted` is a, `rollout.revised` whether it was cut, and `rollout.gained` what that changed in
    the world's reward. A trajectory that is too long for the refiner to read is accepted without a verdict.
    """

    reference = "Search-R2: Enhancing Search-Integrated Reasoning via Actor-Refiner Collaboration"
    n: int = 5
    revisions: int = 1  # of a trajectory at most; 0: no refiner
    threshold: float | None = 0.5  # a probability; 0: accept all; None: the verdict is drawn
    draw: Draw = Draw()

    provides = (
        *("token.origin", "rollout.purpose", "rollout.parent"),
        *("rollout.final", "rollout.accepted", "rollout.revised", "rollout.gained"),
    )

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "revisions", 0)
        if self.threshold is not None:
            within(self, "threshold", 0, 1)

    @property
    def neutral(self) -> Refiner:
        return self.replace(revisions=0)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(not rollout.columns["final"] for rollout in rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        rows = [_Trajectory(r, r) for r in rollouts_of((yield [self.draw.play(task, self.n)]))]
        looked_at = list(enumerate(rows))
        for revision in range(1, self.revisions + 1):
            looked_at = yield from self._rejected(task, looked_at, revision)
            if not looked_at:
                break
            cuts = yield from self._cuts(task, looked_at, revision)
            resumed = yield [
                Resume(
                    self.draw.play(task, first=self.n * revision + index, wave=revision),
                    tuple(row.now.turns[: cut - 1]),
                    chance=(0, index),
                )
                for (index, row), cut in zip(looked_at, cuts, strict=True)
            ]
            for (_, row), answer in zip(looked_at, resumed, strict=True):
                for rollout in rollouts_of([answer]):  # none where no room was left
                    row.replaced.append(row.now)
                    row.now = rollout
        final = [_marked(row.now, row, final=True) for row in rows]
        spoken = yield from self._spoken(task, rows)
        replaced = [_marked(r, row, purpose=Purpose.replaced) for row in rows for r in row.replaced]
        return [*final, *spoken, *replaced]

    def _rejected(
        self, task: TaskRequest, rows: Sequence[tuple[int, _Trajectory]], revision: int
    ) -> Generator[Wave, Any, list[tuple[int, _Trajectory]]]:
        """The trajectories that the policy rejects; all get their verdicts."""
        asked = [row.asked(VERDICT_QUESTION) for _, row in rows]
        verdicts = yield from _answers(asked, [(ACCEPT, REJECT)] * len(rows))
        rejected = []
        for (index, row), question, options in zip(rows, asked, verdicts, strict=True):
            if not options:  # too long to be read
                continue
            accept, reject = options
            row.accepted = accept.probability
            if self.threshold is None:
                passed = _uniform(task, JUDGING, revision, index) < row.accepted
            else:
                passed = row.accepted >= self.threshold
            row.said.append(_Said(question, accept if passed else reject))
            if not passed:
                rejected.append((index, row))
        return rejected

    def _cuts(
        self, task: TaskRequest, rows: Sequence[tuple[int, _Trajectory]], revision: int
    ) -> Generator[Wave, Any, list[int]]:
        """The number of the first wrong step of each trajectory, as the policy names it."""
        asked = [row.asked(CUT_QUESTION) for _, row in rows]
        steps = [[cut_text(n + 1) for n in range(len(row.now.turns))] for _, row in rows]
        named = yield from _answers(asked, steps)
        cuts = []
        for (index, row), question, options in zip(rows, asked, named, strict=True):
            cut = 0
            if options:  # otherwise it is too long to be read, and starts again
                u = _uniform(task, CUTTING, revision, index)
                below = [upper <= u for upper in accumulate(option.probability for option in options)]
                cut = min(sum(below), len(below) - 1)
                row.said.append(_Said(question, options[cut]))
            cuts.append(cut + 1)
        return cuts

    def _spoken(self, task: TaskRequest, rows: Sequence[_Trajectory]) -> Plan:
        """All verdicts and cuts as rollouts."""
        bare = None if task.format is None else task.format.replace(ask="")
        request, first = dataclasses.replace(task, format=bare), self.n * (self.revisions + 1)
        said = [(row, each) for row in rows for each in row.said]
        wave: Wave = [
            Recite(
                request,
                texts=("",),
                index=first + number,
                origin=Origin.policy,
                begun=Written(each.option.ids, each.option.logp, origin=Origin.policy),
                ended=False,
                episode=_Asked(each.asked, task.task.key),
                context=Full(),
            )
            for number, (_, each) in enumerate(said)
        ]
        recited = rollouts_of((yield wave)) if wave else []
        spoken = []
        for rollout, (row, each) in zip(recited, said, strict=True):
            (turn,) = rollout.turns
            tokens: dict[str, Any] = {**turn.tokens, DRAWN_FROM: each.option.allowed}
            drawn = dataclasses.replace(rollout, turns=[dataclasses.replace(turn, tokens=tokens)])
            spoken.append(_marked(drawn, row, purpose=Purpose.demo, parent=int(row.now.columns["index"])))
        return spoken


def _uniform(task: TaskRequest, *stream: int) -> float:
    """In [0, 1), by the task's stream."""
    return (key(0, (*task.stream, *stream)) >> 11) * 2.0**-53


def _answers(asked: Sequence[str], texts: Sequence[Sequence[str]]) -> Generator[Wave, Any, list[list[Option]]]:
    """The options of each question, by the policy's probabilities; none where a question is too long to be read."""
    distinct = list(dict.fromkeys(text for options in texts for text in options))
    encoded = dict(zip(distinct, map(tuple, (yield [Encode(text) for text in distinct])), strict=True))
    wave: Wave = [
        Score(question, encoded[text], optional=True)
        for question, options in zip(asked, texts, strict=True)
        for text in options
    ]
    logp = iter((yield wave))
    scored = [[next(logp) for _ in options] for options in texts]
    return [
        options_among([encoded[text] for text in options], values) if all(values) else []
        for options, values in zip(texts, scored, strict=True)
    ]


class _Asked(Episode):
    """An episode of one turn that asks about a trajectory and is not graded."""

    def act(self, text: str) -> Feedback:
        return Feedback(state=self.state)


def _marked(
    rollout: Rollout, row: _Trajectory, *, purpose: Purpose = Purpose.train, parent: int = -1, final: bool = False
) -> Rollout:
    columns = {
        "purpose": int(purpose),
        "parent": parent,
        "final": final,
        "accepted": row.accepted,
        "revised": bool(row.replaced),
        "gained": float(row.now.columns["reward"]) - float(row.first.columns["reward"]),
    }
    return dataclasses.replace(rollout, columns={**rollout.columns, **columns})

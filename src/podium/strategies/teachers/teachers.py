"""Help by whole answers: of teachers, corrected from where a rollout went wrong, or the policy's own of earlier
iterations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import within
from podium.core.part import Need
from podium.core.streams import key
from podium.protocols.world import World
from podium.strategies.hints.help import Asking, Help, Offer
from podium.strategies.requests import Ends, Plan, Play, Recite, Replay, TaskRequest, Wave, Written, rollouts_of
from podium.strategies.teachers.step_scores import RuledSteps, StepScorer
from podium.strategies.teachers.traces import Traces, check_traces, existing, read_traces

__all__ = ["Rectified", "Stored", "Teachers", "draw_at_most"]


class Teachers(Help):
    """Answers of several teachers to each task: rows of a file, or the world's solutions in its different styles.

    A row of the file is a JSON object with the key of its `task` (such as sums-2/train/17) and a text, or `turns`, a
    list of texts. Answers that do not fit into the context are left out.
    """

    reference = "AMPO: More Than One Teacher, https://github.com/SII-Enigma/AMPO"
    file: str = ""  # empty: the world's own solutions
    most: int = 4  # answers to a task
    text_field: str = ""  # the name of the field; empty: text, completion, …

    def __post_init__(self) -> None:
        within(self, "most", 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return () if self.file else ("task.solution",)

    def prepare(self, world: World | None) -> tuple[str, ...]:
        if self.file and world is not None:
            existing(self.file, "then the world's own solutions are the teachers")
            check_traces(self.file, self.answers, world)
        return ()

    @cached_property
    def answers(self) -> Traces:
        """The answers in the file, by task."""
        return read_traces(self.file, self.text_field)

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        common: dict[str, Any] = {"purpose": Purpose.probe, "origin": Origin.expert, "optional": True}
        first = 1 + max((r.columns["index"] for r in group), default=-1)
        if self.file:
            texts = self.answers.get(task.task.key, [])[: self.most]
            wave = [Recite(task, turns, index=first + i, **common) for i, turns in enumerate(texts)]
        else:
            styles = ("short",) if task.world is None else task.world.styles
            wave = [Recite(task, style=s, index=first + i, **common) for i, s in enumerate(styles[: self.most])]
        return Offer(answers=rollouts_of((yield list(wave)) if wave else []))


class Rectified(Help):
    """Wrong rollouts that began well, corrected: the right prefix is kept, and the world or a `guide` completes it.

    The first wrong step is the first whose score is below `threshold`. A rollout can be corrected if at least the share
    `prefix` of its steps comes before it; of several, the `most` with the largest share are (ties go to the one with
    the better worst step). The prefix has the origin `copied`, the rest `expert`; corrections that the world does not
    grade as right are dropped.
    """

    reference = "SCOPE: Step-wise Correction for On-Policy Exploration"
    threshold: float = 0.5  # of a step's score
    prefix: float = 0.5  # share of the steps
    most: int = 1  # corrections of a group
    scorer: StepScorer = RuledSteps()  # of the steps: a process reward
    guide: str = ""  # a role that writes the rest of a correction; empty: the world does

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.scorer.needs if self.guide else tuple(dict.fromkeys(("task.steps", *self.scorer.needs)))

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (*self.scorer.roles_asked, *((self.guide,) if self.guide else ()))

    @property
    def writers(self) -> tuple[str, ...]:
        return (self.guide,) if self.guide else ()

    def __post_init__(self) -> None:
        within(self, "threshold", 0, 1)
        within(self, "prefix", 0)
        within(self, "most", 1)

    def first_error(self, scores: Sequence[float]) -> int | None:
        """The number of the first wrong step; None where none is wrong."""
        return next((number for number, score in enumerate(scores) if score < self.threshold), None)

    def share(self, scores: Sequence[float]) -> float:
        """The share of the steps before the first wrong one; 1 where none is wrong."""
        first = self.first_error(scores)
        return 1.0 if first is None else first / len(scores)

    def salvages(self, scores: Sequence[float], correct: bool) -> bool:
        """Whether a rollout can be corrected."""
        first = self.first_error(scores)
        return not correct and first is not None and self.share(scores) >= self.prefix

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        scored = []
        for rollout in group:
            scored.append((yield from self.scorer.scores(task, rollout)))
        wrong = [i for i, r in enumerate(group) if self.salvages(scored[i], bool(r.columns["correct"]))]
        wrong.sort(
            key=lambda i: (-self.share(scored[i]), -min(scored[i][: self.first_error(scored[i])], default=1.0), i)
        )
        answers: list[Rollout] = []
        replaces: list[int] = []
        for i in wrong:
            if len(answers) < self.most:
                steps = self.first_error(scored[i]) or 0
                corrected = yield from self._corrected(task, group[i], steps, len(group))
                answers += corrected
                replaces += [i] * len(corrected)
        return Offer(answers=answers, replaces=replaces)

    def _corrected(self, task: TaskRequest, rollout: Rollout, steps: int, first: int) -> Plan:
        """The first `steps` lines of a rollout with a right ending; nothing where there is none."""
        turn, text = rollout.turns[-1], str(rollout.columns["text"])
        beginning = "".join(text.splitlines(keepends=True)[:steps])
        rest = "" if self.guide or task.world is None else task.world.completed(task.task, beginning)
        if rest is None or len(rollout.turns) > 1:
            return []
        (ends,) = yield [Ends(tuple(turn.ids))]
        kept = sum(end <= len(beginning) for end in ends)  # type: ignore[operator]
        # The text of a token that the cut goes through is written anew.
        between = beginning[ends[kept - 1] if kept else 0 :]  # type: ignore[index]
        index = first + rollout.columns["index"]
        prefix = Written.of(turn, kept)
        if self.guide:
            play = Play(task, 1, begun=prefix, role=self.guide, first=index, wave=index)
            return [_foreign(r, kept) for r in rollouts_of((yield [play])) if r.columns["correct"]]
        recite = Recite(task, (between + rest,), purpose=Purpose.train, begun=prefix, index=index, optional=True)
        return [r for r in rollouts_of((yield [recite])) if r.columns["correct"]]


def _foreign(rollout: Rollout, kept: int) -> Rollout:
    """A rollout whose tokens after the first `kept` an expert has written."""
    (turn,) = rollout.turns
    origin = [Origin.copied.name] * kept + [Origin.expert.name] * (len(turn.ids) - kept)
    return dataclasses.replace(rollout, turns=[dataclasses.replace(turn, origin=origin)])


class Stored(Help):
    """Random rollouts of the same task from earlier iterations that had the opposite outcome.

    A group without a success gets correct ones, any other group wrong ones.
    """

    reference = "R³: Replay, Reflection and Ranking Rewards"
    most: int = 2  # rollouts

    needs = ("group.stored",)

    def __post_init__(self) -> None:
        within(self, "most", 1)

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        solved = any(r.columns["reward"] > 0 for r in group)
        opposite = [stored for stored in task.recalled.get("group.stored", ()) if stored["correct"] != solved]
        first = 1 + max(r.columns["index"] for r in group)
        chosen = draw_at_most(opposite, task, self.most)
        wave: Wave = [Replay(replayed_rollout(stored, group[0], first + i)) for i, stored in enumerate(chosen)]
        return Offer(answers=rollouts_of((yield wave) if wave else []))


def draw_at_most(stored: Sequence[Any], task: TaskRequest, most: int) -> list[Any]:
    """At most `most` of them, drawn at random for this group."""
    order = np.random.default_rng(key(1, task.stream)).permutation(len(stored))
    return [stored[i] for i in order[:most]]


def replayed_rollout(stored: Mapping[str, Any], member: Rollout, index: int) -> Rollout:
    """A stored rollout with the columns that a member of the group has."""
    reward, text = float(stored["correct"]), stored["text"]
    turns = [
        Turn(
            ids=turn["ids"],
            context=turn["context"],
            train_context=turn["train_context"],
            origin=[Origin.copied.name] * len(turn["ids"]),
            columns={**member.turns[0].columns, "reward": reward, "action": text, "observation": ""},
            tokens={name: _signal(turn, name) for name in member.turns[0].tokens},
        )
        for turn in stored["turns"]
    ]
    columns = {name: stored[name] for name in ("correct", "text", "answer", "truncated")}
    columns |= {"reward": reward, "index": index, "purpose": int(Purpose.train), "source": Origin.copied.name}
    return dataclasses.replace(member, turns=turns, columns={**member.columns, **columns})


def _signal(turn: Mapping[str, Any], name: str) -> Sequence[float]:
    """A signal of the sampler for each token; 0 where it was not stored."""
    values: Sequence[float] = turn.get(name.removeprefix("sampler."), (0.0,) * len(turn["ids"]))
    return values

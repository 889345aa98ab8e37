"""Whole answers by others: of teachers, of a guide that goes on where a rollout went wrong, or the policy's own of
earlier iterations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError, within
from podium.core.part import Need
from podium.core.streams import key
from podium.protocols.world import World
from podium.store.json_lines import objects, text_of
from podium.strategies.hints.help import Asking, Help, Offer
from podium.strategies.requests import Ends, Recite, Replay, TaskRequest, Written

__all__ = ["Rectified", "Stored", "Teachers"]

TEXTS = ("text", "completion", "response", "solution", "answer", "output")


class Teachers(Help):
    """Answers of several teachers to each task: rows of a file, or the world's solutions in its different styles.

    A row of the file is a JSON object with the name of its `task` (such as sums-2/train/17) and a text. An answer that
    does not fit into the context is left out.
    """

    reference = "AMPO: More Than One Teacher, https://github.com/SII-Enigma/AMPO"
    file: str = ""  # empty: the world's own solutions
    most: int = 4  # teachers
    text_field: str = ""  # empty: text, completion, …

    def __post_init__(self) -> None:
        within(self, "most", 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return () if self.file else ("task.solution",)

    def prepare(self, world: World | None) -> tuple[str, ...]:
        if not self.file or world is None:
            return ()
        if not Path(self.file).exists():
            raise PodiumError(
                f"There is no file of teachers' answers {self.file!r} (looked in {Path.cwd()}). Name one with an "
                "answer a line, or none: then the world's own solutions are the teachers."
            )
        kind = world.task(0).key.rpartition("/")[0]
        if not any(name.rpartition("/")[0] == kind for name in self.answers):
            known = next(iter(self.answers))
            raise PodiumError(
                f"{self.file} has answers to tasks such as {known!r}, but the tasks of this world are named like "
                f"{world.task(0).key!r}: none of them would get help. Name the tasks in the file as the world does."
            )
        return ()

    @cached_property
    def answers(self) -> Mapping[str, list[str]]:
        """The texts of the file, by task."""
        found: dict[str, list[str]] = {}
        for line, data in objects(self.file):
            where = f"{self.file}, line {line}"
            name = text_of(data, "", ("task", "id", "task_id"), "a field `task`", where)
            found.setdefault(name, []).append(text_of(data, self.text_field, TEXTS, "text_field", where))
        return found

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        common: dict[str, Any] = {"purpose": Purpose.probe, "origin": Origin.expert, "optional": True}
        first = 1 + max((r.columns["index"] for r in group), default=-1)
        if self.file:
            texts = self.answers.get(task.task.key, [])[: self.most]
            asked = [Recite(task, (text,), index=first + i, **common) for i, text in enumerate(texts)]
        else:
            styles = ("short",) if task.world is None else task.world.styles
            asked = [Recite(task, style=s, index=first + i, **common) for i, s in enumerate(styles[: self.most])]
        answers = (yield list(asked)) if asked else []
        return Offer(answers=[r for made in answers for r in made])


class Rectified(Help):
    """Wrong rollouts that began well: what is right of them is kept, and a guide goes on from there to a right answer.

    The first wrong step is the first whose score is below `threshold`. A rollout is worth repairing if at least the
    share `prefix` of its steps comes before; of several the `most` with the largest share are repaired (among equals
    the one with the better worst step). What is kept is the policy's own (origin `copied`), the rest of origin
    `expert`; an end that the world does not find right is not taken.
    """

    reference = "SCOPE: Step-wise Correction for On-Policy Exploration"
    threshold: float = 0.5  # of a step's score
    prefix: float = 0.5  # share of the steps
    most: int = 1

    needs = ("task.steps",)

    def __post_init__(self) -> None:
        within(self, "threshold", 0, 1)
        within(self, "prefix", 0)
        within(self, "most", 1)

    def first_error(self, scores: Sequence[float]) -> int | None:
        """The number of the first wrong step."""
        return next((number for number, score in enumerate(scores) if score < self.threshold), None)

    def share(self, scores: Sequence[float]) -> float:
        """Of the steps that come before the first wrong one; 1 where none is wrong."""
        first = self.first_error(scores)
        return 1.0 if first is None else first / len(scores)

    def salvages(self, scores: Sequence[float], correct: bool) -> bool:
        """Whether a rollout is worth repairing."""
        first = self.first_error(scores)
        return not correct and first is not None and self.share(scores) >= self.prefix

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        assert task.world is not None
        scored = [task.world.step_scores(task.task, str(r.columns["text"])) for r in group]
        worth = [i for i, r in enumerate(group) if self.salvages(scored[i], bool(r.columns["correct"]))]
        worth.sort(
            key=lambda i: (-self.share(scored[i]), -min(scored[i][: self.first_error(scored[i])], default=1.0), i)
        )
        answers: list[Rollout] = []
        places: list[int] = []
        for place in worth:
            if len(answers) < self.most:
                made = yield from self._completed(task, group[place], self.first_error(scored[place]) or 0, len(group))
                answers += made
                places += [place] * len(made)
        return Offer(answers=answers, places=places)

    def _completed(self, task: TaskRequest, rollout: Rollout, steps: int, first: int) -> Any:
        """The rollout with its first `steps` lines and a right end; nothing where there is no such end."""
        assert task.world is not None
        turn, text = rollout.turns[-1], str(rollout.columns["text"])
        beginning = "".join(text.splitlines(keepends=True)[:steps])
        rest = task.world.completed(task.task, beginning)
        if rest is None or len(rollout.turns) > 1:
            return []
        (ends,) = yield [Ends(tuple(turn.ids))]
        kept = sum(end <= len(beginning) for end in ends)
        between = beginning[ends[kept - 1] if kept else 0 :]  # of a token that the cut goes through
        index = first + rollout.columns["index"]
        own = Written.of(turn, kept)
        asked = Recite(task, (between + rest,), purpose=Purpose.train, begun=own, index=index, optional=True)
        (made,) = yield [asked]
        return [r for r in made if r.columns["correct"]]


class Stored(Help):
    """Rollouts of the same task that were kept from earlier iterations and had the opposite outcome, at random.

    A group without a success gets right ones, one without a failure wrong ones.
    """

    reference = "R³: Replay, Reflection and Ranking Rewards"
    most: int = 2

    needs = ("group.stored",)

    def __post_init__(self) -> None:
        within(self, "most", 1)

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        solved = any(r.columns["reward"] > 0 for r in group)
        opposite = [kept for kept in task.known.get("group.stored", ()) if kept["correct"] != solved]
        first = 1 + max(r.columns["index"] for r in group)
        asked = [
            Replay(again(kept, group[0], first + i)) for i, kept in enumerate(draw_at_most(opposite, task, self.most))
        ]
        answers = (yield list(asked)) if asked else []
        return Offer(answers=[r for made in answers for r in made])


def draw_at_most(kept: Sequence[Any], task: TaskRequest, most: int) -> list[Any]:
    """At most so many of them, at random for this group."""
    order = np.random.default_rng(key(1, task.stream)).permutation(len(kept))
    return [kept[i] for i in order[:most]]


def again(kept: Mapping[str, Any], beside: Rollout, index: int) -> Rollout:
    """A stored rollout with the columns that the others of its group have."""
    reward, text = float(kept["correct"]), kept["text"]
    turns = [
        Turn(
            ids=turn["ids"],
            context=turn["context"],
            train_context=turn["train_context"],
            origin=[Origin.copied.name] * len(turn["ids"]),
            columns={**beside.turns[0].columns, "reward": reward, "action": text, "observation": ""},
            tokens={name: _numbers(turn, name) for name in beside.turns[0].tokens},
        )
        for turn in kept["turns"]
    ]
    known = {name: kept[name] for name in ("correct", "text", "answer", "truncated")}
    own = {"reward": reward, "index": index, "purpose": int(Purpose.train), "source": Origin.copied.name}
    return dataclasses.replace(beside, turns=turns, columns={**beside.columns, **known, **own})


def _numbers(turn: Mapping[str, Any], name: str) -> Sequence[float]:
    """What the sampler said of each token; 0 where it was not kept."""
    kept: Sequence[float] = turn.get(name.removeprefix("sampler."), (0.0,) * len(turn["ids"]))
    return kept

"""Captions of turns, labelled by an annotator while the agent plays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import PodiumError, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.streams import key
from podium.memories.caption_network import TIE
from podium.memories.captions import KnownCaptions
from podium.parts.reward.intrinsic import REFERENCE
from podium.strategies.draw import Draw
from podium.strategies.joint import JointStrategy
from podium.strategies.requests import Compare, Meets, PairJudge, Plan, SubPlan, TaskRequest, Wave

__all__ = ["LabelCaptions", "caption_of"]

CAPTIONS = 83  # names the random numbers of the questions
HALF = 0.5  # a caption is helpful if its score is above
Labels = list[tuple[tuple[str, ...], float]]


def caption_of(action: str, observation: str) -> str:
    """The caption of a turn: what was done, and what was seen then."""
    return f"> {action.strip()}\n{observation}"


class LabelCaptions(JointStrategy):
    """`n` rollouts of each task, whose turns have captions; the newest of those that `Captions` does not know are put
    to an annotator, `calls` in an iteration.

    The caption of a turn is its action and the observation after it. Each is asked about once, the newest first. The
    annotator judges it by itself (helpful, or not), or in the ranking form of `Captions` beside another one:

    - "world": helpful if the turn came nearer to the goal, and better if it came nearer than the other did; `noise` is
      the share of wrong labels;
    - a judge, such as one that asks a role: helpful if it says so with a probability above 0.5, better if its score is
      higher. A call that fails is a label "not helpful", or a tie. Its `criterion` and `pair` are the questions.

    Writes `turn.caption` and its score by `Captions`. Labels count from the next iteration on.
    """

    reference = REFERENCE
    n: int = 8
    annotator: str | PairJudge = "world"
    calls: int = 100  # captions or pairs that are annotated in an iteration, ≥ 1
    noise: Number = 0.0  # the share of the world's labels that are wrong, in [0, 1]
    draw: Draw = Draw()

    provides = (
        "turn.caption",
        "turn.caption.score",
        "rollout.caption.found",
        "rollout.caption.queued",
        "rollout.caption.labels",
    )

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "calls", 1)
        within(self, "noise", 0, 1)
        if isinstance(self.annotator, str) and self.annotator != "world":
            raise PodiumError(
                f"LabelCaptions.annotator = {self.annotator!r} must be 'world' or a judge, such as a role's."
            )

    @property
    def needs(self) -> tuple[Need, ...]:
        seen: tuple[Need, ...] = ("group.captions", "turn.action", "turn.observation")
        return seen if isinstance(self.annotator, PairJudge) else (*seen, "turn.progress")

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return self.annotator.roles if isinstance(self.annotator, PairJudge) else ()

    @property
    def writers(self) -> tuple[str, ...]:
        return self.annotator.writers if isinstance(self.annotator, PairJudge) else ()

    def together(self, tasks: Sequence[TaskRequest]) -> Plan:
        answers = yield [self.draw.play(task, self.n) for task in tasks]
        rollouts: list[Rollout] = [rollout for answer in answers for rollout in answer]  # type: ignore[misc]
        known: KnownCaptions = tasks[0].recalled["group.captions"]
        captions = [
            [caption_of(str(turn.columns["action"]), str(turn.columns["observation"])) for turn in rollout.turns]
            for rollout in rollouts
        ]
        chance = Random(key(0, (*tasks[0].stream, CAPTIONS)))
        new = self._new(known, rollouts, captions)
        queued = self._questions(known, list(new), chance)
        chosen = [*known.queue, *queued][-self.calls :]
        progress = {**known.seen, **{caption: value for caption, (_, value) in new.items()}}
        labels: Labels = []
        if chosen and isinstance(self.annotator, PairJudge):
            labels = yield from self._judged(self.annotator, tasks[0], chosen, chance)
        elif chosen:
            labels = [(given, self._by_world([progress[c] for c in given], chance)) for given in chosen]
        return _written(rollouts, captions, known, new, queued, labels)

    def _new(
        self, known: KnownCaptions, rollouts: Sequence[Rollout], captions: Sequence[Sequence[str]]
    ) -> dict[str, tuple[int, float]]:
        """Captions that were never seen: the place of the rollout that has them first, and their progress."""
        new: dict[str, tuple[int, float]] = {}
        for place, (rollout, texts) in enumerate(zip(rollouts, captions, strict=True)):
            for turn, caption in zip(rollout.turns, texts, strict=True):
                if caption not in known.seen:
                    new.setdefault(caption, (place, float(turn.columns.get("progress", 0.0))))
        return new

    def _questions(self, known: KnownCaptions, new: Sequence[str], chance: Random) -> list[tuple[str, ...]]:
        """What joins the queue: the new captions, or as many random pairs of captions as are annotated at once."""
        if not known.pairs:
            return [(caption,) for caption in new]
        seen, asked = [*known.seen, *new], known.asked()
        drawn = (tuple(chance.choices(seen, k=2)) for _ in range(self.calls if seen else 0))
        return [pair for pair in dict.fromkeys(drawn) if pair[0] != pair[1] and pair not in asked]

    def _by_world(self, progress: Sequence[float], chance: Random) -> float:
        """The label of a caption or a pair, from how much nearer to the goal the turns came."""
        wrong = chance.random() < self.noise
        if len(progress) == 1:
            return float((progress[0] > 0) != wrong)
        first, second = progress
        return float(TIE) if first == second else float((second > first) != wrong)

    def _judged(
        self, judge: PairJudge, task: TaskRequest, chosen: Sequence[tuple[str, ...]], chance: Random
    ) -> SubPlan:
        """The labels that a judge gives."""
        seeds = [chance.randrange(2**31) for _ in chosen]
        wave: Wave = [
            Meets(task, given[0], "", judge, seed)
            if len(given) == 1
            else Compare(task, given[0], given[1], seed, judge, calls=1)
            for given, seed in zip(chosen, seeds, strict=True)
        ]
        return [(given, _label(said.scores)) for given, (said,) in zip(chosen, (yield wave), strict=True)]


def _label(scores: Sequence[float]) -> float:
    if len(scores) == 1:
        return float(scores[0] > HALF)
    first, second = scores
    return float(TIE) if first == second else float(second > first)


def _written(
    rollouts: Sequence[Rollout],
    captions: Sequence[Sequence[str]],
    known: KnownCaptions,
    new: Mapping[str, tuple[int, float]],
    queued: Sequence[tuple[str, ...]],
    labels: Labels,
) -> list[Rollout]:
    """The rollouts with their captions. What the memory must learn is numbered, and stands at the rollout that brought
    it; questions and labels at the first."""
    scores = iter(known.scores([caption for texts in captions for caption in texts]))
    columns: list[dict[str, Any]] = [
        {"caption.found": (), "caption.queued": (), "caption.labels": ()} for _ in rollouts
    ]
    for number, (caption, (place, progress)) in enumerate(new.items()):
        columns[place]["caption.found"] += ((number, caption, progress),)
    if rollouts:
        columns[0]["caption.queued"] = tuple((number, given) for number, given in enumerate(queued))
        columns[0]["caption.labels"] = tuple((number, *given) for number, given in enumerate(labels))
    return [
        dataclasses.replace(
            rollout,
            turns=[
                dataclasses.replace(turn, columns={**turn.columns, "caption": text, "caption.score": next(scores)})
                for turn, text in zip(rollout.turns, texts, strict=True)
            ],
            columns={**rollout.columns, **own},
        )
        for rollout, texts, own in zip(rollouts, captions, columns, strict=True)
    ]

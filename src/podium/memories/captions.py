"""Captions of turns, what an annotator said of them, and what was learnt from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.schedule import Count
from podium.memories.caption_network import Network, caption_scores, new_network, trained_network
from podium.parts.reward.intrinsic import CAPTION_FORMS, REFERENCE
from podium.parts.reward.running import merged

__all__ = ["Captions", "KnownCaptions"]

COUNT = 1e-4  # weight of the initial mean 0 and variance 1 of scores, in turns
RANKING = "ranking"


@dataclass(frozen=True, eq=False)
class KnownCaptions:
    """What is known of captions at the beginning of an iteration: for the strategy that asks about them."""

    memory: Captions
    state: State

    def __bool__(self) -> bool:
        return bool(self.state["seen"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KnownCaptions):
            return NotImplemented
        texts = ("seen", "queue", "late", "labels")  # from which the rest has followed
        return self.memory == other.memory and all(self.state[name] == other.state[name] for name in texts)

    __hash__ = None  # type: ignore[assignment]

    @property
    def pairs(self) -> bool:
        """Whether two captions are compared with each other, instead of each being judged by itself."""
        return self.memory.form == RANKING

    @property
    def seen(self) -> Mapping[str, float]:
        """Every caption so far, in the order of first appearance, and how much nearer to the goal its turn came."""
        seen: Mapping[str, float] = self.state["seen"]
        return seen

    @property
    def queue(self) -> Sequence[tuple[str, ...]]:
        """What waits for the annotator, the newest last: captions, or pairs of them."""
        queue: Sequence[tuple[str, ...]] = self.state["queue"]
        return queue

    def asked(self) -> set[tuple[str, ...]]:
        """What waits, what was asked and is not answered yet, and what has a label."""
        late = (given for _, labels in self.state["late"] for given in labels)
        return {*self.queue, *late, *self.state["labels"]}

    def scores(self, captions: Sequence[str]) -> list[float]:
        """The score of each: its label, a probability that it is helpful, or a number whose scale has no meaning."""
        if self.memory.form == "retrieval":
            labels, unlabelled = self.state["labels"], self.memory.unlabelled
            return [float(labels.get((caption,), unlabelled)) for caption in captions]
        texts = sorted(set(captions))
        scores = caption_scores(self.state["network"], texts, self.memory.length)
        values = scores if self.pairs else scores.sigmoid()
        score_of = dict(zip(texts, values.tolist(), strict=True))
        return [score_of[caption] for caption in captions]


class Captions(Memory):
    """The captions of turns with their labels, from an annotator that `LabelCaptions` asks while the agent plays.

    - form = "retrieval": a table of labels; a caption without one scores `unlabelled`;
    - form = "classification": a network on the characters of a caption, trained on the labels, gives P(helpful);
    - form = "ranking": the same network gives a score, trained on which of two captions is better. The running moments
      of the scores (`batch.caption.statistics`) begin with mean 0 and variance 1.

    When labels arrive the network takes `steps` steps of Adam, until `most` captions or pairs have a label. A label
    counts from the iteration after it was asked, `delay` iterations later still. Rewards once given are not changed.
    """

    reference = REFERENCE
    sees_dropped = True
    form: str = "retrieval"  # retrieval, classification or ranking
    unlabelled: float = 0.0  # the score of a caption that has no label, in retrieval
    delay: int = 0  # iterations that the annotator is behind, ≥ 0
    waiting: Count = 10_000  # captions or pairs that wait for the annotator at most, ≥ 1; the oldest make room
    most: Count = 25_000  # labels after which the network learns no more, ≥ 1
    steps: Count = 8  # of gradient descent each time labels arrive, ≥ 1
    batch: Count = 64  # labels of a step, ≥ 1
    lr: float = 3e-3  # of Adam, > 0
    width: int = 32  # channels of the network, ≥ 2
    length: int = 256  # characters of a caption that the network reads, ≥ 1
    seed: int = 0  # of the network's weights and batches

    needs = ("turn.caption.score", "rollout.caption.found", "rollout.caption.queued", "rollout.caption.labels")
    provides = (
        "group.captions",
        "batch.caption.statistics",
        "batch.captions.seen",
        "batch.captions.labelled",
        "batch.captions.helpful",
    )

    def __post_init__(self) -> None:
        one_of(self, "form", CAPTION_FORMS)
        for name in ("waiting", "most", "steps", "batch"):
            within(self, name, 1)
        within(self, "delay", 0)
        within(self, "lr", 0, open_low=True)
        within(self, "width", 2)
        within(self, "length", 1)

    @property
    def remembers_tasks(self) -> bool:
        return False  # a caption is the same in all tasks

    def initial(self) -> State:
        network: Network = {} if self.form == "retrieval" else new_network(self.width, self.seed)
        return {
            "seen": {},  # captions, and how much nearer to the goal their turns came
            "queue": [],  # captions, or pairs of them, that were not asked yet
            "late": [],  # (iteration from which they count, labels)
            "labels": {},  # of captions, or pairs of them
            "network": network,
            "statistics": (COUNT, 0.0, 1.0),  # count, mean and variance of the scores
            "iteration": 0,
        }

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        labels = list(state["labels"].values())
        numbers = {
            "seen": float(len(state["seen"])),
            "labelled": float(len(labels)),
            "helpful": sum(label == 1 for label in labels) / max(len(labels), 1),
        }
        return {
            "group.captions": (KnownCaptions(self, state),) * len(tasks),
            "batch.caption.statistics": torch.tensor([state["statistics"]], dtype=torch.float64),
            **{f"batch.captions.{name}": torch.tensor([x]) for name, x in numbers.items()},
        }

    def observe(self, state: State, batch: Batch) -> State:
        iteration = state["iteration"] + 1
        new = dict(_in_order(batch, "rollout.caption.found"))
        said = {tuple(given): label for given, label in _in_order(batch, "rollout.caption.labels")}
        queue = [*state["queue"], *(tuple(given) for (given,) in _in_order(batch, "rollout.caption.queued"))]
        late = [*state["late"], (iteration + self.delay, said)] if said else list(state["late"])
        arrived = {given: label for due, labels in late if due <= iteration for given, label in labels.items()}
        labels = {**state["labels"], **arrived}
        before = torch.tensor([state["statistics"]], dtype=torch.float64, device=batch.device)
        return {
            "seen": {**state["seen"], **new},
            "queue": [given for given in queue if given not in said][-self.waiting :],
            "late": [(due, held) for due, held in late if due > iteration],
            "labels": labels,
            "network": self._learnt(state, labels, iteration) if arrived else state["network"],
            "statistics": tuple(merged(batch, before, "turn.caption.score")[0].tolist()),
            "iteration": iteration,
        }

    def _learnt(self, state: State, labels: Mapping[tuple[str, ...], float], iteration: int) -> Network:
        """The network after it has learnt from all labels."""
        network: Network = state["network"]
        if self.form == "retrieval" or len(state["labels"]) >= self.most:
            return network
        seed = self.seed * 1_000_003 + iteration
        settings: dict[str, Any] = {"length": self.length, "steps": self.steps, "batch": self.batch, "lr": self.lr}
        return trained_network(network, list(labels.items()), seed=seed, **settings)


def _in_order(batch: Batch, column: str) -> list[list[Any]]:
    """What the rollouts that count hold, in the order of the numbers that stand first, without them."""
    counted = batch.counted("rollout")
    rows = zip(batch[column], [True] * len(batch) if counted is None else counted.tolist(), strict=True)
    entries = [entry for row, counts in rows if counts for entry in row]
    return [rest for _, *rest in sorted(entries, key=lambda entry: entry[0])]

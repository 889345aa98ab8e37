"""Pruning while sampling: rollouts pause early, a head says how likely each is to end well, and some go no further."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, within
from podium.core.schedule import Number
from podium.core.streams import key
from podium.memories.score_bins import BINS
from podium.strategies.requests import Plan, Play, Score, TaskRequest, Wave, Written
from podium.strategies.sample.sample import Sample

__all__ = ["Prune", "calibrated", "quotas", "survival"]


def calibrated(score: Tensor, count: Tensor, right: Tensor, prior_weight: float = 1.0) -> Tensor:
    """(c_b + w s) / (n_b + w): of n_b rollouts whose score fell in the same of B equal bins, c_b ended well."""
    place = (score * len(count)).long().clamp(0, len(count) - 1)
    return (right[place] + prior_weight * score) / (count[place] + prior_weight)


def quotas(p: Tensor, keep: float, target: float) -> tuple[Tensor, Tensor]:
    """With which probability one that will end well survives, and one that will not: so that a share `keep` does in
    the mean, and of these a share `target` ends well, where there are enough of both."""
    mean = p.mean()
    good, bad = (
        torch.where(share > 0, keep * part / share, 1.0).clamp(0, 1)
        for share, part in ((mean, target), (1 - mean, 1 - target))
    )
    # Where all of one kind survive, the others make up the rest.
    if mean <= keep * target:
        bad = torch.where(mean < 1, (keep - mean) / (1 - mean), 1.0).clamp(0, 1)
    elif 1 - mean <= keep * (1 - target):
        good = torch.where(mean > 0, (keep - (1 - mean)) / mean, 1.0).clamp(0, 1)
    return good, bad


def survival(p: Tensor, keep: float, target: float) -> Tensor:
    """[rollout] q = p q⁺ + (1 − p) q⁻; its mean is `keep`."""
    good, bad = quotas(p, keep, target)
    return p * good + (1 - p) * bad


class Prune(Sample):
    """`n` rollouts, which pause after `detect` tokens; each goes on with probability q, chosen so that a share `keep`
    survives and `target` of these end well, by a head's chances p: see `survival`. At least two survive.

    What ended before is never pruned. What is pruned is recorded and otherwise leaves no trace. `token.detect` marks
    the token after which the head was asked, `rollout.quality` is what it said, 0 for those that ended before.
    """

    reference = "ARRoL: Prune as You Generate"
    keep: Number = 0.5
    target: Number = 0.5
    detect: int = 512  # tokens
    prior_weight: float = 1.0
    head: str = "quality"  # a role

    needs = BINS
    provides = ("rollout.purpose", "rollout.quality", "rollout.detected", "rollout.pruned", "token.detect")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("keep", "target"):
            within(self, name, 0, 1, open_low=name == "keep")
        within(self, "detect", 1)
        within(self, "prior_weight", 0, open_low=True)
        if self.greedy_baseline or self.trained is not None or self.demonstrations or self.max_turns is not None:
            raise PodiumError("Prune has no baseline, voters, demonstrations or turns: it samples single answers.")

    def kept(self, scores: Tensor, task: TaskRequest, index: Sequence[int], ended: int) -> list[bool]:
        """Which of the paused rollouts go on; `ended` is how many need not."""
        count, right = (torch.as_tensor(task.known[name], dtype=torch.float64) for name in BINS)
        p = calibrated(scores, count, right, self.prior_weight)
        q = survival(p, float(self.keep), float(self.target))
        draws = torch.tensor([(key(0, (*task.stream, 2, i)) >> 11) * 2.0**-53 for i in index], dtype=torch.float64)
        return survivors(q, draws, least=2 - ended).tolist()

    def plan(self, task: TaskRequest) -> Plan:
        seen: dict[str, Any] = {"context": self.context, "train_context": self.train_context}
        play = Play(task, self.n, self.sampling(task.sampling), window=self.detect, keep=True, **seen)
        (made,) = yield [play]
        rollouts: list[Rollout] = made  # type: ignore[assignment]
        paused = [i for i, r in enumerate(rollouts) if not r.columns["finished"]]
        if not paused:
            return [_marked(r, None, False, self.detect) for r in rollouts]
        turns = [rollouts[i].turns[0] for i in paused]
        asked: Wave = [Score(tuple(t.context), tuple(t.ids), "quality", self.head) for t in turns]
        answers = yield asked
        scores = torch.tensor([float(a[0]) for a in answers], dtype=torch.float64)  # type: ignore[arg-type]
        keeps = self.kept(scores, task, paused, len(rollouts) - len(paused))
        go_on = [i for i, stays in zip(paused, keeps, strict=True) if stays]
        rest = dataclasses.replace(play, n=1, window=None, keep=False)
        wave: Wave = [dataclasses.replace(rest, first=i, begun=Written.of(rollouts[i].turns[0])) for i in go_on]
        finished = dict(zip(go_on, (yield wave) if wave else [], strict=True))
        said = dict(zip(paused, scores.tolist(), strict=True))
        whole = [finished[i][0] if i in finished else r for i, r in enumerate(rollouts)]
        return [_marked(r, said.get(i), i in said and i not in finished, self.detect) for i, r in enumerate(whole)]  # type: ignore[arg-type]


def survivors(q: Tensor, draws: Tensor, least: int = 2) -> Tensor:
    """[rollout] u < q; where these are too few, the `least` with the largest q − u instead."""
    kept = draws < q
    if int(kept.sum()) >= min(least, len(q)):
        return kept
    best = (q - draws).topk(min(max(least, 0), len(q))).indices
    return torch.zeros_like(kept).index_fill(0, best, True)


def _marked(rollout: Rollout, quality: float | None, pruned: bool, detect: int) -> Rollout:
    """A rollout with what the head said of it, as if it had been written in one go."""
    turns = []
    for turn in rollout.turns:
        there = [place == detect - 1 and quality is not None for place in range(len(turn.ids))]
        tokens = {**{k: v for k, v in turn.tokens.items() if k != "new"}, "detect": there}
        turns.append(dataclasses.replace(turn, tokens=tokens, origin=None))
    columns = {k: v for k, v in rollout.columns.items() if k != "finished"}
    columns |= {"quality": quality or 0.0, "detected": quality is not None, "pruned": pruned, "source": "policy"}
    purpose = int(Purpose.replaced) if pruned else columns["purpose"]
    return dataclasses.replace(rollout, turns=turns, columns={**columns, "purpose": purpose})

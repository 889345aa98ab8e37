"""Pruning while sampling: rollouts pause early, a head predicts their success, and some are not continued."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.schedule import Count, Number
from podium.core.streams import key
from podium.memories.score_bins import BINS
from podium.strategies.draw import Draw, refuse_settings
from podium.strategies.requests import Plan, Score, TaskRequest, Wave, Written, rollouts_of
from podium.strategies.sample.sample import Sample

__all__ = ["Prune", "calibrated", "quotas", "survival"]


def calibrated(score: Tensor, count: Tensor, right: Tensor, prior_weight: float = 1.0) -> Tensor:
    """(c_b + w s) / (n_b + w): the success rate in the score's bin b, c_b of n_b, smoothed by the score s itself."""
    bins = (score * len(count)).long().clamp(0, len(count) - 1)
    return (right[bins] + prior_weight * score) / (count[bins] + prior_weight)


def quotas(p: Tensor, keep: float, target: float) -> tuple[Tensor, Tensor]:
    """(q⁺, q⁻): the survival probabilities of rollouts that will succeed and that will fail, chosen so that on average
    a share `keep` survives, of which a share `target` succeeds, where there are enough of both."""
    mean = p.mean()
    good, bad = (
        torch.where(share > 0, keep * part / share, 1.0).clamp(0, 1)
        for share, part in ((mean, target), (1 - mean, 1 - target))
    )
    # Where all of one kind survive, the other kind fills the rest of the quota.
    if mean <= keep * target:
        bad = torch.where(mean < 1, (keep - mean) / (1 - mean), 1.0).clamp(0, 1)
    elif 1 - mean <= keep * (1 - target):
        good = torch.where(mean > 0, (keep - (1 - mean)) / mean, 1.0).clamp(0, 1)
    return good, bad


def survival(p: Tensor, keep: float, target: float) -> Tensor:
    """[rollout] q = p q⁺ + (1 − p) q⁻; its mean is `keep`."""
    good, bad = quotas(p, keep, target)
    return p * good + (1 - p) * bad


class Prune(Strategy):
    """`n` rollouts that pause after `detect` tokens; each continues with probability q, by a head's success estimate p.

    q is chosen so that a share `keep` survives and `target` of the survivors succeed: see `survival`. At least two
    survive. Rollouts that ended earlier are never pruned; pruned ones are recorded and otherwise ignored.
    `token.detect` marks the token after which the head was asked, `rollout.quality` is its estimate (0 where it was not
    asked).
    """

    reference = "ARRoL: Prune as You Generate"
    n: int = 8
    keep: Number = 0.5  # share of the paused rollouts that continue
    target: Number = 0.5  # share of these that should succeed
    detect: Count = 512  # tokens
    prior_weight: float = 1.0  # weight of the head's own score in its calibration
    head: str = "quality"  # a role
    draw: Draw = Draw()  # without max_turns: it samples single answers

    needs = BINS
    provides = ("rollout.purpose", "rollout.quality", "rollout.detected", "rollout.pruned", "token.detect")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        for name in ("keep", "target"):
            within(self, name, 0, 1, open_low=name == "keep")
        within(self, "detect", 1)
        within(self, "prior_weight", 0, open_low=True)
        refuse_settings(self, self.draw, "max_turns")

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["pruned"] for rollout in rollouts)

    def kept(self, scores: Tensor, task: TaskRequest, index: Sequence[int], ended: int) -> list[bool]:
        """Which of the paused rollouts continue; `ended` is how many have finished already."""
        count, right = (torch.as_tensor(task.recalled[name], dtype=torch.float64) for name in BINS)
        p = calibrated(scores, count, right, self.prior_weight)
        q = survival(p, float(self.keep), float(self.target))
        draws = torch.tensor([(key(0, (*task.stream, 2, i)) >> 11) * 2.0**-53 for i in index], dtype=torch.float64)
        return survivors(q, draws, least=2 - ended).tolist()

    def plan(self, task: TaskRequest) -> Plan:
        play = self.draw.play(task, self.n, window=self.detect, keep=True)
        rollouts = rollouts_of((yield [play]))
        paused = [i for i, r in enumerate(rollouts) if not r.columns["finished"]]
        if not paused:
            return [_marked(r, None, False, self.detect) for r in rollouts]
        turns = [rollouts[i].turns[0] for i in paused]
        estimates: Wave = [Score(tuple(t.context), tuple(t.ids), "quality", self.head) for t in turns]
        answers = yield estimates
        scores = torch.tensor([float(a[0]) for a in answers], dtype=torch.float64)  # type: ignore[arg-type]
        survives = self.kept(scores, task, paused, len(rollouts) - len(paused))
        surviving = [i for i, stays in zip(paused, survives, strict=True) if stays]
        rest = dataclasses.replace(play, n=1, window=None, keep=False)
        wave: Wave = [dataclasses.replace(rest, first=i, begun=Written.of(rollouts[i].turns[0])) for i in surviving]
        finished = dict(zip(surviving, rollouts_of((yield wave)) if wave else [], strict=True))
        quality = dict(zip(paused, scores.tolist(), strict=True))
        return [
            _marked(finished.get(i, r), quality.get(i), i in quality and i not in finished, self.detect)
            for i, r in enumerate(rollouts)
        ]


def survivors(q: Tensor, draws: Tensor, least: int = 2) -> Tensor:
    """[rollout] whether u < q; where that holds for too few, the `least` with the largest q − u instead."""
    kept = draws < q
    if int(kept.sum()) >= min(least, len(q)):
        return kept
    best = (q - draws).topk(min(max(least, 0), len(q))).indices
    return torch.zeros_like(kept).index_fill(0, best, True)


def _marked(rollout: Rollout, quality: float | None, pruned: bool, detect: int) -> Rollout:
    """A rollout with the head's estimate, without the traces of the pause."""
    turns = []
    for turn in rollout.turns:
        detected = [t == detect - 1 and quality is not None for t in range(len(turn.ids))]
        tokens = {**{k: v for k, v in turn.tokens.items() if k != "new"}, "detect": detected}
        turns.append(dataclasses.replace(turn, tokens=tokens, origin=None))
    columns = {k: v for k, v in rollout.columns.items() if k != "finished"}
    columns |= {"quality": quality or 0.0, "detected": quality is not None, "pruned": pruned, "source": "policy"}
    purpose = int(Purpose.replaced) if pruned else columns["purpose"]
    return dataclasses.replace(rollout, turns=turns, columns={**columns, "purpose": purpose})

"""How good a judge is, on pairs of which it is known which one is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from podium.collect.driver import Driver
from podium.core.errors import PodiumError
from podium.evaluation.resample import Array, Measure, estimate
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task, World
from podium.strategies.requests import Compare, JudgeScores, PairJudge, SubPlan, TaskRequest
from podium.worlds.puzzle import Puzzle
from podium.worlds.texts.verdicts import AttemptPair, draw_pair
from podium.worlds.verdicts import Verdicts

__all__ = ["JudgedPair", "ask_both_orders", "judge_quality", "known_pairs"]

BINS = 10  # of confidence, for the calibration error
JUDGE_TEST = 7 << 20  # names the random streams of these judgements


@dataclass(frozen=True)
class JudgedPair:
    """A judge's scores of two texts of which one is better, in the two orders they were shown in."""

    better_first: JudgeScores  # the better text stood first
    better_last: JudgeScores
    longer: int  # 1: the better text is the longer one, -1: the other is, 0: neither

    @property
    def leads(self) -> tuple[float, float]:
        """By how much the score of the better text exceeds the other's, in each order."""
        (first, second), (other, own) = self.better_first.scores, self.better_last.scores
        return first - second, own - other


def known_pairs(world: World, count: int, seed: int = 0) -> list[AttemptPair]:
    """A right and a wrong attempt at each of the world's first held-out tasks."""
    if isinstance(world, Verdicts):
        return [world.pair(world.task(index, "test")) for index in range(count)]
    if not isinstance(world, Puzzle):
        raise PodiumError(
            f"The world {world.name!r} cannot write right and wrong attempts to try a judge on: take verdicts, sums, "
            "countdown or rules."
        )
    rng = Random(f"judge/{seed}")
    return [draw_pair(world, world.task(index, "test"), rng) for index in range(count)]


def ask_both_orders(
    driver: Driver, pairs: Sequence[AttemptPair], judge: PairJudge, max_tokens: int = 240, seed: int = 0
) -> list[JudgedPair]:
    """Let a judge compare each pair, once in each order."""
    plans = [
        _comparison(pair, judge, Sampling(max_tokens=max_tokens), number, seed) for number, pair in enumerate(pairs)
    ]
    return driver.collect(plans)  # type: ignore[return-value]


def _comparison(pair: AttemptPair, judge: PairJudge, sampling: Sampling, number: int, seed: int) -> SubPlan:
    task = Task(pair.task.key, pair.task.prompt)
    request = TaskRequest(task, number, sampling, (seed, JUDGE_TEST, number))
    better, worse = pair.texts if pair.better == "A" else pair.texts[::-1]
    (first,), (last,) = yield [
        Compare(request, better, worse, seed, judge, calls=1),
        Compare(request, worse, better, seed + 1, judge, calls=1),
    ]
    return JudgedPair(first, last, int(np.sign(len(better) - len(worse))))


def judge_quality(judged: Sequence[JudgedPair], probabilities: bool = False) -> dict[str, Measure]:
    """What a judge is worth, with intervals over pairs; each verdict counts, those of both orders.

    accuracy: the share of right verdicts, ties and nonsense half. agreement: the share of pairs of which both orders
    name the same text, where both name one. first: the share of verdicts for what stands first; 0.5 is no bias. longer:
    how much more accurate it is where the longer text is right than where it is wrong; 0 is no bias. nonsense: the
    share of verdicts that could not be read, or failed. calls: per verdict. With `probabilities`, where scores are
    such, their squared error (brier) and the mean distance between confidence and accuracy in ten bins (ece).
    """
    rows = [_counts(pair) for pair in judged]
    found = {
        name: estimate(np.array([[row[name] for row in rows]]), bounds=(0, 1) if name != "calls" else (0, np.inf))
        for name in ("accuracy", "agreement", "first", "nonsense", "calls")
    }
    found["longer"] = estimate(np.array([[row["longer"] for row in rows]]), _difference, bounds=(-1, 1))
    if probabilities:
        found["brier"] = estimate(np.array([[row["brier"] for row in rows]]), bounds=(0, 1))
        found["ece"] = estimate(np.array([[_binned(pair) for pair in judged]]), _calibration_error, bounds=(0, 1))
    return found


def _counts(pair: JudgedPair) -> dict[str, tuple[float, ...]]:
    """Sums and counts of one pair, by measure."""
    first, last = pair.leads
    credit = sum(1.0 if lead > 0 else 0.5 if lead == 0 else 0.0 for lead in pair.leads)
    decided = [lead for lead in pair.leads if lead]
    told = float(len(decided) == 2)
    for_first = float(first > 0) + float(last < 0)
    both = (pair.better_first, pair.better_last)
    chance = (pair.better_first.scores[0], pair.better_last.scores[1])  # of the better text
    right, wrong = float(pair.longer > 0), float(pair.longer < 0)
    return {
        "accuracy": (credit, 2.0),
        "agreement": (told * float(first * last > 0), told),
        "first": (for_first, float(len(decided))),
        "longer": (right * credit, right * 2, wrong * credit, wrong * 2),
        "nonsense": (float(sum(scores.failed for scores in both)), 2.0),
        "calls": (float(sum(scores.calls for scores in both)), 2.0),
        "brier": (sum((1 - p) ** 2 for p in chance), 2.0),
    }


def _difference(sums: Array) -> Array:
    """The difference of two ratios; undefined where one has nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Array = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
    return ratios


def _binned(pair: JudgedPair) -> list[float]:
    """[bin, (confidence, right, count)] of the two verdicts, flat."""
    bins = np.zeros((BINS, 3))
    for chance in (pair.better_first.scores[0], pair.better_last.scores[1]):
        confidence = max(chance, 1 - chance)
        place = min(int((confidence - 0.5) * 2 * BINS), BINS - 1)
        bins[place] += (confidence, 1.0 if chance > 0.5 else 0.5 if chance == 0.5 else 0.0, 1)
    return [float(x) for x in bins.flatten()]


def _calibration_error(sums: Array) -> Array:
    bins = sums.reshape(len(sums), BINS, 3)
    errors: Array = np.abs(bins[..., 0] - bins[..., 1]).sum(1) / np.maximum(bins[..., 2].sum(1), 1)
    return errors

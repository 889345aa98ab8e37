"""A stream of people in overlapping groups: one online regression for all, or one per group behind sleeping experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.people import CausalModel, real_table
from podium.labs.trial import Quantity, Trial, TrialFindings
from podium.tables.sleeping_experts import SleepingExperts

__all__ = ["STUDY", "OnlineRidge", "StreamSize", "diabetes_stream", "group_errors", "people_stream"]

Floats = NDArray[np.float64]
Stream = tuple[Floats, Floats, NDArray[np.bool_]]  # [round, feature], [round] targets in [0, 1], [round, group]
WORST = Quantity("worst", "largest regret of a group, per round")
MEAN = Quantity("mean", "mean regret of groups, per round")


class StreamSize(StudySize):
    """How many people come."""

    rounds: int = 3000


class OnlineRidge:
    """Ridge regression on what was seen so far, by recursive least squares; predictions are clipped to [0, 1]."""

    def __init__(self, features: int, ridge: float = 1.0) -> None:
        self.inverse, self.weight = np.eye(features) / ridge, np.zeros(features)

    def predict(self, x: Floats) -> float:
        return float(np.clip(x @ self.weight, 0.0, 1.0))

    def update(self, x: Floats, y: float) -> None:
        gain = self.inverse @ x
        gain = gain / (1.0 + x @ gain)
        self.weight = self.weight + gain * (y - x @ self.weight)
        self.inverse = self.inverse - np.outer(gain, x @ self.inverse)


def people_stream(rounds: int, generator: np.random.Generator) -> Stream:
    """People of four clients. The target depends on their features by everybody's coefficients, plus those of their
    group and those of their client; groups are everybody, either value of the attribute, and the clients."""
    people = CausalModel(shares=(0.2, 0.4, 0.6, 0.8)).draw(rounds, generator)
    x = np.column_stack([people.x, np.ones(rounds)])
    common, by_group, by_client = (generator.standard_normal((n, x.shape[1])) for n in (1, 2, 4))
    weight = common[0] + by_group[people.group] + by_client[people.client]
    score = (x * weight).sum(1) / 6 + 0.3 * generator.standard_normal(rounds)
    member = [np.ones(rounds, bool), *(people.group == z for z in (0, 1)), *(people.client == s for s in range(4))]
    return x, 1 / (1 + np.exp(-score)), np.stack(member, 1)


def diabetes_stream(rounds: int, generator: np.random.Generator) -> Stream:
    """scikit-learn's patients in random order, pass after pass; groups are everybody, the sexes, the younger and the
    older half, and the thirds of the body-mass index."""
    x, y = real_table("diabetes")
    order = np.concatenate([generator.permutation(len(y)) for _ in range(rounds // len(y) + 1)])[:rounds]
    x, y = x[order], ((y - y.min()) / np.ptp(y))[order]
    third = np.searchsorted(np.quantile(x[:, 2], (1 / 3, 2 / 3)), x[:, 2])
    age, sex = x[:, 0] > np.median(x[:, 0]), x[:, 1] > 0
    member = [np.ones(rounds, bool), sex, ~sex, age, ~age, *(third == n for n in range(3))]
    return np.column_stack([x, np.ones(rounds)]), y, np.stack(member, 1)


def group_errors(stream: Stream, grouped: bool) -> Floats:
    """[round] the squared error of the predictions, each made before its target is seen."""
    x, y, member = stream
    learners = [OnlineRidge(x.shape[1]) for _ in range(member.shape[1] if grouped else 1)]
    experts = SleepingExperts(len(learners))
    errors = np.zeros(len(y))
    for t, (row, target) in enumerate(zip(x, y, strict=True)):
        awake = member[t] if grouped else np.ones(1, bool)
        said = np.array([learner.predict(row) if a else 0.0 for learner, a in zip(learners, awake, strict=True)])
        errors[t] = (float(experts.probability(awake) @ said) - target) ** 2
        experts.update(awake, (said - target) ** 2)
        for learner, a in zip(learners, awake, strict=True):
            if a:
                learner.update(row, float(target))
    return errors


def hindsight_errors(stream: Stream) -> Floats:
    """[group] the mean squared error of the best fixed linear predictor of each group's rounds."""
    x, y, member = stream
    found = []
    for rows in member.T:
        weight = np.linalg.lstsq(x[rows], y[rows], rcond=None)[0]
        found.append(float(((x[rows] @ weight - y[rows]) ** 2).mean()))
    return np.array(found)


def _arm(
    make: Callable[[int, np.random.Generator], Stream], grouped: bool, seed: int, size: StreamSize
) -> Mapping[str, Any]:
    """One pass over the stream; the regret of a group is its mean error minus that of its best linear predictor."""
    stream = make(size.rounds, np.random.default_rng(seed))
    errors, member = group_errors(stream, grouped), stream[2]
    by_group = np.array([errors[rows].mean() for rows in member.T])
    regret = by_group - hindsight_errors(stream)
    marks = np.unique(np.geomspace(50, size.rounds, 12).astype(int))
    return {
        "worst": regret.max(),
        "mean": regret.mean(),
        "errors": by_group,
        "round": marks.astype(float),
        "curve": np.array([max(errors[:n][rows[:n]].mean() for rows in member.T if rows[:n].any()) for n in marks]),
    }


def _every_group(findings: TrialFindings) -> str:
    """In how many groups the errors of the groupwise learner are lower."""
    told = []
    for data in ("people", "diabetes"):
        one, many = (
            np.mean([run["errors"] for run in findings.values[f"{data}, {arm}"]], 0) for arm in ("one", "groupwise")
        )
        told.append(f"{int((many < one).sum())} of {len(one)} groups of {data}")
    return f"the mean error of groupwise learning is lower in {' and '.join(told)}"


STUDY = Trial(
    "groupwise-regret",
    "Does one online learner per overlapping group serve every group better than one learner for all?",
    arms={
        "people, one": partial(_arm, people_stream, False),
        "people, groupwise": partial(_arm, people_stream, True),
        "diabetes, one": partial(_arm, diabetes_stream, False),
        "diabetes, groupwise": partial(_arm, diabetes_stream, True),
    },
    claims=(
        Claim("the group that fares worst fares better", WORST, "people, one", "people, groupwise"),
        Claim("groups fare better on average", MEAN, "people, one", "people, groupwise"),
        Claim("on real data, too, the worst group fares better", WORST, "diabetes, one", "diabetes, groupwise"),
        Claim("on real data, too, groups fare better on average", MEAN, "diabetes, one", "diabetes, groupwise"),
    ),
    readings=(WORST, MEAN),
    charts=(traced("curve", over="round", title="error of the worst group so far", x_label="round", log_x=True),),
    notes=(_every_group,),
    size=StreamSize(seeds=16),
    quick=StreamSize(seeds=4, rounds=600),
)

"""Loans whose outcome is seen only if they are granted, with a panel that reports unfair pairs of applicants."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.people import CausalModel
from podium.labs.trial import Quantity, Trial
from podium.tables.one_sided import exp2_round, panel_fractions, reported_pair, zero_one_losses

__all__ = ["STUDY", "Loans", "LoanSize"]

Floats = NDArray[np.float64]
APPLICANTS = 4  # in a round
DIRECTIONS, THRESHOLDS = 10, tuple(np.linspace(-1.0, 1.0, 9))
AUDITORS, ALPHA, PANEL = 5, 0.25, 0.4  # the panel, its slack and the share that must agree
MARGIN = ALPHA / 2  # by which the rules that regret is measured against are fairer than the panel asks
PENALTY = APPLICANTS / MARGIN  # λ: a report costs at least as much as all errors of a round
BIAS = 0.8
REGRET = Quantity("regret", "regret per applicant")
UNFAIR = Quantity("unfair", "rounds with a report", (0.0, 1.0))


class LoanSize(StudySize):
    """The rounds of the long horizon; the short one has an eighth."""

    rounds: int = 4000


class Loans:
    """A stream of applicants, a class of rules that grant by a threshold on a direction of the features, and auditors.

    Scores of group 1 are too low at equal merit, so rules that use them treat alike applicants unlike. Auditor j allows
    a difference of L_j · |c − c′|, c being the mean score without that bias."""

    def __init__(self, rounds: int, seed: int) -> None:
        generator = np.random.default_rng((seed, 0))
        people = CausalModel(bias=BIAS, base_rates=(0.5, 0.45)).draw(rounds * APPLICANTS, generator)
        scored, corrected = np.zeros(7), np.zeros(7)  # the mean score, and with the bias taken out by the proxies
        scored[:3], corrected[:3], corrected[3:5] = 1 / 3, 1 / 3, BIAS / 4
        chance = generator.standard_normal((DIRECTIONS - 5, 7))
        directions = np.concatenate([[scored, corrected], np.eye(7)[:3], chance])
        scores = people.x @ (directions / np.linalg.norm(directions, axis=1, keepdims=True)).T
        rules = [scores[:, d] > threshold for d in range(DIRECTIONS) for threshold in THRESHOLDS]
        constant = [np.zeros(len(people), bool), np.ones(len(people), bool)]
        self.rules = np.stack([*constant, *rules]).astype(float).reshape(-1, rounds, APPLICANTS)
        self.label = people.label.reshape(rounds, APPLICANTS)
        seen = (people.x[:, :3].mean(1) + BIAS * people.group).reshape(rounds, APPLICANTS)
        apart = np.abs(seen[:, :, None] - seen[:, None, :])
        steepness = generator.uniform(0.5, 2.0, AUDITORS)
        self.distance = steepness[None, :, None, None] * apart[:, None]  # [round, auditor, applicant, applicant]

    def fair_best(self) -> float:
        """The least error, per applicant, of a mixture of rules that a panel of half the slack never reports: a linear
        program, to which the pairs that it violates most are added until there are none."""
        from scipy.optimize import linprog  # type: ignore[import-untyped]

        wrong = (self.rules != self.label).mean((1, 2))
        enough = int(np.ceil(PANEL * AUDITORS)) - 1  # the auditor whose word makes it a report
        allowed = (np.sort(self.distance, 1)[:, enough] + ALPHA - MARGIN).reshape(-1)
        pairs = np.zeros((0, len(self.rules)))
        limits = np.zeros(0)
        while True:
            found = linprog(wrong, A_ub=pairs, b_ub=limits, A_eq=np.ones((1, len(wrong))), b_eq=[1.0])
            policy = np.tensordot(found.x, self.rules, 1)
            excess = (policy[:, :, None] - policy[:, None, :]).reshape(-1) - allowed
            worst = np.argsort(-excess)[:400]
            worst = worst[excess[worst] > 1e-7]
            if not len(worst):
                return float(found.fun)
            t, i, j = np.unravel_index(worst, (len(self.label), APPLICANTS, APPLICANTS))
            pairs = np.concatenate([pairs, (self.rules[:, t, i] - self.rules[:, t, j]).T])
            limits = np.concatenate([limits, allowed[worst]])


def _outcome(error: Floats, reports: Floats, loans: Loans) -> Mapping[str, Any]:
    marks = np.unique(np.geomspace(20, len(error), 10).astype(int))
    return {
        "regret": error.mean() - loans.fair_best(),
        "unfair": reports.mean(),
        "round": marks.astype(float),
        "curve": np.array([error[:n].mean() for n in marks]),
    }


def _exp2(share: float, penalty: float, seed: int, size: LoanSize) -> Mapping[str, Any]:
    """Exp2 on losses of one half for whoever is rejected; η is set for the horizon, and λ weighs the reported pair."""
    rounds = max(1, int(size.rounds * share))
    loans, generator = Loans(rounds, seed), np.random.default_rng((seed, 1))
    eta = float(np.sqrt(np.log(len(loans.rules)) / ((2 * APPLICANTS + penalty**2) * rounds)))
    total, error, reports = np.zeros(len(loans.rules)), np.zeros(rounds), np.zeros(rounds)
    for t in range(rounds):
        h, label = loans.rules[:, t], loans.label[t]
        weight = np.exp(-eta * (total - total.min()))
        played = int(generator.choice(len(total), p=weight / weight.sum()))
        seen = [int(y) if a else None for y, a in zip(label, h[played], strict=True)]  # rejected: never seen
        found = exp2_round(
            h, total, played, seen, loans.distance[t], eta=eta, weight=penalty, alpha=ALPHA, panel_fraction=PANEL
        )
        total, reports[t] = found.cumulative, found.pair is not None
        error[t] = (found.policy * (1 - label) + (1 - found.policy) * label).mean()  # in expectation
    return _outcome(error, reports, loans)


def _naive(seed: int, size: LoanSize) -> Mapping[str, Any]:
    """The rule with the fewest errors on the applicants whose labels were seen: those that were granted."""
    loans = Loans(size.rounds, seed)
    wrong, error, reports = np.zeros(len(loans.rules)), np.zeros(size.rounds), np.zeros(size.rounds)
    for t in range(size.rounds):
        h, label = loans.rules[:, t], loans.label[t]
        decision = h[int(wrong.argmin())]
        error[t] = zero_one_losses(decision, label).mean()
        reports[t] = reported_pair(panel_fractions(decision, loans.distance[t], ALPHA), PANEL) is not None
        granted = decision > 0
        wrong += (h[:, granted] != label[granted]).sum(1)
    return _outcome(error, reports, loans)


STUDY = Trial(
    "one-sided-feedback",
    "Can a lender learn from granted loans alone, and fairly, at once?",
    arms={
        "with a panel": partial(_exp2, 1.0, PENALTY),
        "with a panel, an eighth of the rounds": partial(_exp2, 0.125, PENALTY),
        "without a panel": partial(_exp2, 1.0, 0.0),
        "labels of granted loans only": _naive,
    },
    claims=(
        Claim(
            "regret per applicant falls with the horizon",
            REGRET,
            "with a panel, an eighth of the rounds",
            "with a panel",
        ),
        Claim(
            "the share of unfair rounds falls with it", UNFAIR, "with a panel, an eighth of the rounds", "with a panel"
        ),
        Claim("the reports of the panel are what makes it fair", UNFAIR, "without a panel", "with a panel"),
        Claim(
            "a learner that counts errors on granted loans gets stuck",
            REGRET,
            "labels of granted loans only",
            "without a panel",
        ),
    ),
    readings=(REGRET, UNFAIR),
    charts=(traced("curve", over="round", title="error per applicant so far", x_label="round", log_x=True),),
    size=LoanSize(seeds=12),
    quick=LoanSize(seeds=4, rounds=1000),
)

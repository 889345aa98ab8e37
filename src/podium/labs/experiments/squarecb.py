"""Generations of a payment router: each is fitted to the logs of the one before, and explores by inverse gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.people import optional_package, real_table
from podium.labs.trial import Quantity, Trial, TrialFindings
from podium.tables.inverse_gap import epoch_gamma, inverse_gap_probabilities, sign_changes

__all__ = ["STUDY", "DigitRoutes", "Payments", "RoutingSize"]

Floats = NDArray[np.float64]
ROUTES, FEATURES = 6, 6
GAMMA = 1.0  # the scale of γ = scale · sqrt(K · n)
EPSILON, MIXED, LATE = 0.1, 0.1, 0.1  # ε-greedy; the share of uniform logs; the share of rewards that come too late
REGRET = Quantity("regret", "regret", (0.0, 1.0))
POSITIVE = Quantity("positive", "share of successes in the logs", (0.0, 1.0))
SWING = Quantity("swing", "change of regret from one generation to the next", (0.0, 1.0))


class RoutingSize(StudySize):
    """How many generations, and how many decisions each of them makes."""

    generations: int = 12
    decisions: int = 1500


class Problem(Protocol):
    """Contexts that come and the success rate of every action, which nobody sees."""

    def contexts(self, generation: int, count: int, generator: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """[decision, feature] contexts, [decision, action] success rates and which actions are available."""

    def fit(self, x: Floats, action: NDArray[np.int64], reward: Floats) -> Callable[[Floats], Floats]:
        """A predictor [decision, action] of rewards."""


class Payments:
    """Routes that succeed by the logistic of a function with interactions, drift a little from generation to
    generation, and are each closed one time in five."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.weight = generator.standard_normal((ROUTES, FEATURES)) / 2
        self.cross = generator.standard_normal(ROUTES)
        self.offset = generator.normal(1.0, 0.7, ROUTES)
        self.step = generator.standard_normal((ROUTES, FEATURES)) * 0.05

    def contexts(self, generation: int, count: int, generator: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        x = generator.standard_normal((count, FEATURES))
        score = x @ (self.weight + generation * self.step).T + self.offset + np.outer(x[:, 0] * x[:, 1], self.cross)
        open_ = generator.random((count, ROUTES)) < 0.8
        open_[np.arange(count), generator.integers(ROUTES, size=count)] = True
        return x, 1 / (1 + np.exp(-score)), open_.astype(float)

    def fit(self, x: Floats, action: NDArray[np.int64], reward: Floats) -> Callable[[Floats], Floats]:
        ensemble = optional_package("sklearn.ensemble", "podium lab squarecb")
        features = np.column_stack([x, np.eye(ROUTES)[action]])
        if len(np.unique(reward)) == 1:
            return lambda new: np.full((len(new), ROUTES), float(reward[0]))
        model = ensemble.HistGradientBoostingClassifier(
            max_iter=40, learning_rate=0.15, max_leaf_nodes=8, early_stopping=False, random_state=0
        ).fit(features, reward)

        def predict(new: Floats) -> Floats:
            rows = [model.predict_proba(np.column_stack([new, np.tile(row, (len(new), 1))])) for row in np.eye(ROUTES)]
            return np.stack([found[:, 1] for found in rows], 1)

        return predict


class DigitRoutes:
    """scikit-learn's digits as a bandit: the action is a guess, which succeeds if it is right."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.x, self.y = real_table("digits")
        self.order = generator.permutation(len(self.y))

    def contexts(self, generation: int, count: int, generator: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        rows = self.order[generator.integers(len(self.order), size=count)]
        return self.x[rows], np.eye(10)[self.y[rows].astype(int)], np.ones((count, 10))

    def fit(self, x: Floats, action: NDArray[np.int64], reward: Floats) -> Callable[[Floats], Floats]:
        """One ridge regression per action, on the decisions for it."""
        inputs, found = np.column_stack([x, np.ones(len(x))]), []
        for a in range(10):
            rows, target = inputs[action == a], reward[action == a]
            gram = rows.T @ rows + 5.0 * np.eye(inputs.shape[1])
            found.append(np.linalg.solve(gram, rows.T @ target))
        table = np.stack(found, 1)
        return lambda new: np.clip(np.column_stack([new, np.ones(len(new))]) @ table, 0.0, 1.0)


def _uniform(prediction: Floats, available: Floats, samples: int) -> Floats:
    return available / available.sum()


def _epsilon_greedy(prediction: Floats, available: Floats, samples: int) -> Floats:
    p = EPSILON * available / available.sum()
    p[np.argmax(np.where(available > 0, prediction, -np.inf))] += 1 - EPSILON
    return p


def _inverse_gap(prediction: Floats, available: Floats, samples: int) -> Floats:
    gamma = epoch_gamma(int(available.sum()), samples, GAMMA)
    return inverse_gap_probabilities(prediction, gamma, available=available > 0)


def _mixed(prediction: Floats, available: Floats, samples: int) -> Floats:
    uniform = available / available.sum()
    return (1 - MIXED) * _inverse_gap(prediction, available, samples) + MIXED * uniform


Rule = Callable[[Floats, Floats, int], Floats]


def _arm(
    problem: Callable[[np.random.Generator], Problem], rule: Rule, seed: int, size: RoutingSize
) -> Mapping[str, Any]:
    """Generation 0 logs uniformly; every later one is fitted to the logs of the one before, save those that came too
    late, and is deployed with the rule of this arm."""
    world = problem(np.random.default_rng((seed, 0)))
    predictor: Callable[[Floats], Floats] | None = None
    samples, regret, positive, share = 0, [], [], []
    for generation in range(size.generations + 1):
        x, chance, available = world.contexts(generation, size.decisions, np.random.default_rng((seed, 1, generation)))
        prediction = predictor(x) if predictor else np.zeros_like(chance)
        how = rule if predictor else _uniform
        p = np.stack([how(f, a, samples) for f, a in zip(prediction, available, strict=True)])
        uniform = np.random.default_rng((seed, 2, generation)).random((2, size.decisions))  # the same in every arm
        action = np.minimum((p.cumsum(1) < uniform[0][:, None]).sum(1), chance.shape[1] - 1)
        rows = np.arange(size.decisions)
        reward = (uniform[1] < chance[rows, action]).astype(float)
        best = np.where(available > 0, chance, -np.inf).max(1)
        regret.append(float((best - chance[rows, action]).mean()))
        positive.append(float(reward.mean()))
        share.append(float(p[rows, action].mean()))
        seen = slice(0, int(size.decisions * (1 - LATE)))
        samples = len(x[seen])
        predictor = world.fit(x[seen], action[seen], reward[seen])
    after = np.array(regret[1:])
    return {
        "regret": after,
        "positive": np.array(positive[1:]),
        "swing": np.abs(np.diff(after)),
        "generation": np.arange(1.0, size.generations + 1),
        "curve": after,
        "propensity": np.array(share[1:]),
        "turns": float(sign_changes(after.tolist())),
    }


def _turns(findings: TrialFindings) -> str:
    """How often the regret turns from falling to rising or back."""
    told = [
        f"{np.mean([float(run['turns']) for run in runs]):.1f} times for {arm}" for arm, runs in findings.values.items()
    ]
    return f"the sign of the change of regret turns {', '.join(told)}"


RULES: dict[str, Rule] = {
    "uniform": _uniform,
    "ε-greedy": _epsilon_greedy,
    "inverse gaps": _inverse_gap,
    "inverse gaps, 10 % uniform": _mixed,
}

STUDY = Trial(
    "squarecb",
    "Does exploring by inverse gaps beat uniform logging when every generation learns from the one before alone?",
    arms={
        **{f"payments, {name}": partial(_arm, Payments, rule) for name, rule in RULES.items()},
        **{
            f"digits, {name}": partial(_arm, DigitRoutes, rule)
            for name, rule in RULES.items()
            if name in ("uniform", "inverse gaps")
        },
    },
    claims=(
        Claim(
            "a regression oracle has less regret than uniform", REGRET, "payments, uniform", "payments, inverse gaps"
        ),
        Claim(
            "on real data, too, inverse gaps have less regret than uniform",
            REGRET,
            "digits, uniform",
            "digits, inverse gaps",
        ),
        Claim(
            "its logs are less balanced: more of them are successes",
            POSITIVE,
            "payments, inverse gaps",
            "payments, uniform",
        ),
        Claim(
            "generations swing more than those of uniform logging", SWING, "payments, inverse gaps", "payments, uniform"
        ),
        Claim(
            "a tenth of uniform logs damps the swings",
            SWING,
            "payments, inverse gaps",
            "payments, inverse gaps, 10 % uniform",
        ),
    ),
    readings=(REGRET, POSITIVE, SWING),
    charts=(traced("curve", over="generation", title="regret per decision", x_label="generation"),),
    notes=(_turns,),
    size=RoutingSize(seeds=8),
    quick=RoutingSize(seeds=3, generations=6, decisions=500),
)

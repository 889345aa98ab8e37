"""Reward models from feedback that is wrong at times and given selectively, where the truth is known.

Answers have eight features; whether one is liked follows from them. Users react more to what they like, and err.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor

from podium.analysis.reward_accuracy import r_squared
from podium.evaluation.resample import Array
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.parts.objective.feedback import (
    doubly_robust,
    imputed_loss,
    inverse_propensity,
    label_loss,
    mean_losses,
    noise_corrected,
)

__all__ = ["STUDY", "Users"]

NOISE, ALPHA, FEATURES, LEAST = (0.2, 0.1), 0.25, 8, 0.05
BIAS = Quantity("bias", "|bias of the loss| × 1000", (0.0, float("inf")))
R2 = Quantity("r2", "R² to the true labels", (-float("inf"), 1.0))


class FeedbackTrialSize(StudySize):
    """How many answers there are, and how often their feedback is drawn."""

    seeds: int = 16
    answers: int = 1000
    draws: int = 200
    steps: int = 300  # of the fit


class Users:
    """Answers with features, the labels that they deserve, and users who react to them."""

    def __init__(self, seed: int, answers: int) -> None:
        self.rng = np.random.default_rng(seed)
        weights = self.rng.normal(size=FEATURES)
        self.x, self.y = self._answers(answers, weights)
        self.new_x, self.new_y = self._answers(answers, weights)
        self.propensity = torch.where(self.y > 0.5, 1.0, ALPHA).double()  # alpha^(max − rating)

    def _answers(self, count: int, weights: Array) -> tuple[Tensor, Tensor]:
        x = self.rng.normal(size=(count, FEATURES))
        # What is liked bends with the first feature, so that a linear model must compromise between answers.
        liked = 3 * x @ weights / np.linalg.norm(weights) + x[:, 0] ** 2 - 1 > 0
        return torch.tensor(np.concatenate([x, np.ones((count, 1))], 1)), torch.tensor(liked, dtype=torch.float64)

    def react(self) -> tuple[Tensor, Tensor]:
        """[answer] whether there is feedback, and which."""
        observed = torch.tensor(self.rng.uniform(size=len(self.y))) < self.propensity
        wrong = torch.tensor(self.rng.uniform(size=len(self.y))) < torch.where(self.y > 0.5, *NOISE)
        return observed, ((self.y > 0.5) ^ wrong).double()


def fitted_head(x: Tensor, loss: object, steps: int) -> Tensor:
    """[feature] the weights of a linear model of log-odds that minimise the mean of a loss of its probabilities."""
    w = torch.zeros(x.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss((x @ w).sigmoid()).mean().backward()  # type: ignore[operator]
        optimizer.step()
    return w.detach()


def feedback_arm(estimator: str, seed: int, size: FeedbackTrialSize) -> Mapping[str, float]:
    """The bias of its loss over draws of the feedback, and the reward model that one draw gives."""
    users = Users(seed, size.answers)
    f = (users.x @ torch.full((FEATURES + 1,), 0.3, dtype=torch.float64)).sigmoid()  # some model, held fixed
    guess = users.y.mean().expand_as(f)
    losses = []
    for _ in range(size.draws):
        o, r = users.react()
        found = mean_losses(f, r, o, users.propensity, imputed_loss(f, guess), *NOISE)
        losses.append(float(found[estimator]))
    bias = abs(float(np.mean(losses)) - float(label_loss(f, users.y).mean()))
    weights = _fit(estimator, users, size.steps)
    predicted = (users.new_x @ weights).sigmoid()
    return {"bias": 1000 * bias, "r2": r_squared(predicted, users.new_y, range(len(predicted))).mean}


def _fit(estimator: str, users: Users, steps: int) -> Tensor:
    """A reward model from one draw; who reacts and what labels to impute are fitted, the noise rates are known."""
    x, (o, r) = users.x, users.react()
    reacts = fitted_head(x, lambda p: label_loss(p, o.double()), steps)
    p = (x @ reacts).sigmoid().clamp(min=LEAST)
    corrected = partial(noise_corrected, r=r, rho_01=NOISE[0], rho_10=NOISE[1])
    if estimator == "naive":
        return fitted_head(x, lambda f: label_loss(f, r).where(o, 0), steps)
    if estimator == "surrogate":
        return fitted_head(x, lambda f: corrected(f).where(o, 0), steps)
    if estimator == "ips":
        return fitted_head(x, lambda f: inverse_propensity(corrected(f), o, p), steps)
    imputed = fitted_head(x, lambda q: inverse_propensity(corrected(q), o, p), steps)
    q = (x @ imputed).sigmoid()
    return fitted_head(x, lambda f: doubly_robust(corrected(f), o, p, imputed_loss(f, q)), steps)


STUDY = Trial(
    "causalrm",
    "Do corrections for wrong and for selective feedback give the loss, and the reward model, of the true labels?",
    arms={name: partial(feedback_arm, name) for name in ("naive", "surrogate", "ips", "dr")},
    claims=(
        Claim("inverse propensities leave less bias in the loss than no correction", BIAS, "naive", "ips"),
        Claim("so does the doubly robust loss", BIAS, "naive", "dr"),
        Claim("a reward model fitted with inverse propensities is nearer to the labels", R2, "ips", "naive"),
        Claim("the doubly robust one is nearer than that without", R2, "dr", "ips"),
    ),
    readings=(BIAS, R2),
    size=FeedbackTrialSize(),
    quick=FeedbackTrialSize(seeds=6, draws=100),
)

"""Slices on which a classifier fails: what it looked at, mixtures over embeddings, labels and predictions, and weights.

Rows are items, columns features or classes. `Slices` is DOMINO's mixture, or with `full` that of CoSi in FACTS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podium.core.errors import PodiumError

__all__ = [
    "Grounded",
    "Posterior",
    "Slices",
    "fit_slices",
    "group_dro",
    "precision_at",
    "quantile_mask",
    "worst_slices",
]

Floats = NDArray[np.float64]
EPSILON = float(np.finfo(np.float64).eps)
FLOOR = 1e-6  # of a component's variances
RIDGE = 1e-3  # on the diagonal of a full covariance


@dataclass(frozen=True)
class Grounded:
    """A picture of which only the pixels that matter are left."""

    threshold: float
    mask: Floats
    picture: Floats
    kept: float  # the share of pixels


def quantile_mask(heat: ArrayLike, picture: ArrayLike, share: float) -> Grounded:
    """x · [c ≥ the `share`-quantile of the heat map c], interpolated linearly: share = 0 keeps all, .7 the top 30 %."""
    c, x = np.asarray(heat, float), np.asarray(picture, float)
    if not 0 <= share <= 1 or c.size == 0 or x.shape[: c.ndim] != c.shape:
        raise PodiumError(f"A heat map of shape {c.shape} cannot mask a picture of {x.shape} at the quantile {share}.")
    threshold = float(np.quantile(c, share))
    mask = (c >= threshold).astype(float)
    return Grounded(threshold, mask, x * mask.reshape(mask.shape + (1,) * (x.ndim - c.ndim)), float(mask.mean()))


@dataclass(frozen=True)
class Posterior:
    """What a mixture makes of each item."""

    responsibility: Floats  # [item, slice]
    slice: NDArray[np.int64]  # [item] the likeliest
    log_likelihood: float  # the mean over items


@dataclass(frozen=True)
class Slices:
    """A mixture of slices. The log-weight of slice k for an item with embedding e, label y and prediction ŷ is

        log w_k + log N(e; μ_k, diag σ²_k) + γ · log(y · p_k + ε) + γ̂ · log(ŷ · p̂_k + ε)

    with label weight γ and prediction weight γ̂. With a covariance of the predictions the last term is
    γ̂ · log N(ŷ; p̂_k, Σ_k) (CoSi). γ = γ̂ = 0 is a Gaussian mixture of the embeddings.
    """

    weight: Floats  # [slice]
    mean: Floats  # [slice, feature]
    variance: Floats  # [slice, feature]
    label: Floats | None  # [slice, class] p; None: labels do not matter
    prediction: Floats  # [slice, class] p̂
    covariance: Floats | None = None  # [slice, class, class] of predictions
    label_weight: float = 1.0
    prediction_weight: float = 1.0

    def posterior(self, embedding: ArrayLike, prediction: ArrayLike, label: ArrayLike | None = None) -> Posterior:
        """The responsibilities of the slices for items."""
        e, guessed = np.asarray(embedding, float), np.asarray(prediction, float)
        distance = (e[:, None] - self.mean) ** 2 / self.variance
        logs = np.log(self.weight) - 0.5 * (distance + np.log(2 * np.pi * self.variance)).sum(-1)
        if self.label is not None and label is not None:
            logs = logs + self.label_weight * np.log(np.asarray(label, float) @ self.label.T + EPSILON)
        logs = logs + self.prediction_weight * self._of_prediction(guessed)
        most = logs.max(1, keepdims=True)
        total = most[:, 0] + np.log(np.exp(logs - most).sum(1))
        return Posterior(np.exp(logs - total[:, None]), logs.argmax(1), float(total.mean()))

    def _of_prediction(self, guessed: Floats) -> Floats:
        """[item, slice] the log-likelihood of the predictions."""
        if self.covariance is None:
            return np.asarray(np.log(guessed @ self.prediction.T + EPSILON))
        apart = guessed[:, None] - self.prediction
        solved = np.linalg.solve(self.covariance[None], apart[..., None])[..., 0]
        _, determinant = np.linalg.slogdet(2 * np.pi * self.covariance)
        return np.asarray(-0.5 * ((apart * solved).sum(-1) + determinant))


def fit_slices(
    embedding: ArrayLike,
    label: ArrayLike,
    prediction: ArrayLike,
    *,
    slices: int = 25,
    label_weight: float = 1.0,
    prediction_weight: float = 1.0,
    full: bool = False,
    rounds: int = 100,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> tuple[Slices, list[float]]:
    """A mixture by expectation maximisation, and its mean log-likelihood before each round.

    The first responsibilities are the outer products of label and prediction, repeated over the slices, with a little
    noise, so that there must be at least as many slices as classes squared. It ends when the likelihood changes by less
    than `tolerance`.
    """
    e, y, guessed = (np.asarray(x, float) for x in (embedding, label, prediction))
    if y.ndim != 2 or y.shape != guessed.shape or len(e) != len(y):
        raise PodiumError(f"Labels {y.shape} and predictions {guessed.shape} must be tables with a row for each item.")
    if slices < y.shape[1] ** 2 or len(e) < slices:
        raise PodiumError(
            f"{slices} slices of {len(e)} items with {y.shape[1]} classes: there must be from {y.shape[1] ** 2} to "
            f"{len(e)} slices."
        )
    confusion = (y[:, :, None] * guessed[:, None, :]).reshape(len(e), -1)
    repeated = np.tile(confusion, -(-slices // confusion.shape[1]))[:, :slices]
    first = repeated + 0.01 * np.random.default_rng(seed).random(repeated.shape)
    given: dict[str, Any] = {"label_weight": label_weight, "prediction_weight": prediction_weight}
    likelihoods: list[float] = []
    mixture = _estimated(first / first.sum(1, keepdims=True), e, y, guessed, full, given)
    for _ in range(rounds):
        found = mixture.posterior(e, guessed, None if full else y)
        likelihoods.append(found.log_likelihood)
        if len(likelihoods) > 1 and abs(likelihoods[-1] - likelihoods[-2]) < tolerance:
            break
        mixture = _estimated(found.responsibility, e, y, guessed, full, given)
    return mixture, likelihoods


def _estimated(r: Floats, e: Floats, y: Floats, guessed: Floats, full: bool, given: dict[str, Any]) -> Slices:
    """The M step: weighted means and variances under responsibilities."""
    count = r.sum(0) + 10 * EPSILON
    mean = (r.T @ e) / count[:, None]
    variance = np.maximum((r.T @ e**2) / count[:, None] - mean**2, 0.0) + FLOOR
    guess = (r.T @ guessed) / count[:, None]
    covariance = None
    if full:
        apart = guessed[:, None] - guess
        covariance = np.einsum("ik,ika,ikb->kab", r, apart, apart) / count[:, None, None]
        covariance = covariance + RIDGE * np.eye(guessed.shape[1])
    label = None if full else (r.T @ y) / count[:, None]
    return Slices(count / len(e), mean, variance, label, guess, covariance, **given)


def worst_slices(mixture: Slices, count: int) -> list[int]:
    """The slices in which predictions differ most from labels: the largest |max_c (p̂_kc − p_kc)|."""
    if mixture.label is None:
        raise PodiumError("A mixture without labels does not say where predictions differ from them.")
    gap = np.abs((mixture.prediction - mixture.label).max(1))
    return [int(k) for k in np.argsort(-gap, kind="stable")[:count]]


def precision_at(responsibility: ArrayLike, group: ArrayLike, k: int = 10) -> dict[int, float]:
    """For each true group the best over slices of (items of the group among the k surest members of the slice) / k.

    An item is a member of its likeliest slice; the sum is divided by k also where a slice has fewer members.
    """
    r, truth = np.asarray(responsibility, float), np.asarray(group)
    if k < 1 or r.ndim != 2 or len(r) != len(truth):
        raise PodiumError(f"Precision at {k} needs a row of responsibilities for each of {len(truth)} items.")
    belongs = r.argmax(1)
    members = [np.flatnonzero(belongs == s) for s in range(r.shape[1])]
    surest = [rows[np.argsort(-r[rows, s], kind="stable")[:k]] for s, rows in enumerate(members)]
    return {int(g): max(float((truth[rows] == g).sum()) / k for rows in surest) for g in np.unique(truth)}


def group_dro(weight: ArrayLike, loss: ArrayLike, step: float = 0.01) -> tuple[Floats, float]:
    """q ← q · exp(step · loss), normalised, and then Σ q · loss. A group that is absent has loss 0."""
    q, losses = np.asarray(weight, float), np.asarray(loss, float)
    raised = q * np.exp(step * (losses - losses.max()))
    new = raised / raised.sum()
    return new, float(new @ losses)

"""ViG-Bias: do slices of what a classifier looked at show its failures better, and does group DRO on them mend them?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate, one_hot

from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.tables.slices import Slices, fit_slices, group_dro, precision_at, quantile_mask, worst_slices
from podium.worlds.glyphs import INK, draw_digit

__all__ = ["STUDY", "BiasSize", "Pictures", "draw_pictures", "grad_cam", "train_classifier"]

Ints = NDArray[np.int64]
SIDE, GLYPH, MARK = 20, 8, 3  # pixels of a picture, a digit and a mark
AGREES = 0.9  # of the pictures: the mark is there for the second class and not for the first
SLICES, SHOWN, COMPONENTS = 25, 5, 64  # of the mixture, slices reported, and principal components
WEIGHT = 10.0  # of labels and predictions, as in DOMINO's own experiments
PRECISION = Quantity("precision", "precision@10", (0.0, 1.0))
WORST = Quantity("worst", "accuracy of the worst group", (0.0, 1.0))
MEAN = Quantity("mean", "accuracy", (0.0, 1.0))


class BiasSize(StudySize):
    """How many pictures, and passes over them."""

    train: int = 3000
    valid: int = 1500
    test: int = 1500
    epochs: int = 8
    members: int = 10  # of a slice that count for the precision


@dataclass(frozen=True)
class Pictures:
    """Digits among clutter: is it five or more? A mark in a corner says so, too, but not always."""

    x: Tensor  # [picture, 1, row, column]
    digit: Tensor
    mark: Tensor  # whether there is one

    @property
    def label(self) -> Tensor:
        return (self.digit >= 5).long()

    @property
    def group(self) -> Ints:
        """0 to 3: twice the class, and one more with a mark."""
        return np.asarray((2 * self.label + self.mark).numpy(), np.int64)


def draw_pictures(count: int, agrees: float, seed: str) -> Pictures:
    """So many pictures; the mark agrees with the class in this share of them."""
    rng = Random(seed)
    x, digits, marks = np.zeros((count, 1, SIDE, SIDE)), [], []
    for n in range(count):
        digit = rng.randrange(10)
        mark = (digit >= 5) == (rng.random() < agrees)
        for _ in range(2):  # pieces of other digits, fainter
            piece = draw_digit(rng.randrange(10), rng)[:5, :5] / INK
            row, column = rng.randrange(SIDE - 5), rng.randrange(SIDE - 5)
            x[n, 0, row : row + 5, column : column + 5] = 0.5 * piece
        row, column = (rng.randrange(MARK, SIDE - GLYPH - MARK) for _ in range(2))
        x[n, 0, row : row + GLYPH, column : column + GLYPH] = draw_digit(digit, rng) / INK
        if mark:
            top, left = (rng.choice((0, SIDE - MARK)) for _ in range(2))
            x[n, 0, top : top + MARK, left : left + MARK] = 1.0
        digits.append(digit)
        marks.append(mark)
    return Pictures(torch.tensor(x).float(), torch.tensor(digits), torch.tensor(marks).long())


class DigitClassifier(nn.Module):
    """Three convolutions, the mean over places of the last block, and a linear layer."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()),
        )
        self.top = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.top(self.block(x).amax((2, 3)))
        return scores


def train_classifier(
    x: Tensor, label: Tensor, classes: int, epochs: int, seed: int, group: Tensor | None = None
) -> DigitClassifier:
    """A classifier by Adam; with groups by group DRO, whose weights follow the losses of the groups."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = DigitClassifier(classes)
        orders = [torch.randperm(len(x)) for _ in range(epochs)]
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    count = 0 if group is None else int(group.max()) + 1
    q: Any = np.full(count, 1 / max(count, 1))
    for order in orders:
        for rows in torch.split(order, 100):
            losses = cross_entropy(model(x[rows]), label[rows], reduction="none")
            loss = losses.mean()
            if group is not None:
                cells = one_hot(group[rows], count).float()
                by_group = (losses @ cells) / cells.sum(0).clamp(min=1)
                q, _ = group_dro(q, by_group.detach().double().numpy())
                loss = by_group @ torch.tensor(q).float()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
    return model.eval()


def grad_cam(model: DigitClassifier, x: Tensor, target: Tensor) -> Tensor:
    """[picture, row, column] ReLU(Σ_c mean(∂score/∂A_c) · A_c) of the last block A, for an output of each picture."""
    maps = model.block(x).detach().requires_grad_()
    score = model.top(maps.amax((2, 3))).gather(1, target[:, None]).sum()
    (slope,) = torch.autograd.grad(score, maps)
    heat = (slope.mean((2, 3), keepdim=True) * maps).sum(1, keepdim=True).relu().detach()
    return interpolate(heat, size=x.shape[2:], mode="bilinear", align_corners=False)[:, 0]


@dataclass(frozen=True)
class _Setting:
    """What the arms of a seed have in common."""

    train: Pictures
    valid: Pictures
    test: Pictures
    model: DigitClassifier  # trained as usual
    encoder: DigitClassifier  # knows all digits, but not this task


@lru_cache(2)
def _setting(seed: int, size: BiasSize) -> _Setting:
    train, valid, test = (
        draw_pictures(count, agrees, f"{name}/{seed}")
        for name, count, agrees in (
            ("train", size.train, AGREES),
            ("valid", size.valid, AGREES),
            ("test", size.test, 0.5),
        )
    )
    other = draw_pictures(size.train, 0.5, f"encoder/{seed}")
    model = train_classifier(train.x, train.label, 2, size.epochs, seed)
    return _Setting(train, valid, test, model, train_classifier(other.x, other.digit, 10, size.epochs, seed + 1))


def _embedded(setting: _Setting, pictures: Pictures, share: float | None, first: bool) -> NDArray[np.float64]:
    """What the encoder makes of the pictures, masked by what the classifier looked at unless `share` is None."""
    x = pictures.x
    if share is not None:
        with torch.no_grad():
            guessed = setting.model(x).argmax(1)
        heat = grad_cam(setting.model, x, torch.zeros_like(guessed) if first else guessed).numpy()
        masked = [quantile_mask(h, one.numpy(), share).picture for h, one in zip(heat, x[:, 0], strict=True)]
        x = torch.tensor(np.stack(masked)).float()[:, None]
    with torch.no_grad():
        features: Tensor = setting.encoder.block(x).flatten(1)
    return np.asarray(features.numpy(), float)


def _arm(share: float | None, first: bool, seed: int, size: BiasSize) -> Mapping[str, Any]:
    """Slices of the validation pictures, their precision, and a classifier by group DRO on groups read off them."""
    setting = _setting(seed, size)
    embedded = {name: _embedded(setting, getattr(setting, name), share, first) for name in ("train", "valid")}
    centre = embedded["valid"].mean(0)
    _, _, axes = np.linalg.svd(embedded["valid"] - centre, full_matrices=False)
    reduced = {name: (e - centre) @ axes[:COMPONENTS].T for name, e in embedded.items()}
    scale = reduced["valid"].std() or 1.0
    with torch.no_grad():
        guessed = {n: setting.model(getattr(setting, n).x).softmax(1).double().numpy() for n in reduced}
    labels = {n: one_hot(getattr(setting, n).label, 2).double().numpy() for n in reduced}
    mixture, _ = fit_slices(
        *(reduced["valid"] / scale, labels["valid"], guessed["valid"]),
        slices=SLICES,
        label_weight=WEIGHT,
        prediction_weight=WEIGHT,
        seed=seed,
    )
    found = mixture.posterior(reduced["valid"] / scale, guessed["valid"], labels["valid"]).responsibility
    worst = worst_slices(mixture, SHOWN)
    group = setting.valid.group
    inside = _inside(mixture, reduced["train"] / scale, guessed["train"], labels["train"], worst)
    mended = train_classifier(
        *(setting.train.x, setting.train.label, 2, size.epochs, seed),
        group=2 * setting.train.label + torch.tensor(inside).long(),
    )
    # The slices that are shown are those where it fails: do they hold the pictures whose mark misleads?
    misled = precision_at(found[:, worst], group, size.members)
    return {"precision": (misled[1] + misled[2]) / 2, **_accuracy(mended, setting.test)}


def _inside(mixture: Slices, e: Any, guessed: Any, label: Any, worst: list[int]) -> NDArray[np.bool_]:
    """Which items belong to one of these slices."""
    return np.isin(mixture.posterior(e, guessed, label).slice, worst)


def _plain(seed: int, size: BiasSize) -> Mapping[str, Any]:
    """The classifier as it was trained, and pictures in any order instead of slices."""
    setting = _setting(seed, size)
    chance = np.random.default_rng(seed).random((len(setting.valid.group), SHOWN))
    found = precision_at(chance, setting.valid.group, size.members)
    return {"precision": (found[1] + found[2]) / 2, **_accuracy(setting.model, setting.test)}


def _accuracy(model: DigitClassifier, pictures: Pictures) -> dict[str, float]:
    """The mean accuracy, and that of the group where it is lowest."""
    with torch.no_grad():
        right = (model(pictures.x).argmax(1) == pictures.label).numpy()
    groups = [right[pictures.group == g].mean() for g in range(4)]
    return {"worst": float(min(groups)), "mean": float(right.mean())}


GROUNDED, WHOLE, FIRST, NONE = "grounded", "whole pictures", "first output", "no mitigation"

STUDY = Trial(
    "vig-bias",
    "Do slices of what a classifier looked at show its failures better, and does group DRO on them mend them?",
    arms={
        GROUNDED: partial(_arm, 0.7, False),
        WHOLE: partial(_arm, None, False),
        FIRST: partial(_arm, 0.7, True),
        NONE: _plain,
    },
    claims=(
        Claim("slices of what it looked at are purer than those of whole pictures", PRECISION, GROUNDED, WHOLE),
        Claim("the worst group is better off with group DRO on them than without", WORST, GROUNDED, NONE),
        Claim("the worst group is better off than with slices of whole pictures", WORST, GROUNDED, WHOLE),
    ),
    readings=(PRECISION, WORST, MEAN),
    size=BiasSize(seeds=10),
    quick=BiasSize(seeds=3, train=1500, valid=800, test=800, epochs=6),
)

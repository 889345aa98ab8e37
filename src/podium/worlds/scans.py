"""Screening: which crops of a scan are worth a closer look, before a network that segments lesions sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from podium.core.errors import PodiumError, within
from podium.protocols.context import Latest
from podium.protocols.option_set import EACH, OptionRow, OptionSet, choice_of
from podium.protocols.world import Episode, Feedback, Task, World
from podium.worlds.puzzle import task_key
from podium.worlds.volumes import Scan, Volume, blurred, lesion_scan

__all__ = ["CROPS", "Scans", "crops_of", "focus", "glances"]

SIDE, CROP = 24, 8
CROPS = (SIDE // CROP) ** 3
CONTRAST = {1: 2.0, 2: 1.7}  # of lesions and vessels, by level
KNOWN, UPDATES, BATCH, RATE = 80, 240, 24, 1e-2  # scans and steps of the network that segments
ATTEMPTS = 5  # at a network that marks lesions
ENOUGH = 1 / 3  # of the crops: who keeps more does not screen


def crops_of(volume: NDArray[Any]) -> NDArray[Any]:
    """[crop, x, y, z] a volume cut into cubes."""
    n = SIDE // CROP
    cut = volume.reshape(n, CROP, n, CROP, n, CROP).transpose(0, 2, 4, 1, 3, 5)
    return cut.reshape(CROPS, CROP, CROP, CROP)


def glances(grey: Volume) -> Volume:
    """[crop, 8] cheap numbers: mean, spread and maximum of the grey values, the brightest cubes of 2 and of 4 voxels a
    side, the brightest line along an axis, and of the blurred crop the maximum and the share above one half."""
    crops = crops_of(grey)
    soft = crops_of(blurred(grey))
    cubes = [
        crops.reshape(CROPS, CROP // k, k, CROP // k, k, CROP // k, k).mean((2, 4, 6)).reshape(CROPS, -1).max(-1)
        for k in (2, 4)
    ]
    line = np.max([crops.mean(axis).reshape(CROPS, -1).max(-1) for axis in (1, 2, 3)], axis=0)
    flat, soft_flat = crops.reshape(CROPS, -1), soft.reshape(CROPS, -1)
    numbers = [flat.mean(-1), flat.std(-1), flat.max(-1), *cubes, line, soft_flat.max(-1), (soft_flat > 0.5).mean(-1)]
    return np.stack(numbers, -1)


@cache
@torch.enable_grad()
def focus(level: int) -> nn.Sequential:
    """The network that segments crops, fitted to labelled scans when it is first asked (seconds)."""
    draw = np.random.default_rng(level)
    grey, truth = list[Any](), list[Any]()
    for _ in range(KNOWN):
        scan = lesion_scan(draw, SIDE, CONTRAST[level])
        grey.append(crops_of(scan.grey))
        truth.append(crops_of(scan.truth))
    crops, labels = (torch.as_tensor(np.concatenate(x)).float() for x in (grey, truth))
    ill = labels.flatten(1).sum(1) > 0
    for attempt in range(ATTEMPTS):
        network = _fitted(crops, labels, level + 100 * attempt, draw)
        marked = network(crops[ill, None])[:, 0] > 0
        if bool((marked & (labels[ill] > 0)).any()):  # else it has learned to mark nothing
            return network.eval()
    raise PodiumError(f"scans: no network learned to segment the lesions of level {level} in {ATTEMPTS} attempts.")


def _fitted(crops: Tensor, labels: Tensor, seed: int, draw: np.random.Generator) -> nn.Sequential:
    """One attempt; half of the crops of each step have a lesion."""
    ill, well = (np.flatnonzero(labels.flatten(1).sum(1).numpy() > 0), np.arange(len(labels)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(
            *(nn.Conv3d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv3d(8, 8, 3, padding=1), nn.ReLU()),
            nn.Conv3d(8, 1, 1),
        )
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(UPDATES):
        rows = torch.as_tensor(np.concatenate([draw.choice(x, BATCH // 2) for x in (ill, well)]))
        loss = nn.functional.binary_cross_entropy_with_logits(network(crops[rows, None])[:, 0], labels[rows])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return network


def _segmented(grey: Volume, level: int) -> NDArray[np.bool_]:
    with torch.no_grad():
        found: Tensor = focus(level)(torch.as_tensor(crops_of(grey)).float()[:, None])[:, 0] > 0
    return np.asarray(found.numpy())


def _drawn(draw: np.random.Generator, level: int) -> tuple[Scan, NDArray[np.bool_], NDArray[np.bool_]]:
    """A scan with the mask and the truth of its crops; one in which no lesion would be found is drawn anew."""
    while True:
        scan = lesion_scan(draw, SIDE, CONTRAST[level])
        mask, truth = _segmented(scan.grey, level), crops_of(scan.truth)
        if (mask & truth).any() or not truth.any():
            return scan, mask, truth


@dataclass(frozen=True)
class _Crops:
    """What is known of the crops of a scan: their numbers at a glance, and counts of voxels."""

    glance: list[list[float]]
    shared: list[int]  # of the mask and the truth, of each crop
    marked: list[int]  # of the mask
    true: list[int]  # of the truth


class Scans(World):
    """Small lesions, none to two, among vessels that are as bright: for each of the 27 crops of a scan it is decided,
    by eight cheap numbers, whether a network that segments lesions sees it. Lesions are paler at level 2.

    `turn.lesion` says whether a crop has a voxel of a lesion, `turn.found` whether the network, if it sees the crop,
    marks one of them: all crops are tried in training, whatever was decided. The reward is the Dice score of all that
    is marked in the crops that were kept; 1 where nothing is and nothing should be. `rollout.kept` is the share of
    crops that were kept, `rollout.false` counts marked voxels without lesion. It is `correct` to keep all crops with a
    lesion that would be found, no more than a third of all, and a score above 0. The network is fitted when it is first
    asked; scans whose lesions it would miss altogether are left out.
    """

    name = "scans"
    summary = "screen a scan: keep the crops in which a network that segments lesions will find one"
    isolation = "inline"
    levels = tuple(CONTRAST)
    provides = (
        *World.provides,
        *("task.options", "task.solution", "rollout.kept", "rollout.false", "turn.valid", "turn.found", "turn.lesion"),
    )
    blank: ClassVar[Mapping[str, Any]] = {"kept": 1.0, "false": 0.0, "found": 0.0, "lesion": 0.0}
    max_tokens = 4
    max_turns = CROPS
    context = Latest()

    shown: int = CROPS  # how many crops of a scan of training are decided on; of a held-out one all are

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "shown", 1, CROPS)

    def task(self, index: int, split: str = "train") -> Task:
        few = split == "train" and self.shown < CROPS
        key = task_key(f"{self.name}-{self.level}" + (f"-{self.shown}" if few else ""), split, index)
        draw = np.random.default_rng(Random(f"scans/{self.level}/{split}/{index}").getrandbits(64))
        scan, mask, truth = _drawn(draw, self.level)
        order = draw.permutation(CROPS)[: self.shown] if few else np.arange(CROPS)
        data = {
            "glance": glances(scan.grey)[order].round(3).tolist(),
            "shared": (mask & truth).reshape(CROPS, -1).sum(-1)[order].tolist(),
            "marked": mask.reshape(CROPS, -1).sum(-1)[order].tolist(),
            "true": truth.reshape(CROPS, -1).sum(-1)[order].tolist(),
        }
        return Task(key, _question(data["glance"], 0), self.level, data=data)

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Screening(task)

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        """Keep the crops in which a lesion would be found."""
        return tuple(str(int(shared > 0)) for shared in task.data["shared"])

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return "\n".join(self.demonstrate(task, style, seed))


def _options(glance: list[float]) -> OptionSet:
    return OptionSet(EACH, (OptionRow("keep", tuple(glance)),))


def _question(glance: list[list[float]], number: int) -> str:
    return f"crop {number + 1} of {len(glance)}\n{_options(glance[number])}"


class _Screening(Episode):
    """One scan, crop by crop."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.prompt, state=task.key)
        self.key, self.crops = task.key, _Crops(**task.data)
        self.kept: list[bool] = []

    def act(self, text: str) -> Feedback:
        crops, number = self.crops, len(self.kept)
        choice = choice_of(text, _options(crops.glance[number]))
        self.kept.append(choice is None or choice[0] == 1)  # what is no choice keeps the crop
        info: dict[str, Any] = {
            "valid": choice is not None,
            "found": float(crops.shared[number] > 0),
            "lesion": float(crops.true[number] > 0),
        }
        if number + 1 < len(crops.glance):
            return Feedback(0.0, False, _question(crops.glance, number + 1), f"{self.key}/{number + 1}", info)
        dice, more = self._outcome()
        return Feedback(dice, True, state="over", info=info | more)

    def _outcome(self) -> tuple[float, dict[str, Any]]:
        """The Dice score, and what else comes of the crops that were kept."""
        crops = self.crops
        shared, marked = (
            sum(x for x, kept in zip(c, self.kept, strict=True) if kept) for c in (crops.shared, crops.marked)
        )
        sizes = marked + sum(crops.true)
        share = sum(self.kept) / len(self.kept)
        missed = any(x > 0 and not kept for x, kept in zip(crops.shared, self.kept, strict=True))
        most = max(ENOUGH, sum(x > 0 for x in crops.shared) / len(self.kept))
        dice = 2 * shared / sizes if sizes else 1.0
        return dice, {
            "correct": not missed and share <= most and dice > 0,
            "answer": f"{sum(self.kept)} kept",
            "kept": share,
            "false": float(marked - shared),
        }

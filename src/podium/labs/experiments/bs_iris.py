"""BS-IRIS: does a policy of voxels that answers clicks beat a network that is told of the same clicks at once?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor, nn

from podium.evaluation.resample import Array
from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.tables.voxel_gains import boundary_weight, label_entropy, likelier_labels, rewards_to_go
from podium.worlds.volumes import organ_scan

__all__ = ["STUDY", "RefiningSize", "clicked", "dice"]

MOVES = torch.tensor([-0.4, -0.2, -0.1, 0.1, 0.2, 0.4])  # what an agent can add to its probability
SIDE, BLOCK, WIDTH = 12, 3, 10  # voxels of a scan and of a supervoxel along an axis; channels
GAMMA, KAPPA, RATE, BATCH = 0.95, 2.0, 1e-2, 8
ENTROPY, VALUED = 0.01, 0.5  # weights of the entropy bonus and of the value's error
DICE = Quantity("dice", "Dice after all clicks", (0.0, 1.0))
EARLY = Quantity("early", "mean Dice over the clicks", (0.0, 1.0))
EDGE = Quantity("edge", "accuracy at the boundary", (0.0, 1.0))


class RefiningSize(StudySize):
    """How many scans there are, how long networks learn, and how often the user clicks."""

    seeds: int = 6
    scans: int = 60
    updates: int = 200
    clicks: int = 5
    tested: int = 40


def dice(p: Tensor, truth: Tensor) -> Tensor:
    """[scan] 2|A ∩ B| / (|A| + |B|) of a map above one half and the truth; 1 where both are empty."""
    found = p > 0.5
    both, sizes = (found & truth).flatten(1).sum(1), found.flatten(1).sum(1) + truth.flatten(1).sum(1)
    return torch.where(sizes > 0, 2 * both / sizes.clamp(min=1), 1.0)


def clicked(p: Tensor, truth: Tensor, hints: Tensor) -> Tensor:
    """[scan, sign, …] the hints with one more click: the user marks the supervoxel with the largest error, as organ or
    as background, whichever the most of its wrong voxels are."""
    wrong = (p > 0.5) != truth
    blocks = SIDE // BLOCK
    signed = torch.stack([wrong & truth, wrong & ~truth], 1).float()
    counts = signed.view(len(p), 2, blocks, BLOCK, blocks, BLOCK, blocks, BLOCK).sum((3, 5, 7)).flatten(1)
    marked = torch.zeros_like(counts).scatter(1, counts.argmax(1, keepdim=True), 1.0)
    marked = marked * (counts.max(1, keepdim=True).values > 0)
    cells = marked.view(len(p), 2, blocks, blocks, blocks)
    for axis in (2, 3, 4):
        cells = cells.repeat_interleave(BLOCK, axis)
    return torch.maximum(hints, cells)


def _network(inputs: int, outputs: int, seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = (nn.Conv3d(inputs, WIDTH, 3, padding=1), nn.ReLU(), nn.Conv3d(WIDTH, WIDTH, 3, padding=1), nn.ReLU())
        return nn.Sequential(*layers, nn.Conv3d(WIDTH, outputs, 3, padding=1))


@dataclass(frozen=True)
class _Ward:
    """Scans of a seed, with the maps of an automatic network from which refinement starts."""

    grey: Tensor  # [scan, …]
    truth: Tensor
    start: Tensor

    def rows(self, index: Tensor) -> _Ward:
        return _Ward(self.grey[index], self.truth[index], self.start[index])


@cache
def _wards(seed: int, size: RefiningSize) -> tuple[_Ward, _Ward]:
    """Scans to learn from, and others."""
    found = []
    automatic = _network(1, 1, seed)
    for number, count in enumerate((size.scans, size.tested)):
        draw = np.random.default_rng((seed, number))
        scans = [organ_scan(draw, SIDE) for _ in range(count)]
        grey = torch.as_tensor(np.stack([x.grey for x in scans])).float()
        truth = torch.as_tensor(np.stack([x.truth for x in scans]))
        if number == 0:
            _fit(automatic, grey, truth, size.updates, seed)
        with torch.no_grad():
            start = torch.sigmoid(automatic(grey[:, None])[:, 0])
        found.append(_Ward(grey, truth, start))
    return found[0], found[1]


def _fit(network: nn.Sequential, grey: Tensor, truth: Tensor, updates: int, seed: int) -> None:
    """The automatic network: it learns each map from grey values alone."""
    draw, optimizer = torch.Generator().manual_seed(seed), torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(updates):
        rows = torch.randint(len(grey), (BATCH,), generator=draw)
        loss = label_entropy(torch.sigmoid(network(grey[rows, None])[:, 0]), truth[rows]).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()


def _seen(ward: _Ward, p: Tensor, hints: Tensor) -> Tensor:
    return torch.cat([ward.grey[:, None], p[:, None], hints], 1)


def _policy(kappa: float, relative: bool, seed: int, size: RefiningSize) -> nn.Sequential:
    """An actor-critic on voxels: six moves and a value for each, from grey value, own probability and hints."""
    ward = _wards(seed, size)[0]
    network, draw = _network(4, len(MOVES) + 1, seed + 1), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(size.updates):
        part = ward.rows(torch.randint(len(ward.grey), (BATCH,), generator=draw))
        weight = torch.stack([boundary_weight(y.long(), kappa)[1] for y in part.truth]).float()
        p, hints = part.start, torch.zeros(BATCH, 2, *part.start.shape[1:])
        outputs, picks, rewards = [], [], []
        for _ in range(size.clicks):
            hints = clicked(p, part.truth, hints)
            out = network(_seen(part, p, hints))
            chances = out[:, :-1].softmax(1).detach().movedim(1, -1)
            pick = torch.multinomial(chances.reshape(-1, len(MOVES)), 1, generator=draw).view(p.shape)
            after = (p + MOVES[pick]).clamp(0, 1)
            gain = likelier_labels(p, after, part.truth, weight, clip=1e-2)
            rewards.append(gain if relative else -weight * label_entropy(after, part.truth, clip=1e-2))
            outputs.append(out)
            picks.append(pick)
            p = after
        loss = torch.zeros(())
        for out, pick, goal in zip(outputs, picks, rewards_to_go(rewards, GAMMA), strict=True):
            logp, value = out[:, :-1].log_softmax(1), out[:, -1]
            advantage = (goal - value).detach()
            chosen = logp.gather(1, pick[:, None])[:, 0]
            entropy = -(logp.exp() * logp).sum(1)
            loss = loss + (-advantage * chosen + VALUED * (goal - value) ** 2 - ENTROPY * entropy).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss / size.clicks)
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    return network


def _refining(kappa: float, relative: bool, seed: int, size: RefiningSize) -> Mapping[str, Array]:
    """Voxels as agents of one policy: after each click every voxel makes its likeliest move."""
    network = _policy(kappa, relative, seed, size)
    ward = _wards(seed, size)[1]

    def answer(p: Tensor, hints: Tensor) -> Tensor:
        moves = MOVES[network(_seen(ward, p, hints))[:, :-1].argmax(1)]
        return (p + moves).clamp(0, 1)

    return _tried(ward, answer, size.clicks)


def _at_once(seed: int, size: RefiningSize) -> Mapping[str, Array]:
    """A network of the same form that is fitted to the truth: it writes each map anew, from the same inputs."""
    ward, tested = _wards(seed, size)
    network, draw = _network(4, 1, seed + 1), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(size.updates):
        part = ward.rows(torch.randint(len(ward.grey), (BATCH,), generator=draw))
        p, hints, loss = part.start, torch.zeros(BATCH, 2, *part.start.shape[1:]), torch.zeros(())
        for _ in range(size.clicks):
            hints = clicked(p, part.truth, hints)
            written = torch.sigmoid(network(_seen(part, p, hints))[:, 0])
            loss, p = loss + label_entropy(written, part.truth).mean(), written.detach()
        optimizer.zero_grad()
        torch.autograd.backward(loss / size.clicks)
        optimizer.step()
    return _tried(tested, lambda p, hints: torch.sigmoid(network(_seen(tested, p, hints))[:, 0]), size.clicks)


def _unanswered(seed: int, size: RefiningSize) -> Mapping[str, Array]:
    """The automatic map, whatever is clicked."""
    return _tried(_wards(seed, size)[1], lambda p, hints: p, size.clicks)


def _tried(ward: _Ward, answer: Callable[[Tensor, Tensor], Tensor], clicks: int) -> Mapping[str, Array]:
    """Dice of new scans after each click of a user who sees the map."""
    p, hints, curve = ward.start, torch.zeros(len(ward.start), 2, *ward.start.shape[1:]), [dice(ward.start, ward.truth)]
    with torch.no_grad():
        for _ in range(clicks):
            hints = clicked(p, ward.truth, hints)
            p = answer(p, hints)
            curve.append(dice(p, ward.truth))
    edges = torch.stack([boundary_weight(y.long(), 1.0)[0] for y in ward.truth])
    right = ((p > 0.5) == ward.truth) & edges
    return {
        "dice": curve[-1].numpy(),
        "early": torch.stack(curve[1:]).mean(0).numpy(),
        "edge": (right.flatten(1).sum(1) / edges.flatten(1).sum(1).clamp(min=1)).numpy(),
        "click": np.arange(clicks + 1),
        "curve": torch.stack(curve).mean(1).numpy(),
    }


WEIGHTED, PLAIN, ABSOLUTE = "boundary counts more", "all voxels alike", "reward of the map itself"
ONCE, START = "written at once", "automatic map"

STUDY = Trial(
    "bs-iris",
    "Does a policy of voxels that refines a map after each click beat a network that writes it anew?",
    arms={
        WEIGHTED: partial(_refining, KAPPA, True),
        PLAIN: partial(_refining, 0.0, True),
        ABSOLUTE: partial(_refining, KAPPA, False),
        ONCE: _at_once,
        START: _unanswered,
    },
    claims=(
        Claim("refinement ends above the automatic map", DICE, WEIGHTED, START),
        Claim("it ends above a network that is told the same and writes the map anew", DICE, WEIGHTED, ONCE),
        Claim("a larger weight at the boundary makes it more accurate there", EDGE, WEIGHTED, PLAIN),
        Claim("rewarding the gain is better than rewarding the map itself", EARLY, WEIGHTED, ABSOLUTE),
    ),
    readings=(DICE, EARLY, EDGE),
    charts=(traced("curve", over="click", title="Dice on new scans", x_label="clicks of the user"),),
    size=RefiningSize(),
    quick=RefiningSize(seeds=3, scans=30, updates=120, tested=24),
)

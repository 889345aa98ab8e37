"""Walks through a maze, seen offline: do values over options tell which way a far goal lies?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.tables.options import option_end, option_loss

__all__ = ["STUDY", "GoalValues", "Maze", "MazeSize", "fitted_values"]

Ints = NDArray[np.int64]
AHEAD, DISCOUNT, EXPECTILE, RATE, BATCH = 25, 0.99, 0.7, 1e-3, 256
EMA = 0.05  # of the target copies: ten times the paper's, which is for a million updates
LENGTH, WANDER, SAME = 200, 0.2, 0.5  # of a walk; the share of random steps; of goals that are the walk's own future
PAIRS, FAR = 48, 2  # pairs of a start and a goal; far ones are at least so many times AHEAD apart
SIGN = Quantity("sign", "right signs toward far goals", (0.0, 1.0))
SUCCESS = Quantity("success", "far goals reached", (0.0, 1.0))


class MazeSize(StudySize):
    """The side of the maze in cells, how many walks are seen, and how many updates are made."""

    side: int = 14
    walks: int = 200
    updates: int = 5000


class Maze:
    """A random tree of corridors over a square of cells: between two cells there is one way."""

    def __init__(self, side: int, generator: np.random.Generator) -> None:
        self.cells = side * side
        self.near: list[list[int]] = [[] for _ in range(self.cells)]
        stack, seen = [0], {0}
        while stack:
            row, column = divmod(stack[-1], side)
            beside = [(row + i, column + j) for i, j in ((1, 0), (0, 1), (-1, 0), (0, -1))]
            free = [i * side + j for i, j in beside if 0 <= i < side and 0 <= j < side and i * side + j not in seen]
            if not free:
                stack.pop()
                continue
            chosen = int(generator.choice(free))
            self.near[stack[-1]].append(chosen)
            self.near[chosen].append(stack[-1])
            seen.add(chosen)
            stack.append(chosen)
        self.distance = np.stack([self._from(cell) for cell in range(self.cells)])

    def _from(self, cell: int) -> Ints:
        """[cell] steps from a cell."""
        found, queue = np.full(self.cells, -1), [cell]
        found[cell] = 0
        for here in queue:
            for there in self.near[here]:
                if found[there] < 0:
                    found[there] = found[here] + 1
                    queue.append(there)
        return found

    def toward(self, here: int, goal: int) -> int:
        """The neighbour on the way to a goal."""
        return min(self.near[here], key=lambda there: int(self.distance[there, goal]))

    def walk(self, generator: np.random.Generator) -> list[int]:
        """Toward one random goal after another, with a random step now and then."""
        here, goal, path = int(generator.integers(self.cells)), int(generator.integers(self.cells)), []
        for _ in range(LENGTH):
            path.append(here)
            if here == goal:
                goal = int(generator.integers(self.cells))
            wanders = here == goal or generator.random() < WANDER
            here = int(generator.choice(self.near[here])) if wanders else self.toward(here, goal)
        return path


class GoalValues(nn.Module):
    """Two heads V(s, g): embeddings of both cells, two layers."""

    def __init__(self, cells: int) -> None:
        super().__init__()
        self.here, self.goal = nn.Embedding(cells, 32), nn.Embedding(cells, 32)
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1)) for _ in range(2))

    def forward(self, here: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.cat([self.here(here), self.goal(goal)], -1)
        one, other = (head(x)[..., 0] for head in self.heads)
        return one, other


def fitted_values(walks: Tensor, cells: int, steps: int, updates: int, seed: int) -> GoalValues:
    """Expectile regression on walks [walk, step], bootstrapped over options of so many steps. Half of the goals are the
    walk's own future, at a geometric distance; the others are any cell that was seen."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        values, slow = GoalValues(cells), GoalValues(cells)
        slow.load_state_dict(values.state_dict())
        optimizer = torch.optim.Adam(values.parameters(), lr=RATE)
        final = torch.full((BATCH,), walks.shape[1] - 1)
        for _ in range(updates):
            row, t = torch.randint(len(walks), (BATCH,)), torch.randint(walks.shape[1] - 1, (BATCH,))
            ahead = torch.empty(BATCH).geometric_(1 - DISCOUNT).long()
            same, future = torch.rand(BATCH) < SAME, torch.minimum(t + ahead, final)
            elsewhere = walks[torch.randint(len(walks), (BATCH,)), torch.randint(walks.shape[1], (BATCH,))]
            goal = torch.where(same, walks[row, future], elsewhere)
            end = option_end(t, future, final, same, steps)
            with torch.no_grad():
                following, now = slow(walks[row, end.index], goal), slow(walks[row, t], goal)
            value = values(walks[row, t], goal)
            loss = option_loss(
                *(end.reward.float(), end.mask.float(), following, now, value), discount=DISCOUNT, expectile=EXPECTILE
            ).loss
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            with torch.no_grad():
                for mine, theirs in zip(slow.parameters(), values.parameters(), strict=True):
                    mine.lerp_(theirs, EMA)
    return values


@lru_cache(maxsize=2)
def _seen(seed: int, size: MazeSize) -> tuple[Maze, Tensor, Ints]:
    """A maze, walks through it, and far pairs [pair, 2]."""
    generator = np.random.default_rng(seed)
    maze = Maze(size.side, generator)
    walks = torch.tensor([maze.walk(generator) for _ in range(size.walks)])
    far = np.argwhere(maze.distance >= FAR * AHEAD)
    return maze, walks, far[generator.choice(len(far), PAIRS)]


def _reaches(maze: Maze, table: NDArray[np.float64], start: int, goal: int) -> bool:
    """Whether the cells `AHEAD` steps away that look best, each reached exactly, lead to the goal in time."""
    here, left = start, 4 * int(maze.distance[start, goal])
    while left > 0:
        if maze.distance[here, goal] <= AHEAD:
            return left >= maze.distance[here, goal]
        ring = np.flatnonzero(maze.distance[here] == AHEAD)
        if not len(ring):
            return False
        here, left = int(ring[table[ring, goal].argmax()]), left - AHEAD
    return False


def _arm(steps: int, seed: int, size: MazeSize) -> Mapping[str, Any]:
    """Values over options of so many steps; the low level walks exactly, so that only they decide."""
    maze, walks, pairs = _seen(seed, size)
    values = fitted_values(walks, maze.cells, steps, size.updates, seed)
    cells = torch.arange(maze.cells)
    with torch.no_grad():
        table = torch.stack([sum(values(cells, torch.full_like(cells, g))) / 2 for g in range(maze.cells)], 1).numpy()
    sign, distance = [], []
    for start, goal in np.argwhere(maze.distance > AHEAD)[:: max(1, maze.cells // 20)]:
        ahead = int(start)
        for _ in range(AHEAD):
            ahead = maze.toward(ahead, int(goal))
        sign.append(float(table[ahead, goal] > table[start, goal]))
        distance.append(int(maze.distance[start, goal]))
    signs, far = np.array(sign), np.array(distance)
    bins = [(far >= low) & (far < low + AHEAD) for low in range(AHEAD, 5 * AHEAD, AHEAD)]
    return {
        "sign": signs[far >= FAR * AHEAD].mean(),
        "success": np.array([float(_reaches(maze, table, int(s), int(g))) for s, g in pairs]),
        "distance": np.arange(1.0, 5.0) * AHEAD,
        "curve": np.array([signs[b].mean() if b.any() else np.nan for b in bins]),
    }


STUDY = Trial(
    "ota",
    "Do values over options of several steps point toward goals that are far away?",
    arms={"n = 1 (HIQL)": partial(_arm, 1), "n = 5 (OTA)": partial(_arm, 5), "n = 25": partial(_arm, 25)},
    claims=(
        Claim("the sign of the advantage toward far goals is right more often", SIGN, "n = 5 (OTA)", "n = 1 (HIQL)"),
        Claim("more far goals are reached", SUCCESS, "n = 5 (OTA)", "n = 1 (HIQL)"),
        Claim("options as long as the distance of subgoals are too long", SUCCESS, "n = 5 (OTA)", "n = 25"),
    ),
    readings=(SIGN, SUCCESS),
    charts=(traced("curve", over="distance", title="right signs by distance", x_label="steps to the goal, at least"),),
    size=MazeSize(seeds=6),
    quick=MazeSize(seeds=3, side=10, walks=100, updates=1500),
)

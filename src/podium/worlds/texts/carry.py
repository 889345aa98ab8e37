"""Robots that carry boxes to a goal on a grid, one after the other in each round, never two in a cell."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import TypeVar

from podium.worlds.texts.exercise import Exercise, asked_once

__all__ = ["CarryState", "after_carrying", "carried", "carry_prompt", "carry_start", "helpful_moves", "possible_moves"]

T = TypeVar("T")
Cell = tuple[int, int]  # column and row, from 1
STEPS = {"go north": (0, -1), "go south": (0, 1), "go west": (-1, 0), "go east": (1, 0)}
SIZES = {1: (3, 3, 2), 2: (4, 3, 2), 3: (4, 4, 3)}  # by level: columns, rows, robots
TAKE, DROP, WAIT = "take", "drop", "wait"


@dataclass(frozen=True)
class CarryState:
    """Where everything is. A box that is carried has no cell."""

    columns: int
    rows: int
    robots: tuple[Cell, ...]
    holds: tuple[bool, ...]
    boxes: tuple[Cell, ...]  # that lie about
    goal: Cell

    @property
    def done(self) -> bool:
        return not self.boxes and not any(self.holds)


def carry_start(rng: Random, level: int) -> CarryState:
    """A random state: as many boxes as robots, some of which carry one already."""
    columns, rows, robots = SIZES[level]
    cells = [(x, y) for x in range(1, columns + 1) for y in range(1, rows + 1)]
    goal, *places = rng.sample(cells, 2 * robots + 1)
    holds = tuple(rng.random() < 0.4 for _ in range(robots))
    boxes = tuple(cell for cell, held in zip(places[robots:], holds, strict=True) if not held)
    return CarryState(columns, rows, tuple(places[:robots]), holds, boxes, goal)


def possible_moves(state: CarryState, robot: int) -> list[str]:
    """What a robot can do."""
    here = state.robots[robot]
    moves = [name for name in STEPS if _free(state, _next(here, name), robot)]
    if here in state.boxes and not state.holds[robot]:
        moves.append(TAKE)
    if here == state.goal and state.holds[robot]:
        moves.append(DROP)
    return [*moves, WAIT]


def after_carrying(state: CarryState, robot: int, move: str) -> CarryState:
    """The state after a robot's move; one that is not possible is a wait."""
    if move == WAIT or move not in possible_moves(state, robot):
        return state
    here = state.robots[robot]
    if move == TAKE:
        return replace(state, boxes=tuple(b for b in state.boxes if b != here), holds=_at(state.holds, robot, True))
    if move == DROP:
        return replace(state, holds=_at(state.holds, robot, False))
    return replace(state, robots=_at(state.robots, robot, _next(here, move)))


@lru_cache(65536)
def helpful_moves(state: CarryState, robot: int) -> tuple[str, ...]:
    """The moves that bring a robot nearer to its aim: the goal if it holds a box, else the nearest box. One without an
    aim gets out of the way by waiting."""
    possible = possible_moves(state, robot)
    done = [move for move in (TAKE, DROP) if move in possible]
    aims = (state.goal,) if state.holds[robot] else state.boxes
    if done or not aims:
        return tuple(done) or (WAIT,)
    now = _distance(state, state.robots[robot], aims, robot)
    nearer = [m for m in possible if m in STEPS and _distance(state, _next(state.robots[robot], m), aims, robot) < now]
    return tuple(nearer) or (WAIT,)


def carry_prompt(state: CarryState, robot: int, earlier: tuple[str, ...] = ()) -> str:
    """What a robot is told: the state, and what those before it do in this round."""
    lines = [f"carry: grid {state.columns} {state.rows}, goal {_place(state.goal)}"]
    for number, (cell, held) in enumerate(zip(state.robots, state.holds, strict=True), 1):
        lines.append(f"robot {number} at {_place(cell)}{' with box' if held else ''}")
    lines += [f"box at {_place(cell)}" for cell in state.boxes]
    lines += [f"robot {number} does {move}" for number, move in enumerate(earlier, 1)]
    return "\n".join([*lines, f"robot {robot + 1}?"])


def carried(rng: Random, level: int, split: str = "train") -> Exercise:
    """One robot's move in a random state; right: it helps."""
    state = carry_start(rng, level)
    robot = rng.randrange(len(state.robots))
    earlier: list[str] = []
    for number in range(robot):
        earlier.append(rng.choice(helpful_moves(state, number) if rng.random() < 0.7 else (WAIT,)))
        state = after_carrying(state, number, earlier[-1])
    good, bad = helpful_moves(state, robot), [WAIT, TAKE, DROP, *STEPS]

    def write(rng: Random, right: float) -> str:
        return rng.choice(good) if rng.random() < right else rng.choice([m for m in bad if m not in good])

    return asked_once(carry_prompt(state, robot, tuple(earlier)), write, lambda text: text.strip() in good)


def _distance(state: CarryState, start: Cell, aims: tuple[Cell, ...], robot: int) -> int:
    """Steps to the nearest aim around the other robots."""
    reached, front = {start}, deque([(start, 0)])
    while front:
        cell, steps = front.popleft()
        if cell in aims:
            return steps
        for name in STEPS:
            there = _next(cell, name)
            if there not in reached and _free(state, there, robot):
                reached.add(there)
                front.append((there, steps + 1))
    return state.columns * state.rows


def _free(state: CarryState, cell: Cell, robot: int) -> bool:
    inside = 1 <= cell[0] <= state.columns and 1 <= cell[1] <= state.rows
    return inside and all(cell != other for number, other in enumerate(state.robots) if number != robot)


def _next(cell: Cell, step: str) -> Cell:
    return cell[0] + STEPS[step][0], cell[1] + STEPS[step][1]


def _place(cell: Cell) -> str:
    return f"{cell[0]} {cell[1]}"


def _at(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])

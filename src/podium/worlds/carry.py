"""Robots that carry boxes to a goal on a grid: several agents with one reward, whose exact values are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

from podium.core.errors import PodiumError, nearest, within
from podium.protocols.context import Latest
from podium.protocols.world import Episode, Feedback, Task, World
from podium.worlds.graded import hashed_uniform
from podium.worlds.oracle import Dynamics, Outcome
from podium.worlds.puzzle import ATTEMPTS, HELD_OUT, task_key
from podium.worlds.texts.carry import (
    DROP,
    SIZES,
    STEPS,
    TAKE,
    WAIT,
    CarryState,
    after_carrying,
    carry_prompt,
    carry_start,
    helpful_moves,
    possible_moves,
)

__all__ = ["Carry", "carry_dynamics", "move_of"]

ROUNDS = {1: 10, 2: 12, 3: 16}  # by level
EXACT = (1, 2)  # levels whose states can be counted
LOST = "carry: time is up"
DONE = "carry: all boxes are at the goal"
Turn = tuple[CarryState, int]  # the state, and the robot that moves next


class Carry(World):
    """Two or three robots bring boxes to a goal. In each round every robot moves once, in a fixed order, and sees what
    those before it do; `wait` changes nothing, and neither does a move that is not possible.

    The reward is shared: a box that is dropped at the goal pays its share of 1. `turn.round` counts the rounds.
    """

    name = "carry"
    summary = "several robots: carry boxes to a goal, one after the other in each round"
    levels = tuple(SIZES)
    provides = (
        *World.provides,
        *("turn.state", "turn.next_state", "turn.action", "turn.reward", "turn.valid", "turn.round"),
        *("rollout.rounds", "task.solution"),
    )
    blank: ClassVar[Mapping[str, Any]] = {"round": 0, "rounds": 0.0}
    max_tokens = 12
    max_turns = 60
    isolation = "inline"
    context = Latest()
    agents = ("robot 1", "robot 2")

    rounds: int | None = None  # until time is up; None: by the level
    boxes: int | None = None  # at the start; None: as many as robots

    def __post_init__(self) -> None:
        super().__post_init__()
        robots = SIZES[self.level][2]
        within(self, "rounds", 1, self.max_turns // robots, optional=True)
        within(self, "boxes", 1, robots, optional=True)
        object.__setattr__(self, "agents", tuple(f"robot {number}" for number in range(1, robots + 1)))
        if self.level in EXACT:
            object.__setattr__(self, "provides", (*type(self).provides, "task.dynamics"))

    @property
    def family(self) -> str:
        """The prefix of the tasks' keys: every setting that affects what happens in them."""
        chosen = {dial: getattr(self, dial) for dial in ("rounds", "boxes")}
        return "-".join([self.name, str(self.level), *(f"{dial}={x}" for dial, x in chosen.items() if x)])

    def task(self, index: int, split: str = "train") -> Task:
        """A start whose text belongs to the split: no test task begins like a training task."""
        key = task_key(self.family, split, index)
        for attempt in range(ATTEMPTS):
            state = _with_boxes(carry_start(Random(f"{key}/{attempt}"), self.level), self.boxes)
            prompt = carry_prompt(state, 0)
            if (hashed_uniform(self.name, prompt) < HELD_OUT) == (split == "test"):
                return Task(key, prompt, self.level, data={"state": state, "limit": self.rounds or ROUNDS[self.level]})
        raise PodiumError(f"{self!r} has no {split} tasks.")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Carrying(task)

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        """The moves of a solution, one per line."""
        return "\n".join(self.demonstrate(task, style, seed))

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        """Each robot goes to the nearest box and then to the goal; robots in each other's way step aside at random."""
        if style not in self.styles:
            raise PodiumError(f"{self.name} has no style {style!r}. {nearest(style, self.styles)}")
        return _demonstrated(task, seed)

    def reference(self, task: Task) -> str:
        return DONE

    def dynamics(self, task: Task) -> Dynamics:
        if self.level not in EXACT:
            raise PodiumError(
                f"The exact values of {self.name} are known at levels {' and '.join(map(str, EXACT))}; level "
                f"{self.level} has too many states."
            )
        return carry_dynamics(task)


def move_of(text: str) -> str:
    """The move that a text names: its last line in plain words; an empty text is `wait`."""
    lines = [line for line in text.lower().splitlines() if line.strip()]
    return " ".join(lines[-1].strip(" \t.!`>\"'").split()) if lines else WAIT


class _Carrying(Episode):
    """One round after the other, robot by robot."""

    def __init__(self, task: Task) -> None:
        self.places: CarryState = task.data["state"]
        self.limit: int = task.data["limit"]
        self.robot, self.round = 0, 0
        self.earlier: tuple[str, ...] = ()
        self.share = 1.0 / _boxes(self.places)
        super().__init__(task.prompt, state=_key((self.places, 0)))
        self.agent = "robot 1"

    def act(self, text: str) -> Feedback:
        move, before = move_of(text), self.places
        valid = move in possible_moves(before, self.robot)
        self.places = after_carrying(before, self.robot, move)
        reward = self.share * (_boxes(before) - _boxes(self.places))
        info: dict[str, Any] = {"valid": valid, "round": self.round}
        self.earlier = (*self.earlier, move if valid else WAIT)
        self.robot += 1
        if self.robot == len(self.places.robots):
            self.robot, self.earlier, self.round = 0, (), self.round + 1
        done = self.places.done or self.round >= self.limit
        self.agent, self.state = f"robot {self.robot + 1}", _key((self.places, self.robot))
        info |= {"correct": self.places.done, "answer": DONE if self.places.done else ""}
        info["rounds"] = float(self.round + (self.robot > 0))
        seen = (DONE if self.places.done else LOST) if done else carry_prompt(self.places, self.robot, self.earlier)
        return Feedback(reward, done, seen, self.state, info)


def _demonstrated(task: Task, seed: int) -> tuple[str, ...]:
    """Helpful moves to the end; where a try does not come to the end in time, those without one step aside at random,
    and the others now and then."""
    for attempt in range(ATTEMPTS):
        rng, episode, moves = Random(f"{task.key}/{seed}/{attempt}"), _Carrying(task), list[str]()
        done = False
        while not done:
            helpful = helpful_moves(episode.places, episode.robot)
            stray = attempt > 0 and (helpful == (WAIT,) or rng.random() < min(attempt, 20) / 40)
            moves.append(rng.choice(possible_moves(episode.places, episode.robot) if stray else helpful))
            done = episode.act(moves[-1]).done
        if episode.places.done:
            return tuple(moves)
    raise PodiumError(f"No way was found to carry all boxes of {task.key} within its rounds: allow more rounds.")


def carry_dynamics(task: Task) -> Dynamics:
    """A task as a finite decision process in which the robots move in turn."""
    start: CarryState = task.data["state"]
    robots, share = len(start.robots), 1.0 / _boxes(start)

    def outcome(turn: Turn, move: str) -> Outcome[Turn]:
        state, robot = turn
        after = after_carrying(state, robot, move)
        return Outcome(None if after.done else (after, (robot + 1) % robots), share * (_boxes(state) - _boxes(after)))

    def moves(turn: Turn) -> dict[str, list[Outcome[Turn]]]:
        return {move: [outcome(turn, move)] for move in (WAIT, *STEPS, TAKE, DROP)}

    actions = [WAIT, *STEPS, TAKE, DROP]
    horizon = task.data["limit"] * robots
    return Dynamics.explore((start, 0), actions, moves, horizon, key=_key, read=move_of)


def _boxes(state: CarryState) -> int:
    """Boxes that are not at the goal yet."""
    return len(state.boxes) + sum(state.holds)


def _with_boxes(state: CarryState, count: int | None) -> CarryState:
    """The state with so many boxes at most, those that are carried first."""
    while count is not None and _boxes(state) > count:
        if state.boxes:
            state = replace(state, boxes=state.boxes[1:])
        else:
            last = len(state.holds) - 1 - state.holds[::-1].index(True)
            state = replace(state, holds=tuple(held and number != last for number, held in enumerate(state.holds)))
    return state


def _key(turn: Turn) -> str:
    """The name of a state, in which it matters who moves next."""
    return carry_prompt(*turn)

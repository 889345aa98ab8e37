"""Many turns with one reward at the end: find the keys, open the doors, take the gold.

The house is partially observed: a policy sees only the room it is in. States recur, since one can always go back.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar, NamedTuple

from podium.core.errors import PodiumError, nearest, within
from podium.protocols.context import Window
from podium.protocols.world import Episode, Feedback, Task, World
from podium.worlds.graded import hashed_uniform
from podium.worlds.house import COLOURS, DIRECTIONS, GOLD, TRINKETS, WAIT, House, Place, build_house, listed
from podium.worlds.oracle import Array, Dynamics, Oracle, Outcome
from podium.worlds.puzzle import ATTEMPTS, HELD_OUT, task_key
from podium.worlds.quest import measure_progress

__all__ = ["KeyDoor", "action_of", "house_dynamics", "oracle"]


class HouseSize(NamedTuple):
    rooms: int
    keys: int
    distractors: int  # worthless items that can be taken
    horizon: int  # turns


SIZES = {
    1: HouseSize(2, 1, 1, 5),
    2: HouseSize(3, 1, 1, 10),
    3: HouseSize(4, 2, 2, 20),
    4: HouseSize(6, 3, 2, 32),
    5: HouseSize(8, 4, 3, 50),
}
LIMITS = {"rooms": (2, 12), "keys": (0, len(COLOURS)), "distractors": (0, len(TRINKETS)), "horizon": (1, 200)}

TURN_REWARDS = ("turn_rewards", "invalid_penalty")  # dials


class KeyDoor(World):
    """Rooms, keys and locked doors; reward 1 for the gold, 0 for everything before it unless turns are rewarded.

    With `progress`, `turn.progress` is the share of the shortest way from the start that a turn has covered, negative
    for a step back; over a won episode it sums to 1.
    """

    name = "keydoor"
    summary = "many turns: find keys, open doors, take the gold; one reward at the end"
    levels = tuple(SIZES)
    provides = (
        *World.provides,
        "task.dynamics",
        *("turn.state", "turn.next_state", "turn.action", "turn.reward", "turn.valid"),
        "task.solution",
    )
    blank: ClassVar[Mapping[str, Any]] = {"progress": 0.0}
    max_tokens = 48
    max_turns = LIMITS["horizon"][1]
    isolation = "inline"
    context = Window(2, most=4)
    styles: ClassVar[tuple[str, ...]] = ("short", "long", "alternative")

    rooms: int | None = None  # None: by the level; the same for the next three
    keys: int | None = None
    distractors: int | None = None
    horizon: int | None = None  # turns until time is up
    slip: float = 0.0  # the probability that `go` leads through another open door, or nowhere if there is none
    progress: bool = False  # whether `turn.progress` is measured
    turn_rewards: float = (
        0.0  # the reward of a turn for its progress: this times `turn.progress`, which is measured then
    )
    invalid_penalty: float = 0.0  # subtracted from the reward of a turn whose action has no effect
    instructions: bool = False  # whether the prompt explains the task, for a general-purpose model or a person

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "slip", 0, 1)
        within(self, "turn_rewards", 0)
        measure_progress(self, self.progress or self.turn_rewards > 0)
        within(self, "invalid_penalty", 0)
        for dial, (low, high) in LIMITS.items():
            within(self, dial, low, high, optional=True)
            if isinstance(getattr(self, dial), float):
                raise PodiumError(f"KeyDoor.{dial} = {getattr(self, dial)!r} must be a whole number.")
        if self.dials.keys >= self.dials.rooms:
            raise PodiumError(
                f"KeyDoor: {self.dials.keys} locked doors, one behind the other, need more than "
                f"{self.dials.rooms} rooms: set rooms to at least {self.dials.keys + 1}."
            )

    @property
    def dials(self) -> HouseSize:
        """The size by the level, with the settings that override it."""
        chosen = {dial: getattr(self, dial) for dial in LIMITS if getattr(self, dial) is not None}
        return SIZES[self.level]._replace(**chosen)

    @property
    def family(self) -> str:
        """The prefix of the tasks' keys: every setting that affects what happens in them."""
        chosen = {dial: getattr(self, dial) for dial in (*LIMITS, "slip")}
        return "-".join([self.name, str(self.level), *(f"{dial}={x:g}" for dial, x in chosen.items() if x)])

    def task(self, index: int, split: str = "train") -> Task:
        """A house whose first room belongs to the split: no test task begins like a training task."""
        key = task_key(self.family, split, index)
        for attempt in range(ATTEMPTS):
            house = build_house(Random(f"{key}/{attempt}"), **self.dials._asdict())
            first = described(house, Place(house.start))
            if (hashed_uniform(self.name, first) < HELD_OUT) == (split == "test"):
                data = {"house": house, "horizon": self.dials.horizon, "slip": float(self.slip)}
                data |= {dial: float(getattr(self, dial)) for dial in TURN_REWARDS}
                prompt = f"{_rules(self.dials.horizon)}\n{first}" if self.instructions else first
                return Task(key, prompt, self.level, data=data)
        raise PodiumError(f"{self!r} has no {split} tasks: its settings leave too few different houses.")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Walk(task, seed)

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        """The turns of a solution, one per line."""
        return "\n".join(self.demonstrate(task, style, seed))

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        """A shortest solution, one text per turn, for the episode with this seed (which matters if there are slips).

        `long` states its aim before each action; `alternative` takes another path if one is equally short.
        """
        if style not in self.styles:
            raise PodiumError(f"{self.name} has no style {style!r}. {nearest(style, self.styles)}")
        walk, written = _Walk(task, seed), []
        done = False
        while not done:
            plan = walk.house.shortest(walk.place, reverse=style == "alternative")
            aim = next(action for action in plan if not action.startswith("go "))
            written.append(f"to {aim}:\n{plan[0]}" if style == "long" and aim != plan[0] else plan[0])
            done = walk.act(plan[0]).done
        return tuple(written)

    def reference(self, task: Task) -> str:
        return GOLD

    def dynamics(self, task: Task) -> Dynamics:
        return house_dynamics(task)


class _Walk(Episode):
    """One walk through a house."""

    def __init__(self, task: Task, seed: int) -> None:
        self.house: House = task.data["house"]
        self.horizon, self.slip, self.key = task.data["horizon"], task.data["slip"], (task.key, seed)
        self.turn_rewards, self.invalid_penalty = (task.data.get(dial, 0.0) for dial in TURN_REWARDS)
        self.place, self.turn = Place(self.house.start), 0
        super().__init__(task.prompt, state=str(self.place))

    def act(self, text: str) -> Feedback:
        action, before = action_of(text), self.place
        valid = action in self.house.actions(before)
        remark = self._move(action) if valid else self.house.refusal(self.place, action)
        self.turn += 1
        self.state = str(self.place)
        won = GOLD in self.place.held
        done = won or self.turn >= self.horizon
        seen = "you have the gold." if won else "time is up." if done else described(self.house, self.place)
        progress = covered(self.house, before, self.place)
        info = {"correct": won, "answer": GOLD if won else "", "valid": valid, "progress": progress}
        reward = float(won) + self.turn_rewards * progress - self.invalid_penalty * (not valid)
        return Feedback(reward, done, f"{remark} {seen}".strip(), self.state, info)

    def _move(self, action: str) -> str:
        slips = action.startswith("go ") and hashed_uniform("slip", *self.key, self.turn) < self.slip
        if not slips:
            self.place = self.house.after(self.place, action)
            return ""
        ends = self.house.slipped(self.place, action)
        self.place = ends[int(hashed_uniform("end", *self.key, self.turn) * len(ends))]
        return "you slip."


def action_of(text: str) -> str:
    """The action that a text ends with: its last line in plain words; an empty text is `wait`."""
    lines = [line.strip() for line in text.lower().splitlines() if line.strip()]
    words = lines[-1].removeprefix("action:").strip(" \t.!`>\"'").split() if lines else []
    return " ".join(words) or WAIT


def covered(house: House, before: Place, after: Place) -> float:
    """The share of the shortest way from the start that lies between two places."""
    return (house.distance(before) - house.distance(after)) / house.distance(Place(house.start))


def described(house: House, place: Place) -> str:
    """The observation: the room, its doors and items, and what is held."""
    locked = {way.direction: way.lock for way in house.exits[place.room] if way not in house.passable(place)}
    ways = [way.direction for way in house.exits[place.room]]
    doors = [f"{direction} locked {locked[direction]}" if direction in locked else direction for direction in ways]
    return (
        f"room {place.room}. doors: {listed(doors)}. items: {listed(house.things(place))}. "
        f"have: {listed(sorted(place.held))}."
    )


def _rules(horizon: int) -> str:
    return (
        f"Find the gold and take it within {horizon} turns. Write one action a turn, alone on the last line: "
        "`go DIRECTION`, `take ITEM`, or `open DIRECTION` with the key of the lock's colour."
    )


def house_dynamics(task: Task) -> Dynamics:
    """A task as a finite decision process: all reachable states, and the outcomes of each action in them."""
    house, slip = task.data["house"], task.data["slip"]
    weight, penalty = (task.data.get(dial, 0.0) for dial in TURN_REWARDS)
    things = [item for items in house.items.values() for item in items]
    actions = [WAIT, *(f"{verb} {d}" for verb in ("go", "open") for d in DIRECTIONS), *(f"take {x}" for x in things)]

    def moves(place: Place) -> dict[str, list[Outcome[Place]]]:
        return {action: _outcomes(house, place, action, slip, weight) for action in house.actions(place)}

    horizon = task.data["horizon"]
    return Dynamics.explore(Place(house.start), actions, moves, horizon, idle=-penalty, read=action_of)


def _outcomes(house: House, place: Place, action: str, slip: float, weight: float) -> list[Outcome[Place]]:
    def leads(end: Place, chance: float = 1.0) -> Outcome[Place]:
        won, progress = GOLD in end.held, weight * covered(house, place, end)
        return Outcome(None if won else end, float(won) + progress, chance)

    meant = house.after(place, action)
    if not slip or not action.startswith("go "):
        return [leads(meant)]
    ends = house.slipped(place, action)
    return [leads(meant, 1.0 - slip), *(leads(end, slip / len(ends)) for end in ends)]


def oracle(task: Task, policy: Mapping[str, Mapping[str, float]] | Array, gamma: float = 1.0) -> Oracle:
    """The exact values of a policy in a task: V(s), Q(s, a) and advantages, at every turn.

    `policy` gives the probability of each action in each state, by their names or as an array [state, action].
    """
    return house_dynamics(task).oracle(policy, gamma)

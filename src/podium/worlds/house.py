"""A house of rooms, keys and locked doors: its deterministic rules, without prompts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import NamedTuple

from podium.core.errors import PodiumError

__all__ = ["COLOURS", "GOLD", "TRINKETS", "WAIT", "Exit", "House", "Place", "build_house"]

COLOURS = ("red", "blue", "green", "pink", "grey", "black", "white", "brown")
TRINKETS = ("coin", "lamp", "rope", "cup", "book", "map")  # worthless items
GOLD = "gold"
WAIT = "wait"  # the action that does nothing; every impossible action is equivalent to it
DIRECTIONS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
ATTEMPTS = 1000


class Exit(NamedTuple):
    """A way out of a room."""

    direction: str
    room: int  # where it leads
    lock: str = ""  # the colour of its lock; empty: it never had one


class Place(NamedTuple):
    """Everything that can change: the current room, the items held, and the open locks."""

    room: int
    held: frozenset[str] = frozenset()
    opened: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"room {self.room}; have {listed(sorted(self.held))}; open {listed(sorted(self.opened))}"


@dataclass(frozen=True)
class House:
    """Rooms with their exits and items."""

    start: int
    exits: dict[int, tuple[Exit, ...]]
    items: dict[int, tuple[str, ...]]

    def __deepcopy__(self, memo: dict[int, object]) -> House:
        return self  # immutable

    def things(self, place: Place) -> list[str]:
        """The items left in the room."""
        return [item for item in self.items[place.room] if item not in place.held]

    def passable(self, place: Place) -> list[Exit]:
        return [way for way in self.exits[place.room] if not way.lock or way.lock in place.opened]

    def actions(self, place: Place) -> list[str]:
        """The actions that have an effect."""
        locked = [way for way in self.exits[place.room] if way.lock and way.lock not in place.opened]
        return [
            *(f"go {way.direction}" for way in self.passable(place)),
            *(f"open {way.direction}" for way in locked if f"{way.lock} key" in place.held),
            *(f"take {item}" for item in self.things(place)),
        ]

    def after(self, place: Place, action: str) -> Place:
        """The place after an action that has an effect. Holding the gold ends the episode."""
        verb, _, what = action.partition(" ")
        if verb == "take":
            return place._replace(held=place.held | {what})
        way = next(way for way in self.exits[place.room] if way.direction == what)
        return place._replace(room=way.room) if verb == "go" else place._replace(opened=place.opened | {way.lock})

    def slipped(self, place: Place, action: str) -> list[Place]:
        """The possible places after a slip: through any other open exit, or the same place if there is none."""
        others = [way for way in self.passable(place) if f"go {way.direction}" != action]
        return [place._replace(room=way.room) for way in others] or [place]

    def refusal(self, place: Place, action: str) -> str:
        """Why an action has no effect."""
        verb, _, what = action.partition(" ")
        if action == WAIT:
            return ""
        if verb == "take":
            return "no such item here."
        if verb not in ("go", "open"):
            return "unknown action."
        way = next((way for way in self.exits[place.room] if way.direction == what), None)
        if way is None:
            return "no such door."
        if verb == "go":
            return f"{what} is locked."
        return f"no {way.lock} key." if way.lock and way.lock not in place.opened else f"{what} is open."

    def distance(self, place: Place) -> int:
        """How many actions the gold is away."""
        return self._distances[_without_trinkets(place)]

    @cached_property
    def _distances(self) -> dict[Place, int]:
        """The distance of every place that can be reached, trinkets apart: explored from the start, then measured from
        the gold backwards."""
        before: dict[Place, list[Place]] = {Place(self.start): []}
        queue = deque(before)
        while queue:
            place = queue.popleft()
            for action in () if GOLD in place.held else self.actions(place):
                following = _without_trinkets(self.after(place, action))
                if following not in before:
                    before[following] = []
                    queue.append(following)
                before[following].append(place)
        distances = {place: 0 for place in before if GOLD in place.held}
        queue = deque(distances)
        while queue:
            place = queue.popleft()
            for earlier in before[place]:
                if earlier not in distances:
                    distances[earlier] = distances[place] + 1
                    queue.append(earlier)
        return distances

    def shortest(self, place: Place, reverse: bool = False) -> list[str]:
        """A shortest sequence of actions to the gold; `reverse` breaks ties in the opposite order."""
        before: dict[Place, tuple[Place, str] | None] = {place: None}
        queue = deque([place])
        while queue:
            current = queue.popleft()
            if GOLD in current.held:
                return _walked(before, current)
            actions = [a for a in self.actions(current) if a.removeprefix("take ") not in TRINKETS]
            for action in reversed(actions) if reverse else actions:
                following = self.after(current, action)
                if following not in before:
                    before[following] = (current, action)
                    queue.append(following)
        raise PodiumError("There is no way to the gold.")


def _without_trinkets(place: Place) -> Place:
    return place._replace(held=place.held - frozenset(TRINKETS))


def _walked(before: dict[Place, tuple[Place, str] | None], place: Place) -> list[str]:
    actions: list[str] = []
    step = before[place]
    while step is not None:
        actions.append(step[1])
        step = before[step[0]]
    return actions[::-1]


def build_house(rng: Random, *, rooms: int, keys: int, distractors: int, horizon: int) -> House:
    """A random house whose gold can be reached within the horizon. The key of each lock lies before the lock."""
    for _ in range(ATTEMPTS):
        house = _draw(rng, rooms, keys, distractors)
        if house is not None and len(house.shortest(Place(house.start))) <= horizon:
            return house
    raise PodiumError(f"No house of {rooms} rooms with {keys} keys leaves a way to the gold in {horizon} turns.")


def _draw(rng: Random, rooms: int, keys: int, distractors: int) -> House | None:
    """A tree of rooms on a grid, with the gold farthest from the start; None if the path there is too short."""
    labels = rng.sample(range(1, rooms + 1), rooms)  # a room's number reveals nothing about its position
    cells, parent = {(0, 0): labels[0]}, {labels[0]: 0}
    for label in labels[1:]:
        x, y = rng.choice(_open_cells(cells))
        neighbours = [cell for cell in _around((x, y)) if cell in cells]
        parent[label] = cells[rng.choice(neighbours)]
        cells[x, y] = label
    path = max((list(_to_start(parent, label)) for label in labels), key=len)[::-1]
    if len(path) - 1 < keys:
        return None
    # A key lies before its lock: in a room whose path from the start does not pass through it.
    gates = sorted(rng.sample(range(1, len(path)), keys))
    colours = rng.sample(COLOURS, keys)
    locks = {path[gate]: colour for gate, colour in zip(gates, colours, strict=True)}  # by the room behind the lock
    items: dict[int, list[str]] = {label: [] for label in sorted(labels)}
    for gate, colour in zip(gates, colours, strict=True):
        before = [label for label in labels if path[gate] not in _to_start(parent, label)]
        items[rng.choice(before)].append(f"{colour} key")
    for trinket in rng.sample(TRINKETS, distractors):
        items[rng.choice(labels)].append(trinket)
    items[path[-1]].append(GOLD)
    at = {label: cell for cell, label in cells.items()}
    exits = {label: tuple(_exits(label, at, cells, parent, locks)) for label in sorted(labels)}
    return House(labels[0], exits, {label: tuple(rng.sample(held, len(held))) for label, held in items.items()})


def _exits(
    label: int,
    at: dict[int, tuple[int, int]],
    cells: dict[tuple[int, int], int],
    parent: dict[int, int],
    locks: dict[int, str],
) -> Iterator[Exit]:
    for direction, cell in zip(DIRECTIONS, _around(at[label]), strict=True):
        other = cells.get(cell)
        if other is not None and (parent[label] == other or parent[other] == label):
            yield Exit(direction, other, locks.get(label if parent[label] == other else other, ""))


def _around(cell: tuple[int, int]) -> list[tuple[int, int]]:
    return [(cell[0] + dx, cell[1] + dy) for dx, dy in DIRECTIONS.values()]


def _open_cells(cells: dict[tuple[int, int], int]) -> list[tuple[int, int]]:
    """Free cells next to a room; those next to the newest room count twice, to make houses long rather than round."""
    newest = list(cells)[-1]
    free = [cell for used in (*cells, newest) for cell in _around(used) if cell not in cells]
    return sorted(free)


def _to_start(parent: dict[int, int], label: int) -> Iterator[int]:
    """The rooms from here back to the start."""
    while label:
        yield label
        label = parent[label]


def listed(names: list[str]) -> str:
    return ", ".join(names) or "none"

"""Games of TextWorld, generated, compiled and played locally."""

from __future__ import annotations

from typing import Any, NamedTuple

from podium.core.errors import PodiumError, nearest, one_of
from podium.protocols.world import Task
from podium.worlds.adventure import Adventure
from podium.worlds.puzzle import task_key

__all__ = ["TextWorld"]


class Challenge(NamedTuple):
    name: str  # its name in TextWorld
    asks: str
    levels: int  # from 1 to this
    dials: dict[str, tuple[Any, ...]]  # the possible values of each setting, the default first


HELD_OUT = 1 / 2  # share of all games: they are endless, and few should have to be generated to find a test game
SWITCH = (False, True)
CHALLENGES = {
    "coin": Challenge("tw-coin_collector", "find the coin at the end of a chain of rooms", 300, {}),
    "treasure": Challenge("tw-treasure_hunter", "find a thing in a maze, and not the wrong one", 30, {}),
    "cooking": Challenge(
        "tw-cooking",
        "read the recipe, fetch and prepare what it names, eat the meal",
        1,
        {
            "recipe": (1, 2, 3, 4, 5),  # ingredients
            "take": (1, 0, 2, 3, 4, 5),  # ingredients to fetch
            "go": (1, 6, 9, 12),  # rooms
            **dict.fromkeys(("open", "cook", "cut", "drop"), SWITCH),
        },
    ),
    "simple": Challenge(
        "tw-simple",
        "leave the bedroom and put the right food on the stove",
        1,
        {"rewards": ("dense", "balanced", "sparse")},
    ),
}


class TextWorld(Adventure):
    """A game of TextWorld: `coin`, `treasure`, `cooking` or `simple`.

    Each task is a game of its own. The levels of `coin` (1 to 300) and `treasure` (1 to 30) are TextWorld's; `cooking`
    has the settings recipe, take, go, open, cook, cut and drop, and `simple` has rewards.
    """

    name = "textworld"
    summary = "a game of TextWorld: coin, treasure, cooking, simple"
    package = "textworld"

    goal: str = "brief"  # how the prompt describes the goal: detailed (every step), brief (the last one), none

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "goal", ("detailed", "brief", "none"))
        if self.task_name not in CHALLENGES:
            raise PodiumError(f"textworld has no game {self.task_name!r}. {nearest(self.task_name, CHALLENGES)}")
        if self.level not in range(1, self.challenge.levels + 1):
            levels = f"levels 1 to {self.challenge.levels}" if self.challenge.levels > 1 else "one level, and dials"
            raise PodiumError(f"textworld:{self.task_name} has no level {self.level!r}: it has {levels}.")
        dials = self.challenge.dials
        for name, value in self.config.items():
            if name not in dials:
                raise PodiumError(f"textworld:{self.task_name} has no setting {name!r}. {nearest(name, dials)}")
            if not any(value is x or (value == x and type(value) is type(x)) for x in dials[name]):
                values = ", ".join(map(repr, sorted(dials[name])))
                raise PodiumError(f"textworld:{self.task_name}: {name} = {value!r} is not one of {values}.")
        if self.dials.get("take", 0) > self.dials.get("recipe", 0):
            raise PodiumError("textworld:cooking: take must be at most recipe: no more can be fetched than is cooked.")

    @property
    def challenge(self) -> Challenge:
        return CHALLENGES[self.task_name]

    @property
    def dials(self) -> dict[str, Any]:
        return {name: values[0] for name, values in self.challenge.dials.items()} | dict(self.config)

    def make(self, index: int, split: str) -> Task:
        suffix = "".join(f"-{name}={value}" for name, value in {**self.dials, "goal": self.goal}.items())
        key = task_key(f"textworld-{self.task_name}-{self.level}{suffix}", split, index)
        # TextWorld's own splits of recipes and foods are kept; and no test game begins like a training game.
        settings = {**self.dials, "level": self.level, "split": split, "test": split == "test"}
        request = {"challenge": self.challenge.name, "settings": settings, "goal": self.goal}
        made = self.ask("make", key=key, held_out=HELD_OUT, split=split, **request)
        if made["spec"] is None:
            raise PodiumError(f"textworld:{self.task_name} has too few different games to hold some out for {split}.")
        prompt = self.prompt(self.show(made["prompt"], made["commands"]))
        data = {"spec": made["spec"], "solution": tuple(made["solution"])}
        return Task(key, prompt, self.level, self.task_name, data)

    def walkthrough(self, task: Task) -> tuple[str, ...]:
        solution: tuple[str, ...] = task.data["solution"]
        return solution

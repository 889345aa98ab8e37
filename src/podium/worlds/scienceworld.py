"""Tasks of ScienceWorld: experiments in a simulated house."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from podium.core.errors import PodiumError, nearest, within
from podium.protocols.world import Task
from podium.worlds.adventure import Adventure
from podium.worlds.puzzle import task_key

__all__ = ["ScienceWorld"]

SIMPLER = ("easy", "noElectricalAction", "openContainers", "openDoors", "selfWateringFlowerPots", "teleportAction")


class ScienceWorld(Adventure):
    """A task of ScienceWorld, such as `boil` or `find-living-thing`; its variations are the tasks, in their own splits.

    A failed task has score 0. The simulator lists things in a fixed order, so that episodes are reproducible.
    """

    name = "scienceworld"
    summary = "a task of ScienceWorld: boil, find-living-thing, …; needs Java"
    package = "scienceworld"

    max_turns: int = 100  # type: ignore[misc]
    simplifications: str = ""  # easy, or a comma-separated list of others: openDoors,teleportAction

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "level", 1, 1)
        tasks = importlib.import_module("scienceworld.constants").ID2TASK
        if self.task_name not in tasks.values():
            raise PodiumError(f"scienceworld has no task {self.task_name!r}. {nearest(self.task_name, tasks.values())}")
        for name in self.config:
            raise PodiumError(
                f"scienceworld:{self.task_name} has no setting {name!r}. {nearest(name, self.field_names())}"
            )
        for name in filter(None, self.simplifications.split(",")):
            if name not in SIMPLER:
                raise PodiumError(f"scienceworld: there is no simplification {name!r}. {nearest(name, SIMPLER)}")
        if _java() is None:
            raise PodiumError(
                "scienceworld: needs a Java runtime, and no `java` is on the PATH or under JAVA_HOME: install one, "
                "such as openjdk-17-jre-headless."
            )

    def environment(self) -> dict[str, str]:
        return {"PODIUM_JAVA": _java() or "java"}

    @cached_property
    def variations(self) -> dict[str, list[int]]:
        """The variations of each split."""
        return self.ask("variations", task=self.task_name)

    def size(self, split: str = "train") -> int:
        task_key(self.name, split, 0)
        return len(self.variations[split])

    def make(self, index: int, split: str) -> Task:
        suffix = f"-{self.simplifications}" if self.simplifications else ""
        key = task_key(f"scienceworld-{self.task_name}{suffix}", split, index)
        if index >= self.size(split):
            name, size = f"scienceworld:{self.task_name}", self.size(split)
            raise PodiumError(f"{name} has {size} {split} tasks; number {index} was asked for (from 0).")
        spec: dict[str, Any] = {"task": self.task_name, "simplifications": self.simplifications}
        spec["variation"] = self.variations[split][index]
        made = self.ask("make", spec=spec)
        forms = f"You can: {', '.join(made['forms'])}.\n" if self.commands else ""
        prompt = self.prompt(f"{forms}{self.show(made['prompt'], made['commands'])}")
        return Task(key, prompt, domain=self.task_name, data={"spec": spec})

    def show(self, text: str, commands: Sequence[str]) -> str:
        """An observation, with the available objects: there are thousands of commands."""
        return f"{text}\nthings: {', '.join(commands)}".strip() if self.commands and commands else text

    def walkthrough(self, task: Task) -> tuple[str, ...]:
        return tuple(self.ask("solve", spec=task.data["spec"])["solution"])


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    inside = shutil.which("java", path=os.path.join(home, "bin")) if home else None
    return inside or shutil.which("java")

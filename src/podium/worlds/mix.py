"""Several worlds as the domains of one: a task goes back to the world that it comes from."""

from __future__ import annotations

import dataclasses
from typing import Any

from podium.core.errors import PodiumError, nearest
from podium.protocols.world import Criterion, Episode, Feedback, Task, World, isolation_of
from podium.worlds.oracle import Dynamics

__all__ = ["Mix"]


class Mix(World):
    """The tasks of several worlds in turn. The domain of a task is the name of its world, which asks and grades it.

    What only some of the worlds provide is left out. `podium.worlds.get("mix:sums,rules")` makes one.
    """

    name = "mix"
    summary = "the tasks of several worlds in turn, each graded by its own"
    names: tuple[str, ...] = ()  # of the parts, as `get` knows them; the domains
    parts: tuple[World, ...] = ()

    def __post_init__(self) -> None:
        self._check()
        first, parts = self.parts[0], self.parts
        together = {
            "levels": tuple(sorted({level for part in parts for level in part.levels})),
            "provides": tuple(c for c in first.provides if all(c in part.provides for part in parts)),
            "blank": {name: value for part in parts for name, value in part.blank.items()},
            "styles": tuple(style for style in first.styles if all(style in part.styles for part in parts)),
            "max_tokens": max(part.max_tokens for part in parts),
            "max_turns": max(part.max_turns for part in parts),
            "isolation": "inline" if all(isolation_of(part) == "inline" for part in parts) else "thread",
            "uses_sandbox": any(part.uses_sandbox for part in parts),
            "costly": any(part.costly for part in parts),
            "act_limit_s": max(part.act_limit_s for part in parts),
            "margin_s": max(part.margin_s for part in parts),
            "context": first.context,
        }
        for name, value in together.items():
            object.__setattr__(self, name, value)

    def _check(self) -> None:
        if len(self.names) != len(self.parts) or not self.parts:
            raise PodiumError("mix needs the names of its worlds: mix:sums,rules.")
        repeated = next((name for i, name in enumerate(self.names) if name in self.names[:i]), None)
        if repeated:
            raise PodiumError(f"mix names {repeated!r} twice: a domain belongs to one world.")
        for name, part in zip(self.names, self.parts, strict=True):
            if isolation_of(part) in ("process", "sandbox"):
                raise PodiumError(f"mix: {name} runs in processes of its own, which a mix cannot; train on it alone.")
            if part.agents:
                raise PodiumError(f"mix: {name} has several agents, and the others have one: train on it alone.")
            if part.context != self.parts[0].context:
                raise PodiumError(
                    f"mix: {name} shows the model {part.context!r} of an episode and {self.names[0]} shows "
                    f"{self.parts[0].context!r}: mix worlds that show the same."
                )

    @property
    def live(self) -> int | None:
        limits = [part.live for part in self.parts if part.live is not None]
        return min(limits) if limits else None

    def close(self) -> None:
        for part in self.parts:
            part.close()

    def remarks(self) -> tuple[str, ...]:
        return tuple(remark for part in self.parts for remark in part.remarks())

    def size(self, split: str = "train") -> int | None:
        """As many tasks of each world as the smallest one has."""
        sizes = [size for part in self.parts if (size := part.size(split)) is not None]
        return len(self.parts) * min(sizes) if sizes else None

    def task(self, index: int, split: str = "train") -> Task:
        number, place = divmod(index, len(self.parts))
        task, name = self.parts[place].task(number, split), self.names[place]
        return dataclasses.replace(task, key=f"{name}/{task.key}", domain=name, data={**task.data, "of_part": task})

    def routed(self, task: Task) -> tuple[World, Task]:
        """The world of a task's domain, and the task as that world knows it."""
        if task.domain not in self.names:
            raise PodiumError(f"mix has no world for the domain {task.domain!r}. {nearest(task.domain, self.names)}")
        # The prompt may have been changed since.
        return self.parts[self.names.index(task.domain)], dataclasses.replace(task.data["of_part"], prompt=task.prompt)

    def reset(self, task: Task, seed: int = 0) -> Episode:
        part, inner = self.routed(task)
        return _PartEpisode(part.reset(inner, seed), {c.partition(".")[2] for c in self.provides})

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        part, inner = self.routed(task)
        return part.solve(inner, style, seed)

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        part, inner = self.routed(task)
        return part.demonstrate(inner, style, seed)

    def reference(self, task: Task) -> str:
        part, inner = self.routed(task)
        return part.reference(inner)

    def phrasings(self, task: Task) -> tuple[Task, ...]:
        part, inner = self.routed(task)
        return tuple(
            dataclasses.replace(task, prompt=other.prompt, data={**other.data, "of_part": other})
            for other in part.phrasings(inner)
        )

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        part, inner = self.routed(task)
        return part.criteria(inner)

    def met(self, task: Task, text: str) -> tuple[bool, ...]:
        part, inner = self.routed(task)
        return part.met(inner, text)

    def step_scores(self, task: Task, text: str) -> tuple[float, ...]:
        part, inner = self.routed(task)
        return part.step_scores(inner, text)

    def completed(self, task: Task, beginning: str) -> str | None:
        part, inner = self.routed(task)
        return part.completed(inner, beginning)

    def dynamics(self, task: Task) -> Dynamics:
        part, inner = self.routed(task)
        return part.dynamics(inner)


class _PartEpisode(Episode):
    """An episode of a part, whose feedback has the columns that all parts have."""

    def __init__(self, inner: Episode, columns: set[str]) -> None:
        super().__init__(inner.observation, inner.state)
        self.inner, self.columns, self.recap = inner, columns, inner.recap

    def act(self, text: str) -> Feedback:
        feedback = self.inner.act(text)
        self.state, self.recap = feedback.state, self.inner.recap
        info: dict[str, Any] = {name: value for name, value in feedback.info.items() if name in self.columns}
        return dataclasses.replace(feedback, info=info)

    def close(self) -> None:
        self.inner.close()

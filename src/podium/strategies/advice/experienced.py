"""Groups compared in words: rollouts under a list of experiences, which the comparison then edits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import within
from podium.memories.text_edits import Experience, numbered, write_edits
from podium.protocols.scaffold import Scaffold
from podium.strategies.advice.writers import AdviceWriter, Compared, RuleMiner
from podium.strategies.draw import Draw
from podium.strategies.joint import JointStrategy
from podium.strategies.requests import Plan, Play, TaskRequest, rollouts_of

__all__ = ["Experienced", "group_is_used"]


def group_is_used(rewards: Sequence[float], known: bool = True) -> bool:
    """Whether a group says what separates good from bad: 0 < mean < 1, where the right answers are known."""
    return not known or 0 < sum(rewards) / len(rewards) < 1


class Experienced(JointStrategy):
    """`n` rollouts of each task below the experiences learnt so far; `writer` compares the groups and edits the list.

    The list stands below the question, under `header`, one `[G0]. text` per line; a writer may let single rollouts see
    a variant of it. Groups with 0 < mean reward < 1 are compared; without them nothing changes. `rollout.edits` is the
    plan of edits of the whole batch, in JSON. With `known=False` every group is compared, and neither rewards nor
    answers are shown.
    """

    reference = "Training-Free GRPO, https://github.com/TencentCloudADP/youtu-agent"
    n: int = 5
    writer_of: AdviceWriter = RuleMiner()  # who compares groups and edits the list
    header: str = "experiences:"
    known: bool = True  # whether rewards and right answers are known
    draw: Draw = Draw()

    needs = ("group.experiences",)
    provides = ("rollout.edits",)

    def __post_init__(self) -> None:
        within(self, "n", 1)

    @property
    def writers(self) -> tuple[str, ...]:
        return (*self.seated, *self.writer_of.roles)

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return self.writer_of.roles

    def taught(self, recalled: Mapping[str, Any]) -> tuple[str, str]:
        return "", self.listed(recalled.get("group.experiences", ((),))[0])

    def listed(self, experiences: Sequence[Experience]) -> str:
        """The list as it stands in the prompt; empty: there is none."""
        lines = [f"[{name}]. {experience.text}" for name, experience in numbered(experiences).items()]
        return "\n".join([self.header, *lines]) if lines else ""

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(bool(rollout.columns["edits"]) for rollout in rollouts)

    def together(self, tasks: Sequence[TaskRequest]) -> Plan:
        library = numbered(tasks[0].recalled["group.experiences"])
        seen = [self.writer_of.tried(library, self.n, task.stream) for task in tasks]
        plays = [
            self._play(task, texts, index)
            for task, group in zip(tasks, seen, strict=True)
            for index, texts in enumerate(group)
        ]
        rollouts = rollouts_of((yield list(plays)))
        compared = []
        for number, (task, shown) in enumerate(zip(tasks, seen, strict=True)):
            group = rollouts[number * self.n : (number + 1) * self.n]
            if group_is_used([float(r.columns["reward"]) for r in group], self.known):
                compared.append(self._compared(task, group, shown))
        edits = (yield from self.writer_of.revise(library, compared, tasks[0].stream)) if compared else []
        plan = write_edits(edits) if edits else ""
        return [dataclasses.replace(r, columns={**r.columns, "edits": plan}) for r in rollouts]

    def _play(self, task: TaskRequest, texts: Sequence[str], index: int) -> Play:
        below = self.listed([Experience(text) for text in texts])
        context = Scaffold(below=below, base=self.draw.context_of(task)) if below else self.draw.context
        return self.draw.play(task, 1, first=index, context=context)

    def _compared(self, task: TaskRequest, group: Sequence[Rollout], shown: Sequence[tuple[str, ...]]) -> Compared:
        rewards = tuple(float(r.columns["reward"]) if self.known else 0.0 for r in group)
        world = task.world
        solved = self.known and world is not None and "task.solution" in world.provides
        answer = world.reference(task.task) if solved and world is not None else ""
        texts = tuple(str(r.columns["text"]) for r in group)
        return Compared(str(task.task.prompt), texts, rewards, answer, tuple(shown))

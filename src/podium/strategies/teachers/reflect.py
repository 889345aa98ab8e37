"""Groups kept alive by what is remembered of their task: stored rollouts of the opposite outcome, and reflection."""

from __future__ import annotations

import dataclasses

from podium.core.build import Rollout
from podium.core.errors import within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.protocols.scaffold import Scaffold
from podium.strategies.hints.help import Help
from podium.strategies.hints.repair import Repair, marked
from podium.strategies.requests import Plan, TaskRequest
from podium.strategies.teachers.teachers import Stored, draw_at_most

__all__ = ["ReplayAndReflect"]


class ReplayAndReflect(Repair):
    """`n` rollouts; a group that all failed or all succeeded gets stored ones of the opposite outcome.

    A task whose mean reward so far is below `tau` is also asked with one of its earlier wrong answers in the prompt, as
    a group of its own. `rollout.replayed` marks stored rollouts, `rollout.fresh` the others, `rollout.reflecting` those
    of the second group.
    """

    reference = "R³: Replay, Reflection and Ranking Rewards"
    help: Help = Stored()
    when: str = "all alike"
    take: str = "add"
    most: int = 2
    tau: Number = 0.2  # 0: no reflection
    ask: str = ""  # stands below the earlier answer

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "tau", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*super().needs, "group.stored", "group.stored.mean")

    @property
    def provides(self) -> tuple[str, ...]:
        return (*super().provides, "rollout.replayed", "rollout.fresh", "rollout.reflecting")

    def plan(self, task: TaskRequest) -> Plan:
        group = yield from super().plan(task)
        made = [_noted(r) for r in group]
        mean = float(task.known.get("group.stored.mean", 1.0))
        wrong = [kept for kept in task.known.get("group.stored", ()) if not kept["correct"]]
        if mean >= self.tau or not wrong:
            return made
        (kept,) = draw_at_most(wrong, task, 1)
        scaffold = Scaffold(attempt=kept["text"], below=self.ask)
        first = 1 + max(r.columns["index"] for r in group)
        (again,) = yield [self.under(task, scaffold, self.n, first, wave=1)]
        rows = [_noted(marked(r, guided=True), reflecting=True) for r in again]  # type: ignore[arg-type]
        return [*made, *(dataclasses.replace(r, group=f"{r.group}, reflection") for r in rows)]


def _noted(rollout: Rollout, reflecting: bool = False) -> Rollout:
    replayed = rollout.columns.get("source") == "copied"
    own = {"replayed": replayed, "fresh": not replayed, "reflecting": reflecting}
    return dataclasses.replace(rollout, columns={**rollout.columns, **own})

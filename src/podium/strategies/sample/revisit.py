"""Episodes, and single actions of the current policy at the contexts of earlier turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import within
from podium.core.part import Strategy
from podium.protocols.sampling import Completion, Generate
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, TaskRequest, rollouts_of

__all__ = ["SampleAndRevisit"]

SIGNAL = "sampler."


class SampleAndRevisit(Strategy):
    """`n` rollouts of each task, and one action at each of the stored contexts that a memory recalls
    (`group.revisits`).

    The world does not see these actions: they have no reward and no consequence, and are for methods whose critic can
    value them. They are trained, but in no statistics; `rollout.revisited` marks them.
    """

    reference = "ArCHer, https://github.com/YifeiZhou02/ArCHer"
    n: int = 8
    draw: Draw = Draw()

    needs = ("group.revisits",)
    provides = ("rollout.purpose", "rollout.revisited")

    def __post_init__(self) -> None:
        within(self, "n", 1)

    def plan(self, task: TaskRequest) -> Plan:
        played = rollouts_of((yield [self.draw.play(task, self.n, columns={"revisited": False})]))
        contexts: Sequence[tuple[int, ...]] = task.recalled.get("group.revisits") or ()
        if not contexts or not played:
            return played
        recorded = tuple(name.removeprefix(SIGNAL) for name in played[0].turns[0].tokens if name.startswith(SIGNAL))
        signals = tuple(name for name in recorded if name != "logp")
        sampling = self.draw.sampling(task.sampling)
        answers = yield [
            Generate(context, 1, sampling, (*task.stream, 1, place), capture=signals, keep=False)
            for place, context in enumerate(contexts)
        ]
        written = [completion for answer in answers for completion in answer if isinstance(completion, Completion)]
        pairs = zip(contexts, written, strict=True)
        return [*played, *(_action(played[0], context, c, self.n + i) for i, (context, c) in enumerate(pairs))]


def _action(like: Rollout, context: tuple[int, ...], written: Completion, index: int) -> Rollout:
    """A rollout of a single turn, with the columns of another one."""
    nothing = {"reward": 0.0, "action": "", "observation": ""}
    turn = dataclasses.replace(
        like.turns[-1],
        ids=written.ids,
        context=context,
        train_context=None,
        origin=None,
        columns={**like.turns[-1].columns, **nothing},
        tokens={"sampler.logp": written.logp, **{f"{SIGNAL}{name}": x for name, x in written.captured.items()}},
    )
    columns = {"reward": 0.0, "correct": False, "answer": "", "text": "", "truncated": False, "failure": ""}
    columns |= {"index": index, "purpose": int(Purpose.demo), "revisited": True}
    return dataclasses.replace(like, turns=[turn], columns={**like.columns, **columns})

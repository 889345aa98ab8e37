"""Self-play: the policy plays all agents of a world, or some groups meet one of its past selves."""

from __future__ import annotations

from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.core.streams import key
from podium.protocols.seats import Seat
from podium.strategies.draw import Draw, refuse_settings
from podium.strategies.requests import Plan, TaskRequest, rollouts_of

__all__ = ["SelfPlay"]

DRAWN = 1 << 20  # how finely the share is drawn


class SelfPlay(Strategy):
    """n games of each task; in a `share` of the groups one agent, drawn for the group, is played by the role `past`.

    The turns of a past self count as given by the world. share = 0 is `Sample`.
    """

    n: int = 8
    share: Number = 0.5  # of groups that meet a past self, in [0, 1]
    past: str = "past"  # a role, such as Role("past", refresh=5, keep=4)
    draw: Draw = Draw()

    provides = ("turn.role", "turn.by.policy")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "share", 0, 1)
        if self.draw.seats:
            refuse_settings(self, self.draw, "seats")

    @property
    def seated(self) -> tuple[str, ...]:
        return (self.past,)

    @property
    def neutral(self) -> SelfPlay:
        return self.replace(share=0.0)

    def plan(self, task: TaskRequest) -> Plan:
        agents = () if task.world is None else task.world.agents
        met = key(3, task.stream) % DRAWN < float(self.share) * DRAWN
        seats = (Seat(agents[key(4, task.stream) % len(agents)], self.past),) if met and agents else ()
        return rollouts_of((yield [self.draw.play(task, self.n, seats=seats)]))

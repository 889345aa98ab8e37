"""Episodes that go on from the first turns of another one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from podium.collect.episode_state import EpisodeState
from podium.collect.episodes import Episodes
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.core.streams import key
from podium.protocols.sampling import Completion, Stop
from podium.strategies.requests import Resume

if TYPE_CHECKING:
    from podium.collect.driver import Driver

__all__ = ["Resumption"]


class Resumption(Episodes):
    """Episodes whose first turns are those of a rollout, taken in a world opened anew with that rollout's chance."""

    def __init__(self, driver: Driver, asked: Resume, then: Callable[[list[Rollout]], None]) -> None:
        super().__init__(driver, asked.play, then)
        self.asked, self.again = asked, [self._again(turn) for turn in asked.turns]
        self.opens = len(self.again)

    def _again(self, turn: Turn) -> Completion:
        """A turn as it was written."""
        captured = {name: tuple(turn.tokens[f"sampler.{name}"]) for name in self.driver.capture}
        stop = Stop.end if self.driver.closed(turn.ids) else Stop.length
        return Completion(tuple(turn.ids), tuple(turn.tokens["sampler.logp"]), stop, captured)

    def _open(self, index: int) -> None:
        request, (wave, first) = self.play.request, self.asked.chance
        seed = key(0, (*request.stream, wave, first)) % 2**31
        self.driver.actor.open(self.driver.world, request.task, seed, partial(self._begin, index))

    def _write(self, rows: list[EpisodeState], turn: int) -> None:
        if turn >= len(self.again):
            super()._write(rows, turn)
            return
        for row in rows:
            self._act(row, self.again[turn], turn)

    def origins(self, row: EpisodeState, completion: Completion) -> list[str] | None:
        """What was written before is trained with the others, and sampled once."""
        again = len(row.turns) < len(self.again)
        return [Origin.copied.name] * len(completion.ids) if again else super().origins(row, completion)

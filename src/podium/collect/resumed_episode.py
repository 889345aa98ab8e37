"""Episodes that continue from the first turns of another rollout."""

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

__all__ = ["ResumedEpisodes"]


class ResumedEpisodes(Episodes):
    """Episodes that repeat the first turns of a rollout, in a world opened again with the seed of that rollout."""

    def __init__(self, driver: Driver, resume: Resume, then: Callable[[list[Rollout]], None]) -> None:
        super().__init__(driver, resume.play, then)
        self.resume, self.repeated = resume, [self._completion(turn) for turn in resume.turns]
        self.prefixed_turn = len(self.repeated)

    def _completion(self, turn: Turn) -> Completion:
        """A turn as it was sampled."""
        captured = {name: tuple(turn.tokens[f"sampler.{name}"]) for name in self.driver.capture}
        stop = Stop.end if self.driver.closed(turn.ids) else Stop.length
        return Completion(tuple(turn.ids), tuple(turn.tokens["sampler.logp"]), stop, captured)

    def _open(self, index: int) -> None:
        request, (wave, first) = self.play.request, self.resume.chance
        seed = key(0, (*request.stream, wave, first)) % 2**31
        self.driver.actor.open(self.driver.world, request.task, seed, partial(self._begin, index))

    def _write(self, rows: list[EpisodeState], turn: int) -> None:
        if turn >= len(self.repeated):
            super()._write(rows, turn)
            return
        for row in rows:
            self._act(row, self.repeated[turn], turn)

    def origins(self, row: EpisodeState, completion: Completion) -> list[str] | None:
        """Repeated turns are copied: trained with the others, but counted as sampled once."""
        repeated = len(row.turns) < len(self.repeated)
        return [Origin.copied.name] * len(completion.ids) if repeated else super().origins(row, completion)

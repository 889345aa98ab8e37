"""Episodes whose turns are given texts: demonstrations, solutions of other models, texts that a strategy composes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from podium.collect.episode_state import EpisodeState
from podium.collect.episodes import Episodes
from podium.collect.prefix import join_prefix
from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.protocols.format import Demonstrated
from podium.protocols.sampling import Completion, Stop
from podium.protocols.world import Answer as OneTurn
from podium.strategies.requests import Play, Recite

if TYPE_CHECKING:
    from podium.collect.driver import Driver

__all__ = ["ScriptedEpisode"]


class ScriptedEpisode(Episodes):
    """An episode whose turns are given texts; the world answers them as if the model had written them."""

    def __init__(self, driver: Driver, recite: Recite, then: Callable[[list[Rollout]], None]) -> None:
        request, self.episode = recite.request, recite.episode
        contexts: dict[str, Any] = {"context": recite.context, "train_context": recite.train_context}
        play = Play(request, purpose=recite.purpose, first=recite.index, columns=recite.columns, **contexts)
        super().__init__(driver, replace(play, begun=recite.begun), then)
        self.ended, self.optional = recite.ended, recite.optional
        # A solution of several turns holds for this very episode, with the random events of its seed.
        seed = request.group if isinstance(driver.world, OneTurn) else self.seed(recite.index)
        self.texts, self.only_shown = recite.texts, recite.shown
        if recite.texts is None:
            self.actions = tuple(driver.world.demonstrate(request.task, recite.style, seed))
            if self.format is not None:
                self.actions, self.only_shown = self.format.script(self.actions, request.number)
        self.origin = recite.origin.name
        self.max_turns = min(self.max_turns, len(self.actions if recite.texts is None else recite.texts))

    def _open(self, index: int) -> None:
        if self.episode is None:
            super()._open(index)
        else:
            self.driver.actor.enter(self.episode, partial(self._begin, index))

    def _write(self, rows: list[EpisodeState], turn: int) -> None:
        prefix = self._prefix(rows[0].context, turn)
        ids = self.driver.written(self._text(rows[0], turn), self.ended or turn + 1 < self.max_turns)
        length, limit = len(rows[0].context) + len(prefix.ids) + len(ids), self.driver.context_length
        if length > limit and self.optional:
            self.then([])
            return
        if length > limit:
            raise PodiumError(
                f"The text given for {self.play.request.task.key!r} has {length} tokens with its prompt, more than the "
                f"{limit:g} of the model's context. Leave it out or shorten it."
            )
        zeros = (0.0,) * len(ids)  # these tokens were not sampled
        completion = Completion(ids, zeros, Stop.end, dict.fromkeys(self.driver.capture, zeros))
        for row in rows:
            row.prefix_length = len(prefix.ids)
            self._act(row, join_prefix(prefix, completion), turn)

    def _text(self, row: EpisodeState, turn: int) -> str:
        """What is written in a turn: the given text, or the world's action in the format."""
        if self.texts is not None:
            return self.texts[turn]
        if self.format is None:
            return self.actions[turn]
        return self.format.write(Demonstrated(self.actions, turn, row.history, self.only_shown))

    def marks(self, row: EpisodeState, completion: Completion) -> dict[str, Any]:
        shown = len(row.turns) < self.only_shown
        return {"keep.demonstrated": [False] * len(completion.ids)} if shown else {}

    def origins(self, row: EpisodeState, completion: Completion) -> list[str]:
        prefix = [] if self.play.begun is None else [self.play.begun.origin.name] * row.prefix_length
        return prefix + [self.origin] * (len(completion.ids) - row.prefix_length)

    @property
    def source(self) -> str:
        return self.origin

"""Games of several seats: private views, rewards for each agent, and moves that are made at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from podium.protocols.world import Episode, Feedback

__all__ = ["MoveOutcome", "TableEpisode"]


@dataclass(frozen=True)
class MoveOutcome:
    """What comes of the moves of those who were to move."""

    rewards: Mapping[str, float] = field(default_factory=dict)  # by agent; each of them must have moved before
    done: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)  # of the feedback to the last of them


class TableEpisode(Episode):
    """A game whose agents move one after another, or several at once.

    A subclass says who is `to_move` next, what an agent sees (`view`), and what comes of their moves (`resolve`). Those
    who move at once write in successive turns: `resolve` gets all moves together, so none of them sees another's. What
    an agent sees when it is to move again is what `view` says then.
    """

    def __init__(self) -> None:
        self.moves: dict[str, str] = {}  # of those who have moved, until all have
        self._waiting = list(self.to_move())
        self.agent = self._waiting.pop(0)
        super().__init__(self.view(self.agent), self.key(self.agent))

    def to_move(self) -> tuple[str, ...]:
        """The agents who move next, at once."""
        raise NotImplementedError

    def view(self, agent: str) -> str:
        """What an agent sees when it is to move."""
        raise NotImplementedError

    def key(self, agent: str) -> str:
        """A key of all that an agent knows when it is to move."""
        raise NotImplementedError

    def resolve(self, moves: Mapping[str, str]) -> MoveOutcome:
        """What comes of these moves, by agent, now that all who were to move have."""
        raise NotImplementedError

    def judge(self, agent: str, text: str) -> Mapping[str, Any]:
        """The columns of a turn, such as `valid`, that the text alone decides."""
        return {}

    def act(self, text: str) -> Feedback:
        actor, self.moves[self.agent] = self.agent, text
        info = dict(self.judge(actor, text))
        if self._waiting:
            self.agent = self._waiting.pop(0)
            return self._answered(0.0, False, info, {})
        outcome, self.moves = self.resolve(self.moves), {}
        info |= outcome.info
        others = {agent: reward for agent, reward in outcome.rewards.items() if agent != actor}
        if not outcome.done:
            self._waiting = list(self.to_move())
            self.agent = self._waiting.pop(0)
        return self._answered(outcome.rewards.get(actor, 0.0), outcome.done, info, others)

    def _answered(self, reward: float, done: bool, info: dict[str, Any], others: Mapping[str, float]) -> Feedback:
        seen = "" if done else self.view(self.agent)
        self.state = "over" if done else self.key(self.agent)
        return Feedback(reward, done, seen, self.state, info, others)

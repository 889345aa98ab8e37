"""Seats: who plays which agent of a world with several."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.value import Value
from podium.protocols.context import History

__all__ = ["SCRIPTED", "Player", "Seat"]

SCRIPTED = "scripted"  # in place of a role: a player that is no model


class Player(Value):
    """A player that follows rules in place of a model: what it writes depends on what its agent has seen."""

    def __call__(self, history: History, seed: int) -> str:
        """The text of the agent's next turn. `seed` differs from turn to turn, and is all the chance there is."""
        raise NotImplementedError


class Seat(Value):
    """Who plays an agent: a role of the method (`policy` is the one that every other agent has), or a player."""

    agent: str
    by: str | Player = "policy"

    def __post_init__(self) -> None:
        if not self.agent or self.by in ("", SCRIPTED):
            raise PodiumError(f"Seat({self.agent!r}, {self.by!r}) needs an agent of the world, and a role or a Player.")

    @property
    def role(self) -> str:
        """What `turn.role` says of its turns."""
        return self.by if isinstance(self.by, str) else SCRIPTED

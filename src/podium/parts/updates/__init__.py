"""Update plans other than the usual epochs and mini-batches of `podium.core.updates.Updates`."""

from podium.parts.updates.critic_first import CriticFirst
from podium.parts.updates.fixed_size import FixedSize
from podium.parts.updates.separate import SeparateUpdates
from podium.parts.updates.turn_by_turn import TurnByTurn

__all__ = ["CriticFirst", "FixedSize", "SeparateUpdates", "TurnByTurn"]

"""The select stage: which tasks to sample next."""

from podium.select.balanced import Balanced
from podium.select.uncertain import Uncertain

__all__ = ["Balanced", "Uncertain"]

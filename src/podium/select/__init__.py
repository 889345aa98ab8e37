"""The select stage: which tasks to sample next."""

from podium.select.uncertain import Uncertain

__all__ = ["Uncertain"]

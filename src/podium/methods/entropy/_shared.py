"""What the recipes of this family share."""

from __future__ import annotations

from podium.core.term import Aggregate

__all__ = ["SEQUENCE_MEAN"]


SEQUENCE_MEAN = Aggregate("token mean, rollout mean")

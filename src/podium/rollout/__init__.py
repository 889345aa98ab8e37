"""The rollout stage: how rollouts are made."""

from podium.rollout.sample import Sample

__all__ = ["Sample"]

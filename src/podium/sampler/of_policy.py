"""The sampler of a policy, whatever its kind."""

from __future__ import annotations

from podium.policy import Chooser, FlowPolicy, Policy
from podium.protocols.sampling import Sampler
from podium.sampler.choices import ChoiceSampler
from podium.sampler.drawing import FlowSampler
from podium.sampler.local import LocalSampler

__all__ = ["sampler_of"]


def sampler_of(policy: Policy, memory: int | None = None) -> Sampler:
    """A sampler of the policy's own weights; `memory` bounds the bytes of a KV cache."""
    if isinstance(policy, Chooser):
        return ChoiceSampler(policy)
    return FlowSampler(policy) if isinstance(policy, FlowPolicy) else LocalSampler(policy, memory=memory)

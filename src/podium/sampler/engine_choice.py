"""Which engine samples a policy."""

from __future__ import annotations

import warnings

from podium.core.errors import PodiumError
from podium.policy.cuda.decode import unusable
from podium.policy.policy import Policy
from podium.sampler.paged import PagedEngine
from podium.sampler.paged_row_state import PagedRowState
from podium.sampler.row_engine import RowEngine, Stats, SteppedEngine
from podium.sampler.row_state import RowState, SteppedRowState
from podium.sampler.sampling_check import choose_hf_engine
from podium.sampler.static_cache import StaticCacheEngine
from podium.sampler.stops import Stops

__all__ = ["choose_engine"]


def choose_engine(
    policy: Policy, stats: Stats, stops: Stops, slots: int, memory: int | None, paged: bool | None
) -> tuple[RowEngine, RowState]:
    """The fastest engine that can sample this policy on its device, and the state of its rows."""
    engine: SteppedEngine
    if policy.decoder is None:
        engine = choose_hf_engine(policy, stats, memory)
        return engine, SteppedRowState(policy, engine, stops, slots)
    if paged or (paged is None and policy.device.type == "cuda"):
        reason = unusable(policy.decoder) if policy.device.type == "cuda" else None
        if reason is None:
            try:
                paged_engine = PagedEngine(policy.decoder, stats, slots, memory)
                paged_engine.attempt()
                return paged_engine, PagedRowState(policy, paged_engine, stops, slots)
            except PodiumError:
                raise
            except Exception as error:  # whatever a compiler or a driver may raise
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        message = f"{policy.name or 'The model'} is sampled without fused kernels, which is slower: {reason}."
        warnings.warn(message, stacklevel=3)
    engine = StaticCacheEngine(policy.decoder, stats, memory)
    return engine, SteppedRowState(policy, engine, stops, slots)

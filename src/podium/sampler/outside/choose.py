"""Which engine samples, by the name in a run's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podium.core.errors import PodiumError
from podium.policy import Policy
from podium.protocols.sampling import Sampling
from podium.sampler.outside.mapping import unmapped
from podium.sampler.outside.outside import OutsideSampler

__all__ = ["LOCAL", "check_engine", "check_name", "open_sampler"]

LOCAL, VLLM, SERVER = "local", "vllm", "openai:"


def check_name(name: str) -> None:
    """Refuse what names no engine."""
    if name not in (LOCAL, VLLM) and not name.startswith(SERVER):
        raise PodiumError(
            f"There is no sampler {name!r}: there are local (Podium's own), vllm (in this process) and openai:URL (a "
            "server, such as openai:http://localhost:8000/v1)."
        )


def check_engine(name: str, sampling: Sampling, capture: Sequence[str]) -> None:
    """Refuse before a run what the engine has no equal of."""
    if problem := unmapped(sampling, capture):
        raise PodiumError(f"The sampler {name} cannot give what the method needs, {problem}: leave out --sampler.")


def open_sampler(name: str, settings: Mapping[str, Any], policy: Policy) -> OutsideSampler:
    """The engine with this name, with the policy's weights."""
    if name == VLLM:
        from podium.sampler.outside.in_process import VLLMSampler

        return VLLMSampler(policy, **settings)
    from podium.sampler.outside.server import ServerSampler

    try:
        return ServerSampler(policy, name.removeprefix(SERVER), **settings)
    except TypeError as problem:
        raise PodiumError(f"A server as sampler has other settings than these: {problem}.") from problem

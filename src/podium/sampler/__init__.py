"""Samplers: who draws completions from a model."""

from podium.protocols.sampling import Completion, Generate, Sampler, Sampling, Stop

__all__ = ["Completion", "Generate", "Sampler", "Sampling", "Stop"]

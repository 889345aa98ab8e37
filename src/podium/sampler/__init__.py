"""Samplers: who draws completions from a model."""

from podium.sampler.request import Completion, Generate, Sampler, Sampling, Stop

__all__ = ["Completion", "Generate", "Sampler", "Sampling", "Stop"]

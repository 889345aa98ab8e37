"""A flow as a policy: each stochastic step from noise towards a picture is a decision with a log-probability."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.policy.draw.network import VelocityNetwork
from podium.policy.draw.sde import gaussian_entropy, gaussian_logp, step_mean
from podium.policy.network_policy import NetworkPolicy
from podium.policy.policy import Ids
from podium.protocols.drawn_text import SHADES, picture_text, read_asked

__all__ = ["FlowPolicy", "shades_of"]

STEP = tuple(f"token.sampler.{name}" for name in ("before", "after", "sigma", "dt", "std"))  # what a step was


def shades_of(x: Tensor) -> Tensor:
    """[row, pixel] shades 0 … 16 of pictures whose pixels lie around −1 … 1."""
    return ((x + 1) * SHADES / 2).round().clamp(0, SHADES).long()


class FlowPolicy(NetworkPolicy):
    """Draws in `steps` steps, all but the last of them stochastic. A token is one of those.

    Signals [token]: `logp`, the log-density of the step, the mean over pixels; `entropy`, per pixel; and `step_mean`
    [token, pixel], the mean of its Gaussian.
    """

    kind = "flow"
    names = ("entropy", "logp", "step_mean")

    @staticmethod
    def build(settings: Mapping[str, int]) -> nn.Module:
        return VelocityNetwork(**settings)

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> Ids:
        """What is to be drawn."""
        return (read_asked(str(messages[-1]["content"]), self.settings["classes"]),)

    def text(self, ids: Sequence[int]) -> str:
        """A blank picture: the steps alone do not say what was drawn."""
        return picture_text([0] * self.settings["pixels"])

    def values(self, batch: Batch, temperature: float) -> dict[str, Tensor]:
        before, after, sigma, dt, std = (batch[name].to(self.device, torch.float32) for name in STEP)
        asked = torch.tensor([context[0] for context in batch["turn.train_context"]], device=batch.device)
        rows = batch.spread(asked, "turn", "token").to(self.device)
        v = self.model(before, sigma[:, None], rows)
        mean = step_mean(before, v, sigma[:, None], dt[:, None], std[:, None])
        return {"logp": gaussian_logp(after, mean, std), "entropy": gaussian_entropy(std), "step_mean": mean}

    @property
    def side(self) -> int:
        """The rows of a picture."""
        return math.isqrt(self.settings["pixels"])

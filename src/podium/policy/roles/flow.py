"""A flow: a small network that is fitted to a policy's hidden states, and says how far others lie from those.

With x1 the hidden state of a token after a layer, x0 noise and x = τ·x1 + (1 − τ)·x0, the network predicts the velocity
x1 − x0 from x, τ, the layer and the hidden state of the token beside it. Nothing flows back into the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.errors import PodiumError, nearest
from podium.core.identity import uniform
from podium.core.signal import Signal
from podium.policy.policy import Policy
from podium.policy.roles.hidden_head import View

__all__ = ["Flow", "deviation", "flow_velocity_score", "interpolated"]

DEPTHS = (0.25, 0.5, 0.75)  # of the policy's blocks: the layers that are looked at


def interpolated(x1: Tensor, x0: Tensor, tau: Tensor | float) -> Tensor:
    """x on the way from noise to the state."""
    return tau * x1 + (1 - tau) * x0


def deviation(velocity: Tensor, x1: Tensor, x0: Tensor) -> Tensor:
    """The mean over the dimensions of (v − (x1 − x0))²."""
    return (velocity - (x1 - x0)).square().mean(-1)


def flow_velocity_score(deviation: Tensor, tau: float) -> Tensor:
    """τ / (1 − τ) · deviation."""
    return tau / (1 - tau) * deviation


class Network(nn.Module):
    """Residual blocks whose normalisation is shifted and scaled by time, neighbour and layer."""

    def __init__(self, width: int, blocks: int = 6) -> None:
        super().__init__()
        self.condition = nn.Linear(width + 2, width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(blocks))
        self.out = nn.Linear(width, width)
        generator = torch.Generator().manual_seed(0)
        for name, parameter in self.named_parameters():
            # The last layers start at 0: before it has learned anything, it predicts no movement.
            still = parameter.dim() < 2 or name.startswith("out") or name.endswith("modulation.weight")
            nn.init.normal_(parameter, std=0.0 if still else parameter.shape[-1] ** -0.5, generator=generator)

    def forward(self, x: Tensor, tau: Tensor, neighbour: Tensor, depth: Tensor) -> Tensor:
        c = nn.functional.silu(self.condition(torch.cat([neighbour, tau, depth], -1)))
        for block in self.blocks:
            x = block(x, c)
        velocity: Tensor = self.out(x)
        return velocity


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Linear(width, 2 * width)
        self.inner, self.outer = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift, scale = self.modulation(c).chunk(2, -1)
        inside = nn.functional.silu(self.inner(self.norm(x) * (1 + scale) + shift))
        changed: Tensor = x + self.outer(inside)
        return changed


class Flow(View):
    """A policy's hidden states, seen through a flow."""

    def __init__(self, base: Policy) -> None:
        width, blocks = base.config.hidden_size, base.config.num_hidden_layers
        super().__init__(base, Network(width))
        self.layers = tuple(max(1, round(depth * blocks)) for depth in DEPTHS)

    def signals(
        self,
        batch: Batch,
        signals: Sequence[Signal],
        *,
        temperature: float = 1.0,
        grad: bool = False,
        where: Tensor | None = None,
    ) -> dict[Signal, Tensor]:
        """[token] `flow_velocity_score` at a fixed time, and `flow_error` at a random one, averaged over the layers."""
        names = ("flow_score", "flow_error")
        for name in (s.name for s in signals if s.name not in names):
            raise PodiumError(f"A flow does not compute {name!r}. {nearest(name, names)}")
        sides = {dict(s.settings).get("neighbour", "before") for s in signals}
        states = {side: self._neighbours(batch, side) for side in sides}
        return {s: self._signal(batch, s, states, grad).to(batch.device, batch.dtype) for s in signals}

    def _signal(self, batch: Batch, signal: Signal, states: Mapping[str, tuple[Tensor, Tensor]], grad: bool) -> Tensor:
        settings = dict(signal.settings)
        tau = float(settings.get("timestep", 0.8))
        x1, neighbour = states[settings.get("neighbour", "before")]
        size = x1[0].numel() if len(x1) else 0
        x0 = self._normal(batch, f"flow.noise.{signal.name}", size).reshape(x1.shape)
        time = torch.full((*x1.shape[:2], 1), tau, device=x1.device)
        if signal.name == "flow_error":
            time = self._normal(batch, "flow.time", x1.shape[1]).sigmoid()[..., None]
        depth = torch.tensor(self.layers, device=x1.device) / self.config.num_hidden_layers
        depth = depth[None, :, None].expand_as(time)
        with torch.set_grad_enabled(grad and signal.grad):
            velocity = self.network(interpolated(x1, x0, time), time, neighbour, depth)
            error = deviation(velocity, x1, x0).mean(1)
            return flow_velocity_score(error, tau) if signal.name == "flow_score" else error

    def _normal(self, batch: Batch, name: str, width: int) -> Tensor:
        """[token, width] normal numbers, the same for a token however the batch is split."""
        # Where the model is: there are as many of them as of hidden states.
        drawn = uniform(batch.identity("token").to(self.device), f"{batch.seed}/{name}", width, batch.dtype)
        return torch.special.ndtri(drawn.double().clamp(2**-26, 1 - 2**-26)).float()

    def _neighbours(self, batch: Batch, side: str) -> tuple[Tensor, Tensor]:
        """[token, layer, D] the states of the tokens, and those of the tokens before or after them in their turn.

        The last token of a turn has none after it, and stands for that itself.
        """
        lengths = batch.partition("token", "turn").lengths().tolist()
        contexts = batch["turn.train_context"]
        turns = [tuple(t.tolist()) for t in batch["token.id"].split(lengths)]
        used = [(c, t) for c, t in zip(contexts, turns, strict=True) if t]
        if not used:
            none = torch.zeros(0, len(self.layers), self.config.hidden_size, device=self.device)
            return none, none
        found = Policy.states(self, [(*c, *t) for c, t in used], layers=self.layers)
        own = [states[len(c) :] for states, (c, _) in zip(found, used, strict=True)]
        if side == "before":
            beside = [states[len(c) - 1 : -1] for states, (c, _) in zip(found, used, strict=True)]
        else:
            beside = [torch.cat([x[1:], x[-1:]]) for x in own]
        return torch.cat(own).float(), torch.cat(beside).float()

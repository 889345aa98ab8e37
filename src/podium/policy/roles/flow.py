"""A flow-matching network fitted to a policy's hidden states; its error says how far other states lie from those.

With x1 the hidden state of a token after a layer, x0 noise and x = τ·x1 + (1 − τ)·x0, the network predicts the velocity
x1 − x0 from x, τ, the layer and the hidden state of the neighbouring token. No gradient flows back into the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.identity import uniform
from podium.core.signal import Signal
from podium.policy.policy import Policy
from podium.policy.roles.hidden_head import HiddenHead

__all__ = ["Flow", "deviation", "flow_velocity_score", "interpolated"]

DEPTHS = (0.25, 0.5, 0.75)  # the layers whose states are used, as fractions of the policy's depth


def interpolated(x1: Tensor, x0: Tensor, tau: Tensor | float) -> Tensor:
    """x = τ·x1 + (1 − τ)·x0, between noise and the state."""
    return tau * x1 + (1 - tau) * x0


def deviation(velocity: Tensor, x1: Tensor, x0: Tensor) -> Tensor:
    """The mean over the dimensions of (v − (x1 − x0))²."""
    return (velocity - (x1 - x0)).square().mean(-1)


def flow_velocity_score(deviation: Tensor, tau: float) -> Tensor:
    """τ / (1 − τ) · deviation."""
    return tau / (1 - tau) * deviation


class FlowNetwork(nn.Module):
    """Residual blocks whose normalisation is modulated (shift and scale) by time, neighbour and layer."""

    def __init__(self, width: int, blocks: int = 6) -> None:
        super().__init__()
        self.condition = nn.Linear(width + 2, width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(blocks))
        self.out = nn.Linear(width, width)
        generator = torch.Generator().manual_seed(0)
        for name, parameter in self.named_parameters():
            # The last layers start at 0: before training it predicts a velocity of 0.
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


class Flow(HiddenHead):
    """A flow on a policy's hidden states.

    Signals [token], averaged over the layers: `flow_score`, the `flow_velocity_score` at a fixed time, and
    `flow_error`, the deviation at a random time.
    """

    kind = "flow"
    names = ("flow_score", "flow_error")

    def __init__(self, base: Policy) -> None:
        width, blocks = base.config.hidden_size, base.config.num_hidden_layers
        super().__init__(base, FlowNetwork(width))
        self.layers = tuple(max(1, round(depth * blocks)) for depth in DEPTHS)

    def of_tokens(
        self, batch: Batch, signals: Sequence[Signal], temperature: float, grad: bool
    ) -> dict[Signal, Tensor]:
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
            velocity = self.own(interpolated(x1, x0, time), time, neighbour, depth)
            error = deviation(velocity, x1, x0).mean(1)
            return flow_velocity_score(error, tau) if signal.name == "flow_score" else error

    def _normal(self, batch: Batch, name: str, width: int) -> Tensor:
        """[token, width] standard normal noise, the same for a token however the batch is split."""
        # Made on the model's device: there is as much noise as there are hidden states.
        drawn = uniform(batch.identity("token").to(self.device), f"{batch.seed}/{name}", width, batch.dtype)
        return torch.special.ndtri(drawn.double().clamp(2**-26, 1 - 2**-26)).float()

    def _neighbours(self, batch: Batch, side: str) -> tuple[Tensor, Tensor]:
        """[token, layer, D] the states of the tokens, and those of the tokens before or after them in their turn.

        The last token of a turn has no successor and is its own neighbour after.
        """
        lengths = batch.partition("token", "turn").lengths().tolist()
        contexts = batch["turn.train_context"]
        turns = [tuple(t.tolist()) for t in batch["token.id"].split(lengths)]
        used = [(c, t) for c, t in zip(contexts, turns, strict=True) if t]
        if not used:
            none = torch.zeros(0, len(self.layers), self.config.hidden_size, device=self.device)
            return none, none
        sequences = Policy.states(self, [(*c, *t) for c, t in used], layers=self.layers)
        states = [x[len(c) :] for x, (c, _) in zip(sequences, used, strict=True)]
        if side == "before":
            neighbours = [x[len(c) - 1 : -1] for x, (c, _) in zip(sequences, used, strict=True)]
        else:
            neighbours = [torch.cat([x[1:], x[-1:]]) for x in states]
        return torch.cat(states).float(), torch.cat(neighbours).float()

"""The sampler of a flow: all pictures that are asked for are drawn together, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from podium.core.streams import uniforms
from podium.policy.draw.flow_policy import FlowPolicy, shades_of
from podium.policy.draw.sde import NOISE, gaussian_entropy, gaussian_logp, sigmas, step_mean, step_std
from podium.protocols.drawn_text import picture_text
from podium.protocols.sampling import Completion, Generate, Stop
from podium.sampler.choices import NetworkSampler

__all__ = ["FlowSampler"]


class FlowSampler(NetworkSampler):
    """Draws pictures. The temperature multiplies the level of noise: at 0 every step is that of the ODE.

    It can capture two pictures for each stochastic step: `finished`, what comes of it if it and all later steps were
    deterministic, and `estimate`, what the velocity after it points to in one step. `stats.encoded` counts the passes
    of a picture through the network: `estimate` takes none more than drawing does, `finished` about half as many again
    for each step.
    """

    policy: FlowPolicy

    def complete(self, requests: Sequence[Generate], keys: Sequence[int]) -> list[Completion]:
        device, wanted = self.policy.device, {name for request in requests for name in request.capture}
        asked = torch.tensor([request.context[0] for request in requests], device=device)
        level = NOISE * torch.tensor([request.sampling.temperature for request in requests], device=device)
        times = sigmas(self.policy.settings["steps"]).tolist()
        x = self._noise(keys, 0)
        taken: list[dict[str, Tensor]] = []
        finished, estimates = x[:0], []
        for step, (sigma, following) in enumerate(pairwise(times)):
            if "finished" in wanted:  # one more in each step, which goes on with those that began earlier
                finished = torch.cat([finished, x])
            else:
                finished = x
            v = self._velocity(finished, sigma, asked)
            finished = finished + v * (following - sigma)
            v = v[len(v) - len(x) :]
            if step and "estimate" in wanted:
                estimates.append(x - sigma * v)
            if step == len(times) - 2:  # the last step is deterministic
                x = x + v * (following - sigma)
                break
            columns = {"sigma": torch.full_like(level, sigma), "dt": torch.full_like(level, following - sigma)}
            std = step_std(sigma, following, level)
            mean = step_mean(x, v, *(column[:, None] for column in (*columns.values(), std)))
            after = mean + std[:, None] * self._noise(keys, step + 1)
            drawn = std > 0
            taken.append(
                {
                    **columns,
                    "std": std,
                    "before": x,
                    "after": after,
                    "logp": gaussian_logp(after, mean, std).where(drawn, 0),
                    "entropy": gaussian_entropy(std).where(drawn, 0),
                }
            )
            x = after
        texts = {"finished": torch.split(finished, len(x))[: len(taken)], "estimate": [*estimates, x][: len(taken)]}
        captured = {name: [_texts(pictures) for pictures in texts[name]] for name in wanted & texts.keys()}
        return self._completions(x, taken, captured)

    def _completions(
        self, x: Tensor, taken: Sequence[dict[str, Tensor]], captured: dict[str, list[list[str]]]
    ) -> list[Completion]:
        columns = {name: torch.stack([step[name] for step in taken], 1).cpu() for name in taken[0]}
        values: dict[str, Any] = {name: column.tolist() for name, column in columns.items()}
        made = []
        for row, text in enumerate(_texts(x)):
            found = {name: tuple(map(_value, rows[row])) for name, rows in values.items()}
            found |= {name: tuple(step[row] for step in steps) for name, steps in captured.items()}
            logp = found.pop("logp")
            made.append(Completion(tuple(range(len(taken))), logp, Stop.end, found, text))
        return made

    def _velocity(self, x: Tensor, sigma: float, asked: Tensor) -> Tensor:
        """[row, pixel] of pictures, several for each that is drawn."""
        self.stats.steps += 1
        self.stats.encoded += len(x)
        time = torch.full((len(x), 1), sigma, device=x.device)
        velocity: Tensor = self.policy.model(x, time, asked.repeat(len(x) // len(asked)))
        return velocity

    def _noise(self, keys: Sequence[int], step: int) -> Tensor:
        """[row, pixel] normal numbers, those of each stream for this step."""
        pixels = self.policy.settings["pixels"]
        u = torch.from_numpy(uniforms(keys, [step * pixels] * len(keys), pixels))
        return torch.special.ndtri(u).float().to(self.policy.device)


def _value(number: Any) -> Any:
    return tuple(number) if isinstance(number, list) else number


def _texts(x: Tensor) -> list[str]:
    """The texts of pictures."""
    return [picture_text(shades) for shades in shades_of(x).cpu().tolist()]

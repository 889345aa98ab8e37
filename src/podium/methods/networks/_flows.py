"""What the recipes of flows share."""

from __future__ import annotations

from typing import Any

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.parts.objective import Clip, PolicyGradient, StepKL

__all__ = ["DRAWING", "SD35", "flow_method"]

# The release of Flow-GRPO: config/base.py and general_ocr_sd3 in config/grpo.py.
SD35 = Protocol(
    model="stabilityai/stable-diffusion-3.5-medium",
    lr=3e-4,
    betas=(0.9, 0.999),
    weight_decay=1e-4,
    clip=1.0,
    tasks=48,
    source="flow_grpo, config/grpo.py: adapters (LoRA), 10 steps of which 9 are stochastic, 512 x 512 pictures",
)
DRAWING = Home("drawing", iterations=12, tasks=8, model="podium/flow")


def flow_method(clip: float, kl: float, mini_batches: int, **stages: Any) -> Method:
    """PPO's clip on the ratio of each step, the mean over all steps, and the exact KL to the reference."""
    terms = (PolicyGradient(clip=Clip(clip, clip)), StepKL(coefficient=kl))
    roles = (Role("ref"),) if kl else ()
    updates = Updates(mini_batches=mini_batches)
    return Method(objective=terms if kl else terms[:1], updates=updates, roles=roles, **stages)

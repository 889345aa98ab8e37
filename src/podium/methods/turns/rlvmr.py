"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import step_credit
from podium.parts.advantage import MixtureComponent
from podium.parts.annotate import ReadTags
from podium.parts.reward import MetaReasoning

__all__ = ["rlvmr"]


@recipe(
    summary="Steps say whether they plan, explore or reflect, are paid by rule, and compared with those of their tag.",
    citation="RLVMR: Reinforcement Learning with Verifiable Meta-Reasoning Rewards, https://arxiv.org/abs/2507.22844",
    presets={"release": {"omega": 1.0}},
)
def rlvmr(n: int = 8, omega: float = 0.5, scale: str = "std", kl: float = 0.01) -> Method:
    """A = N(outcome; rows of the task) + omega · N(meta reward; task, tag); a step alone with its tag keeps its reward.

    The paper's ½ A_outcome + ½ A_meta is omega = 1 up to the factor ½, as in the released script (`rlvmr@release`).
    omega = 0 is GRPO in which a rollout counts once for each of its steps.
    """
    outcome = MixtureComponent(of="rollout.reward", scale=scale)
    meta = MixtureComponent(of="step.reward.meta", key=("group", "step.tag"), share=omega, scale=scale)
    return step_credit(n, outcome, meta, kl=kl) | ReadTags() | MetaReasoning()

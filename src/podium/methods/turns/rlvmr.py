"""RLVMR: verifiable meta-reasoning rewards for long-horizon agents."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import step_credit
from podium.parts.advantage import MixtureComponent
from podium.parts.annotate import ReadTags
from podium.parts.reward import MetaReasoning

__all__ = ["rlvmr"]


@recipe(
    summary="Meta-reasoning rewards: steps tagged plan, explore, reflect or monitor are paid by verifiable rules.",
    citation="RLVMR: Reinforcement Learning with Verifiable Meta-Reasoning Rewards, https://arxiv.org/abs/2507.22844",
    tags=("meta-reasoning", "process reward", "step-level", "agents", "multi-turn", "reflection"),
    presets={"release": {"omega": 1.0}},
)
def rlvmr(n: int = 8, omega: float = 0.5, scale: str = "std", kl: float = 0.01) -> Method:
    """A = N(outcome; rows of the task) + omega · N(meta reward; task, tag); a step that is alone with its tag keeps its
    reward.

    omega = 0 is GRPO in which a rollout counts once for each of its steps. The paper's ½ A_outcome + ½ A_meta is omega
    = 1 up to the factor ½, as in the released script (`rlvmr@release`).

    Args:
        n: Rollouts per task (the group size).
        omega: Weight of the meta-reasoning advantage.
        scale: `std` divides both advantages by their std, `none` does not.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    outcome = MixtureComponent(of="rollout.reward", scale=scale)
    meta = MixtureComponent(of="step.reward.meta", key=("group", "step.tag"), share=omega, scale=scale)
    return step_credit(n, outcome, meta, kl=kl) | ReadTags() | MetaReasoning()

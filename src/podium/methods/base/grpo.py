"""GRPO: group relative policy optimisation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Method
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["grpo"]


TOKEN_MEAN = Aggregate("token mean")


SEQUENCE_MEAN = Aggregate("token mean, rollout mean")


# One name, different numbers: how each code base normalises the rewards of a group and aggregates the loss.
GRPO = {
    "paper": {},
    "verl": {"kl": 0.001, "kl_limit": 10.0, "dual": 3.0, "aggregate": TOKEN_MEAN},
    "trl": {"kl": 0.0, "advantage": Normalize(epsilon=1e-4, singleton="error"), "aggregate": TOKEN_MEAN},
    "openrlhf": {"kl": 0.0, "advantage": Normalize(epsilon=1e-9, singleton="error"), "aggregate": TOKEN_MEAN},
    "nemo": {
        "kl": 0.01,
        "advantage": Normalize(centre="leave_one_out", scale="std_of_others", zero_scale="skip", singleton="zero"),
        "aggregate": TOKEN_MEAN,
    },
}


@recipe(
    summary="Group-relative advantages without a critic: reward minus the group's mean, divided by its std.",
    citation="Shao et al. 2024, DeepSeekMath, https://arxiv.org/abs/2402.03300",
    tags=("group-relative", "baseline", "clipping", "kl penalty"),
    presets=GRPO,
)
def grpo(
    n: int = 8,
    advantage: Normalize = Normalize(),
    clip: float = 0.2,
    dual: float | None = None,
    kl: float = 0.04,
    kl_limit: float | None = None,
    aggregate: Aggregate = SEQUENCE_MEAN,
) -> Method:
    """A_i = (r_i − mean) / (std + 1e-6) over the rollouts of a group, on every token of rollout i; PPO's clipped
    surrogate with a token-level importance ratio; a k3 KL penalty to the reference in the loss; mean over the tokens of
    a rollout, then over rollouts.

    The word GRPO means different numbers in different code bases. For rewards [1, 0, 0, 0] the success gets 1.5 in
    `grpo@verl`, `grpo@trl` and `grpo@openrlhf` (up to epsilon), and 1.0 in `grpo@nemo` (leave-one-out, undivided
    because the other rewards do not vary; its failures get −0.577).

    Args:
        n: Rollouts per task (the group size).
        advantage: How rewards are normalised within a group.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        kl_limit: The k3 estimate of a token is held within ± this; None: no limit.
        aggregate: How the losses of tokens become one number, for the surrogate and the KL penalty alike.
    """
    method = Method(
        rollout=Sample(n=n),
        advantage=advantage,
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual), aggregate=aggregate),),
    )
    return anchored(method, KL("k3", limit=kl_limit, coefficient=kl, aggregate=aggregate))

"""ADORA: dynamic advantage estimation by the length of right and wrong answers."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import LengthGate
from podium.strategies import Sample

__all__ = ["adora"]


ADORA = {
    "llm": {"without_correct": "damp", "without_wrong": "pass"},
    "vlm": {"without_correct": "pass", "without_wrong": "damp"},
}


@recipe(
    summary="Down-weights groups whose longest correct answer is no longer than the average wrong one.",
    citation="ADORA, https://github.com/ShadeCloak/ADORA",
    tags=("length bias", "advantage estimation", "data selection", "group-relative"),
    presets={"vlm": {"variant": "vlm", "max_length": 4094}, "logic-rl": {"correct_above": 1.01}},
)
def adora(
    n: int = 8, variant: str = "llm", damp: float = 0.1, correct_above: float = 0.5, max_length: int = 3900
) -> Method:
    """GRPO's advantage × 1 if the longest correct rollout is longer than the mean of the wrong ones (those shorter than
    `max_length`), else × damp.

    damp = 1 is GRPO. The forks differ where one side is missing: `llm` damps groups without correct rollouts, `vlm`
    those without wrong ones. The release calls a reward above 1.01 correct, since its rewards reach 3:
    `adora@logic-rl`.

    Args:
        n: Rollouts per task (the group size).
        variant: Which fork's rule: `llm` or `vlm`.
        damp: Factor on the advantages of groups that fail the test.
        correct_above: Reward above which a rollout is correct.
        max_length: Wrong answers of at least this many tokens are left out of their mean length.
    """
    if variant not in ADORA:
        raise PodiumError(f"adora: variant = {variant!r} is not one of {', '.join(ADORA)}.")
    gate = LengthGate(damp=damp, correct_above=correct_above, max_length=max_length, **ADORA[variant])
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(gate,),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2)),),
    )

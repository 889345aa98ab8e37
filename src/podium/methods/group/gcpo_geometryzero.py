"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MatchPatterns
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import ColumnBonus, ContrastiveFeature, LengthBonus
from podium.strategies import Contrasted, Sample

__all__ = ["gcpo_geometryzero"]


ASKS = ("Use an auxiliary construction, between <aux> and </aux>.", "Do not use auxiliary constructions.")


@recipe(
    summary="Using a tool is rewarded where the answers that use it are right more often, and penalised where less.",
    citation="GeometryZero: Group Contrastive Policy Optimization, https://github.com/ekonwang/GeometryZero",
)
def gcpo_geometryzero(
    n: int = 8,
    asks: tuple[str, str] | None = ASKS,
    feature: str = r"<aux>",
    layout: str = r"(?m)^answer:",
    margin: float = 0.1,
    format_weight: float = 0.5,
    feature_weight: float = 0.5,
    length_weight: float = 0.1,
    length_reference: int = 1024,
    clip: float = 0.2,
    kl: float = 0.04,
) -> Method:
    """reward = accuracy + 0.5 · [right format] + 0.5 · m · [uses the feature] + 0.1 · min(length / 1024, 1), with m the
    sign of the accuracy with the feature − without, in each group, where it exceeds `margin`; then GRPO with k3.

    `feature` and `layout` are patterns looked for in the answer. A group in which all use the feature, or none does,
    has m = 0: so that both occur, half of the group is asked to use it and half not to (`asks`; None: nobody is asked),
    and trained as asked. The paper's weights and margin are not known. margin ≥ 1 is GRPO with format and length
    rewards; m = 1 throughout would be an unconditional reward for the tool.
    """
    method = Method(
        rollout=Sample(n=n) if asks is None else Contrasted(n=n, asks=asks),
        annotate=(MatchPatterns((("feature", feature), ("format", layout))),),
        reward=(
            ContrastiveFeature("rollout.feature", margin=margin, weight=feature_weight),
            ColumnBonus("rollout.format", format_weight),
            LengthBonus(length_reference, length_weight),
        ),
        advantage=Normalize(singleton="zero"),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )
    return anchored(method, KL("k3", coefficient=kl))

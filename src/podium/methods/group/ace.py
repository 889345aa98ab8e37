"""TODO"""

from __future__ import annotations

from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import OverconfidentErrors
from podium.strategies import Sample

__all__ = ["ace"]


@recipe(
    summary="Wrong answers that training has made likelier than they were are pushed down harder.",
    citation="ACE: Overconfident Errors Need Stronger Correction: Asymmetric Confidence Penalties for RL",
)
def ace(n: int = 8, alpha: float = 1.0, normalized: bool = False, link: str = "softplus", clip: float = 0.2) -> Method:
    """A ← A · (1 + alpha · softplus(c)) where A < 0, with c = Σ_t (log π_old − log π_ref) over the answer; A is GRPO's.

    At the first step c = 0, so that errors weigh 1 + alpha · ln 2. link = "relu" is the paper's ablation, `normalized`
    takes the mean over tokens. It can follow any advantage of rollouts: `methods.dapo() | OverconfidentErrors() |
    Role("ref")`. The paper's alpha is not known; alpha = 0 is GRPO.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(OverconfidentErrors(alpha, normalized=normalized, link=link),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        roles=(Role("ref"),),
    )

"""TODO"""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.memories import BetaBeliefs
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.select import InformationGain, LeastKnown, Thompson
from podium.strategies import Sample

__all__ = ["insight"]


@recipe(
    summary="Tasks are chosen by what their rollouts would say about them, times a weight for difficulty.",
    citation="INSIGHT: Efficient RLVR Training via Weighted Mutual Information Data Selection",
    presets={
        "mopps": {"score": "thompson"},
        "difficulty": {"score": "difficulty"},
        "evidence": {"score": "evidence"},
        "random": {"pool": 1},
    },
)
def insight(
    n: int = 8,
    pool: int = 16,
    score: str = "information",
    eta: float = 3.0,
    mu: float = 0.3,
    discount: float = 1.0,
    clip: float = 0.2,
) -> Method:
    """With a Beta(a, b) belief of mean p: p (1 − p) e^{−eta (p − mu)²} · I_n, where I_n is the mutual information
    between n coming outcomes and the rate of success. Of `pool` random candidates for every place of the batch the best
    are sampled, n rollouts each; a and b count successes and failures. Then GRPO, without KL.

    The paper prints mu = 3.0 in one place; its ablation means 0.3. discount < 1 draws old counts back to the prior.
    Presets are what it is compared with: success rates drawn from the belief closest to ½ (`mopps`), its means closest
    to ½ (`difficulty`), the fewest outcomes seen (`evidence`), and no choice (`random`), which is GRPO.
    """
    scores = {
        "information": InformationGain(rollouts=n, eta=eta, mu=mu),
        "thompson": Thompson(),
        "difficulty": Thompson(draw="mean"),
        "evidence": LeastKnown(),
    }
    if score not in scores:
        raise PodiumError(f"insight: score = {score!r} is not one of {', '.join(scores)}.")
    return Method(
        select=scores[score].replace(pool=pool),
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(BetaBeliefs(decay=discount, decay_rest=1.0),),
    )

"""TODO"""

from __future__ import annotations

from podium.memories import SolvedTasks
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import Novelty
from podium.strategies import Rounds

__all__ = ["xrpo"]


@recipe(
    summary="Rollouts go where they tell most; tasks that only fail see examples; rare right answers gain.",
    citation="XRPO: Pushing the Limits of GRPO with Targeted Exploration and Exploitation",
    presets={"plain": {"trained": "plain"}, "embedding": {"embedder": "policy"}},
)
def xrpo(
    n: int = 8,
    first: int = 4,
    rounds: int = 2,
    bonus: float = 1.0,
    examples: int = 2,
    trained: str = "sampled",
    embedder: str | None = None,
    pool: str = "mean",
    novelty: float = 2.5,
    cap: float = 0.5,
    clip: float = 0.2,
) -> Method:
    """`first` rollouts of each task, then rounds: one after another goes where h(m) − h(m + 1) + √(log(1 + T)/m) is
    highest, h the half-width of the 95 % interval of the task's mean reward; n a task on average. Tasks that only
    failed are sampled after `examples` solved ones that resemble them. A right answer gets A + min(2.5 (1 − eta)⁺,
    A/2), eta = its mean token probability over the group's (geometric means).

    Questions resemble each other by the cosine of what `embedder` makes of them: the path of a model (the paper's is
    Qwen3-Embedding-8B, which pool = "last" reads as it was trained), or `policy`, whose hidden states cost no second
    model (`xrpo@embedding`); without one, by the sequences of characters that they share. The paper does not say
    whether answers after examples are trained without them: `xrpo@plain`. first = n, novelty = 0 is GRPO without KL.
    """
    role = embedder if embedder in (None, "policy") else "embedder"
    seeded = Rounds(n=n, first=min(first, n), rounds=rounds, bonus=bonus, examples=examples, trained=trained)
    return Method(
        rollout=seeded.replace(embedder=role or "", pool=pool),
        advantage=Normalize(),
        shape=(Novelty(novelty, cap),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(SolvedTasks(),) if examples else (),
        roles=(Role(role, source=embedder),) if role == "embedder" and embedder and examples else (),
    )

"""GRPO with rollouts where they tell most: more for hard tasks, in waves, in rounds, or by a forecast."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.method import Method, Role
from podium.keep import KeepMixed
from podium.methods.catalogue import recipe
from podium.objective import Aggregate, Clip, PolicyGradient, Updates
from podium.rollout import Allocated, Rounds, SecondWave, SolvedTasks
from podium.select import BetaBeliefs, ScoreHistory
from podium.shape import Novelty

__all__ = ["dars", "v0", "xrpo"]


@recipe(
    "dars",
    summary="Hard tasks get a second wave of rollouts until they weigh as much as those half of which are solved.",
    citation="DARS: Depth-Breadth Synergy in RLVR, https://github.com/yangzhch6/DARS",
    family="group",
    presets={"hardness": {"schedule": "hardness", "most": 64}, "depth": {"epochs": 1, "mini_batches": 4}},
)
def dars(
    n: int = 8,
    most: int = 32,
    schedule: str = "equal",
    std: bool = False,
    epochs: int = 2,
    mini_batches: int = 1,
    max_length: int = 3072,
    clip: float = 0.2,
) -> Method:
    """n rollouts of accuracy p; where p < 1/2, ⌈(M* − n S)/S⌉ more, up to `most` in all, with S = 2 p (1 − p) the mass
    of advantage of a rollout and M* that of n at p = 1/2 (`hardness`: 2 (1 − p) M*). No success counts as half a one.
    A = r − mean of the merged group; groups all right or all wrong are dropped; two epochs over the whole batch at
    once, the sum over tokens over a constant length. No KL.

    `dars@depth` trains small mini-batches once instead. std = True divides by the std, S = 2 √(p (1 − p)). most = n is
    Dr. GRPO with groups without a signal dropped. The mean over rollouts is left out of the loss, as in the release.
    """
    return Method(
        "dars",
        rollout=SecondWave(n=n, most=max(most, n), schedule=schedule, std=std),
        keep=(KeepMixed(top_up=False),),
        advantage=Normalize(scale="std" if std else "none", singleton="raw_if_all"),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=Aggregate(f"token sum / {max_length}")),),
        updates=Updates(epochs=epochs, mini_batches=mini_batches),
    )


@recipe(
    "xrpo",
    summary="Rollouts go where they tell most; tasks that only fail see examples; rare right answers gain.",
    citation="XRPO: Pushing the Limits of GRPO with Targeted Exploration and Exploitation",
    family="group",
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
        "xrpo",
        rollout=seeded.replace(embedder=role or "", pool=pool),
        advantage=Normalize(),
        shape=(Novelty(novelty, cap),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(SolvedTasks(),) if examples else (),
        roles=(Role(role, source=embedder),) if role == "embedder" and embedder and examples else (),
    )


@recipe(
    "v0",
    summary="The number of rollouts of a task follows from its expected rate of success.",
    citation="V0: A Generalist Value Model for Any Policy at State Zero, https://github.com/Now-Join-Us/V0",
    family="group",
    presets={"mixed": {"utility": "mixed"}},
)
def v0(
    n: int = 8,
    least: int = 2,
    most: int = 16,
    utility: str = "failures",
    value: str | None = None,
    support: int = 8,
    clip: float = 0.2,
) -> Method:
    """Σ_j U(B_j, p_j) is raised greedily, one rollout at a time, under Σ B = n a task and least ≤ B ≤ most;
    U = B (1 − p)(1 − (1 − p)^{B−1}), the failures beside a success, or `mixed`: 1 − p^B − (1 − p)^B. Then GRPO.

    p is what the value model in the directory `value` says, which reads the last `support` tasks with their scores and
    the task; `podium values RUN --out DIR` trains one on logged runs. Without one p is the mean of a Beta belief of the
    task's own history. The authors' model is an embedder with a table transformer and 256 scores in its context; ours
    is a small language model with a head. The first U is not concave and grows with B without end, so `most` matters.
    With least = most = n it is GRPO.
    """
    memory = ScoreHistory(reader="value", support=support) if value else BetaBeliefs(decay=0.5, decay_rest=1.0)
    rate = "group.value" if value else "group.belief.mean"
    return Method(
        "v0",
        rollout=Allocated(n=n, least=min(least, n), most=max(most, n), utility=utility, rate=rate),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(memory,),
        roles=(Role("value", source=value),) if value else (),
    )

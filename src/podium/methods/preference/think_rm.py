"""Think-RM: judges that reason before their verdict, and RLHF from verdicts on pairs."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize, PairwiseDifferences
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import WeightedSum
from podium.strategies import Arena, Draw, Sample, judge_named

__all__ = ["think_rm"]

# Of the kinds of puzzle, lamps are the one whose checks podium/tiny2 learns within minutes, from pairs seen once each.
JUDGE_HOME = Home("verdicts", level=1, dials={"kind": "lamps"}, tasks=32, iterations=260, model="podium/tiny2")
SOURCE = "https://github.com/IlgeeHong/Think-RM"


@recipe(
    summary="Pairwise RLHF: advantages straight from a reasoning judge's pairwise preferences, no pointwise reward.",
    citation="Hong et al. 2025, Think-RM, https://github.com/IlgeeHong/Think-RM",
    tags=("preference", "reward model", "judge", "group-relative", "kl penalty"),
    protocol=Protocol(lr=2e-6, schedule="constant", tasks=512, source=SOURCE),
    home=Home("trips", level=1, tasks=32, model="podium/tiny2"),
    presets={
        "judge": {
            "trains": "judge",
            "n": 8,
            "home": JUDGE_HOME,
        },
        "short": {
            "trains": "judge",
            "n": 8,
            "style": "short",
            "home": JUDGE_HOME,
        },
        "binary": {"scaled": False, "by_length": True},
        "points": {"credit": "points"},
    },
)
def think_rm(
    trains: str = "policy",
    n: int = 4,
    judge: str = "world",
    way: str = "written",
    scaled: bool = True,
    by_length: bool = False,
    retries: int = 0,
    judge_temperature: float = 0.6,
    judge_tokens: int | None = None,
    credit: str = "pairs",
    imitate: Count = ShareOfRun(0.93),
    style: str = "long",
    clip: float = 0.2,
    kl: float = 1e-4,
    epsilon: float = 1e-6,
) -> Method:
    """A_i = (1/G) Σ_j d_ij / sqrt(Σ d² / (2G(G − 1)) + 1e-6) with d_ij the judge's difference r_i − r_j.

    Every pair of a group is judged once, in one order. If d_ij = r_i − r_j for some scores it is GRPO, with epsilon
    inside the root; where verdicts contradict each other, the numerators shrink and the root does not.
    `think-rm@points` gives each rollout the share of pairs that it has won, and normalises these: what the paper
    compares with.

    `think-rm@judge` trains the judge: it imitates long solutions, which check both answers before the verdict, and goes
    on with GRPO whose reward is the rule of the world: 1 for the right verdict; where verdicts are −3 … 3, 0.5 for the
    right sign; unreadable 0. `think-rm@short` imitates verdicts without reasoning. The homes of both are longer than
    others, 260 iterations in about two minutes: after twelve a judge is at chance. The judge that a policy is trained
    with is the world's (`trips`), or a model, such as the folder of that run: `--set judge=runs/judge`, which writes
    its verdicts as it was trained to (`scaled`: −3 … 3, else A or B). In the released code a binary verdict is divided
    by the number of characters that the judge has written (`think-rm@binary`), so that the differences of judges who
    write thousands are near the epsilon, and the advantages small.

    Args:
        trains: policy, from verdicts on pairs; or judge, from verdicts that are known.
        n: Rollouts per task (the group size G); 8 where a judge is trained.
        judge: Who compares: world, policy, a run's folder, a model, or http://localhost:PORT/v1 of a server.
        way: How a model is asked: written, as its verdict is read; options, by the probability of each verdict.
        scaled: Whether a model's verdicts are −3 … 3, and not A or B.
        by_length: Whether the difference is divided by the characters that the judge has written.
        retries: Further attempts of a judge whose verdict cannot be read; the authors take 0 as the difference.
        judge_temperature: The temperature that verdicts are sampled at.
        judge_tokens: Token limit of a verdict; none: that of an answer.
        credit: pairs, or points: the share of pairs won, normalised as in GRPO.
        imitate: Iterations in which a judge imitates the world's solutions; 0: none.
        style: Of these solutions: long or short.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference.
        epsilon: Added under the root.
    """
    if trains not in ("policy", "judge"):
        raise PodiumError(f"think-rm trains a policy or a judge, not {trains!r}.")
    if credit not in ("pairs", "points"):
        raise PodiumError(f"credit = {credit!r} must be 'pairs' or 'points'.")
    objective = (PolicyGradient(clip=Clip(clip, clip)), KL("k3", coefficient=kl))
    updates = Updates(mini_batches=4)
    if trains == "judge":
        method = Method(
            rollout=Sample(n=n),
            advantage=Normalize(epsilon=epsilon),
            objective=objective,
            updates=updates,
            roles=(Role("ref", source="phase"),),
        )
        return taught(method, imitate, Draw(), style=style, lr=5e-6, updates=updates)
    settings = {"retries": retries, "temperature": judge_temperature, "tokens": judge_tokens, "by_length": by_length}
    asked, roles = judge_named(judge, way, scaled=scaled, **(settings if way == "written" else {}))
    points = credit == "points"
    return Method(
        rollout=Arena(n=n, topology="round_robin", judge=asked, calls=1, unit=3.0 if scaled else 1.0),
        reward=(WeightedSum((("rollout.arena.won", 1.0),)),) if points else (),
        advantage=Normalize(epsilon=epsilon) if points else PairwiseDifferences(epsilon),
        objective=objective,
        updates=updates,
        roles=(Role("ref"), *roles),
    )

"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.hints._shared import _from
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import HintTiers, Repair

__all__ = ["scaf_grpo"]


@recipe(
    summary="One rollout of a hopeless group is replaced by the one that succeeds with the least of tiered hints.",
    citation="Scaf-GRPO: Scaffolded Group Relative Policy Optimization, https://github.com/dvlab-research/Scaf-GRPO",
    presets={"paper": {"tiers": ("knowledge", "planning", "solution")}},
)
def scaf_grpo(
    n: int = 8,
    after: int = 50,
    tiers: tuple[str, ...] = ("knowledge", "solution"),
    pieces: int = 4,
    scaffold: str = "kept",
    epsilon: float = 1e-6,
    clip: float = 0.2,
    style: str = "short",
) -> Method:
    """After `after` iterations: where all rewards are 0, one rollout is sampled for each level of help (the first piece
    of a tier, its first two, …, tier after tier), and the success at the lowest level replaces the first rollout.
    GRPO's advantage on the new group, no KL. If no level succeeds nothing changes.

    Before, and in a group with a success, it is GRPO. The release leaves the tier `planning` out (`scaf-grpo@paper` has
    it). `scaffold`: trained with the hint in the prompt (`kept`), behind the bare question (`removed`), or both, which
    replaces two. Tasks without stored hints get the lines of a solution as pieces of its tier.
    """
    repair = Repair(
        n=n,
        help=HintTiers(tiers, pieces, style=style),
        tries=1,
        search="at once",
        take="rows",
        scaffold=scaffold,
        active=_from(after),
    )
    return Method(
        rollout=repair,
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        metric=(ReportMean("rollout.guided"),),
    )

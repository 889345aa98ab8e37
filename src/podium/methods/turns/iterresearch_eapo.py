"""EAPO (IterResearch): efficiency-aware policy optimisation with Markovian states."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import Mixture, MixtureComponent
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import WholeShares
from podium.protocols.context import Rebuild
from podium.protocols.tagged import ReportTags
from podium.strategies import Draw, Sample

__all__ = ["iterresearch_eapo"]


@recipe(
    summary="Research agent on a reconstructed constant-size state; per-round reward discounted by rounds to go.",
    citation="IterResearch: Rethinking Long-Horizon Agents via Markovian State Reconstruction",
    protocol=Protocol(
        model="Qwen3-30B-A3B",
        lr=1e-6,
        tasks=16,
        iterations=7025,
        max_tokens=40960,
        max_turns=32,
        pool=4096,
        source="https://arxiv.org/abs/2511.07327, appendix B: 150 iterations after 110,000 demonstrations",
    ),
    home=Home("lookup", level=2, tasks=24),
    tags=("agents", "context management", "long context", "multi-turn", "efficiency", "search"),
    presets={"paper": {"imitate": 6875}},
)
def iterresearch_eapo(
    n: int = 16,
    imitate: Count = ShareOfRun(0.34),
    gamma: float = 0.995,
    workers: int = 8,
    clip: float = 0.2,
    top_p: float = 0.95,
) -> Method:
    """Each round writes `<think>…</think><report>…</report><action>…</action>` and sees the task, its last report, and
    its last action with the observation. r_t = gamma^(T − t) · R; A = (r_t − mean) / (std + 1e-6) over all rounds of
    the task; one importance ratio per round, mean over rounds. Rounds are dropped at random down to a
    multiple of `workers`.

    It begins with imitation of demonstrations in this format, as the authors' run does. gamma = 1 is GRPO in which a
    rollout counts once for each of its rounds. A context has the same parts however many rounds there were.

    Args:
        n: Rollouts per task (the group size).
        imitate: Iterations that imitate the world's solutions in this format, before everything else; 0: none.
        gamma: Discount factor per round that is still to come.
        workers: Data-parallel size of which the number of rounds is made a multiple.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        top_p: Probability mass of the likeliest tokens that rollouts are drawn from.
    """
    draw = Draw(top_p=top_p, context=Rebuild(notes="report", action=True), format=ReportTags())
    method = Method(
        rollout=Sample(n=n, draw=draw),
        advantage=Mixture((MixtureComponent(of="rollout.reward", gamma=gamma, singleton="zero"),)),
        shape=(WholeShares(workers),),
        objective=(PolicyGradient("turn", Clip(clip, clip), aggregate=Aggregate("token mean, turn mean")),),
        updates=Updates(mini_batches=4),
    )
    return taught(method, imitate, draw)

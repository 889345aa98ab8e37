"""R³: replay, reflection and ranking rewards."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.updates import Updates
from podium.memories import StoredRollouts
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import DampReplayed
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import BrevityBonus, RankTruncated
from podium.strategies import ReplayAndReflect

__all__ = ["r3"]

ASK = "That answer is wrong. Find the mistake and solve the task again."


@recipe(
    summary="Keeps groups informative: replay of opposite outcomes, reflection on failures, ranked truncations.",
    citation="R³: Replay, Reflection and Ranking Rewards",
    tags=("replay", "reflection", "zero-variance groups", "off-policy", "reward shaping", "overlong"),
    protocol=Protocol(
        model="DeepSeek-R1-Distill-Qwen-1.5B and 7B", pool=40_000, source="arXiv 2601.19620; no code is released"
    ),
    home=Home("sums", level=3, max_tokens=40),
    presets={"paper": {"max_length": 32768}},
)
def r3(
    n: int = 8,
    replayed: int = 2,
    alpha: float = 1.0,
    tau: float = 0.2,
    top: float = 0.2,
    highest: float = 0.5,
    max_length: Count = ShareOfTokens(1.0),
    ask: str = ASK,
    epsilon: float = 1e-6,
    clip: float = 0.2,
    kl: float = 0.04,
    mini_batches: int = 4,
) -> Method:
    """A group of failures gets up to `replayed` stored successes of its task, a group of successes stored failures; A =
    (R − mean) / (alpha · std + 1e-6) there, alpha = 1 elsewhere. A task whose mean reward so far is below `tau` is also
    sampled with an earlier wrong answer and `ask` in the prompt, as a group of its own. Truncated failures of an
    all-wrong group are ranked: high peaks of entropy over a low mean get up to `highest`. Right answers get a bonus for
    brevity.

    With nothing stored and nothing truncated it is GRPO with that bonus. Stored rollouts keep the log-probabilities
    they were sampled with. tau, replayed, top, highest and alpha are not in the paper's text as recovered; the wording
    of `ask`, the clip range, the KL coefficient and the 4 mini-batches are ours.

    Args:
        n: Rollouts per task (the group size).
        replayed: Stored rollouts that join a group at most.
        alpha: Factor on the std of groups with replayed rollouts; larger: smaller steps.
        tau: Mean reward below which a task is reflected on; 0: no reflection.
        top: Share of the tokens that make the entropy peak.
        highest: Largest reward of a truncated failure.
        max_length: Length in tokens at which the brevity bonus is 0; by default `max_tokens`.
        ask: The instruction below an earlier wrong answer; empty: none.
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    surrogate = PolicyGradient(clip=Clip(clip, clip), where="rollout.fresh", over="all")
    method = Method(
        rollout=ReplayAndReflect(n=n, most=replayed, tau=tau, ask=ask),
        reward=(RankTruncated(top, highest, without="rollout.replayed"), BrevityBonus(max_length)),
        advantage=DampReplayed(alpha, epsilon),
        objective=(surrogate, surrogate.replace(where="rollout.replayed", behaviour="sampler")),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.replayed"), ReportMean("rollout.reflecting")),
        memories=(StoredRollouts(),),
    )
    return anchored(method, KL("k3", coefficient=kl))

"""DCPO: distribution-centric policy optimisation."""

from __future__ import annotations

from podium.core.schedule import Follow
from podium.core.updates import Updates
from podium.memories import EntropySetpoint
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import VirtualTemperature
from podium.strategies import Draw, Sample

__all__ = ["dcpo_distribution"]


@recipe(
    summary="Controls entropy by reweighting successes as if sampled hotter or colder (virtual importance sampling).",
    citation="DCPO: Distribution-Centric Policy Optimization, https://github.com/597358816/DCPO",
    tags=("entropy", "exploration", "importance sampling", "entropy collapse"),
    protocol=ADAMW.replace(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        tasks=512,
        max_tokens=2048,
        max_turns=1,
        source="597358816/DCPO: examples/qwen-math-7b-DCPO.sh, examples/config.yaml",
    ),
    home=Home("sums", level=2),
    presets={"paper": {"target": 0.5}},
)
def dcpo_distribution(
    n: int = 5,
    target: float = 0.2,
    hot: float = 1.2,
    cold: float = 0.8,
    cap: float = 0.1,
    success: float = 0.05,
    clip: float = 0.2,
    dual: float = 3.0,
    top_p: float = 0.99,
    mini_batches: int = 4,
) -> Method:
    """A' = (1 − a) A + a · b · ρ with b = [reward > 0.05], ρ = π_T/π of the old policy, T = 1.2 while the entropy of
    the last batch is at most the target, else 0.8, and a = a₀/(1 + a₀), a₀ = min(|target − H|, cap)/mean(b). GRPO's
    advantage A, dual-clip loss, token mean, no KL penalty; 4 updates per batch.

    cap = 0, or an entropy at its target, is GRPO. Without any success a is 0, where the release divides by 0. The
    authors' target of 0.5 (`@paper`) is that of a large model: the small one's entropy is 0.13 on sums, so far below
    it that the gap would always be cut off at the cap, and nothing would be controlled.

    Args:
        n: Rollouts per task (the group size).
        target: Target entropy in nats.
        hot: Virtual temperature while the entropy is below its target.
        cold: Virtual temperature while it is above.
        cap: Largest entropy gap that counts, in nats.
        success: Reward above which a rollout is a success.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        top_p: Nucleus sampling: the probability mass that is sampled from.
        mini_batches: Optimiser steps per batch.
    """
    shift = VirtualTemperature(
        Follow("setpoint.temperature", initial=hot), Follow("setpoint.gap", initial=target), cap, success
    )
    return Method(
        rollout=Sample(n=n, draw=Draw(top_p=top_p)),
        advantage=Normalize(),
        shape=(shift,),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        memories=(EntropySetpoint(target, hot, cold),),
    )

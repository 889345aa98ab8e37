"""Unlikeliness reward: beyond distribution sharpening."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MarkTrailingText
from podium.parts.keep import KeepMixed
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import OverrideReward, RankDiscount
from podium.strategies import Sample

__all__ = ["unlikeliness_reward"]


@recipe(
    summary="Counters rank bias (distribution sharpening): correct answers earn less the likelier they were.",
    citation="He et al. 2025, Rewarding the Unlikely: Lifting GRPO Beyond Distribution Sharpening, "
    "https://github.com/AndreHe02/rewarding-unlikely-release",
    tags=("rank bias", "pass@k", "reward shaping", "exploration", "kl penalty"),
    protocol=ADAMW.replace(
        model="DeepSeek-Prover-V1.5-SFT",
        lr=1e-6,
        tasks=16,
        max_tokens=512,
        source="AndreHe02/rewarding-unlikely-release examples/lean/grpo.sh",
    ),
    home=Home("sums", level=3, tasks=8),
    presets={"paper": {"extra_text": True}},
)
def unlikeliness_reward(
    n: int = 32,
    beta: float = 0.25,
    epochs: int = 2,
    kl: float = 0.1,
    clip: float = 0.2,
    skip_above: float | None = 20.0,
    extra_text: bool = False,
) -> Method:
    """r ← r · (1 − beta · rank / n), rank 0 for the rollout with the smallest mean log-probability; then GRPO with two
    epochs per batch, k3 to the reference, groups without signal dropped, and steps with a gradient norm above 20
    skipped.

    beta = 0 is GRPO. All-correct groups keep a signal: likely answers are pushed down, rare ones up. The release counts
    a proof as wrong where text follows it, which repetitive provers do (`extra_text`, on in `@paper`); a model that
    always ends with its answer, such as podium/tiny, gives it nothing to do.

    Args:
        n: Rollouts per task (the group size).
        beta: Share of the reward that the likeliest correct answer loses, up to (n − 1)/n of it.
        epochs: Passes over each batch.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        skip_above: Gradient norm above which an optimiser step is skipped; None: never.
        extra_text: Count an answer as wrong where text follows it.
    """
    method = Method(
        rollout=Sample(n=n),
        annotate=(MarkTrailingText(),) if extra_text else (),
        reward=(*((OverrideReward("rollout.trailing_text", 0.0),) if extra_text else ()), RankDiscount(beta)),
        keep=(KeepMixed(top_up=False),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(epochs=epochs, skip_above=skip_above),
    )
    return anchored(method, KL("k3", coefficient=kl))

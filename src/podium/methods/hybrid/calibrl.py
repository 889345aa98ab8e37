"""CalibRL: controllable exploration with expert calibration."""

from __future__ import annotations

from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, Guide, PolicyGradient
from podium.parts.shape import AlignExpert
from podium.parts.updates import FixedSize
from podium.strategies import Sample

__all__ = ["calibrl"]


@recipe(
    summary="Expert as a baseline, not a target: correct rollouts are pushed above its likelihood, wrong ones below.",
    citation="CalibRL: Controllable Exploration in Hybrid-Policy RLVR, https://github.com/zhh6425/CalibRL",
    tags=("demonstrations", "exploration", "calibration", "multimodal", "off-policy"),
    protocol=ADAMW.replace(
        model="Qwen2.5-VL-7B-Instruct",
        lr=1e-6,
        tasks=480,
        max_tokens=4096,
        max_turns=1,
        pool=9000,
        source="zhh6425/CalibRL src/examples/run_qwen25vl7b_virl_mix_policy.sh",
    ),
    home=Home("sums", level=2),
)
def calibrl(
    n: int = 10,
    guide: float = 0.1,
    leak: float = 0.5,
    clip: float = 0.2,
    dual: float = 3.0,
    share: float = 1.0,
    past_end: str = "certain",
    mini_batches: int = 4,
    style: str = "short",
    traces: str = "",
) -> Method:
    """A = r − mean of the sampled rollouts, so |A| is how rare the outcome is; PPO's clip with dual clip 3; plus
    `guide` · |A| · LeakyReLU(−y (log π − e)), with e the demonstration's log π_old at the same position and y = ±1 the
    outcome. The demonstration is never trained.

    A mini-batch has a quarter of the sampled rollouts. The demonstrations take places in it, too, masked in the loss,
    so that a batch is trained in five steps; the loss of the last, smaller one is scaled down accordingly.

    guide = 0 is PPO with Dr. GRPO's advantage; leak = 1 pushes by rarity whatever the demonstration, leak = 0 not at
    all past it.

    Args:
        n: Rollouts per task (the group size).
        guide: Coefficient of the calibration term.
        leak: Slope of the LeakyReLU past the expert.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        share: Share of the groups whose demonstration is used.
        past_end: Positions past the demonstration's end: `certain` (e = 0, as released) or `skip` (left out).
        mini_batches: The sampled rollouts of a batch fill this many mini-batches.
        style: Which of the world's solutions to take, by its style (`short`, …).
        traces: A file of demonstrations by task, in place of the world's solutions; empty: none.
    """
    return Method(
        rollout=Sample(n=n, demonstrations=() if traces else (style,), demonstrate_as="baseline", traces=traces),
        advantage=Normalize(scale="none"),
        shape=(AlignExpert(share=share, past_end=past_end),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip, dual=dual)),
            Guide(leak, where="token.guided", over="all", coefficient=guide),
        ),
        updates=FixedSize(mini_batches=mini_batches, masked=True, damped=True),
    )

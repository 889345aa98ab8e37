"""ReFINE: next-sequence prediction by reinforcement on raw text."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Phases
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, Likelihood, PolicyGradient
from podium.parts.reward import ContinuationReward
from podium.parts.updates import SeparateUpdates
from podium.strategies import Continuations

__all__ = ["refine"]


@recipe(
    summary="Next-sequence prediction RL on raw text: short continuations rewarded by similarity to the truth.",
    citation="ReFINE: Reinforced Fast Weights with Next-Sequence Prediction, https://github.com/princetonvisualai/ReFINE",
    tags=("label-free", "hidden states", "entropy", "sft", "long context", "test-time training"),
    protocol=ADAMW.replace(
        model="LaCT-760M",
        lr=1e-6,
        tasks=128,
        max_tokens=16384,
        max_turns=1,
        source="princetonvisualai/ReFINE: verl/examples/refine_trainer/demo/run_midtrain_demo.sh, "
        "run_posttrain_demo.sh",
    ),
    home=Home("sums", level=2),
    presets={
        "mid": {"stage": "mid"},
        "post": {"stage": "post"},
        "test-time": {"stage": "mid", "reward": "binary", "rl": 0.4, "mini_batches": 2},
    },
)
def refine(
    stage: str = "all",
    k: int = 5,
    chunks: int = 8,
    n: int = 1,
    reward: str = "cosine",
    post_reward: str = "hybrid",
    sft: float = 1.0,
    rl: float = 0.2,
    places: str = "entropy",
    margin: int = 20,
    clip: float = 0.2,
    dual: float = 3.0,
    epsilon: float = 1e-6,
    style: str = "long",
    mid_training: Count = ShareOfRun(0.5),
    mini_batches: int = 4,
) -> Method:
    """One place in each of the `chunks` parts of a text, drawn by the smoothed entropy; `k` tokens from there; R by the
    similarity of hidden states (cosine), of tokens (binary) or both (hybrid); A = (R − mean)/(std + 1e-6) over the
    places of the text, or over the n continuations of a place if n > 1. Loss = sft · (−log π of the text) + rl · PPO's
    clip; 4 updates per batch.

    Two stages in one run. In mid-training (`@mid` alone) a text is a task with its solution. Post-training (`@post`
    alone) nests two updates of each batch: the above with the task as text and the hybrid reward, then −log π of the
    solution after the task. The third use of the paper, training on texts at test time, is `@test-time`.

    rl = 0 is plain language-model training. The texts are a world's tasks with their solutions. Where the paper's
    margin of 20 leaves nothing, it is a quarter of the text. The lengths of the stages are ours: the authors pass once
    over the data of each.

    Args:
        stage: `all`, or one alone: `mid` or `post`.
        k: Tokens of a continuation.
        chunks: Parts of a text, with one place in each.
        n: Continuations per place.
        reward: `cosine`, `binary` or `hybrid`, in mid-training.
        post_reward: The same in post-training.
        sft: Coefficient of the likelihood of the text.
        rl: Coefficient of the policy-gradient loss.
        places: How places are chosen: `entropy` (drawn), `uniform`, or the `argmax` or `argmin` of the entropy.
        margin: Tokens between a place and either end of the text.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        epsilon: Added to the standard deviation.
        style: Which of the world's solutions make the texts, by their style.
        mid_training: Iterations of mid-training, or a share of the run.
        mini_batches: Optimiser steps per batch; in post-training as many again for the solutions.
    """
    if stage not in ("all", "mid", "post"):
        raise PodiumError(f"refine: stage = {stage!r} is not 'all', 'mid' or 'post'.")
    texts = Continuations(k=k, chunks=chunks, times=n, positions=places, margin=margin, style=style)
    mid = Method(
        "mid-training",
        rollout=texts,
        reward=(ContinuationReward(reward),),
        advantage=Normalize(key=("group",) if n == 1 else ("group", "rollout.position"), epsilon=epsilon),
        objective=(
            Likelihood(where="rollout.demonstration", coefficient=sft),
            PolicyGradient(clip=Clip(clip, clip, dual=dual), where="rollout.sampled", coefficient=rl),
        ),
        updates=Updates(mini_batches=mini_batches),
    )
    post = mid.replace(
        name="post-training",
        rollout=texts.replace(answers=True),
        reward=(ContinuationReward(post_reward),),
        updates=SeparateUpdates(mini_batches=mini_batches, unit="rollout", by="rollout.of_text"),
    )
    if stage != "all":
        return mid if stage == "mid" else post
    return Phases(mid.until(mid_training), post)

"""TTRV: test-time reinforcement learning for vision-language models."""

from __future__ import annotations

from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.methods.label_free.ttrl import ttrl
from podium.parts.reward import AnswerEntropy, VoteShare

__all__ = ["ttrv"]


@recipe(
    summary="Test-time RL with soft votes: reward is the answer's frequency in the group, minus answer entropy.",
    citation="TTRV: Test-Time Reinforcement Learning for Vision Language Models, https://github.com/Akshit21112002/TTRV",
    extends="ttrl",
    tags=("test-time training", "label-free", "self-consistency", "entropy", "multimodal"),
    protocol=Protocol(source="Akshit21112002/TTRV, a fork of TTRL whose scripts we could not read"),
    home=Home(
        *("digits", 1),
        dials={"shift": "noise", "strength": 0.3, "unlabelled": True, "images": 20},
        iterations=8,
        tasks=8,
        model="podium/tiny2",
    ),
    presets={"paper": {"trained": 32}, "own": {"entropy_of": "own"}},
)
def ttrv(
    votes: int = 64,
    trained: float = 0.5,
    entropy_weight: float = 0.75,
    frequency_weight: float = 1.0,
    entropy_of: str = "group",
    epsilon: float = 1e-6,
    clip: float = 0.2,
    dual: float | None = 3.0,
    kl: float = 0.001,
    mini_batches: int = 8,
) -> Method:
    """r_i = w_f · p(answer_i) − w_e · H/ln K over the `votes` answers of a task, of which K are different; a rollout
    without an answer votes for having none. GRPO over the first half of the rollouts (`trained`), as in TTRL.

    With the indicator of the most frequent answer instead of p it is TTRL where there is no tie. The entropy is one
    number per group and cancels in GRPO's advantage, so w_e changes the logged rewards alone; it acts with a baseline
    over the whole batch, or as `ttrv@own`, by how much each answer raises it.

    Args:
        votes: Rollouts per task that vote.
        trained: How many of them are trained, or below 1 which share of them; the rest only vote.
        entropy_weight: Weight w_e of the answer entropy.
        frequency_weight: Weight w_f of the answer's frequency.
        entropy_of: Which entropy is subtracted: the `group`'s, or each answer's `own` part of it.
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    share = VoteShare(frequency_weight, empty="votes")
    penalty = AnswerEntropy(entropy_weight, entropy_of, empty="votes")
    method = ttrl(votes, trained, epsilon, clip, dual, kl, mini_batches)
    return method.replace(protocol=None).with_(reward=(share, penalty))
